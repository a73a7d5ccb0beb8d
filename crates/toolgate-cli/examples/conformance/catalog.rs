//! What the server lists: tools, resources, templates and prompts, and what reading them gives.

use rmcp::model::{
    CallToolResult, GetPromptResult, JsonObject, Prompt, ReadResourceResult, Resource,
    ResourceTemplate, Tool,
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// One red pixel.
const PIXEL: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGP4z8AAAAMBAQDJ/pLvAAAAAElFTkSuQmCC";
/// A sound file without a sound.
const SILENCE: &str = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAIA+AAACABAAZGF0YQAAAAA=";

pub(crate) fn typed<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

pub(crate) fn text(text: impl Into<String>) -> CallToolResult {
    let text: String = text.into();
    typed(json!({"resultType": "complete", "content": [{"type": "text", "text": text}]}))
}

pub(crate) fn failure(text: &str) -> CallToolResult {
    typed(
        json!({"resultType": "complete", "isError": true, "content": [{"type": "text", "text": text}]}),
    )
}

/// Tools without arguments, with what they are for.
const PLAIN: &[(&str, &str)] = &[
    ("test_simple_text", "Answers with a text"),
    ("test_image_content", "Answers with an image"),
    ("test_audio_content", "Answers with a sound"),
    ("test_embedded_resource", "Answers with an embedded resource"),
    ("test_multiple_content_types", "Answers with a text, an image and a resource"),
    ("test_tool_with_logging", "Logs while it runs"),
    ("test_tool_with_progress", "Tells of its progress"),
    ("test_error_handling", "Always fails"),
    ("test_elicitation_sep1034_defaults", "Asks with default values"),
    ("test_elicitation_sep1330_enums", "Asks with every kind of choice"),
    ("test_reconnection", "Closes its stream before it answers"),
    ("test_missing_capability", "Works only for clients that can sample"),
    ("test_streaming_elicitation", "Asks for a confirmation"),
    ("test_logging_tool", "Logs once"),
    ("test_trigger_resource_update", "Updates the watched resource"),
    ("test_input_required_result_elicitation", "Asks for a name"),
    ("test_input_required_result_sampling", "Asks the model"),
    ("test_input_required_result_list_roots", "Asks for the roots"),
    ("test_input_required_result_request_state", "Asks, and keeps a state"),
    ("test_input_required_result_multiple_inputs", "Asks for three things at once"),
    ("test_input_required_result_multi_round", "Asks twice"),
    ("test_input_required_result_tampered_state", "Asks, and refuses a state that is not its own"),
    ("test_input_required_result_capabilities", "Asks for what the client can answer"),
    ("failing_job", "A task that fails as tools do"),
    ("protocol_error_job", "A task that fails as servers do"),
    ("multi_input", "A task that asks for two things at once"),
    ("test_tool_with_task", "Asks for a name, then goes on as a task"),
];

/// Tools with arguments.
fn with_arguments() -> Vec<(&'static str, &'static str, Value)> {
    let string = |name: &str| json!({"type": "object", "properties": {name: {"type": "string"}}, "required": [name]});
    let region = json!({"type": "object", "properties": {
        "region": {"type": "string", "description": "Where to", "x-mcp-header": "Region"},
        "level": {"type": "integer", "x-mcp-header": "Level"},
        "urgent": {"type": "boolean", "x-mcp-header": "Urgent"},
    }, "required": ["region"]});
    let compute = json!({"type": "object", "properties": {
        "seconds": {"type": "integer", "minimum": 0}, "label": {"type": "string"},
    }});
    vec![
        ("test_sampling", "Asks the model of the client", string("prompt")),
        ("test_elicitation", "Asks the user of the client", string("message")),
        ("test_custom_header", "Has arguments that travel as headers too", region),
        ("json_schema_2020_12_tool", "Tool with JSON Schema 2020-12 features", rich_schema()),
        ("greet", "Greets", string("name")),
        ("slow_compute", "Takes as long as it is told", compute),
        ("confirm_delete", "Asks before it deletes nothing", string("filename")),
    ]
}

fn rich_schema() -> Value {
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {"address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }},
        "properties": {
            "name": {"type": "string"},
            "address": {"$ref": "#/$defs/address"},
            "contactMethod": {"type": "string", "enum": ["phone", "email"]},
            "phone": {"type": "string"},
            "email": {"type": "string"},
        },
        "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
        "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
        "then": {"required": ["phone"]},
        "else": {"required": ["email"]},
        "additionalProperties": false,
    })
}

/// All tools, in a fixed order. `changes` counts the calls of the tool that changes the list: its description tells it.
pub(crate) fn tools(changes: u64) -> Vec<Tool> {
    let tool = |name: &str, description: &str, schema: Value| -> Tool {
        typed(json!({"name": name, "description": description, "inputSchema": schema}))
    };
    let empty = || json!({"type": "object", "properties": {}});
    let plain = PLAIN.iter().map(|(name, description)| tool(name, description, empty()));
    let more = with_arguments()
        .into_iter()
        .map(|(name, description, schema)| tool(name, description, schema));
    let changing = [
        (
            "test_trigger_tool_change",
            format!("Changes the list of tools; it did so {changes} times"),
        ),
        ("test_trigger_prompt_change", "Changes the list of prompts".to_owned()),
    ];
    let changing =
        changing.into_iter().map(|(name, description)| tool(name, &description, empty()));
    plain.chain(more).chain(changing).collect()
}

/// What the tools say that need nothing to say it.
pub(crate) fn answer(tool: &str, arguments: &JsonObject) -> Option<CallToolResult> {
    let argument = |name: &str| arguments.get(name).and_then(Value::as_str).unwrap_or_default();
    let image = json!({"type": "image", "data": PIXEL, "mimeType": "image/png"});
    let content = match tool {
        "test_simple_text" => {
            json!([{"type": "text", "text": "This is a simple text response for testing."}])
        }
        "test_image_content" => json!([image]),
        "test_audio_content" => {
            json!([{"type": "audio", "data": SILENCE, "mimeType": "audio/wav"}])
        }
        "test_embedded_resource" => json!([{"type": "resource", "resource": {
            "uri": "test://embedded-resource",
            "mimeType": "text/plain",
            "text": "This is an embedded resource content.",
        }}]),
        "test_multiple_content_types" => json!([
            {"type": "text", "text": "Multiple content types test:"},
            image,
            {"type": "resource", "resource": {
                "uri": "test://mixed-content-resource",
                "mimeType": "application/json",
                "text": "{\"test\":\"data\",\"value\":123}",
            }},
        ]),
        "test_error_handling" => {
            return Some(failure("This tool intentionally returns an error for testing"));
        }
        "test_custom_header" => {
            json!([{"type": "text", "text": format!("Sent to {}", argument("region"))}])
        }
        "json_schema_2020_12_tool" => {
            json!([{"type": "text", "text": Value::from(arguments.clone()).to_string()}])
        }
        "greet" => json!([{"type": "text", "text": format!("Hello, {}!", argument("name"))}]),
        _ => return None,
    };
    Some(typed(json!({"resultType": "complete", "content": content})))
}

pub(crate) fn prompts(changes: u64) -> Vec<Prompt> {
    typed(json!([
        {"name": "test_simple_prompt", "description": format!("A simple prompt; the list changed {changes} times")},
        {"name": "test_prompt_with_arguments", "description": "A prompt with arguments", "arguments": [
            {"name": "arg1", "description": "The first", "required": true},
            {"name": "arg2", "description": "The second", "required": true},
        ]},
        {"name": "test_prompt_with_embedded_resource", "description": "A prompt with a resource", "arguments": [
            {"name": "resourceUri", "description": "Which resource", "required": true},
        ]},
        {"name": "test_prompt_with_image", "description": "A prompt with an image"},
        {"name": "test_input_required_result_prompt", "description": "A prompt that asks first"},
    ]))
}

pub(crate) fn prompt(name: &str, arguments: &JsonObject) -> Option<GetPromptResult> {
    let argument = |name: &str| arguments.get(name).and_then(Value::as_str).unwrap_or_default();
    let contents = match name {
        "test_simple_prompt" => vec![said("This is a simple prompt for testing.")],
        "test_prompt_with_arguments" => {
            let (first, second) = (argument("arg1"), argument("arg2"));
            vec![said(&format!("Prompt with arguments: arg1='{first}', arg2='{second}'"))]
        }
        "test_prompt_with_embedded_resource" => {
            let resource = json!({
                "uri": argument("resourceUri"),
                "mimeType": "text/plain",
                "text": "Embedded resource content for testing.",
            });
            let resource = json!({"type": "resource", "resource": resource});
            vec![resource, said("Please process the embedded resource above.")]
        }
        "test_prompt_with_image" => {
            let image = json!({"type": "image", "data": PIXEL, "mimeType": "image/png"});
            vec![image, said("Please analyze the image above.")]
        }
        _ => return None,
    };
    Some(messages(contents))
}

pub(crate) fn said(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

pub(crate) fn messages(contents: Vec<Value>) -> GetPromptResult {
    let messages = contents.into_iter().map(|content| json!({"role": "user", "content": content}));
    typed(json!({"resultType": "complete", "messages": messages.collect::<Vec<_>>()}))
}

/// The resource that subscribers are told of.
pub(crate) const WATCHED: &str = "test://watched-resource";

pub(crate) fn resources() -> Vec<Resource> {
    typed(json!([
        {"uri": "test://static-text", "name": "Static text", "mimeType": "text/plain"},
        {"uri": "test://static-binary", "name": "Static binary", "mimeType": "image/png"},
        {"uri": WATCHED, "name": "Watched", "mimeType": "text/plain"},
    ]))
}

pub(crate) fn templates() -> Vec<ResourceTemplate> {
    let template = "test://template/{id}/data";
    typed(json!([{"uriTemplate": template, "name": "Template", "mimeType": "application/json"}]))
}

pub(crate) fn read(uri: &str, updates: u64) -> Option<ReadResourceResult> {
    let content = match uri {
        "test://static-text" => {
            let text = "This is the content of the static text resource.";
            json!({"uri": uri, "mimeType": "text/plain", "text": text})
        }
        "test://static-binary" => json!({"uri": uri, "mimeType": "image/png", "blob": PIXEL}),
        WATCHED => {
            json!({"uri": uri, "mimeType": "text/plain", "text": format!("Updated {updates} times")})
        }
        _ => {
            let id = uri.strip_prefix("test://template/")?.strip_suffix("/data")?;
            let data =
                json!({"id": id, "templateTest": true, "data": format!("Data for ID: {id}")});
            json!({"uri": uri, "mimeType": "application/json", "text": data.to_string()})
        }
    };
    Some(typed(json!({"resultType": "complete", "contents": [content]})))
}
