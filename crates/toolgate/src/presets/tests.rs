//! Presets: tests of their orders and variables; an invalid variable never allows more.

use std::time::Duration;

use super::*;
use crate::{
    Tier,
    middleware::{
        audit::Target,
        preconditions::{Mode, NAME as PRECONDITIONS},
    },
    settings::ChainOrder,
    stack,
};

fn settings(preset: Preset) -> Settings {
    let mut settings = Settings { chain: ChainOrder::Preset(preset), ..Settings::default() };
    preset.fill(&mut settings);
    if let Some(audit) = preset.audit() {
        settings.audit = audit;
    }
    settings
}

fn names(settings: &Settings) -> Vec<&'static str> {
    let stack = stack::build(settings).unwrap_or_else(|error| panic!("{error}"));
    stack.chain.layers().iter().map(|info| info.name).collect()
}

#[test]
fn every_place_is_that_of_a_layer_and_no_layer_is_missing() {
    for preset in Preset::ALL {
        assert_eq!(Preset::by_name(preset.name()), Some(preset));
        let order: Vec<&str> = preset.order().iter().map(|place| place.name).collect();
        for name in &order {
            let known = default_order().any(|place| place.name == *name);
            assert!(known, "{preset}: {name}");
            assert_eq!(order.iter().filter(|other| *other == name).count(), 1, "{name}");
        }
    }
}

#[test]
fn each_preset_has_its_own_order() {
    let own = |preset: Preset| preset.own_layers().collect::<Vec<_>>();
    assert_eq!(
        own(Preset::Libtmux),
        ["telemetry", "response-limit", "errors-to-results", "audit", "retry", "safety"]
    );
    assert_eq!(
        own(Preset::Metamcp),
        ["call-id", "errors-to-results", "log", "policy", "filter", "overrides"]
    );
    assert_eq!(
        own(Preset::McpCore),
        [
            "telemetry",
            "errors-to-results",
            "confirm-argument",
            "validate",
            "scopes",
            "rate-limit",
            PRECONDITIONS,
            "audit",
            "breaker",
            "audit-intent"
        ]
    );
    for preset in Preset::ALL {
        names(&settings(preset));
    }
}

#[test]
fn confirm_is_refused_in_the_libtmux_preset() {
    // A person would be asked about calls that the tier then denies.
    let mut libtmux = settings(Preset::Libtmux);
    libtmux.confirm = Some(preconditions::ConfirmConfig {
        when: vec![crate::Selection::Glob("main/*".parse().unwrap())],
        ..Default::default()
    });
    let refused = stack::build(&libtmux).unwrap_err().to_string();
    assert!(refused.contains("`safety` must stand outside `preconditions`"), "{refused}");
}

fn read(
    preset: Preset,
    variables: &[(&str, &str)],
) -> Result<(Settings, Option<String>), BadVariable> {
    let mut settings = settings(preset);
    let lookup = |name: &str| {
        let found = variables.iter().find(|(known, _)| *known == name);
        found.map(|(_, value)| (*value).to_owned())
    };
    let warning = preset.read_variables(&mut settings, &lookup)?;
    Ok((settings, warning))
}

#[test]
fn libtmux_reads_its_tier_and_falls_back_to_readonly() {
    let tier = |value| read(Preset::Libtmux, &[("LIBTMUX_SAFETY", value)]).unwrap();
    assert_eq!(read(Preset::Libtmux, &[]).unwrap().0.safety, Some(Tier::Mutating));
    assert_eq!(tier("destructive").0.safety, Some(Tier::Destructive));
    for odd in ["bogus", "DESTRUCTIVE", ""] {
        let (settings, warning) = tier(odd);
        assert_eq!(settings.safety, Some(Tier::Readonly), "{odd}");
        let said = format!("invalid LIBTMUX_SAFETY='{odd}', falling back to readonly");
        assert_eq!(warning, Some(said));
    }
}

#[test]
fn mcp_core_only_previews_unless_the_variable_is_false() {
    let dry = |variables: &[(&str, &str)]| {
        read(Preset::McpCore, variables).map(|(settings, _)| settings.confirm.unwrap().mode())
    };
    assert_eq!(dry(&[]), Ok(Mode::Preview));
    assert_eq!(dry(&[("MCP_DRY_RUN", "false")]), Ok(Mode::Ask));
    assert_eq!(dry(&[("MCP_DRY_RUN", "true")]), Ok(Mode::Preview));
    for unclear in ["0", "no", "False", ""] {
        let refused = dry(&[("MCP_DRY_RUN", unclear)]).unwrap_err().to_string();
        assert!(refused.contains("write `true` or `false`"), "{refused}");
    }
}

#[test]
fn mcp_core_audits_where_its_variables_say() {
    let target = |variables: &[(&str, &str)]| {
        read(Preset::McpCore, variables).map(|(settings, _)| settings.audit.file)
    };
    assert_eq!(target(&[]), Ok(Target::Stderr));
    let file = [("MCP_AUDIT_SINK", "file"), ("MCP_AUDIT_FILE", "a.jsonl")];
    assert_eq!(target(&file), Ok(Target::File("a.jsonl".into())));
    assert_eq!(target(&[("MCP_AUDIT_SINK", "none")]), Ok(Target::Off));
    assert_eq!(target(&[file[0], ("MCP_AUDIT_ENABLED", "false")]), Ok(Target::Off));
    assert!(target(&[("MCP_AUDIT_SINK", "otpl")]).is_err());
    assert!(read(Preset::McpCore, &[("MCP_TIMEOUT_DEFAULT_MS", "0")]).is_err());
    let circuit =
        [("MCP_CIRCUIT_FAILURE_THRESHOLD", "3"), ("MCP_CIRCUIT_HALF_OPEN_AFTER_MS", "500")];
    let breaker = read(Preset::McpCore, &circuit).unwrap().0.breaker.unwrap();
    assert_eq!((breaker.failures, breaker.wait), (3, Duration::from_millis(500)));
    let off = read(Preset::McpCore, &[("MCP_CIRCUIT_ENABLED", "false")]).unwrap();
    assert_eq!(off.0.breaker, None);
}

#[test]
fn a_table_that_names_no_file_keeps_that_of_the_preset() {
    let table = || AuditConfig { file: Target::Off, ..AuditConfig::default() };
    let of_preset = Preset::McpCore.audit().unwrap().file;
    assert_ne!(of_preset, Target::Off);
    assert_eq!(Preset::McpCore.audit_over(table(), |key| key == "record").file, of_preset);
    assert_eq!(Preset::McpCore.audit_over(table(), |key| key == "file").file, Target::Off);
}
