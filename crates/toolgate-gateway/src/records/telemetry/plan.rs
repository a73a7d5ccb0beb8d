//! The settings of the exporters, from the table `[telemetry]` and from the variables of OpenTelemetry. The table has
//! precedence.

use std::{collections::BTreeMap, net::SocketAddr, time::Duration};

use hyper::{
    Uri,
    header::{HeaderName, HeaderValue},
};
use opentelemetry::KeyValue;
use opentelemetry_sdk::{Resource, trace::Sampler};

use crate::config::TelemetryConfig;

/// The checked settings of all exporters.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) otlp: Option<Otlp>,
    pub(super) prometheus: Option<SocketAddr>,
    pub(super) resource: Resource,
    pub(super) sampler: Sampler,
    pub(super) interval: Duration,
}

/// The address of the collector, and the headers of requests to it.
#[derive(Clone)]
pub(super) struct Otlp {
    /// The base URL, without a slash at its end.
    pub(super) base: String,
    pub(super) headers: BTreeMap<String, String>,
}

// Shows neither the address nor the headers, because they may contain secrets.
impl std::fmt::Debug for Otlp {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Otlp(…)")
    }
}

impl Otlp {
    /// The URL for one kind of data, such as `/v1/traces`.
    pub(super) fn address(&self, path: &str) -> String {
        format!("{}{path}", self.base)
    }
}

/// Returns the value of an environment variable; `None` if it is not set or empty.
type Variables<'a> = &'a dyn Fn(&str) -> Option<String>;

impl Plan {
    /// `None` if `OTEL_SDK_DISABLED` is true.
    pub(super) fn new(
        config: &TelemetryConfig,
        set: Variables<'_>,
    ) -> Result<Option<Self>, String> {
        let is_off = match set("OTEL_SDK_DISABLED").map(|word| word.to_lowercase()).as_deref() {
            None | Some("false") => false,
            Some("true") => true,
            Some(other) => {
                return Err(format!("`OTEL_SDK_DISABLED` is `{other}`: write true or false"));
            }
        };
        let plan = Self {
            otlp: otlp(config, set)?,
            prometheus: config.prometheus.map(|listen| listen.0),
            resource: resource(config, set)?,
            sampler: sampler(config, set)?,
            interval: config.interval,
        };
        if plan.otlp.is_none() && plan.prometheus.is_none() && !is_off {
            return Err("`[telemetry]` has nowhere to go: set `telemetry.otlp` or \
                        `telemetry.prometheus`, or remove the table"
                .to_owned());
        }
        Ok((!is_off).then_some(plan))
    }
}

fn otlp(config: &TelemetryConfig, set: Variables<'_>) -> Result<Option<Otlp>, String> {
    const ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
    const HEADERS: &str = "OTEL_EXPORTER_OTLP_HEADERS";
    let (text, from) = match (&config.otlp, set(ENDPOINT)) {
        (Some(text), _) => (text.as_str().to_owned(), "telemetry.otlp"),
        (None, Some(text)) => {
            check_protocol(set)?;
            (text, ENDPOINT)
        }
        (None, None) => return Ok(None),
    };
    // The messages do not repeat the address, which may contain a secret.
    let uri = text.parse::<Uri>().ok().filter(|uri| uri.host().is_some());
    let scheme = uri
        .as_ref()
        .and_then(Uri::scheme_str)
        .ok_or_else(|| format!("`{from}` is no address: write it as http://127.0.0.1:4318"))?;
    if !matches!(scheme, "http" | "https") {
        return Err(format!("`{from}` must begin with http:// or https://"));
    }
    if text.contains(['?', '#']) {
        return Err(format!(
            "`{from}` is a base address: /v1/traces is appended, so it has no `?` or `#`"
        ));
    }
    let mut headers = BTreeMap::new();
    for (name, value) in pairs(HEADERS, set)? {
        add(&mut headers, HEADERS, &name, &value)?;
    }
    for (name, value) in &config.headers {
        add(&mut headers, "telemetry.headers", name, value.as_str())?;
    }
    Ok(Some(Otlp { base: text.trim_end_matches('/').to_owned(), headers }))
}

/// Refuses an endpoint from the environment if the environment names another protocol for it than http/protobuf.
fn check_protocol(set: Variables<'_>) -> Result<(), String> {
    const PROTOCOL: &str = "OTEL_EXPORTER_OTLP_PROTOCOL";
    match set(PROTOCOL).as_deref() {
        None | Some("http/protobuf") => Ok(()),
        Some(other) => Err(format!(
            "`{PROTOCOL}` is `{other}`, and only http/protobuf is spoken here: set `telemetry.otlp` to an \
             address that takes it"
        )),
    }
}

fn add(
    headers: &mut BTreeMap<String, String>,
    from: &str,
    name: &str,
    value: &str,
) -> Result<(), String> {
    let bad = || format!("`{from}`: `{name}` is no header");
    HeaderValue::from_str(value).map_err(|_| bad())?;
    let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| bad())?;
    headers.insert(name.to_string(), value.to_owned());
    Ok(())
}

fn resource(config: &TelemetryConfig, set: Variables<'_>) -> Result<Resource, String> {
    let mut attributes = BTreeMap::from([
        ("service.name".to_owned(), "toolgate".to_owned()),
        ("service.version".to_owned(), env!("CARGO_PKG_VERSION").to_owned()),
        ("service.instance.id".to_owned(), toolgate::CallId::next().to_string()),
        ("mcp.transport".to_owned(), "stdio".to_owned()),
    ]);
    attributes.extend(pairs("OTEL_RESOURCE_ATTRIBUTES", set)?);
    if let Some(name) = config.service_name.clone().or_else(|| set("OTEL_SERVICE_NAME")) {
        attributes.insert("service.name".to_owned(), name);
    }
    let attributes = attributes.into_iter().map(|(key, value)| KeyValue::new(key, value));
    Ok(Resource::builder_empty().with_attributes(attributes).build())
}

fn sampler(config: &TelemetryConfig, set: Variables<'_>) -> Result<Sampler, String> {
    const SAMPLER: &str = "OTEL_TRACES_SAMPLER";
    const ARGUMENT: &str = "OTEL_TRACES_SAMPLER_ARG";
    let under = |root: Sampler| Sampler::ParentBased(Box::new(root));
    if let Some(share) = config.sample {
        return Ok(under(Sampler::TraceIdRatioBased(share)));
    }
    let share = || match set(ARGUMENT) {
        None => Ok(1.0),
        Some(text) => match text.parse() {
            Ok(share) if (0.0..=1.0).contains(&share) => Ok(share),
            _ => Err(format!("`{ARGUMENT}` is `{text}`: write a share from 0.0 to 1.0")),
        },
    };
    Ok(match set(SAMPLER).as_deref() {
        None | Some("parentbased_always_on") => under(Sampler::AlwaysOn),
        Some("parentbased_always_off") => under(Sampler::AlwaysOff),
        Some("parentbased_traceidratio") => under(Sampler::TraceIdRatioBased(share()?)),
        Some("always_on") => Sampler::AlwaysOn,
        Some("always_off") => Sampler::AlwaysOff,
        Some("traceidratio") => Sampler::TraceIdRatioBased(share()?),
        Some(other) => {
            return Err(format!(
                "`{SAMPLER}` is `{other}`: write always_on, always_off, traceidratio, or one of them \
                 after parentbased_"
            ));
        }
    })
}

/// Reads a list such as `a=1,b=2`, with values that may be percent-encoded. Errors do not repeat values, which may be
/// secrets.
fn pairs(variable: &str, set: Variables<'_>) -> Result<Vec<(String, String)>, String> {
    let text = set(variable).unwrap_or_default();
    let entries = text.split(',').map(str::trim).filter(|entry| !entry.is_empty());
    let read = |entry: &str| {
        let (key, value) = entry.split_once('=')?;
        let key = key.trim();
        Some((key.to_owned(), decoded(value.trim())?)).filter(|_| !key.is_empty())
    };
    entries
        .map(|entry| {
            read(entry).ok_or_else(|| format!("`{variable}` must be as `key=value,key=value`"))
        })
        .collect()
}

fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte == b'%' {
            let digits = [rest.next()?, rest.next()?];
            let digits = std::str::from_utf8(&digits).ok()?;
            bytes.push(u8::from_str_radix(digits, 16).ok()?);
        } else {
            bytes.push(byte);
        }
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use opentelemetry::Key;

    use super::*;

    fn planned(config: &str, variables: &[(&str, &str)]) -> Result<Option<Plan>, String> {
        let config: TelemetryConfig = toml::from_str(config).unwrap();
        let set = |name: &str| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        Plan::new(&config, &set)
    }

    fn plan(config: &str, variables: &[(&str, &str)]) -> Plan {
        planned(config, variables).unwrap().unwrap()
    }

    const OTLP: &str = "otlp = \"http://collector:4318/base/\"\n";

    #[test]
    fn the_table_wins_over_the_variables() {
        let variables = [
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://other"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Basic%20x, extra=1"),
            ("OTEL_SERVICE_NAME", "other"),
            ("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=prod,service.name=third"),
            ("OTEL_TRACES_SAMPLER", "always_off"),
        ];
        let table = format!(
            "{OTLP}service_name = \"mine\"\nsample = 0.25\nheaders = {{ Authorization = \"Bearer y\" }}"
        );
        let plan = plan(&table, &variables);
        let otlp = plan.otlp.unwrap();
        assert_eq!(otlp.address("/v1/traces").as_str(), "http://collector:4318/base/v1/traces");
        assert_eq!(otlp.headers["authorization"], "Bearer y");
        assert_eq!(otlp.headers["extra"], "1");
        let attribute = |key: &'static str| plan.resource.get(&Key::new(key)).unwrap().to_string();
        assert_eq!(attribute("service.name"), "mine");
        assert_eq!(attribute("deployment.environment.name"), "prod");
        assert_eq!(attribute("mcp.transport"), "stdio");
        assert!(format!("{:?}", plan.sampler).contains("TraceIdRatioBased(0.25)"));
    }

    #[test]
    fn the_variables_count_where_the_table_says_nothing() {
        let variables = [
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://other"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Basic%20x"),
            ("OTEL_SERVICE_NAME", "named"),
            ("OTEL_TRACES_SAMPLER", "traceidratio"),
            ("OTEL_TRACES_SAMPLER_ARG", "0.5"),
        ];
        let plan = plan("", &variables);
        let otlp = plan.otlp.unwrap();
        assert_eq!(otlp.address("/v1/metrics").as_str(), "http://other/v1/metrics");
        assert_eq!(otlp.headers["authorization"], "Basic x");
        assert_eq!(plan.resource.get(&Key::new("service.name")).unwrap().to_string(), "named");
        assert!(format!("{:?}", plan.sampler).starts_with("TraceIdRatioBased(0.5)"));
    }

    #[test]
    fn bad_values_are_refused_and_secrets_not_repeated() {
        for (table, variable, value, sentence) in [
            ("", "", "", "has nowhere to go"),
            ("otlp = \"s3cret\"", "", "", "`telemetry.otlp` is no address"),
            ("otlp = \"ftp://s3cret\"", "", "", "must begin with http:// or https://"),
            ("otlp = \"http://x/?k=s3cret\"", "", "", "is a base address"),
            (OTLP, "OTEL_EXPORTER_OTLP_HEADERS", "s3cret", "must be as `key=value"),
            (OTLP, "OTEL_EXPORTER_OTLP_HEADERS", "a=s3cret%0", "must be as `key=value"),
            (OTLP, "OTEL_EXPORTER_OTLP_HEADERS", "a=s3cret%0A", "`a` is no header"),
            (OTLP, "OTEL_RESOURCE_ATTRIBUTES", "=s3cret", "must be as `key=value"),
            (OTLP, "OTEL_TRACES_SAMPLER", "some", "`OTEL_TRACES_SAMPLER` is `some`"),
            (OTLP, "OTEL_SDK_DISABLED", "yes", "`OTEL_SDK_DISABLED` is `yes`"),
        ] {
            let refused = planned(table, &[(variable, value)]).unwrap_err();
            assert!(refused.contains(sentence), "{refused}");
            assert!(!refused.contains("s3cret"), "{refused}");
        }
        let ratio = [("OTEL_TRACES_SAMPLER", "traceidratio"), ("OTEL_TRACES_SAMPLER_ARG", "2")];
        assert!(planned(OTLP, &ratio).unwrap_err().contains("`OTEL_TRACES_SAMPLER_ARG` is `2`"));
    }

    #[test]
    fn an_endpoint_of_another_protocol_is_refused_unless_the_table_names_one() {
        let grpc = [
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://other:4317"),
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
        ];
        assert!(planned("", &grpc).unwrap_err().contains("only http/protobuf is spoken here"));
        assert!(planned(OTLP, &grpc).unwrap().is_some());
    }

    #[test]
    fn one_variable_switches_all_of_it_off() {
        assert!(planned(OTLP, &[("OTEL_SDK_DISABLED", "true")]).unwrap().is_none());
        assert!(planned(OTLP, &[("OTEL_SDK_DISABLED", "false")]).unwrap().is_some());
    }
}
