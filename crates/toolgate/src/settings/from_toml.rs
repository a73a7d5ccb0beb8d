//! Reads settings from TOML, with errors that show the line, guess what a misspelt word means, and quote no value.
#![expect(unreachable_pub, reason = "the macro declares a method of the private `Text` as public")]

mod all_errors;
mod masked;
mod nearest;

use std::collections::BTreeMap;

use serde::Deserialize;

pub use all_errors::{TomlText, read_all};
use masked::without_values;

use super::{Annotations, ChainOrder, LimitsConfig, Preset, Settings};
use crate::{
    middleware::{
        audit::{AuditConfig, RedactConfig},
        filter::NewTools,
        policy::{PolicyConfig, PrincipalPattern},
        scopes::{Granted, Scope},
        telemetry::TelemetryConfig,
    },
    selector::Selector,
    settings::ToolSettings,
    tier::Tier,
};

crate::with_layer_tables! {
    /// The settings of one chain as text.
    #[derive(Clone, Debug, Default, Deserialize)]
    #[serde(deny_unknown_fields, default)]
    struct Text {
        chain: ChainOrder,
        safety: Option<Tier>,
        annotations: Annotations,
        policies: BTreeMap<String, PolicyConfig>,
        policy: Option<String>,
        principals: BTreeMap<PrincipalPattern, String>,
        scopes: Option<Vec<Scope>>,
        grants: Option<BTreeMap<PrincipalPattern, Vec<Scope>>>,
        new_tools: NewTools,
        inactive_message: Option<String>,
        tools: BTreeMap<String, ToolSettings>,
        audit: Option<AuditConfig>,
        redact: Option<RedactConfig>,
        limits: LimitsConfig,
        telemetry: Option<TelemetryConfig>,
        layers: BTreeMap<String, serde_json::Value>,
    }
}

/// Why a text is not the settings of a chain.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the settings are refused:\n{0}")]
pub struct BadToml(String);

impl Settings {
    /// Reads settings from TOML: the keys and tables of one namespace of `toolgate.toml`, all at the top, `[policies]`,
    /// and `[layers.NAME]` for layers of the program. An unknown key is an error, because a misspelt rule would protect
    /// nothing. Without `[audit]` there is no audit.
    ///
    /// ```
    /// use toolgate::{Tier, settings::Settings};
    ///
    /// let settings = Settings::from_toml("safety = \"readonly\"\n[limits]\ntimeout = \"30s\"")?;
    /// assert_eq!(settings.safety, Some(Tier::Readonly));
    /// let refused = Settings::from_toml("saftey = \"readonly\"").unwrap_err();
    /// assert!(refused.to_string().contains("did you mean `safety`?"));
    /// # Ok::<(), toolgate::settings::BadToml>(())
    /// ```
    pub fn from_toml(text: &str) -> Result<Self, BadToml> {
        let read = read_all::<Text>(text);
        if !read.errors.is_empty() {
            let mut why = read.errors.join("\n");
            if why.contains("unknown field `namespaces`") {
                why.push_str("help: a library has one namespace: write the keys of `[namespaces.NAME]` at the top\n");
            }
            return Err(BadToml(why));
        }
        let read = read.value.unwrap_or_default();
        let mut tools = Vec::new();
        for (selector, tool) in &read.tools {
            let selector: Selector = selector
                .parse()
                .map_err(|error: crate::BadSelector| BadToml(format!("`[tools]`: {error}")))?;
            tools.push((selector, tool.clone()));
        }
        let preset = read.chain.preset();
        let mut settings = Self {
            chain: read.chain.clone(),
            safety: read.safety,
            annotations: read.annotations,
            tools,
            audit: audit(text, read.audit.clone(), preset),
            redact: read.redact.clone().unwrap_or_default(),
            limits: read.limits.clone(),
            inactive_message: read.inactive_message.clone(),
            new_tools: read.new_tools,
            policies: read.policies.clone(),
            policy: read.policy.clone(),
            principals: read.principals.clone().into_iter().collect(),
            granted: Granted {
                namespace: read.scopes.clone(),
                principals: read.grants.clone().map(|grants| grants.into_iter().collect()),
                variable: None,
            },
            telemetry: read.telemetry.clone().unwrap_or_default(),
            layers: read.layers.clone(),
            ..Self::default()
        };
        read.layer_tables().apply_to(&mut settings);
        if let Some(preset) = preset {
            preset.fill(&mut settings);
        }
        Ok(settings)
    }
}

/// The audit. With a preset, the defaults of the preset fill the keys that the text does not set.
fn audit(text: &str, read: Option<AuditConfig>, preset: Option<Preset>) -> AuditConfig {
    let file: toml::Table = toml::from_str(text).unwrap_or_default();
    let table = file.get("audit").and_then(toml::Value::as_table);
    let is_set = |key: &str| table.is_some_and(|table| table.contains_key(key));
    match (read, preset) {
        (Some(read), Some(preset)) => preset.audit_over(read, is_set),
        (Some(read), None) => read,
        (None, preset) => preset.and_then(Preset::audit).unwrap_or_default(),
    }
}

/// An error of a TOML text: its line with all values blanked, the reason without values, and the next step. `top` are
/// the keys at the top of the text.
fn explained(text: &str, mut error: toml::de::Error, top: &[String]) -> String {
    let first = error.span().and_then(|at| all_errors::first_line(text, at.start));
    error.set_input(Some(&masked::masked(text)));
    let shown = without_values(&error.to_string()).replacen("TOML parse error at ", "", 1);
    nearest::with_help(&shown, top, first)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> String {
        Settings::from_toml(text).unwrap_err().to_string()
    }

    #[test]
    fn a_text_gives_the_settings_of_a_chain() {
        let text = r#"
            chain = ["errors-to-results", "safety", "tenants"]
            safety = "mutating"
            [tools."main/drop"]
            tier = "destructive"
            [retry]
            [layers.tenants]
            names = ["a"]
        "#;
        let settings = Settings::from_toml(text).unwrap();
        assert_eq!(settings.safety, Some(Tier::Mutating));
        assert_eq!(settings.tools[0].1.tier, Some(Tier::Destructive));
        assert!(settings.retry.is_some());
        assert_eq!(settings.layers["tenants"]["names"][0], "a");
        assert_eq!(
            Settings::from_toml("").unwrap().audit.file,
            crate::middleware::audit::Target::Off
        );
    }

    #[test]
    fn a_preset_brings_its_options_and_its_audit() {
        let settings = Settings::from_toml("chain = \"libtmux\"").unwrap();
        assert_eq!(settings.safety, Some(Tier::Mutating));
        let settings = Settings::from_toml("chain = \"mcp-core\"").unwrap();
        assert_ne!(settings.audit.file, crate::middleware::audit::Target::Off);
    }

    #[test]
    fn an_error_has_the_line_and_a_guess_and_no_value() {
        let misspelt = refused("policy = \"the secret\"\nsaftey = \"readonly\"");
        assert!(
            misspelt.contains("line 2") && misspelt.contains("did you mean `safety`?"),
            "{misspelt}"
        );
        assert!(!misspelt.contains("secret"), "{misspelt}");
        let pasted = refused("[namespaces.default]\nsafety = \"readonly\"");
        assert!(pasted.contains("write the keys of `[namespaces.NAME]` at the top"), "{pasted}");
        assert!(
            refused("[tools.nothing]").contains("`nothing` does not select tools"),
            "no selector"
        );
        assert!(refused("[limits]\nrat = []").contains("did you mean `rate`?"));
    }
}
