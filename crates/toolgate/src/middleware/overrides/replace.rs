//! The compiled override of one tool: changes to its definition and to the arguments of its calls.

use toolgate_wire::{Json, Kind, Object, mcp::member};

use super::{NAME, Original, OverrideConfig};
use crate::{call::Call, failure::Failure, registry::Code, tool::Tool};

/// The override of one tool, without its name, which depends on the other overrides.
#[derive(Clone, Debug)]
pub(super) struct Replacement {
    title: Option<Json>,
    description: Option<Json>,
    /// `None` removes the annotation.
    annotations: Vec<(String, Option<Json>)>,
    defaults: Vec<(String, Json)>,
    hidden: Vec<(String, Json)>,
    original: Original,
}

impl Replacement {
    pub(super) fn new(config: &OverrideConfig) -> Self {
        let text = |text: &Option<String>| text.as_deref().map(Json::string);
        let values = |values: &std::collections::BTreeMap<String, serde_json::Value>| {
            values.iter().map(|(key, value)| (key.clone(), Json::value(value))).collect()
        };
        let annotations = config.annotations.iter();
        Self {
            title: text(&config.title),
            description: text(&config.description),
            annotations: annotations
                .map(|(key, value)| (key.clone(), (!value.is_null()).then(|| Json::value(value))))
                .collect(),
            defaults: values(&config.defaults),
            hidden: values(&config.hidden),
            original: config.original,
        }
    }

    pub(super) fn original(&self) -> Original {
        self.original
    }

    /// Whether an argument is hidden, so that a call with it is refused.
    pub(super) fn hides_arguments(&self) -> bool {
        !self.hidden.is_empty()
    }

    /// Whether it fills in arguments.
    pub(super) fn changes_arguments(&self) -> bool {
        !self.hidden.is_empty() || !self.defaults.is_empty()
    }

    /// The definition that clients see; `None` if it does not change. Unchanged members keep their bytes and
    /// positions.
    pub(super) fn definition(&self, own: &Json, new_name: Option<&str>) -> Option<Json> {
        let mut definition = own.object()?;
        if let Some(name) = new_name {
            definition.set("name", Json::string(name));
        }
        if let Some(title) = &self.title {
            definition.set("title", title.clone());
        }
        if let Some(description) = &self.description {
            definition.set("description", description.clone());
        }
        if let Some(annotations) = self.annotated(definition.get("annotations")) {
            definition.set("annotations", annotations);
        }
        if let Some(schema) = definition.get(member::INPUT_SCHEMA).and_then(|own| self.schema(&own))
        {
            definition.set(member::INPUT_SCHEMA, schema);
        }
        definition.is_changed().then(|| definition.finish())
    }

    fn annotated(&self, own: Option<Json>) -> Option<Json> {
        let mut annotations = own.and_then(|json| json.object()).unwrap_or_default();
        // Legacy clients read the title here and would show the old one.
        if let Some(title) = self.title.as_ref().filter(|_| annotations.contains("title")) {
            annotations.set("title", title.clone());
        }
        for (key, value) in &self.annotations {
            match value {
                Some(value) => annotations.set(key, value.clone()),
                None => drop(annotations.remove(key)),
            }
        }
        annotations.is_changed().then(|| annotations.finish())
    }

    /// The input schema without hidden arguments and with the defaults.
    fn schema(&self, own: &Json) -> Option<Json> {
        let mut schema = own.object()?;
        if let Some(mut properties) = schema.get("properties").and_then(|json| json.object()) {
            for (name, _) in &self.hidden {
                properties.remove(name);
            }
            for (name, value) in &self.defaults {
                let own = properties.get(name);
                if let Some(with) = own.and_then(|own| with_default(&own, value)) {
                    properties.set(name, with);
                }
            }
            if properties.is_changed() {
                schema.set("properties", properties.finish());
            }
        }
        if let Some(required) = schema.get("required").and_then(|json| json.array()) {
            let kept: Vec<&Json> = required.iter().filter(|name| !self.provides(name)).collect();
            match kept.len() {
                len if len == required.len() => {}
                // JSON Schema draft 4 forbids an empty list.
                0 => drop(schema.remove("required")),
                _ => schema.set("required", Json::list(kept)),
            }
        }
        schema.is_changed().then(|| schema.finish())
    }

    /// Whether an argument has a value without the caller.
    fn provides(&self, name: &Json) -> bool {
        let mut both = self.hidden.iter().chain(&self.defaults);
        name.text().is_some_and(|name| both.any(|(ours, _)| *ours == name))
    }

    /// Refuses a call that contains a hidden argument.
    pub(super) fn check(&self, call: &Call) -> Result<(), Failure> {
        match self.arguments_of(call)? {
            Some(given) => self.check_names(&given, call.tool()),
            None => Ok(()),
        }
    }

    /// The arguments for the tool; `None` if the caller's stay unchanged.
    pub(super) fn arguments(&self, call: &Call) -> Result<Option<Json>, Failure> {
        if self.hidden.is_empty() && self.defaults.is_empty() {
            return Ok(None);
        }
        let mut arguments = self.arguments_of(call)?.unwrap_or_default();
        self.check_names(&arguments, call.tool())?;
        for (name, value) in &self.defaults {
            if !arguments.contains(name) {
                arguments.set(name, value.clone());
            }
        }
        for (name, value) in &self.hidden {
            arguments.set(name, value.clone());
        }
        Ok(arguments.is_changed().then(|| arguments.finish()))
    }

    fn arguments_of(&self, call: &Call) -> Result<Option<Object>, Failure> {
        let changes = !(self.hidden.is_empty() && self.defaults.is_empty());
        match call.arguments() {
            Some(arguments) if changes => arguments.object().map(Some).ok_or_else(|| {
                Failure::new(Code::InvalidArguments, "The arguments are not an object")
                    .suggest("Send the arguments as a JSON object, or leave them out.")
                    .by(NAME, "no object")
            }),
            _ => Ok(None),
        }
    }

    /// A server that ignores case would read `Dry_Run` as `dry_run`, so such a name is refused too, unless the tool's
    /// schema has an argument with exactly that name.
    fn check_names(&self, given: &Object, tool: &Tool) -> Result<(), Failure> {
        if self.hidden.is_empty() {
            return Ok(());
        }
        let hides = |sent: &str| {
            let mut hidden = self.hidden.iter().map(|(name, _)| name.as_str());
            hidden.any(|name| name == sent || (resembles(sent, name) && !has_argument(tool, sent)))
        };
        match given.keys().find(|name| hides(name)) {
            Some(name) => Err(unexpected(&name)),
            None => Ok(()),
        }
    }
}

/// The same error as for an unknown argument, so that the caller cannot detect a hidden one.
fn unexpected(name: &str) -> Failure {
    Failure::new(Code::InvalidArguments, format!("Unexpected argument: '{name}'"))
        .suggest(format!("Remove or correct the unrecognized argument(s): {name}."))
        .by(NAME, "unexpected argument")
}

/// Whether the tool's original schema has an argument of this name.
fn has_argument(tool: &Tool, name: &str) -> bool {
    let schema = tool.definition().and_then(|definition| definition.get(member::INPUT_SCHEMA));
    let properties = schema.and_then(|schema| schema.get("properties")?.object());
    properties.is_some_and(|properties| properties.contains(name))
}

/// Whether two names differ only in case, by Unicode's rules.
fn resembles(one: &str, other: &str) -> bool {
    let folded = |text: &str| -> Vec<char> {
        text.chars().flat_map(char::to_uppercase).flat_map(char::to_lowercase).collect()
    };
    folded(one) == folded(other)
}

/// A property's schema with this default. The schema `true` becomes an equivalent object.
fn with_default(own: &Json, value: &Json) -> Option<Json> {
    let mut schema = match own.kind() {
        Kind::Object => own.object()?,
        Kind::Bool if own.bool() == Some(true) => Object::new(),
        _ => return None,
    };
    schema.set("default", value.clone());
    Some(schema.finish())
}
