//! What tools and prompts ask of the client, and what they make of the answers.

use rmcp::{
    ErrorData, RoleServer,
    model::{ClientCapabilities, InputRequest, JsonObject, ServerRequest},
    service::RequestContext,
};
use serde_json::{Map, Value, json};

/// The answers so far, by the key of their question.
pub(crate) type Answers = Map<String, Value>;

/// One or more rounds of questions.
pub(crate) struct Script {
    pub(crate) rounds: Vec<Vec<(&'static str, Value)>>,
    /// Whether the answers so far, and the round, come back as `requestState`.
    pub(crate) keeps_state: bool,
    /// Whether a question that the client cannot answer is left out, and not an error.
    pub(crate) leaves_out: bool,
    /// The text that the answers make.
    pub(crate) text: fn(&Answers) -> String,
}

fn elicit(message: &str, properties: &Value) -> Value {
    let required: Vec<&String> = properties.as_object().unwrap().keys().collect();
    json!({"method": "elicitation/create", "params": {
        "mode": "form",
        "message": message,
        "requestedSchema": {"type": "object", "properties": properties, "required": required},
    }})
}

fn sample(prompt: &str, most: u32) -> Value {
    json!({"method": "sampling/createMessage", "params": {
        "messages": [{"role": "user", "content": {"type": "text", "text": prompt}}],
        "maxTokens": most,
    }})
}

fn roots() -> Value {
    json!({"method": "roots/list", "params": {}})
}

fn name() -> Value {
    json!({"name": {"type": "string"}})
}

fn confirm() -> Value {
    elicit("Please confirm", &json!({"ok": {"type": "boolean"}}))
}

fn defaults() -> Value {
    let properties = json!({
        "name": {"type": "string", "description": "A name", "default": "John Doe"},
        "age": {"type": "integer", "description": "An age", "default": 30},
        "score": {"type": "number", "description": "A score", "default": 95.5},
        "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
        "verified": {"type": "boolean", "description": "Whether it is verified", "default": true},
    });
    elicit("Please review the values", &properties)
}

fn enums() -> Value {
    let titled = |ordinals: [&str; 3], noun: &str| -> Vec<Value> {
        let option = |(at, ordinal): (usize, &str)| json!({"const": format!("value{}", at + 1), "title": format!("{ordinal} {noun}")});
        ordinals.into_iter().enumerate().map(option).collect()
    };
    let ordinals = ["First", "Second", "Third"];
    let properties = json!({
        "untitledSingle": {"type": "string", "enum": ["option1", "option2", "option3"]},
        "titledSingle": {"type": "string", "oneOf": titled(ordinals, "Option")},
        "legacyEnum": {
            "type": "string",
            "enum": ["opt1", "opt2", "opt3"],
            "enumNames": ["Option One", "Option Two", "Option Three"],
        },
        "untitledMulti": {"type": "array", "items": {"type": "string", "enum": ["option1", "option2", "option3"]}},
        "titledMulti": {"type": "array", "items": {"anyOf": titled(ordinals, "Choice")}},
    });
    elicit("Please choose", &properties)
}

fn one(key: &'static str, question: Value, text: fn(&Answers) -> String) -> Script {
    Script { rounds: vec![vec![(key, question)]], keeps_state: false, leaves_out: false, text }
}

/// What is asked by the tool or prompt of this name, if it asks at all.
pub(crate) fn script(tool: &str, arguments: &JsonObject) -> Option<Script> {
    let argument = |name: &str| arguments.get(name).and_then(Value::as_str).unwrap_or_default();
    let state = |script: Script| Script { keeps_state: true, ..script };
    let script = match tool {
        "test_sampling" => {
            let text =
                |answers: &Answers| format!("LLM response: {}", sampled(answers, "response"));
            one("response", sample(argument("prompt"), 100), text)
        }
        "test_elicitation" => {
            let properties = json!({
                "username": {"type": "string", "description": "User's response"},
                "email": {"type": "string", "description": "User's email address"},
            });
            let text = |answers: &Answers| format!("User response: {}", all(answers));
            one("user", elicit(argument("message"), &properties), text)
        }
        "test_elicitation_sep1034_defaults" => one("values", defaults(), completed),
        "test_elicitation_sep1330_enums" => one("choices", enums(), completed),
        "test_streaming_elicitation" => one("confirm", confirm(), completed),
        "test_input_required_result_elicitation" => {
            let text =
                |answers: &Answers| format!("Hello, {}!", content(answers, "user_name", "name"));
            one("user_name", elicit("What is your name?", &name()), text)
        }
        "test_input_required_result_sampling" => {
            let text = |answers: &Answers| sampled(answers, "capital_question");
            one("capital_question", sample("What is the capital of France?", 100), text)
        }
        "test_input_required_result_list_roots" => one("client_roots", roots(), completed),
        "test_input_required_result_request_state" => {
            state(one("confirm", confirm(), |answers| format!("state-ok {}", all(answers))))
        }
        "test_input_required_result_tampered_state" => state(one("confirm", confirm(), completed)),
        "test_input_required_result_multiple_inputs" => {
            let round = vec![
                ("user_name", elicit("What is your name?", &name())),
                ("greeting", sample("Generate a greeting", 50)),
                ("client_roots", roots()),
            ];
            Script { rounds: vec![round], keeps_state: true, leaves_out: false, text: completed }
        }
        "test_input_required_result_multi_round" => {
            let color = json!({"color": {"type": "string"}});
            let rounds = vec![
                vec![("step1", elicit("Step 1: What is your name?", &name()))],
                vec![("step2", elicit("Step 2: What is your favorite color?", &color))],
            ];
            let text = |answers: &Answers| {
                let (name, color) =
                    (content(answers, "step1", "name"), content(answers, "step2", "color"));
                format!("{name} likes {color}")
            };
            Script { rounds, keeps_state: true, leaves_out: false, text }
        }
        "test_input_required_result_capabilities" => {
            let round = vec![
                ("confirm", confirm()),
                ("greeting", sample("Generate a greeting", 50)),
                ("roots", roots()),
            ];
            Script { rounds: vec![round], keeps_state: false, leaves_out: true, text: completed }
        }
        "test_input_required_result_prompt" => {
            let properties = json!({"context": {"type": "string"}});
            let text = |answers: &Answers| {
                format!("Use this context: {}", content(answers, "user_context", "context"))
            };
            one("user_context", elicit("What context should the prompt use?", &properties), text)
        }
        "test_tool_with_task" => {
            let text =
                |answers: &Answers| format!("Done for {}", content(answers, "user_name", "name"));
            one("user_name", elicit("What is your name?", &name()), text)
        }
        "confirm_delete" => {
            let message = format!("Delete {}?", argument("filename"));
            one("confirm", elicit(&message, &json!({"confirm": {"type": "boolean"}})), completed)
        }
        "multi_input" => {
            let named = |message: &str| elicit(message, &name());
            let round =
                vec![("first", named("The first name?")), ("second", named("The second name?"))];
            Script { rounds: vec![round], keeps_state: false, leaves_out: false, text: completed }
        }
        _ => return None,
    };
    Some(script)
}

fn all(answers: &Answers) -> String {
    let text = |answer: &Value| {
        let content = answer.get("content").or(answer.get("roots")).unwrap_or(&Value::Null);
        format!("action={}, content={content}", answer["action"].as_str().unwrap_or("none"))
    };
    answers.values().map(text).collect::<Vec<_>>().join("; ")
}

fn completed(answers: &Answers) -> String {
    format!("Elicitation completed: {}", all(answers))
}

fn said<'a>(answers: &'a Answers, key: &str, member: &str) -> Option<&'a str> {
    answers.get(key)?.get("content")?.get(member)?.as_str()
}

fn sampled(answers: &Answers, key: &str) -> String {
    said(answers, key, "text").unwrap_or_default().to_owned()
}

fn content(answers: &Answers, key: &str, member: &str) -> String {
    said(answers, key, member).unwrap_or("nobody").to_owned()
}

/// Whether the client said that it can answer such a question.
pub(crate) fn can_answer(capabilities: &ClientCapabilities, question: &Value) -> bool {
    match question["method"].as_str() {
        Some("elicitation/create") => capabilities.elicitation.is_some(),
        Some("sampling/createMessage") => capabilities.sampling.is_some(),
        _ => capabilities.roots.is_some(),
    }
}

impl Script {
    /// Asks everything with requests during the call, as servers do up to 2025-11-25.
    pub(crate) async fn ask(
        &self,
        context: &RequestContext<RoleServer>,
    ) -> Result<Answers, ErrorData> {
        let mut answers = Answers::new();
        for (key, question) in self.rounds.iter().flatten() {
            let request = match request(question)? {
                InputRequest::CreateMessage(request) => {
                    ServerRequest::CreateMessageRequest(request)
                }
                InputRequest::Elicitation(request) => ServerRequest::ElicitRequest(request),
                InputRequest::ListRoots(request) => ServerRequest::ListRootsRequest(request),
                _ => return Err(ErrorData::internal_error("no such question", None)),
            };
            let answer = context.peer.send_request(request).await;
            let answer = answer.map_err(|error| {
                ErrorData::internal_error(format!("not answered: {error}"), None)
            })?;
            answers.insert((*key).to_owned(), serde_json::to_value(answer).unwrap());
        }
        Ok(answers)
    }
}

/// A question in the library's own form.
pub(crate) fn request(question: &Value) -> Result<InputRequest, ErrorData> {
    let parsed = serde_json::from_value(question.clone());
    parsed.map_err(|error| {
        ErrorData::internal_error(format!("a question that is none: {error}"), None)
    })
}
