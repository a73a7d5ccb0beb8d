//! JSON Schemas of settings that are strings, so that editors can complete them.

use std::{borrow::Cow, time::Duration};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

use crate::{
    layers::default_order,
    middleware::audit::Target,
    selection::{Facts, Selection},
    selector::Selector,
    settings::{ChainOrder, Switch},
};

/// Implements `JsonSchema` with an inline schema, without an entry in `$defs`.
macro_rules! inline_schema {
    ($type:ty, $name:literal, $schema:expr) => {
        impl JsonSchema for $type {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> Cow<'static, str> {
                $name.into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                $schema
            }
        }
    };
}

inline_schema!(
    Selector,
    "Selector",
    json_schema!({"type": "string", "pattern": "^[^/]+/.+$", "examples": ["main/*", "*/delete_*"]})
);
inline_schema!(
    Target,
    "Target",
    json_schema!({"type": "string", "examples": ["audit.jsonl", "stderr", "off"]})
);
inline_schema!(
    Switch<usize>,
    "Bytes",
    json_schema!({"anyOf": [{"type": "integer", "minimum": 1000}, {"const": "off"}]})
);
inline_schema!(
    Switch<Duration>,
    "Time",
    json_schema!({"type": "string", "pattern": "^([0-9]+(ms|s|m|h)|off)$", "examples": ["60s"]})
);

impl JsonSchema for Selection {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Selection".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let (glob, facts) = (Selector::json_schema(generator), generator.subschema_for::<Facts>());
        json_schema!({"anyOf": [glob, facts]})
    }
}

impl JsonSchema for ChainOrder {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Chain".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let layers: Vec<&str> = default_order().map(|(name, _)| name).collect();
        let presets = crate::presets::Preset::ALL.map(crate::presets::Preset::name);
        let names: Vec<&str> = std::iter::once("default").chain(presets).collect();
        json_schema!({"anyOf": [
            {"enum": names},
            {"type": "array", "items": {"enum": layers}, "uniqueItems": true},
        ]})
    }
}
