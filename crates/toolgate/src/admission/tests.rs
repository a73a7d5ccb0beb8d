//! Admission as transports use it.

use std::sync::Mutex;

use toolgate_wire::Limits;

use super::*;
use crate::{
    layer::Next,
    middleware::{Hooks, Middleware},
    testing::{context, json, tool},
    tier::Tier,
};

fn message(params: &str) -> Message {
    let line = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{params}}}"#);
    Message::parse(line.into(), &Limits::default()).unwrap()
}

/// The params that a server gets of a call of `main/own`, which clients see as `seen`.
fn sent(params: &str) -> (AdmittedCall, String) {
    let message = message(params);
    let request = CallRequest::read(&message).unwrap();
    let meant = |name: &str| (name == "seen").then(|| ToolId::new("main", "own"));
    let meta = message.member("_meta");
    let (cx, edits) = narrow(context(), &Narrowing::default(), meta.as_ref(), meant);
    let admitted = request.admit(cx, edits, Resolution::Tool(tool("own", Tier::Readonly)));
    let mut body = message.body().unwrap();
    admitted.edits.apply(&mut body, admitted.cx.forwarded_input());
    (admitted, body.finish().as_str().to_owned())
}

#[test]
fn what_is_for_toolgate_is_removed_and_the_rest_stays_as_it_came() {
    let (admitted, params) = sent(r#"{"name":"own","arguments":{"a": 1e2}}"#);
    assert!(admitted.edits.is_empty());
    assert_eq!(params, r#"{"name":"own","arguments":{"a": 1e2}}"#);

    let (admitted, params) = sent(
        r#"{"name":"seen","arguments":{"a": 1e2},"_meta":{"allowedTools":["seen"],"progressToken":7}}"#,
    );
    assert_eq!(params, r#"{"name":"own","arguments":{"a": 1e2},"_meta":{"progressToken":7}}"#);
    assert_eq!(admitted.call.wire_name().map(AsRef::as_ref), Some("seen"));
    let covered =
        admitted.cx.control().allowed[0].covers(admitted.call.id(), &mut crate::Steps::default());
    assert_eq!(covered, Some(true), "the name that the client sees means the tool");

    let (_, params) = sent(r#"{"name":"own","_meta":{"policyId":"p"}}"#);
    assert_eq!(params, r#"{"name":"own"}"#);
    // The state of a server's own question is the server's.
    let (admitted, params) = sent(r#"{"name":"own","requestState":"s","inputResponses":{}}"#);
    assert_eq!(params, r#"{"name":"own","requestState":"s","inputResponses":{}}"#);
    assert!(admitted.cx.returned_input().is_some() && admitted.cx.gateway_input().is_none());
}

#[test]
fn a_call_without_a_name_is_refused() {
    for params in [r#"{"name":7}"#, "{}", "[]"] {
        let failure = CallRequest::read(&message(params)).unwrap_err();
        assert_eq!((failure.code(), failure.executed()), (Code::InvalidRequest, Executed::No));
    }
}

/// Records which calls are refused before the chain runs.
#[derive(Clone, Default)]
struct Spy(Arc<Mutex<Vec<(String, bool)>>>);

impl Middleware for Spy {
    fn name(&self) -> &'static str {
        "spy"
    }

    fn hooks(&self) -> Hooks {
        Hooks::CALL
    }

    async fn call(&self, cx: &mut Context, call: Call, next: Next<'_>) -> Outcome {
        let is_refused = cx.extensions().get::<RefusedAtAdmission>().is_some();
        self.0.lock().unwrap().push((call.id().to_string(), is_refused));
        next.call(cx, call).await
    }
}

#[tokio::test]
async fn layers_see_refused_calls_and_none_reaches_its_tool() {
    let spy = Spy::default();
    let chain = Chain::builder().layer(spy.clone()).build().unwrap();
    let request = || CallRequest { name: "gone".to_owned(), ..CallRequest::default() };
    let none = Resolution::NoTool(tool("gone", None));
    let unknown = request().admit(context(), Edits::default(), none.clone());
    assert!(unknown.is_refused());
    let outcome = unknown.run_refused(&chain).await;
    assert_eq!((outcome.code(), outcome.executed()), (Some(Code::UnknownTool), Executed::No));
    let mut full = request().admit(context(), Edits::default(), none);
    full.refuse(too_many_in_flight(3));
    let outcome = full.run_refused(&chain).await;
    assert_eq!((outcome.code(), outcome.executed()), (Some(Code::Overloaded), Executed::No));
    let seen = spy.0.lock().unwrap().clone();
    assert_eq!(seen, [("main/gone".to_owned(), true), ("main/gone".to_owned(), true)]);
}

#[test]
fn a_result_says_its_type_once() {
    assert_eq!(complete(json("{}")).as_str(), r#"{"resultType":"complete"}"#);
    assert_eq!(complete(json(r#"{"resultType":"task"}"#)).as_str(), r#"{"resultType":"task"}"#);
}
