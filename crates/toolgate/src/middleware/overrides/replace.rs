//! What is changed about one tool, compiled: its published definition, and the arguments of its calls.

use toolgate_wire::{Json, Kind, Object, mcp::member};

use super::{NAME, Original, OverrideConfig};
use crate::{call::Call, failure::Failure, registry::Code, tool::Tool};

/// What is changed about one tool. Its name is not here: whether it gets one depends on the others.
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

    /// Whether some argument is hidden, so that a call that sends it is refused.
    pub(super) fn hides_arguments(&self) -> bool {
        !self.hidden.is_empty()
    }

    /// Whether arguments are filled in.
    pub(super) fn changes_arguments(&self) -> bool {
        !self.hidden.is_empty() || !self.defaults.is_empty()
    }

    /// The definition that clients see; `None` if nothing about it changes. Members that nobody changes
    /// keep their bytes and their places.
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
        // Older clients look for the title here. Two that differ would show the one that was replaced.
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

    /// The input schema without what is hidden, and with the defaults.
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
                // Draft 4 forbids an empty list.
                0 => drop(schema.remove("required")),
                _ => schema.set("required", Json::list(kept)),
            }
        }
        schema.is_changed().then(|| schema.finish())
    }

    /// Whether the argument that a schema names has a value without the caller.
    fn provides(&self, name: &Json) -> bool {
        let mut both = self.hidden.iter().chain(&self.defaults);
        name.text().is_some_and(|name| both.any(|(ours, _)| *ours == name))
    }

    /// The one decision on arguments: a caller must not send what is hidden.
    pub(super) fn check(&self, call: &Call) -> Result<(), Failure> {
        match self.given(call)? {
            Some(given) => self.check_names(&given, call.tool()),
            None => Ok(()),
        }
    }

    /// The arguments that the tool gets; `None` if they are those that the caller sent.
    pub(super) fn arguments(&self, call: &Call) -> Result<Option<Json>, Failure> {
        if self.hidden.is_empty() && self.defaults.is_empty() {
            return Ok(None);
        }
        let mut arguments = self.given(call)?.unwrap_or_default();
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

    fn given(&self, call: &Call) -> Result<Option<Object>, Failure> {
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

    /// A server that reads names without regard to case would take `Dry_Run` for `dry_run`: such a name
    /// is refused too, unless the tool says that it has an argument of that very name.
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

/// As any name that the tool does not know: whoever sends it learns nothing, and reads no value.
fn unexpected(name: &str) -> Failure {
    Failure::new(Code::InvalidArguments, format!("Unexpected argument: '{name}'"))
        .suggest(format!("Remove or correct the unrecognized argument(s): {name}."))
        .by(NAME, "unexpected argument")
}

/// Whether the tool's own schema has an argument of this name.
fn has_argument(tool: &Tool, name: &str) -> bool {
    let schema = tool.definition().and_then(|definition| definition.get(member::INPUT_SCHEMA));
    let properties = schema.and_then(|schema| schema.get("properties")?.object());
    properties.is_some_and(|properties| properties.contains(name))
}

/// Whether two names differ in case only, as Unicode has it.
fn resembles(one: &str, other: &str) -> bool {
    let folded = |text: &str| -> Vec<char> {
        text.chars().flat_map(char::to_uppercase).flat_map(char::to_lowercase).collect()
    };
    folded(one) == folded(other)
}

/// A property's schema with this default. `true`, which allows all, becomes an object that does too.
fn with_default(own: &Json, value: &Json) -> Option<Json> {
    let mut schema = match own.kind() {
        Kind::Object => own.object()?,
        Kind::Bool if own.bool() == Some(true) => Object::new(),
        _ => return None,
    };
    schema.set("default", value.clone());
    Some(schema.finish())
}
