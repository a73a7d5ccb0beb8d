//! Driver on the official Rust client: runs steps over one stdio connection and prints one JSON object.
//!
//! Same options and same output as the drivers in `tests/peers`, as far as the tests need them. `--mode` is `legacy`,
//! `auto`, `modern` (which pins 2026-07-28), or a version of before, which is asked for with `initialize`.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    deprecated,
    reason = "a driver that cannot go on should say where, and prints what it saw; old servers are spoken to in the old way"
)]

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use rmcp::{
    ClientHandler, ErrorData, RoleClient, ServiceError,
    model::{
        ArgumentInfo, CallToolRequestParams, ClientCapabilities, ClientConfig,
        CompleteRequestParams, ElicitRequestParams, ElicitResult, ElicitationAction,
        ElicitationCapability, GetPromptRequestParams, Implementation, ProgressNotificationParam,
        ProtocolVersion, ReadResourceRequestParams, Reference, ResourceUpdatedNotificationParam,
        SubscribeRequestParams, SubscriptionFilter, UnsubscribeRequestParams,
    },
    service::{
        ClientLifecycleMode, NotificationContext, RequestContext, RunningService,
        serve_client_with_lifecycle,
    },
    transport::TokioChildProcess,
};
use serde_json::{Value, json};
use tokio::sync::Notify;

/// Longer than any update takes to come.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(20);

/// What is to be done, as the command line says it.
#[derive(Default)]
struct Steps {
    mode: String,
    flags: Vec<String>,
    calls: Vec<(String, Value)>,
    reads: Vec<String>,
    prompts: Vec<(String, Value)>,
    completions: Vec<(Reference, String, String)>,
    follows: Vec<(String, String, Value, String)>,
    command: Vec<String>,
}

impl Steps {
    fn read(mut rest: impl Iterator<Item = String>) -> Self {
        let mut steps = Self { mode: "legacy".to_owned(), ..Self::default() };
        while let Some(option) = rest.next() {
            let mut next = || rest.next().unwrap_or_else(|| panic!("{option} needs more"));
            match &*option {
                "--" => steps.command = rest.by_ref().collect(),
                "--mode" => steps.mode = next(),
                "--call" => steps.calls.push((next(), read_json(&next()))),
                "--read" => steps.reads.push(next()),
                "--prompt" => steps.prompts.push((next(), read_json(&next()))),
                "--complete" => {
                    steps.completions.push((Reference::for_prompt(next()), next(), next()));
                }
                "--complete-uri" => {
                    steps.completions.push((Reference::for_resource(next()), next(), next()));
                }
                "--follow" => steps.follows.push((next(), next(), read_json(&next()), next())),
                "--progress"
                | "--cancel-after-progress"
                | "--decline"
                | "--resources"
                | "--prompts" => steps.flags.push(option),
                _ => panic!("unknown option {option}"),
            }
        }
        steps
    }

    fn has(&self, flag: &str) -> bool {
        self.flags.iter().any(|given| given == flag)
    }

    /// How to begin, and the version that `initialize` asks for.
    fn lifecycle(&self) -> (ClientLifecycleMode, ProtocolVersion) {
        let preferred_versions = vec![ProtocolVersion::V_2026_07_28];
        let latest = ProtocolVersion::V_2025_11_25;
        match &*self.mode {
            "legacy" => (ClientLifecycleMode::Initialize, latest),
            "modern" => (ClientLifecycleMode::Discover { preferred_versions }, latest),
            "auto" => {
                (ClientLifecycleMode::Auto { preferred_versions, legacy_version: None }, latest)
            }
            version => {
                let version = serde_json::from_value(json!(version)).expect("a version");
                (ClientLifecycleMode::Initialize, version)
            }
        }
    }
}

fn read_json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// What the server told and asked, besides its answers.
#[derive(Default)]
struct Heard {
    progress: Mutex<Vec<Value>>,
    on_progress: Notify,
    updates: Mutex<Vec<String>>,
    on_update: Notify,
    requests: Mutex<Vec<Value>>,
    notifications: Mutex<Vec<String>>,
}

/// The client's side.
#[derive(Clone)]
struct Handler {
    heard: Arc<Heard>,
    config: ClientConfig,
}

impl ClientHandler for Handler {
    fn get_info(&self) -> ClientConfig {
        self.config.clone()
    }

    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        let asked = json!({"method": "elicitation/create", "params": request});
        self.heard.requests.lock().unwrap().push(asked);
        Ok(ElicitResult::new(ElicitationAction::Decline))
    }

    async fn on_progress(
        &self,
        step: ProgressNotificationParam,
        _: NotificationContext<RoleClient>,
    ) {
        self.heard.notifications.lock().unwrap().push("notifications/progress".to_owned());
        self.heard.progress.lock().unwrap().push(json!(step));
        self.heard.on_progress.notify_one();
    }

    async fn on_resource_updated(
        &self,
        of: ResourceUpdatedNotificationParam,
        _: NotificationContext<RoleClient>,
    ) {
        self.heard.notifications.lock().unwrap().push("notifications/resources/updated".to_owned());
        self.heard.updates.lock().unwrap().push(of.uri);
        self.heard.on_update.notify_one();
    }
}

/// Either `{result}` or `{error: {code, message, data}}`.
fn outcome(answer: Result<Value, ServiceError>) -> Value {
    match answer {
        Ok(result) => json!({ "result": result }),
        Err(ServiceError::McpError(error)) => json!({ "error": error }),
        Err(error) => json!({"error": {"message": error.to_string()}}),
    }
}

fn call_of(name: &str, arguments: &Value) -> CallToolRequestParams {
    let mut params = CallToolRequestParams::new(name.to_owned());
    params.arguments = arguments.as_object().cloned();
    params
}

struct Driver {
    steps: Steps,
    heard: Arc<Heard>,
    client: RunningService<RoleClient, Handler>,
}

impl Driver {
    async fn start(steps: Steps) -> Self {
        let (lifecycle, version) = steps.lifecycle();
        let mut config = ClientConfig::default();
        config.client_info = Implementation::new("toolgate-peer", "1.0.0");
        config.protocol_version = version;
        if steps.has("--decline") {
            let mut can = ClientCapabilities::default();
            can.elicitation = Some(ElicitationCapability::default());
            config.capabilities = can;
        }
        let heard = Arc::<Heard>::default();
        let handler = Handler { heard: Arc::clone(&heard), config };
        let (program, arguments) = steps.command.split_first().expect("no command after --");
        let mut command = tokio::process::Command::new(program);
        command.args(arguments);
        let transport = TokioChildProcess::new(command).unwrap();
        let client = serve_client_with_lifecycle(handler, transport, lifecycle).await.unwrap();
        Self { steps, heard, client }
    }

    async fn call(&self, name: &str, arguments: &Value) -> Value {
        self.heard.progress.lock().unwrap().clear();
        let call = self.client.call_tool(call_of(name, arguments));
        let mut done = if self.steps.has("--cancel-after-progress") {
            // A call that is dropped is cancelled.
            tokio::select! {
                answer = call => outcome(answer.map(|result| json!(result))),
                () = self.heard.on_progress.notified() => {
                    json!({"error": {"code": "cancelled", "message": "cancelled by the driver"}})
                }
            }
        } else {
            outcome(call.await.map(|result| json!(result)))
        };
        if let Some(done) = done.as_object_mut() {
            let progress = std::mem::take(&mut *self.heard.progress.lock().unwrap());
            done.insert("progress".to_owned(), progress.into());
        }
        done
    }

    async fn read(&self, uri: &str) -> Value {
        let read = self.client.read_resource(ReadResourceRequestParams::new(uri)).await;
        outcome(read.map(|read| json!(read)))
    }

    /// Reads again at each update until the text is a line.
    async fn follow(&self, uri: &str, name: &str, arguments: &Value, text: &str) -> Value {
        let is_modern = self
            .client
            .peer_info()
            .is_some_and(|info| info.protocol_version == ProtocolVersion::V_2026_07_28);
        let mut subscription = None;
        if is_modern {
            let mut filter = SubscriptionFilter::default();
            filter.resource_subscriptions = Some(vec![uri.to_owned()]);
            subscription = Some(self.client.listen(filter).await.unwrap());
        } else {
            self.client.subscribe(SubscribeRequestParams::new(uri)).await.unwrap();
        }
        self.client.call_tool(call_of(name, arguments)).await.unwrap();
        let mut read = loop {
            match &mut subscription {
                Some(news) => {
                    let news = tokio::time::timeout(ANSWER_TIMEOUT, news.next()).await;
                    news.expect("no update").unwrap().expect("the updates ended");
                    self.heard.updates.lock().unwrap().push(uri.to_owned());
                }
                None => tokio::time::timeout(ANSWER_TIMEOUT, self.heard.on_update.notified())
                    .await
                    .expect("no update"),
            }
            let read = self.read(uri).await;
            let shown = read.pointer("/result/contents/0/text").and_then(Value::as_str);
            if shown.unwrap_or_else(|| panic!("{read}")).lines().any(|line| line == text) {
                break read;
            }
        };
        match &mut subscription {
            Some(news) => news.cancel().await.unwrap(),
            None => self.client.unsubscribe(UnsubscribeRequestParams::new(uri)).await.unwrap(),
        }
        if let Some(result) = read.pointer_mut("/result").and_then(Value::as_object_mut) {
            result.insert("updates".to_owned(), json!(*self.heard.updates.lock().unwrap()));
        }
        read
    }

    async fn run(&self) -> Value {
        let (steps, client) = (&self.steps, &self.client);
        let info = client.peer_info();
        let tools = client.list_all_tools().await.unwrap();
        let mut report = json!({
            "protocolVersion": info.as_ref().map(|info| info.protocol_version.clone()),
            "tools": tools.iter().map(|tool| tool.name.clone()).collect::<Vec<_>>(),
            "definitions": tools,
        });
        let mut tell = |name: &str, value: Value| {
            report.as_object_mut().unwrap().insert(name.to_owned(), value);
        };
        let mut calls = Vec::new();
        for (name, arguments) in &steps.calls {
            calls.push(self.call(name, arguments).await);
        }
        tell("calls", calls.into());
        if steps.has("--resources") {
            tell("resources", json!(client.list_all_resources().await.unwrap()));
            tell("templates", json!(client.list_all_resource_templates().await.unwrap()));
        }
        if steps.has("--prompts") {
            tell("prompts", json!(client.list_all_prompts().await.unwrap()));
        }
        let (mut reads, mut got, mut completions, mut followed) = (vec![], vec![], vec![], vec![]);
        for uri in &steps.reads {
            reads.push(self.read(uri).await);
        }
        for (name, arguments) in &steps.prompts {
            let mut params = GetPromptRequestParams::new(name);
            params.arguments = arguments.as_object().cloned();
            got.push(outcome(client.get_prompt(params).await.map(|prompt| json!(prompt))));
        }
        for (of, name, value) in &steps.completions {
            let argument = ArgumentInfo::new(name, value);
            let params = CompleteRequestParams::new(of.clone(), argument);
            completions.push(outcome(client.complete(params).await.map(|found| json!(found))));
        }
        for (uri, name, arguments, text) in &steps.follows {
            followed.push(self.follow(uri, name, arguments, text).await);
        }
        tell("reads", reads.into());
        tell("got", got.into());
        tell("completions", completions.into());
        tell("followed", followed.into());
        tell("requests", json!(*self.heard.requests.lock().unwrap()));
        tell("notifications", json!(*self.heard.notifications.lock().unwrap()));
        report
    }
}

#[tokio::main]
async fn main() {
    let driver = Driver::start(Steps::read(std::env::args().skip(1))).await;
    println!("{}", driver.run().await);
    let _ = driver.client.cancel().await;
}
