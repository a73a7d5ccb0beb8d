//! Arguments: filled in where they are left out, fixed where they are hidden, refused where they are sent.

use std::sync::Mutex;

use super::*;
use crate::{Answer, Boxed, Code, Endpoint, Executed, Request, ToolResult};

/// Keeps the arguments that reach the tool.
#[derive(Default)]
struct Keeps(Mutex<Vec<Option<String>>>);

impl Endpoint for Keeps {
    fn call<'a>(&'a self, _: &'a mut Context, call: Call) -> Boxed<'a, Outcome> {
        let got = call.arguments().map(|json| json.as_str().to_owned());
        assert_eq!(call.id(), &id("main/t"));
        self.0.lock().unwrap().push(got);
        Box::pin(async { ToolResult::text("done").into() })
    }

    fn list<'a>(&'a self, _: &'a mut Context, _: Listing) -> Boxed<'a, Result<ToolList, Failure>> {
        Box::pin(async { Ok(ToolList::new(Vec::new())) })
    }

    fn request<'a>(&'a self, _: &'a mut Context, _: Request) -> Boxed<'a, Answer> {
        Box::pin(std::future::pending())
    }
}

const OWN: &str = r#"{"name":"t","inputSchema":{"type":"object","properties":{"-a":{},"-A":{},"path":{}},"additionalProperties":false}}"#;

/// What the tool gets for these arguments, or the refusal.
async fn reaches(config: serde_json::Value, sent: Option<&str>) -> Result<Option<String>, Failure> {
    let (layer, tool) = (layer(&[("main/t", config)]), defined_tool("t", None, OWN));
    let (end, call) = (Keeps::default(), Call::new(tool, sent.map(json)));
    let explained = layer.explain(&context(), &call)[0].1.clone();
    let outcome = layer.call(&mut context(), call, &end).await;
    let mut got = end.0.into_inner().unwrap();
    let Some(failure) = outcome.failure() else {
        assert!(explained.is_none_or(|explained| explained.allowed));
        return Ok(got.pop().unwrap());
    };
    assert!(got.is_empty(), "a refused call never runs");
    assert_eq!((failure.code(), failure.executed()), (Code::InvalidArguments, Executed::No));
    assert_eq!(failure.decided_by(), Some(NAME));
    assert!(explained.is_none_or(|explained| !explained.allowed));
    Err(failure.clone())
}

async fn gets(config: serde_json::Value, sent: Option<&str>) -> Option<String> {
    reaches(config, sent).await.unwrap()
}

#[tokio::test]
async fn defaults_are_filled_in_where_the_caller_is_silent() {
    let config = value!({"defaults": {"n": 5, "s": "x"}});
    let some = |text: &str| Some(text.to_owned());
    assert_eq!(gets(config.clone(), None).await, some(r#"{"n":5,"s":"x"}"#));
    assert_eq!(
        gets(config.clone(), Some(r#"{ "n" : 1.0, "z":[ ] }"#)).await,
        some(r#"{"n" : 1.0,"z":[ ],"s":"x"}"#)
    );
    // `null` is a value, and an escaped name is the same name.
    assert_eq!(
        gets(config.clone(), Some(r#"{"n":null,"\u0073":1}"#)).await,
        some(r#"{"n":null,"\u0073":1}"#)
    );
    let full = r#"{ "s":"y",  "n": 1 }"#;
    assert_eq!(gets(config, Some(full)).await, some(full), "nothing to fill in: the same bytes");
}

#[tokio::test]
async fn hidden_arguments_always_have_their_value() {
    let config = value!({"hidden": {"dry_run": true, "conf": {"a": [1]}}});
    assert_eq!(
        gets(config.clone(), Some(r#"{"path":"p"}"#)).await.unwrap(),
        r#"{"path":"p","conf":{"a":[1]},"dry_run":true}"#
    );
    assert_eq!(gets(config, None).await.unwrap(), r#"{"conf":{"a":[1]},"dry_run":true}"#);
}

#[tokio::test]
async fn a_caller_that_sends_a_hidden_argument_is_refused_and_its_value_is_not_repeated() {
    let config = value!({"hidden": {"dry_run": true}});
    for sent in [
        r#"{"dry_run":"s3cret"}"#,
        r#"{"path":1,"\u0064ry_run":"s3cret"}"#,
        r#"{"dry_run":true}"#,
        r#"{"dry_run":null,"dry_run":"s3cret"}"#,
    ] {
        let failure = reaches(config.clone(), Some(sent)).await.unwrap_err();
        assert_eq!(failure.message(), "Unexpected argument: 'dry_run'");
        assert_eq!(
            failure.suggestion(),
            Some("Remove or correct the unrecognized argument(s): dry_run.")
        );
        assert_eq!(failure.rule(), Some("unexpected argument"));
        assert!(!format!("{failure:?}").contains("s3cret"));
    }
}

#[tokio::test]
async fn a_name_that_differs_in_case_only_is_taken_for_the_hidden_one() {
    let config = value!({"hidden": {"dry_risk": true, "-a": 1}});
    // The last has a long s and a Kelvin sign, which some readers fold into ASCII.
    for sent in ["Dry_Risk", "DRY_RISK", "dry_ri\u{17f}\u{212a}"] {
        let failure =
            reaches(config.clone(), Some(&format!("{{\"{sent}\":1}}"))).await.unwrap_err();
        assert_eq!(failure.message(), format!("Unexpected argument: '{sent}'"));
    }
    // The tool says itself that it has both, as a grep does.
    let both = gets(config, Some(r#"{"-A":3}"#)).await.unwrap();
    assert_eq!(both, r#"{"-A":3,"-a":1,"dry_risk":true}"#);
}

#[tokio::test]
async fn arguments_that_are_no_object_are_refused_where_some_are_filled_in() {
    for config in [value!({"hidden": {"a": 1}}), value!({"defaults": {"a": 1}})] {
        for sent in ["[]", "null", "7", "\"{}\""] {
            let failure = reaches(config.clone(), Some(sent)).await.unwrap_err();
            assert_eq!(failure.message(), "The arguments are not an object");
            assert_eq!(failure.rule(), Some("no object"));
        }
    }
    // Nothing to fill in: not ours to judge.
    assert_eq!(gets(value!({"name": "n"}), Some("[]")).await.as_deref(), Some("[]"));
    assert_eq!(gets(value!({"title": "n"}), None).await, None);
}

#[tokio::test]
async fn only_tools_with_hidden_arguments_are_explained() {
    let explain = |config, sent: &str| {
        let call = Call::new(defined_tool("t", None, OWN), Some(json(sent)));
        layer(&[("main/t", config)]).explain(&context(), &call)[0].1.clone()
    };
    assert_eq!(explain(value!({"defaults": {"a": 1}}), "{}"), None);
    let hidden = value!({"hidden": {"a": 1}});
    assert!(explain(hidden.clone(), "{}").unwrap().allowed);
    let refused = explain(hidden, r#"{"a":"s3cret"}"#).unwrap();
    assert_eq!((refused.allowed, &*refused.rule), (false, "unexpected argument"));
    assert_eq!(refused.why, "Unexpected argument: 'a'");
}
