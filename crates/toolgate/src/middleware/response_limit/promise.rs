//! Checks shortened structured content against the tool's output schema.

use toolgate_wire::{Json, Kind, mcp::member};

use super::structured::MIN_CUT;

/// Whether the shortened result still fits the schema. Content that did not fit before counts as fitting.
pub(super) fn is_kept(schema: &Json, result: &Json, shortened: &Json) -> bool {
    let content = |result: &Json| result.get(member::STRUCTURED_CONTENT);
    let (Some(before), Some(after)) = (content(result), content(shortened)) else {
        return content(result).is_none();
    };
    before.len() == after.len() || survives(schema) || fits(schema, &before, &after)
}

/// Whether shortening cannot break any content that fits this schema. Shortening cuts strings and drops array
/// elements; keys, types and short values stay.
fn survives(schema: &Json) -> bool {
    match schema.kind() {
        Kind::Object => {
            let object = schema.object().unwrap_or_default();
            object.iter().all(|(key, value)| match &*key {
                "minLength" | "minItems" => value.i64().is_some_and(|least| least <= 1),
                "enum" | "const" => value.len() <= MIN_CUT,
                "$ref" => value.text().is_some_and(|target| target.starts_with('#')),
                "items" if value.kind() == Kind::Array => false,
                "pattern" | "format" | "contains" | "minContains" | "prefixItems" | "oneOf"
                | "not" | "if" | "contentEncoding" | "contentMediaType" | "contentSchema"
                | "dependentSchemas" | "unevaluatedItems" | "$dynamicRef" | "$recursiveRef" => {
                    false
                }
                _ => survives(&value),
            })
        }
        Kind::Array => schema.array().unwrap_or_default().iter().all(survives),
        _ => true,
    }
}

/// The validator's result. Without one, the content counts as broken.
#[cfg(feature = "validate")]
fn fits(schema: &Json, before: &Json, after: &Json) -> bool {
    use crate::middleware::validate::fits;
    match fits(schema, after) {
        Some(true) => true,
        Some(false) => fits(schema, before) == Some(false),
        None => false,
    }
}

#[cfg(not(feature = "validate"))]
fn fits(_: &Json, _: &Json, _: &Json) -> bool {
    false
}
