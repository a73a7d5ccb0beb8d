//! `[telemetry]`: OpenTelemetry spans and metrics.

use std::{
    borrow::Cow,
    collections::BTreeMap,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    time::Duration,
};

use serde::{Deserialize, Deserializer};
use toolgate::duration;

use super::Text;

/// `[telemetry]`: OpenTelemetry spans and metrics. A change of `arguments` takes effect at once, all others after a
/// restart.
#[derive(Clone, Debug, Deserialize, PartialEq, schemars::JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct TelemetryConfig {
    /// The URL of a collector with OTLP over HTTP, for example `http://127.0.0.1:4318`; toolgate appends `/v1/traces`
    /// and `/v1/metrics`.
    pub otlp: Option<Text>,
    /// HTTP headers of the requests to the collector.
    pub headers: BTreeMap<String, Text>,
    /// The address of `GET /metrics` for Prometheus: an address with port, or a port alone (`9464`), which listens
    /// on this machine only.
    pub prometheus: Option<Listen>,
    /// The name of this service; default: `OTEL_SERVICE_NAME`, else `toolgate`.
    pub service_name: Option<String>,
    /// The share of traces that is kept, from 0 to 1, if the caller has not decided it; default: all, or what
    /// `OTEL_TRACES_SAMPLER` says.
    #[serde(deserialize_with = "share")]
    pub sample: Option<f64>,
    /// Whether spans contain the arguments of calls, redacted as in the audit.
    pub arguments: bool,
    /// How often metrics are sent.
    #[serde(with = "duration")]
    #[schemars(with = "String")]
    pub interval: Duration,
}

impl Default for TelemetryConfig {
    fn default() -> Self {
        Self {
            otlp: None,
            headers: BTreeMap::new(),
            prometheus: None,
            service_name: None,
            sample: None,
            arguments: false,
            interval: Duration::from_secs(10),
        }
    }
}

fn share<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<f64>, D::Error> {
    match f64::deserialize(deserializer)? {
        share if (0.0..=1.0).contains(&share) => Ok(Some(share)),
        other => Err(serde::de::Error::custom(format!("`{other}` is no share: write 0.0 to 1.0"))),
    }
}

/// An address and a port to listen on. A port alone means 127.0.0.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listen(pub SocketAddr);

impl std::str::FromStr for Listen {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let port = text.strip_prefix("localhost:").or_else(|| text.strip_prefix(':'));
        let local = |port| SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port);
        let address = match port.unwrap_or(text).parse() {
            Ok(port) => Some(local(port)),
            Err(_) => text.parse().ok(),
        };
        address.map(Self).ok_or_else(|| {
            format!("`{text}` is no address: write it with its port, as `127.0.0.1:9464`")
        })
    }
}

impl<'de> Deserialize<'de> for Listen {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(
            untagged,
            expecting = "expected an address with its port, as \"127.0.0.1:9464\", or a port"
        )]
        enum Either {
            Port(u16),
            Text(String),
        }
        let text = match Either::deserialize(deserializer)? {
            Either::Port(port) => port.to_string(),
            Either::Text(text) => text,
        };
        text.parse().map_err(serde::de::Error::custom)
    }
}

impl schemars::JsonSchema for Listen {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Listen".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({"anyOf": [
            {"type": "string", "examples": ["127.0.0.1:9464"]},
            {"type": "integer", "minimum": 0, "maximum": 65535, "examples": [9464]},
        ]})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<TelemetryConfig, String> {
        toml::from_str(text).map_err(|error| error.message().to_owned())
    }

    #[test]
    fn a_port_alone_is_on_this_machine_only() {
        for (text, address) in [
            ("9464", "127.0.0.1:9464"),
            (":9464", "127.0.0.1:9464"),
            ("localhost:9464", "127.0.0.1:9464"),
            ("0.0.0.0:9464", "0.0.0.0:9464"),
            ("[::1]:0", "[::1]:0"),
        ] {
            assert_eq!(text.parse::<Listen>().unwrap().0.to_string(), address);
        }
        for odd in ["", "127.0.0.1", "example.org:80", "70000", "http://127.0.0.1:9464"] {
            assert!(odd.parse::<Listen>().unwrap_err().contains("is no address"), "{odd}");
        }
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        assert!(read("sample = 1.5").unwrap_err().contains("`1.5` is no share"));
        assert!(read("sample = nan").unwrap_err().contains("is no share"));
        assert!(read("interval = \"0s\"").is_err());
        assert!(read("endpoint = \"x\"").unwrap_err().contains("unknown field `endpoint`"));
        assert_eq!(read("").unwrap(), TelemetryConfig::default());
        let port = read("prometheus = 9464").unwrap().prometheus;
        assert_eq!(port.unwrap().0.to_string(), "127.0.0.1:9464");
    }

    #[test]
    fn headers_are_not_shown() {
        let config = read(r#"headers = { authorization = "Bearer s3cret" }"#).unwrap();
        assert!(!format!("{config:?}").contains("s3cret"));
    }
}
