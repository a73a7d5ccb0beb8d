//! JSON Schemas of settings that are strings, so that editors can complete them.

use std::{borrow::Cow, sync::Arc, time::Duration};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

use crate::{
    byte_size::SIZE_PATTERN,
    layer_spec::LayerSpec,
    layers::default_order,
    middleware::audit::Target,
    preset::Preset,
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
    json_schema!({"anyOf": [
        {"type": "integer", "minimum": 1000},
        {"type": "string", "pattern": SIZE_PATTERN, "examples": ["1MB"]},
        {"const": "off"},
    ]})
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
        chain_schema(&[])
    }
}

/// The schema of `chain`, for a program with layers of its own.
#[must_use]
pub fn chain_schema(own: &[Arc<dyn LayerSpec>]) -> Schema {
    let built_in = default_order().map(|place| place.name);
    let layers: Vec<&str> = built_in.chain(own.iter().map(|spec| spec.name())).collect();
    let presets = Preset::ALL.map(Preset::name);
    let names: Vec<&str> = std::iter::once("default").chain(presets).collect();
    json_schema!({"anyOf": [
        {"enum": names},
        {"type": "array", "items": {"enum": layers}, "uniqueItems": true},
    ]})
}

/// The schema of `[layers]`: a table for each of the program's own layers that has settings.
#[must_use]
pub fn layers_schema(own: &[Arc<dyn LayerSpec>], generator: &mut SchemaGenerator) -> Schema {
    let tables = own.iter().filter_map(|spec| {
        Some((spec.name().to_owned(), spec.table_schema(generator)?.to_value()))
    });
    let tables: serde_json::Map<String, serde_json::Value> = tables.collect();
    json_schema!({"type": "object", "properties": tables, "additionalProperties": false})
}
