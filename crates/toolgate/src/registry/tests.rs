//! The registry: complete rows, honest codes, and a way to reach every one of them.

use std::{collections::HashSet, time::Duration};

use toolgate_wire::Json;

use super::*;
use crate::{
    Call, Chain, Executed, Failure, Outcome, Reply, RpcError, Tier, Tool, ToolId,
    middleware::{
        audit::{AuditConfig, AuditIntent, AuditSink, RedactConfig, Target},
        response_limit::{ResponseLimit, ResponseLimitConfig},
        retry::{Retry as RetryLayer, RetryConfig},
        safety::Safety,
        timeout::Timeout,
    },
    testing::{self, HangingServer, answering, chain, context, failing, json, tool},
};

#[test]
fn names_are_unique_and_rows_complete() {
    let names: HashSet<_> = Code::ALL.iter().map(|code| code.name()).collect();
    assert_eq!(names.len(), Code::ALL.len());
    for code in Code::ALL {
        let row = code.entry();
        assert!(!row.hint.is_empty() && !row.hint.ends_with('.'), "{code:?}");
        assert_eq!(Code::by_name(row.name), Some(*code));
    }
}

#[test]
fn no_code_is_invented_in_the_range_of_the_protocol() {
    for code in Code::ALL {
        let rpc = code.entry().rpc;
        let standard = [-32700, -32600, -32602, -32603, -32021].contains(&rpc);
        assert!(standard || !(-32768..=-32000).contains(&rpc), "{code:?} uses {rpc}");
    }
}

#[test]
fn what_was_denied_is_never_worth_a_retry_unless_time_heals_it() {
    let denied = Code::ALL.iter().filter(|code| code.entry().class == Class::Denied);
    assert!(denied.clone().count() > 0);
    let worth = denied.filter(|code| code.entry().retry != RetrySafety::Useless);
    let passing =
        [&Code::RateLimited, &Code::CircuitOpen, &Code::Deferred, &Code::AuditUnavailable];
    assert_eq!(worth.collect::<Vec<_>>(), passing);
}

/// What clients may rely on: where `ran` is `false`, the call can be made again without harm.
#[test]
fn every_code_states_whether_the_tool_ran_where_that_is_known() {
    for code in Code::ALL {
        let expected = match code {
            Code::ToolFailed | Code::OutputInvalid | Code::ResponseTooLarge => Some(true),
            Code::Cancelled
            | Code::TimedOut
            | Code::ServerRejected
            | Code::ServerCrashed
            | Code::ServerProtocol
            | Code::Internal => None,
            _ => Some(false),
        };
        let failure = Failure::new(*code, "as it is");
        let ran = |json: Json| json.get("ran").and_then(|ran| ran.bool());
        assert_eq!(failure.to_rpc().data.and_then(ran), expected, "{code:?}: error.data");
        let result = crate::middleware::error_results::rendered(&failure);
        assert_eq!(result.json().get("_meta").and_then(ran), expected, "{code:?}: _meta");
        // What is known better than the code knows it is stated as well.
        for (known, stated) in
            [(Executed::Yes, Some(true)), (Executed::No, Some(false)), (Executed::Maybe, None)]
        {
            let data = failure.clone().with_executed(known).to_rpc().data;
            assert_eq!(data.and_then(ran), stated, "{code:?}");
        }
        let row = code.entry();
        assert!(
            row.retry != RetrySafety::Safe || expected == Some(false),
            "{code:?}: safe to repeat"
        );
        assert!(row.class != Class::Denied || expected == Some(false), "{code:?}: denied");
    }
    // Unknown for an error of a server.
    assert_eq!(rejected(-32602).known_executed(), None);
}

/// Who produces a code.
enum Maker {
    /// The library, as here.
    Library(Outcome),
    /// Codes of transports and upstreams only. Their tests are in toolgate-gateway and toolgate-cli.
    Door,
}
use Maker::{Door, Library};

async fn refused(chain: Chain, tool: Tool) -> Outcome {
    let server = answering(json("{}"));
    testing::call(&chain, &tool.into(), "{}", &server).await
}

async fn raised(failure: Failure) -> Outcome {
    let none = Chain::builder().build().unwrap();
    testing::call(&none, &tool("t", None), "{}", &failing(failure)).await
}

fn rejected(code: i64) -> Failure {
    Failure::rejected(RpcError { code, message: "no".to_owned(), data: None })
}

async fn given_up() -> Outcome {
    let mut cx = context();
    cx.cancel().cancel();
    let down = failing(Failure::new(Code::ServerUnavailable, "down"));
    let call = Call::new(tool("t", Tier::Readonly), None);
    let layer = chain(RetryLayer::new(RetryConfig::default()));
    layer.call(&mut cx, call, &down).await
}

async fn too_large() -> Outcome {
    let bytes = ResponseLimitConfig { bytes: 1000, ..ResponseLimitConfig::default() };
    let result = format!("[\"{}\"]", "x".repeat(2000));
    let layer = chain(ResponseLimit::new(bytes));
    testing::call(&layer, &tool("t", None), "{}", &answering(json(result))).await
}

async fn unrecorded() -> Outcome {
    let file = Target::File("/dev/full".into());
    let config = AuditConfig { file, required: true, ..AuditConfig::default() };
    let sink = AuditSink::open(&config, &RedactConfig::default()).unwrap().unwrap();
    refused(chain(AuditIntent::new(sink)), (*tool("t", Tier::Readonly)).clone()).await
}

/// How each code comes about. A new code does not compile until it has its line here.
async fn made(code: Code) -> Maker {
    let readonly = || chain(Safety::new(Tier::Readonly));
    let unlisted = || Tool::unlisted(ToolId::new("main", "t"), &crate::TierRules::default());
    match code {
        Code::Refused => Library(raised(Failure::new(Code::Refused, "no")).await),
        Code::UnknownTool => Library(refused(readonly(), unlisted()).await),
        Code::InvalidArguments => Library(raised(rejected(-32602)).await),
        Code::TierDenied => {
            let above = tool("t", Tier::Mutating);
            Library(refused(readonly(), (*above).clone()).await)
        }
        Code::TierUnknown => {
            let unknown = tool("t", None);
            Library(refused(readonly(), (*unknown).clone()).await)
        }
        Code::ToolFailed => Library(raised(Failure::tool("Odd", "it failed")).await),
        Code::Cancelled => Library(given_up().await),
        Code::TimedOut => {
            let layer = chain(Timeout::new(Duration::from_secs(1)));
            let tool = tool("t", None);
            Library(testing::call(&layer, &tool, "{}", &HangingServer::default()).await)
        }
        Code::ServerRejected => Library(raised(rejected(-32000)).await),
        Code::ResponseTooLarge => Library(too_large().await),
        Code::AuditUnavailable => Library(unrecorded().await),
        Code::Internal => Library(raised(Failure::internal("a bug")).await),
        Code::ParseError
        | Code::InvalidRequest
        | Code::MessageTooLarge
        | Code::ServerCrashed
        | Code::ServerUnavailable
        | Code::ServerStartTimeout
        | Code::ServerProtocol
        | Code::Overloaded
        | Code::ClientIncapable
        // From layers behind features: provoked through the program, and beside those layers.
        | Code::ScopeRejected
        | Code::OutputInvalid
        | Code::PolicyDenied
        | Code::ToolInactive
        | Code::ToolNotAllowed
        | Code::ControlTooLarge
        | Code::ToolQuarantined
        | Code::ToolDisabled
        | Code::RateLimited
        | Code::QuotaExceeded
        // Beside the layer `breaker`.
        | Code::CircuitOpen
        // Beside the layer `preconditions`, each.
        | Code::Deferred
        | Code::DryRunPreview
        | Code::ConfirmRequired
        | Code::ConfirmDeclined
        | Code::ConfirmCancelled
        | Code::ConfirmExpired
        | Code::ConfirmReplayed
        | Code::ConfirmTampered
        | Code::ConfirmMismatch => Door,
    }
}

#[tokio::test(start_paused = true)]
async fn every_code_is_reachable() {
    for code in Code::ALL {
        let Library(outcome) = made(*code).await else {
            continue;
        };
        assert_eq!(outcome.code(), Some(*code));
        assert_eq!(outcome.class(), code.entry().class, "{code:?}");
        let reply = outcome.into_reply();
        let told = match code.entry().delivery {
            // Without errors-to-results a result is told as an error, unless a layer rendered it.
            Delivery::Result | Delivery::Error => {
                matches!(reply, Reply::Error(_) | Reply::Result(_))
            }
            Delivery::Silence => matches!(reply, Reply::Nothing),
        };
        assert!(told, "{code:?}: {reply:?}");
    }
}

#[test]
fn a_code_says_whether_the_tool_ran() {
    for code in Code::ALL {
        let row = code.entry();
        let ran = Failure::new(*code, "").executed();
        match row.class {
            Class::Denied | Class::Preview => assert_eq!(ran, Executed::No, "{code:?}"),
            Class::ToolError => assert_eq!(ran, Executed::Yes, "{code:?}"),
            _ if row.retry == RetrySafety::Safe => assert_eq!(ran, Executed::No, "{code:?}"),
            _ => assert_eq!(ran, Executed::Maybe, "{code:?}"),
        }
    }
}

#[test]
fn as_an_error_a_failure_tells_its_code_its_hint_and_its_rule() {
    let error = Failure::new(Code::TierDenied, "no").by("safety", "a > b").to_rpc();
    assert_eq!(
        error.to_json().to_value().unwrap(),
        serde_json::json!({
            "code": 403,
            "message": "no",
            "data": {
                "code": "TIER_DENIED",
                "error_type": "TierDenied",
                "expected": true,
                "suggestion": "ask the operator to raise the safety tier",
                "ran": false,
                "rule": "a > b",
            },
        })
    );
    // What a server said stays what it said.
    let theirs = Failure::rejected(RpcError {
        code: -32042,
        message: "open this".to_owned(),
        data: Some(json("[1.0]")),
    });
    let json = theirs.to_rpc().to_json();
    assert_eq!(json.as_str(), r#"{"code":-32042,"message":"open this","data":[1.0]}"#);
}

/// The rows of the table in the crate's README that starts with this header.
fn table(header: &str) -> Vec<Vec<&'static str>> {
    let readme = include_str!("../../README.md");
    let (_, rest) = readme.split_once(header).expect("the README has the table");
    let rows = rest.lines().skip(2).take_while(|line| line.starts_with('|'));
    let cells = |line: &'static str| {
        let cells = line.trim_matches('|').split('|');
        cells.map(|cell| cell.trim().trim_matches('`')).collect()
    };
    rows.map(cells).collect()
}

#[test]
fn the_readme_tells_of_every_code() {
    let delivery = |code: &Code| match code.entry().delivery {
        Delivery::Result => "result",
        Delivery::Error => "error",
        Delivery::Silence => "silence",
    };
    let retry = |code: &Code| match code.entry().retry {
        RetrySafety::Safe => "safe",
        RetrySafety::OnlyReadonly => "only readonly",
        RetrySafety::Useless => "useless",
    };
    let rows: Vec<Vec<String>> = Code::ALL
        .iter()
        .map(|code| {
            let row = code.entry();
            let rpc = row.rpc.to_string();
            let cells = [row.name, row.class.name(), retry(code), delivery(code), rpc.as_str()];
            cells.map(str::to_owned).to_vec()
        })
        .collect();
    assert_eq!(table("| code | class | retry | told as | JSON-RPC |"), rows);
}

#[test]
fn the_readme_tells_the_default_order() {
    let rows: Vec<Vec<&str>> =
        crate::layers::default_order().map(|place| vec![place.name, place.why]).collect();
    let told = table("| layer | why it stands there |");
    assert_eq!(told, rows);
}
