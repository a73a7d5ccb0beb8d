//! Preconditions: two keys, asked for in three ways, bound to one call and used once.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use serde_json::{Value, json};
use toolgate_wire::Json;

use super::*;
use crate::{
    Chain, Class, ClientInput, Elicit, ElicitError, Executed, InputRound, Outcome, Tier,
    middleware::{
        Boxed,
        audit::{RedactConfig, Redactor},
        error_results::ErrorResults,
    },
    testing::{self, answering, context, tool},
};

fn gate(config: &str, own: &[Arc<dyn Precondition>]) -> Result<Gate, BadPreconditions> {
    #[derive(serde::Deserialize)]
    struct File {
        confirm: Option<ConfirmConfig>,
        #[serde(default)]
        preconditions: Vec<PreconditionRule>,
    }
    let file: File = toml::from_str(config).unwrap();
    let redactor = Redactor::new(&RedactConfig::default()).unwrap();
    let seals = Arc::new(Seals::new().unwrap());
    Gate::new(file.confirm.as_ref(), &file.preconditions, own, seals, redactor)
}

fn chain_of(gate: Gate) -> Chain {
    let gate = Arc::new(gate);
    Chain::builder()
        .layer(ErrorResults)
        .layer(ConfirmArgument::new(Arc::clone(&gate)))
        .layer(Preconditions::new(gate))
        .build()
        .unwrap()
}

fn chain(config: &str) -> Chain {
    chain_of(gate(config, &[]).unwrap())
}

const OPEN: &str =
    "[confirm]\nwhen = [{ tier = \"destructive\" }]\nfallback = \"agent-may-confirm-itself\"\n";

/// A client that answers every question in the same way.
#[derive(Debug)]
struct Client(Result<Value, ElicitError>, Mutex<Vec<Value>>);

impl Client {
    fn new(answer: Result<Value, ElicitError>) -> Arc<Self> {
        Arc::new(Self(answer, Mutex::default()))
    }
}

impl Elicit for Client {
    fn elicit(&self, params: Json) -> Boxed<'_, Result<Json, ElicitError>> {
        self.1.lock().unwrap().push(params.to_value().unwrap());
        Box::pin(std::future::ready(self.0.clone().map(|answer| Json::value(&answer))))
    }
}

/// A call of a destructive tool with these arguments.
async fn call_with(chain: &Chain, cx: &mut Context, arguments: &Value) -> (Outcome, Vec<String>) {
    let server = answering(testing::json(r#"{"content":[]}"#));
    let call = Call::new(tool("wipe", Tier::Destructive), Some(Json::value(arguments)));
    let outcome = chain.call(cx, call, &server).await;
    (outcome, server.seen())
}

async fn call(chain: &Chain, arguments: &Value) -> (Outcome, Vec<String>) {
    call_with(chain, &mut context(), arguments).await
}

fn token(outcome: &Outcome) -> String {
    let read = testing::result_value(outcome);
    read["_meta"]["preview"]["confirm_token"].as_str().unwrap().to_owned()
}

#[tokio::test(start_paused = true)]
async fn a_token_runs_its_call_once_and_no_other() {
    let chain = chain(OPEN);
    let (shown, seen) = call(&chain, &json!({"path": "/a"})).await;
    assert_eq!((shown.class(), shown.executed()), (Class::Preview, Executed::No));
    assert_eq!((shown.code(), seen.len()), (Some(Code::ConfirmRequired), 0));
    let token = token(&shown);
    let with = |path: &str| json!({"__confirm": token, "path": path});
    let (other, seen) = call(&chain, &with("/b")).await;
    assert_eq!((other.code(), seen.len()), (Some(Code::ConfirmMismatch), 0));
    let (ran, seen) = call(&chain, &with("/a")).await;
    // The tool never sees the key.
    assert_eq!((ran.class(), seen), (Class::Ok, vec![r#"{"path":"/a"}"#.to_owned()]));
    let (again, seen) = call(&chain, &with("/a")).await;
    assert_eq!((again.code(), seen.len()), (Some(Code::ConfirmReplayed), 0));
    let (forged, _) = call(&chain, &json!({"__confirm": "yes", "path": "/a"})).await;
    assert_eq!(forged.code(), Some(Code::ConfirmTampered));
    // A bare yes is no key.
    let (yes, _) = call(&chain, &json!({"__confirm": true, "path": "/a"})).await;
    assert_eq!(yes.code(), Some(Code::ConfirmRequired));
}

#[tokio::test(start_paused = true)]
async fn a_token_expires() {
    let chain = chain(&format!("{OPEN}ttl = \"10s\""));
    let (shown, _) = call(&chain, &json!({})).await;
    let token = token(&shown);
    tokio::time::advance(Duration::from_secs(12)).await;
    let (late, seen) = call(&chain, &json!({"__confirm": token})).await;
    assert_eq!((late.code(), seen.len()), (Some(Code::ConfirmExpired), 0));
}

#[tokio::test]
async fn a_client_that_can_ask_is_asked_and_only_a_clear_yes_is_one() {
    let yes = json!({"action": "accept", "content": {"confirm": true}});
    for (answer, code) in [
        (Ok(yes), None),
        (Ok(json!({"action": "decline"})), Some(Code::ConfirmDeclined)),
        (Ok(json!({"action": "cancel"})), Some(Code::ConfirmCancelled)),
        (
            Ok(json!({"action": "accept", "content": {"confirm": false}})),
            Some(Code::ConfirmDeclined),
        ),
        (
            Ok(json!({"action": "accept", "content": {"confirm": "true"}})),
            Some(Code::ConfirmDeclined),
        ),
        (Ok(json!({"action": "accept"})), Some(Code::ConfirmDeclined)),
        (Ok(json!(3)), Some(Code::ConfirmDeclined)),
        // One that cannot ask after all gets a token.
        (Err(ElicitError::Unsupported), Some(Code::ConfirmRequired)),
        (Err(ElicitError::Disconnected), Some(Code::Cancelled)),
    ] {
        let client = Client::new(answer.clone());
        let mut cx =
            context().with_client_input(ClientInput::ViaElicitation(Arc::clone(&client) as _));
        let (outcome, seen) = call_with(&chain(OPEN), &mut cx, &json!({"path": "/a"})).await;
        assert_eq!((outcome.code(), seen.len()), (code, usize::from(code.is_none())), "{answer:?}");
        let asked = client.1.lock().unwrap();
        assert_eq!(asked.len(), 1);
        assert!(asked[0]["message"].as_str().unwrap().contains("\"path\": \"/a\""));
    }
}

/// The state that a result asks with.
fn asked(outcome: &Outcome) -> Json {
    assert_eq!((outcome.class(), outcome.executed()), (Class::InputRequired, Executed::No));
    outcome.result().unwrap().json().get("requestState").unwrap()
}

fn answered(state: &Json, answer: &Value) -> Context {
    let responses = Json::value(&json!({"toolgate_confirm": answer}));
    let round = InputRound { state: Some(state.clone()), responses: Some(responses) };
    assert!(round.is_ours());
    context().with_client_input(ClientInput::ViaResult).with_gateway_input(round)
}

#[tokio::test]
async fn from_2026_on_the_result_asks_and_the_state_is_taken_once() {
    let chain = chain(OPEN);
    let arguments = json!({"path": "/a"});
    let first = || async {
        let mut cx = context().with_client_input(ClientInput::ViaResult);
        asked(&call_with(&chain, &mut cx, &arguments).await.0)
    };
    let yes = json!({"action": "accept", "content": {"confirm": true}});
    let state = first().await;
    let (ran, seen) = call_with(&chain, &mut answered(&state, &yes), &arguments).await;
    assert_eq!((ran.class(), seen.len()), (Class::Ok, 1));
    let (again, seen) = call_with(&chain, &mut answered(&state, &yes), &arguments).await;
    assert_eq!((again.code(), seen.len()), (Some(Code::ConfirmReplayed), 0));
    // A no uses it up too.
    let state = first().await;
    let no = json!({"action": "decline"});
    let (declined, _) = call_with(&chain, &mut answered(&state, &no), &arguments).await;
    assert_eq!(declined.code(), Some(Code::ConfirmDeclined));
    let (after, _) = call_with(&chain, &mut answered(&state, &yes), &arguments).await;
    assert_eq!(after.code(), Some(Code::ConfirmReplayed));
    let other = json!({"path": "/b"});
    let (other, _) = call_with(&chain, &mut answered(&first().await, &yes), &other).await;
    assert_eq!(other.code(), Some(Code::ConfirmMismatch));
}

#[tokio::test]
async fn a_server_that_asks_itself_needs_no_second_confirmation() {
    let chain = chain(OPEN);
    let call = || Call::new(tool("wipe", Tier::Destructive), Some(testing::json("{}")));
    let mut cx = context().with_client_input(ClientInput::ViaResult);
    let none = answering(testing::json("{}"));
    let state = asked(&chain.call(&mut cx, call(), &none).await);
    let asks = answering(testing::json(
        r#"{"resultType":"input_required","inputRequests":{"n":{}},"requestState":"srv.1"}"#,
    ));
    let yes = json!({"action": "accept", "content": {"confirm": true}});
    let first = chain.call(&mut answered(&state, &yes), call(), &asks).await;
    assert_eq!((first.class(), asks.calls()), (Class::InputRequired, 1));
    let carried = first.result().unwrap().json().get("requestState").unwrap();
    let responses = testing::json(r#"{"n":{"action":"accept"}}"#);
    let round = InputRound { state: Some(carried), responses: Some(responses.clone()) };
    let mut cx = context().with_client_input(ClientInput::ViaResult).with_gateway_input(round);
    let done = answering(testing::json(r#"{"content":[]}"#));
    assert_eq!(chain.call(&mut cx, call(), &done).await.class(), Class::Ok);
    let resumed = cx.forwarded_input().unwrap();
    assert_eq!(resumed.state.as_ref().unwrap().as_str(), r#""srv.1""#);
    assert_eq!(resumed.responses, Some(responses));
}

#[tokio::test]
async fn without_the_operators_key_nothing_runs_whatever_the_caller_says() {
    let dry = chain("[confirm]\nwhen = [\"main/*\"]\nmode = \"preview\"\nboolean = true");
    let arguments =
        json!({"path": "/a", "api_token": "hunter2", "note": "password=sesame", "__confirm": true});
    let (shown, seen) = call(&dry, &arguments).await;
    assert_eq!((shown.code(), seen.len()), (Some(Code::DryRunPreview), 0));
    let read = testing::result_value(&shown);
    assert_eq!(read["_meta"]["preview"]["missing"], json!(["operator"]));
    let text = read.to_string();
    assert!(text.contains("/a") && text.contains("[REDACTED:7ch]") && !text.contains("hunter2"));
    assert!(!text.contains("sesame"), "{text}");
    let (shown, _) = call(&dry, &json!({})).await;
    assert_eq!(
        testing::result_value(&shown)["_meta"]["preview"]["missing"],
        json!(["operator", "caller"])
    );
    let open = chain(&format!("{OPEN}boolean = true"));
    let (ran, seen) = call(&open, &json!({"__confirm": true})).await;
    assert_eq!((ran.class(), seen.len()), (Class::Ok, 1));
}

#[tokio::test]
async fn a_preview_may_be_no_error_for_the_client() {
    let dry = chain("[confirm]\nwhen = [\"main/*\"]\nmode = \"preview\"\npreview_is_error = false");
    let (shown, _) = call(&dry, &json!({})).await;
    assert_eq!(shown.class(), Class::Preview);
    assert_eq!(testing::result_value(&shown)["isError"], json!(false));
}

#[tokio::test]
async fn what_is_shown_does_not_deceive() {
    let long = "x".repeat(3000);
    let (shown, _) =
        call(&chain(OPEN), &json!({"a": "safe\u{202e}evil\u{1b}[2J", "b": long})).await;
    let text = testing::result_value(&shown)["content"][0]["text"].as_str().unwrap().to_owned();
    assert!(text.contains(r"safe\\u{202e}evil\\u{1b}[2J"), "{text}");
    assert!(text.contains("...[1000 more characters]"));
}

/// A precondition that says what it is told to.
#[derive(Debug)]
struct Says(&'static str, fn() -> Verdict);

impl Precondition for Says {
    fn id(&self) -> &str {
        self.0
    }

    fn check<'a>(&'a self, _: &'a Context, _: &'a Call) -> Boxed<'a, Verdict> {
        Box::pin(std::future::ready((self.1)()))
    }
}

#[tokio::test]
async fn of_several_answers_the_one_that_allows_least_counts() {
    let own: [Arc<dyn Precondition>; 4] = [
        Arc::new(Says("fine", || Verdict::Allow)),
        Arc::new(Says("late", || Verdict::Defer(Duration::from_secs(90)))),
        Arc::new(Says("never", || Verdict::Deny(Failure::new(Code::Refused, "no")))),
        Arc::new(Says("sure", || Verdict::ask("It is late."))),
    ];
    for (required, code) in [
        (r#""fine""#, None),
        (r#""fine", "sure""#, Some(Code::ConfirmRequired)),
        (r#""sure", "dry_run""#, Some(Code::DryRunPreview)),
        (r#""late", "dry_run""#, Some(Code::Deferred)),
        (r#""late", "never", "sure""#, Some(Code::Refused)),
    ] {
        let config = format!("[[preconditions]]\nwhen = [\"main/*\"]\nrequire = [{required}]");
        let chain = chain_of(gate(&config, &own).unwrap());
        let (outcome, _) = call(&chain, &json!({})).await;
        assert_eq!(outcome.code(), code, "{required}");
        if code == Some(Code::Deferred) {
            assert_eq!(testing::result_value(&outcome)["_meta"]["retry_after"], json!(90));
            assert_eq!(testing::result_value(&outcome)["_meta"]["rule"], json!("late of main/*"));
        }
    }
}

#[test]
fn what_would_never_hold_is_refused_at_start() {
    let refused = |config: &str| gate(config, &[]).unwrap_err().to_string();
    let rule =
        |require: &str| format!("[[preconditions]]\nwhen = [\"main/*\"]\nrequire = [{require}]");
    assert!(refused(&rule(r#""confrim""#)).contains("unknown id `confrim`: there are `confirm`"));
    assert!(refused(&rule("")).contains("`preconditions.require` is empty"));
    assert!(refused("[confirm]\ndry_run = false").contains("`confirm.when` is empty"));
    assert!(refused(&format!("{OPEN}ttl = \"10ms\"")).contains("`confirm.ttl`"));
    assert!(refused(&format!("{OPEN}max_pending = 0")).contains("`confirm.max_pending`"));
    let both = refused(&format!("{OPEN}mode = \"ask\"\ndry_run = true"));
    assert!(both.contains("keep `mode = \"ask\"`, and remove `dry_run`"), "{both}");
    assert!(gate(&rule(r#""ConfirmRequired""#), &[]).is_ok());
    let twice: Arc<dyn Precondition> = Arc::new(Says("confirm", || Verdict::Allow));
    assert!(gate("", &[twice]).is_err());
    assert!(toml::from_str::<ConfirmConfig>("dry_run = \"false\"").is_err());
}

#[tokio::test]
async fn anybody_may_ask_for_a_dry_run_of_anything() {
    let mut cx = context();
    let meta = testing::json(r#"{"toolgate/dry_run":true}"#);
    let (control, _) = crate::Control::extract(&meta).unwrap();
    cx = cx.with_control(control);
    let server = answering(testing::json("{}"));
    let readonly = Call::new(tool("look", Tier::Readonly), None);
    let outcome = chain("").call(&mut cx, readonly, &server).await;
    assert_eq!((outcome.code(), server.calls()), (Some(Code::DryRunPreview), 0));
    assert_eq!(testing::result_value(&outcome)["_meta"]["preview"]["missing"], json!(["caller"]));
}
