//! Four prompts, which are also available as tools if that is set.

use rmcp::{
    ErrorData,
    model::{
        ErrorCode, GetPromptResult, JsonObject, ListPromptsResult, Prompt, PromptArgument,
        PromptMessage, Role,
    },
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use toolgate::{Executed, Failure};

use crate::{call::ToolContext, tool::Tool};

/// A prompt, and the function that writes its text.
struct PromptTemplate {
    name: &'static str,
    title: &'static str,
    about: &'static str,
    arguments: &'static [Argument],
    write: fn(&PromptValues<'_>) -> Result<String, String>,
}

/// Name, description, and whether the argument is required.
type Argument = (&'static str, &'static str, bool);

const PANE: Argument = ("pane_id", "The pane, as %1.", true);

const PROMPTS: [PromptTemplate; 4] = [
    PromptTemplate {
        name: "run_and_wait",
        title: "Run a Command and Wait",
        about: "Run a command in a pane, wait for its end, and report how it ended.",
        arguments: &[
            ("command", "What to run.", true),
            PANE,
            ("timeout", "How many seconds to wait; 60 if not given.", false),
        ],
        write: run_and_wait,
    },
    PromptTemplate {
        name: "diagnose_failing_pane",
        title: "Diagnose a Failing Pane",
        about: "Find out what went wrong in a pane, without touching it.",
        arguments: &[PANE],
        write: diagnose_failing_pane,
    },
    PromptTemplate {
        name: "build_dev_workspace",
        title: "Build a Development Workspace",
        about: "Make a session with three panes: editor, shell and log.",
        arguments: &[
            ("session_name", "The name of the new session.", true),
            ("log_command", "What the third pane shows; `watch -n 1 date` if not given.", false),
        ],
        write: build_dev_workspace,
    },
    PromptTemplate {
        name: "interrupt_gracefully",
        title: "Interrupt Gracefully",
        about: "Interrupt what runs in a pane, and see that it ended.",
        arguments: &[PANE],
        write: interrupt_gracefully,
    },
];

/// The arguments of a request.
struct PromptValues<'a>(&'a JsonObject);

impl PromptValues<'_> {
    fn maybe(&self, name: &str) -> Option<String> {
        match self.0.get(name)? {
            Value::Null => None,
            Value::String(text) => Some(text.clone()),
            other => Some(other.to_string()),
        }
    }

    fn text(&self, name: &str) -> String {
        self.maybe(name).unwrap_or_default()
    }

    /// The value as a JSON string, so that no part of it reads as an instruction of the prompt.
    fn quoted(&self, name: &str) -> String {
        Value::from(self.text(name)).to_string()
    }
}

fn run_and_wait(given: &PromptValues<'_>) -> Result<String, String> {
    let timeout: f64 = match given.maybe("timeout") {
        None => 60.0,
        Some(text) => text.trim().parse().map_err(|_| "timeout is not a number".to_owned())?,
    };
    if !timeout.is_finite() || timeout <= 0.0 {
        return Err("timeout must be positive".to_owned());
    }
    let (pane, command) = (given.quoted("pane_id"), given.quoted("command"));
    let (history, warning) = if given.text("command").contains(['\n', '\r']) {
        (
            ", suppress_history=false",
            "\nThe command has several lines: it will be in the shell's history. Tell the user so if it holds \
             a secret.",
        )
    } else {
        ("", "")
    };
    Ok(format!(
        "Run a command in tmux pane {pane} and report how it ended.\n\n\
         1. Call run_command(pane_id={pane}, command={command}, timeout={timeout:?}{history}).\n\
         2. If timed_out is true, the command still runs: do not send it again. Wait for its end with \
         wait_for_text, or look with capture_since.\n\
         3. Report exit_status, and of the output only what matters.{warning}"
    ))
}

#[expect(clippy::unnecessary_wraps, reason = "all recipes are written the same way")]
fn diagnose_failing_pane(given: &PromptValues<'_>) -> Result<String, String> {
    let pane = given.quoted("pane_id");
    Ok(format!(
        "Find out what went wrong in tmux pane {pane}. Only look: type nothing and end nothing.\n\n\
         1. Call snapshot_pane(pane_id={pane}): what is on the screen, which program runs, whether it is dead.\n\
         2. If the cause is further up, call capture_pane(pane_id={pane}, start=-500).\n\
         3. If it may still be writing, call capture_since(pane_id={pane}), then again with the cursor that it \
         gave, for what is new.\n\
         4. Say what failed, quote the line that shows it, and propose the next step. Do not take it yet."
    ))
}

#[expect(clippy::unnecessary_wraps, reason = "all recipes are written the same way")]
fn build_dev_workspace(given: &PromptValues<'_>) -> Result<String, String> {
    let session = given.quoted("session_name");
    let log = given.maybe("log_command").unwrap_or_else(|| "watch -n 1 date".to_owned());
    let log = Value::from(log);
    Ok(format!(
        "Build a tmux workspace with three panes: editor, shell and log.\n\n\
         1. Call create_session(session_name={session}); keep active_pane_id as EDITOR. If the session exists \
         already, stop and ask.\n\
         2. Call split_window(pane_id=EDITOR, direction=\"right\"); keep pane_id as SHELL.\n\
         3. Call split_window(pane_id=SHELL, direction=\"below\"); keep pane_id as LOG.\n\
         4. Name them with set_pane_title: editor, shell, log.\n\
         5. Call send_keys(pane_id=LOG, keys={log}).\n\
         6. Call select_pane(pane_id=EDITOR), and report the three ids. Start an editor only if asked to."
    ))
}

#[expect(clippy::unnecessary_wraps, reason = "all recipes are written the same way")]
fn interrupt_gracefully(given: &PromptValues<'_>) -> Result<String, String> {
    let pane = given.quoted("pane_id");
    Ok(format!(
        "Interrupt what runs in tmux pane {pane}, and see that it ended.\n\n\
         1. Call get_pane_info(pane_id={pane}); keep pane_current_command. If that is a shell, nothing runs: \
         stop here.\n\
         2. Call send_keys(pane_id={pane}, keys=\"C-c\", enter=false).\n\
         3. Call wait_for_text(pane_id={pane}, timeout=5) for the shell's prompt or any new output.\n\
         4. Call get_pane_info again. If pane_current_command is the same, tell the user that the program did \
         not end, and ask. Do not send C-\\ (SIGQUIT), do not kill the pane."
    ))
}

/// `prompts/list`
pub(crate) fn list() -> ListPromptsResult {
    let argument = |(name, about, required): &Argument| {
        PromptArgument::new(*name).with_description(*about).with_required(*required)
    };
    let prompt = |template: &PromptTemplate| {
        let arguments = template.arguments.iter().map(argument).collect();
        Prompt::new(template.name, Some(template.about), Some(arguments)).with_title(template.title)
    };
    ListPromptsResult::with_all_items(PROMPTS.iter().map(prompt).collect())
}

/// `prompts/get`: the prompt's one message.
pub(crate) fn get(
    name: &str,
    arguments: Option<&JsonObject>,
) -> Result<GetPromptResult, ErrorData> {
    let template = PROMPTS.iter().find(|template| template.name == name);
    let template = template.ok_or_else(|| {
        let message = format!("Not found: Unknown prompt: '{name}'");
        let next = json!({"suggestion": "Call prompts/list for available prompts."});
        ErrorData::new(ErrorCode(-32001), message, Some(next))
    })?;
    let text = template.text(arguments).map_err(|why| {
        let message = format!("Invalid params: Error rendering prompt '{name}': {why}");
        ErrorData::invalid_params(message, None)
    })?;
    let message = PromptMessage::new_text(Role::User, text);
    Ok(GetPromptResult::new(vec![message]).with_description(template.about))
}

impl PromptTemplate {
    fn text(&self, given: Option<&JsonObject>) -> Result<String, String> {
        let none = JsonObject::new();
        let given = PromptValues(given.unwrap_or(&none));
        let list = |names: Vec<&str>| {
            let names: Vec<String> = names.iter().map(|name| format!("'{name}'")).collect();
            names.join(", ")
        };
        let missing = self.arguments.iter().filter(|(name, _, required)| {
            *required && given.maybe(name).is_none_or(|text| text.is_empty())
        });
        let missing: Vec<&str> = missing.map(|(name, ..)| *name).collect();
        if !missing.is_empty() {
            return Err(format!("Missing required arguments: {{{}}}", list(missing)));
        }
        let known = |name: &str| self.arguments.iter().any(|(known, ..)| *known == name);
        let unknown: Vec<&str> = given.0.keys().map(String::as_str).filter(|n| !known(n)).collect();
        if !unknown.is_empty() {
            return Err(format!("Unexpected arguments: {{{}}}", list(unknown)));
        }
        (self.write)(&given)
    }
}

/// Tools that list and return the prompts, for clients without prompts.
pub(crate) fn tools() -> Vec<Tool> {
    vec![
        Tool::readonly("list_prompts", "List Prompts", list_prompts)
            .about("Use to see the recipes that get_prompt gives, as JSON."),
        Tool::readonly("get_prompt", "Get Prompt", get_prompt)
            .about("Use to get a recipe of list_prompts, as JSON with its messages."),
    ]
}

#[derive(Deserialize, JsonSchema)]
struct ListPrompts {}

async fn list_prompts(_: ToolContext, _: ListPrompts) -> Result<String, Failure> {
    serde_json::to_string(&list().prompts).map_err(|_| Failure::internal("prompts have no JSON"))
}

#[derive(Deserialize, JsonSchema)]
struct GetPrompt {
    /// The recipe.
    name: String,
    /// The arguments of the command.
    arguments: Option<JsonObject>,
}

async fn get_prompt(_: ToolContext, args: GetPrompt) -> Result<String, Failure> {
    let prompt = get(&args.name, args.arguments.as_ref()).map_err(|error| {
        Failure::tool("PromptError", error.message)
            .suggest("Call list_prompts for the prompts and their arguments.")
            .with_executed(Executed::No)
    })?;
    let messages: Vec<Value> = prompt
        .messages
        .iter()
        .filter_map(|message| Some((message.role.clone(), message.content.as_text()?)))
        .map(|(role, content)| json!({"role": role, "content": content.text}))
        .collect();
    Ok(json!({ "description": prompt.description, "messages": messages }).to_string())
}
