//! Call id: in every result, and nothing else is touched.

use super::*;
use crate::{
    Chain, Code, Failure, Reply,
    middleware::error_results::ErrorResults,
    testing::{answering, context, failing, json, tool},
};

async fn call(chain: &Chain, end: &dyn crate::Endpoint) -> (String, Outcome) {
    let mut cx = context();
    let id = cx.call_id().to_string();
    let outcome = chain.call(&mut cx, Call::new(tool("t", None), None), end).await;
    (id, outcome)
}

fn chain() -> Chain {
    Chain::builder().layer(ReturnCallId).layer(ErrorResults).build().unwrap()
}

#[tokio::test]
async fn a_result_tells_its_id_and_keeps_its_bytes() {
    for (from, to) in [
        (
            r#"{"content": [ ],"x":1.0}"#,
            r#"{"content": [ ],"x":1.0,"_meta":{"toolgate/call_uuid":ID}}"#,
        ),
        (
            r#"{"_meta":{"a" : 1},"content":[]}"#,
            r#"{"_meta":{"a" : 1,"toolgate/call_uuid":ID},"content":[]}"#,
        ),
        (r#"{"_meta":{"toolgate/call_uuid":"forged"}}"#, r#"{"_meta":{"toolgate/call_uuid":ID}}"#),
        (r#"{"_meta":null}"#, r#"{"_meta":{"toolgate/call_uuid":ID}}"#),
        (r#"{"_meta":[1]}"#, r#"{"_meta":[1]}"#),
        ("{}", r#"{"_meta":{"toolgate/call_uuid":ID}}"#),
    ] {
        let (id, outcome) = call(&chain(), &answering(json(from))).await;
        let told = outcome.result().unwrap().json().as_str().to_owned();
        assert_eq!(told, to.replace("ID", &format!("{id:?}")));
    }
}

#[tokio::test]
async fn what_the_result_says_of_itself_stays() {
    let server = answering(json(r#"{"isError":true,"content":[]}"#));
    let (_, outcome) = call(&chain(), &server).await;
    assert!(outcome.result().unwrap().is_error());
    assert_eq!(outcome.class(), crate::Class::ToolError);
}

#[tokio::test]
async fn a_refused_call_has_an_id_and_a_silent_one_says_nothing() {
    let refused = failing(Failure::new(Code::PolicyDenied, "no").by("policy", "r"));
    let (id, outcome) = call(&chain(), &refused).await;
    let told = crate::testing::result_value(&outcome);
    assert_eq!(told["_meta"][KEY], id);
    assert_eq!(told["_meta"]["code"], "POLICY_DENIED");
    assert_eq!(told["isError"], true);
    let gone = failing(Failure::new(Code::Cancelled, "gone"));
    assert!(matches!(call(&chain(), &gone).await.1.into_reply(), Reply::Nothing));
}

#[test]
fn it_stands_outside_what_renders_failures() {
    let wrong = Chain::builder().layer(ErrorResults).layer(ReturnCallId).build();
    assert!(wrong.unwrap_err().to_string().contains("error results have an id too"));
}
