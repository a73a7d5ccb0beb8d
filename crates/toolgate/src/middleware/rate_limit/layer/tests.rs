//! The rate limit: right units, right callers, all rules at once, bounded memory, and counters that go on.

use std::sync::{
    Arc,
    atomic::{AtomicI64, AtomicU64, Ordering},
};

use super::{
    super::counters::{MAX_CELLS, Time},
    *,
};
use crate::{
    Chain, ClientInfo, Principal, Session, Tier, Tool, ToolResult,
    middleware::{error_results::ErrorResults, retry::Retry, retry::RetryConfig, safety::Safety},
    random::Random,
    testing::{ScriptedServer, failing, json, result_value, tool},
};

/// A clock that stands still until it is told to go on.
struct Stopped {
    nanos: AtomicU64,
    unix: AtomicI64,
}

impl Time for Stopped {
    fn elapsed(&self) -> Duration {
        Duration::from_nanos(self.nanos.load(Ordering::SeqCst))
    }

    fn unix_seconds(&self) -> i64 {
        self.unix.load(Ordering::SeqCst)
    }
}

impl Stopped {
    /// Noon of some day.
    fn new() -> Arc<Self> {
        Arc::new(Self {
            nanos: AtomicU64::new(5_000_000_000),
            unix: AtomicI64::new(20_000 * 86_400 + 43_200),
        })
    }

    fn pass(&self, millis: u64) {
        self.nanos.fetch_add(millis * 1_000_000, Ordering::SeqCst);
    }

    fn pass_wall(&self, seconds: i64) {
        self.unix.fetch_add(seconds, Ordering::SeqCst);
    }
}

fn config(text: &str) -> RateLimitConfig {
    toml::from_str(text).unwrap()
}

fn refused(text: &str) -> String {
    match toml::from_str::<RateLimitConfig>(text) {
        Err(error) => error.to_string(),
        Ok(config) => RateLimit::new(&config, Counters::default()).unwrap_err().to_string(),
    }
}

struct Bench {
    layer: RateLimit,
    time: Arc<Stopped>,
}

impl Bench {
    fn new(text: &str) -> Self {
        let time = Stopped::new();
        let counters = Counters::with_time(Arc::clone(&time) as Arc<dyn Time>);
        Self { layer: RateLimit::new(&config(text), counters).unwrap(), time }
    }

    /// The same counters under other settings.
    fn reloaded(&self, text: &str) -> Self {
        let layer = RateLimit::new(&config(text), self.layer.counters.clone()).unwrap();
        Self { layer, time: Arc::clone(&self.time) }
    }

    fn try_as(&self, cx: &Context, name: &str) -> Result<(), Failure> {
        self.layer.decide(cx, &Call::new(tool(name, Tier::Readonly), None), Counting::On)
    }

    fn call(&self, name: &str) -> Result<(), Failure> {
        self.try_as(&who("me", "s-1", "default"), name)
    }

    /// How many calls pass before one is refused.
    fn passing(&self, name: &str) -> usize {
        (0..10_000).take_while(|_| self.call(name).is_ok()).count()
    }
}

fn who(name: &str, session: &str, namespace: &str) -> Context {
    Context::new(Arc::new(Session {
        id: session.into(),
        namespace: namespace.into(),
        principal: Principal::Key(name.into()),
    }))
}

#[test]
fn a_rate_is_as_many_calls_as_it_says_in_the_time_that_it_says() {
    for (limit, interval) in [("10/s", 100), ("5/m", 12_000), ("6/h", 600_000)] {
        let bench = Bench::new(&format!("rate = [{{ tools = '*/*', limit = '{limit}' }}]"));
        let calls: usize = limit.split('/').next().unwrap().parse().unwrap();
        assert_eq!(bench.passing("t"), calls, "{limit}: as many at once as it says");
        // MetaMCP takes 5 in 60 s for 60 per second.
        bench.time.pass(interval - 1);
        assert_eq!(bench.passing("t"), 0, "{limit}: none before its time");
        bench.time.pass(1);
        assert_eq!(bench.passing("t"), 1, "{limit}: one after its time");
        bench.time.pass(interval * 1_000);
        assert_eq!(bench.passing("t"), calls, "{limit}: and never more than the burst");
    }
}

#[test]
fn a_call_does_not_start_the_time_anew() {
    // The example in MetaMCP's documentation deletes its count a minute after any call, whatever came since.
    let bench = Bench::new("rate = [{ tools = '*/*', limit = '60/m', burst = 2 }]");
    let mut passed = 0;
    for _ in 0..600 {
        bench.time.pass(100);
        passed += usize::from(bench.call("t").is_ok());
    }
    assert!((60..=62).contains(&passed), "{passed} in a minute");
}

#[test]
fn a_burst_is_what_may_come_at_once() {
    let bench = Bench::new("rate = [{ tools = '*/*', limit = '1/s', burst = 20 }]");
    assert_eq!(bench.passing("t"), 20);
    bench.time.pass(3_000);
    assert_eq!(bench.passing("t"), 3);
}

#[test]
fn callers_are_told_apart_by_what_the_rule_says_and_by_nothing_else() {
    let me = || who("me", "s-1", "default");
    for (per, others_that_count_apart) in [
        ("'principal'", [true, false, false, false]),
        ("'namespace'", [false, true, false, false]),
        ("'tool'", [false, false, true, false]),
        ("'session'", [false, false, false, true]),
        ("['tool', 'principal']", [true, false, true, false]),
    ] {
        let rule = format!("rate = [{{ tools = 'main/*', per = {per}, limit = '1/h' }}]");
        let others = [
            (who("you", "s-1", "default"), "t"),
            (who("me", "s-1", "other"), "t"),
            (me(), "u"),
            (who("me", "s-2", "default"), "t"),
        ];
        for ((cx, name), apart) in others.into_iter().zip(others_that_count_apart) {
            let bench = Bench::new(&rule);
            assert!(bench.try_as(&me(), "t").is_ok());
            assert_eq!(bench.try_as(&cx, name).is_ok(), apart, "per {per}");
        }
        // MetaMCP uses a header that the client sets.
        let bench = Bench::new(&rule);
        assert!(bench.try_as(&me(), "t").is_ok());
        let client = ClientInfo { name: "another".to_owned(), version: None };
        let disguised = me().with_client(Some(Arc::new(client)));
        assert!(bench.try_as(&disguised, "t").is_err(), "per {per}");
    }
}

#[test]
fn two_kinds_of_principal_of_the_same_name_are_two() {
    let bench = Bench::new("rate = [{ tools = '*/*', limit = '1/h' }]");
    let as_principal = |principal| {
        let (id, namespace) = ("s".into(), "n".into());
        Context::new(Arc::new(Session { id, namespace, principal }))
    };
    for principal in [
        Principal::Key("x".into()),
        Principal::Subject("x".into()),
        Principal::Local("x".into()),
        Principal::Anonymous,
    ] {
        assert!(bench.try_as(&as_principal(principal.clone()), "t").is_ok());
        assert!(bench.try_as(&as_principal(principal), "t").is_err());
    }
}

#[test]
fn tools_that_no_rule_covers_are_not_counted() {
    let bench = Bench::new("rate = [{ tools = ['other/*', 'main/x'], limit = '1/h' }]");
    assert_eq!(bench.passing("t"), 10_000);
    assert_eq!(bench.passing("x"), 1);
    assert_eq!(bench.layer.counters.lock().rates.len(), 1);
}

#[test]
fn a_call_that_one_rule_refuses_uses_up_nothing_of_the_others() {
    let bench = Bench::new(
        "rate = [
            { tools = 'main/*', limit = '10/h' },
            { tools = 'main/narrow', limit = '2/s' },
        ]
        quota = [{ tools = 'main/*', limit = '20/day' }]",
    );
    assert_eq!(bench.passing("narrow"), 2);
    for _ in 0..100 {
        assert!(bench.call("narrow").is_err());
    }
    assert_eq!(bench.passing("wide"), 8, "only the two that passed were counted");
    bench.time.pass(3_600_000);
    assert_eq!(bench.passing("wide"), 10, "and so it is with the quota: 2 + 8 + 10");
    bench.time.pass(3_600_000);
    assert_eq!(bench.call("wide").unwrap_err().code(), Code::QuotaExceeded);
}

#[test]
fn the_longest_wait_is_told() {
    let bench = Bench::new(
        "rate = [{ tools = '*/*', limit = '1/s' }, { tools = '*/*', limit = '1/h' }, { tools = '*/*', limit = '1/m' }]",
    );
    bench.call("find").unwrap();
    let refusal = bench.call("find").unwrap_err();
    assert_eq!(refusal.message(), "Too many calls to find: 1/h per principal; try again in 3600s");
    assert_eq!(refusal.retry_after_seconds(), Some(3600));
    assert_eq!(refusal.code(), Code::RateLimited);
    assert_eq!(refusal.rule(), Some("*/*: 1/h per principal"));
    bench.time.pass(1_500);
    assert_eq!(bench.call("find").unwrap_err().retry_after_seconds(), Some(3599), "rounded up");
}

#[test]
fn whoever_waits_as_long_as_told_passes() {
    let mut dice = Random::new(3);
    let bench = Bench::new(
        "rate = [{ tools = '*/*', limit = '7/s', burst = 3 }, { tools = '*/*', per = ['tool', 'session'], limit = '100/m' }]",
    );
    for _ in 0..2_000 {
        bench.time.pass(dice.roll(300) as u64);
        if let Err(refusal) = bench.call("t") {
            bench.time.pass(refusal.retry_after_seconds().unwrap() * 1000);
            assert!(bench.call("t").is_ok());
        }
    }
}

#[test]
fn a_quota_is_for_the_day_and_the_day_ends_at_midnight_utc() {
    let bench = Bench::new("quota = [{ tools = '*/*', limit = '3/day' }]");
    assert_eq!(bench.passing("find"), 3);
    let refusal = bench.call("find").unwrap_err();
    assert_eq!(
        refusal.message(),
        "The quota for find is used up: 3/day per principal; the next day begins at midnight UTC, \
         in 43200s"
    );
    assert_eq!(refusal.code(), Code::QuotaExceeded);
    assert_eq!(refusal.retry_after_seconds(), Some(43_200));
    bench.time.pass_wall(43_199);
    assert_eq!(bench.call("find").unwrap_err().retry_after_seconds(), Some(1));
    bench.time.pass_wall(1);
    assert_eq!(bench.passing("find"), 3, "a new day");
    bench.time.pass_wall(-2);
    assert_eq!(bench.passing("find"), 0, "a clock that is set back brings nothing again");
    bench.time.pass_wall(86_402);
    assert_eq!(bench.passing("find"), 3);
}

#[test]
fn a_changed_config_goes_on_counting() {
    // MetaMCP never applies changed limits; resetting the counters would be no better.
    let same = "{ tools = 'main/a', limit = '5/h' }";
    let before = Bench::new(&format!(
        "rate = [{same}, {{ tools = 'main/b', limit = '5/h' }}]
         quota = [{{ tools = 'main/c', limit = '3/day' }}]"
    ));
    assert_eq!((before.passing("a"), before.passing("b"), before.passing("c")), (5, 5, 3));
    before.time.pass(1_000);
    let after = before.reloaded(&format!(
        "rate = [{{ tools = 'main/b', limit = '7/h' }}, {same}]
         quota = [{{ tools = 'main/c', limit = '5/day' }}]"
    ));
    assert_eq!(after.passing("a"), 0, "the same rule goes on");
    assert_eq!(after.passing("b"), 7, "another limit is another rule, and holds at once");
    assert_eq!(after.passing("c"), 2, "the day stays counted");
    after.time.pass(719_000);
    assert_eq!((before.passing("a"), after.passing("a")), (1, 0), "both chains count together");
}

#[test]
fn memory_is_bounded_and_nobody_goes_uncounted() {
    let bench = Bench::new(
        "rate = [{ tools = '*/*', per = 'session', limit = '1/m' }]
         quota = [{ tools = '*/*', per = 'session', limit = '9/day' }]",
    );
    let visit = |session: usize| bench.try_as(&who("me", &session.to_string(), "n"), "t");
    let passed = (0..MAX_CELLS + 500).filter(|session| visit(*session).is_ok()).count();
    assert_eq!(passed, MAX_CELLS + 1, "those for whom there is no room share one cell");
    assert_eq!(bench.layer.counters.lock().rates.len(), MAX_CELLS + 1);
    assert!(visit(7).is_err(), "who has a cell keeps it");
    // Cells that have recovered make room again.
    bench.time.pass(61_000);
    assert!(visit(MAX_CELLS + 1_000).is_ok());
    assert!(bench.layer.counters.lock().rates.len() < 10);
    assert!(bench.layer.counters.lock().quotas.len() <= MAX_CELLS + 1);
}

#[test]
fn old_cells_go_long_before_there_is_no_room() {
    let bench = Bench::new("rate = [{ tools = '*/*', per = 'session', limit = '1/s' }]");
    for session in 0..100_000 {
        bench.time.pass(100);
        bench.try_as(&who("me", &session.to_string(), "n"), "t").unwrap();
    }
    assert!(bench.layer.counters.lock().rates.len() <= 1024);
}

#[test]
fn an_explanation_counts_nothing() {
    let bench = Bench::new("rate = [{ tools = 'main/t', limit = '2/h' }]");
    let cx = who("me", "s-1", "default");
    let ask = |name| bench.layer.explain(&cx, &Call::new(tool(name, None), None));
    for _ in 0..10 {
        let explained = ask("t").unwrap();
        assert!(explained.allowed);
        assert_eq!(explained.rule, "main/t: 2/h per principal");
    }
    assert_eq!(bench.passing("t"), 2);
    let explained = ask("t").unwrap();
    assert!(!explained.allowed && explained.why.starts_with("Too many calls to t: "));
    assert_eq!(ask("u"), None);
}

#[test]
fn what_cannot_work_refuses_to_start() {
    for (wrong, why) in [
        ("rate = [{ tools = '*/*', limit = '0/s' }]", "`0/s` is not a rate"),
        ("rate = [{ tools = '*/*', limit = '10' }]", "`10` is not a rate"),
        ("rate = [{ tools = '*/*', limit = '+5/s' }]", "`+5/s` is not a rate"),
        ("rate = [{ tools = '*/*', limit = '10/min' }]", "`10/min` is not a rate"),
        ("rate = [{ tools = '*/*', limit = '4294967295/s' }]", "at most 1000000"),
        (
            "rate = [{ tools = '*/*', limit = '500/day' }]",
            "`500/day` is a quota: write it in `limits.quota`",
        ),
        ("quota = [{ tools = '*/*', limit = '10/s' }]", "`10/s` is not a quota"),
        ("quota = [{ tools = '*/*', limit = '0/day' }]", "`0/day` is not a quota"),
        ("rate = [{ tools = '*/*', limit = '1/s', burst = 0 }]", "a burst of `0` is refused"),
        ("rate = [{ tools = [], limit = '1/s' }]", "an empty list of tools"),
        ("rate = [{ tools = 'search', limit = '1/s' }]", "`search` does not select tools"),
        ("rate = [{ tools = '*/*', per = [], limit = '1/s' }]", "an empty `per`"),
        (
            "rate = [{ tools = '*/*', per = 'user', limit = '1/s' }]",
            "write `principal`, `namespace`",
        ),
        ("rate = [{ limit = '1/s' }]", "missing field `tools`"),
        ("rate = [{ tools = '*/*', limits = '1/s' }]", "unknown field `limits`"),
        (
            "rate = [{ tools = '*/*', limit = '1/s' }, { tools = '*/*', limit = '1/s' }]",
            "count the same calls",
        ),
        (
            "quota = [{ tools = '*/*', limit = '1/day' }, { tools = '*/*', limit = '2/day' }]",
            "count the same calls",
        ),
        ("", "there is no rule"),
    ] {
        let told = refused(wrong);
        assert!(told.contains(why), "{wrong}: {told}");
    }
    let mut config = config("rate = [{ tools = '*/*', limit = '1/s' }]");
    config.rate[0].burst = Some(0);
    assert!(RateLimit::new(&config, Counters::default()).is_err(), "also from code");
    config.rate[0].burst = None;
    config.rate[0].tools.0.clear();
    assert!(RateLimit::new(&config, Counters::default()).is_err());
}

#[test]
fn the_largest_numbers_do_not_overflow() {
    let bench = Bench::new(
        "rate = [{ tools = '*/*', limit = '1/h', burst = 1000000 }, { tools = '*/*', limit = '1000000/s' }]",
    );
    for _ in 0..10 {
        bench.call("t").unwrap();
    }
}

fn limited(limit: &str) -> RateLimit {
    let rule = format!("rate = [{{ tools = '*/*', limit = '{limit}' }}]");
    RateLimit::new(&config(&rule), Counters::default()).unwrap()
}

fn shown() -> Arc<Tool> {
    tool("show", Tier::Readonly)
}

#[tokio::test(start_paused = true)]
async fn the_caller_reads_how_long_to_wait_and_listings_are_not_limited() {
    let server = ScriptedServer::new(|_| ToolResult::text("here").into());
    let chain = Chain::builder().layer(ErrorResults).layer(limited("1/m")).build().unwrap();
    let cx = &mut who("me", "s-1", "default");
    assert!(chain.call(cx, Call::new(shown(), None), &server).await.failure().is_none());
    let outcome = chain.call(cx, Call::new(shown(), None), &server).await;
    assert_eq!(server.calls(), 1);
    let result = result_value(&outcome);
    assert_eq!(result["isError"], true);
    assert_eq!(result["_meta"]["code"], "RATE_LIMITED");
    assert_eq!(result["_meta"]["retry_after"], 60);
    assert_eq!(
        result["content"][0]["text"],
        "Too many calls to show: 1/m per principal; try again in 60s\nWait 60 seconds, then call again."
    );
    let data = outcome.failure().unwrap().to_rpc().data.unwrap().to_value().unwrap();
    assert_eq!(data["retry_after"], 60);
    assert!(!chain.sees_listings());
    tokio::time::advance(Duration::from_mins(1)).await;
    assert!(chain.call(cx, Call::new(shown(), None), &server).await.failure().is_none());
}

#[tokio::test(start_paused = true)]
async fn a_call_counts_once_however_often_it_is_tried_and_not_if_it_is_denied() {
    let server = failing(Failure::new(Code::ServerUnavailable, "down"));
    let chain = Chain::builder()
        .layer(Safety::new(Tier::Readonly))
        .layer(limited("2/h"))
        .layer(Retry::new(RetryConfig { times: 3, ..RetryConfig::default() }))
        .build()
        .unwrap();
    let cx = &mut who("me", "s-1", "default");
    for _ in 0..5 {
        let denied = Call::new(tool("drop", Tier::Destructive), None);
        assert_eq!(chain.call(cx, denied, &server).await.code(), Some(Code::TierDenied));
    }
    for attempts in [4, 8] {
        let outcome = chain.call(cx, Call::new(shown(), None), &server).await;
        assert_eq!(outcome.code(), Some(Code::ServerUnavailable));
        assert_eq!(server.calls(), attempts);
    }
    let outcome = chain.call(cx, Call::new(shown(), None), &server).await;
    assert_eq!(outcome.code(), Some(Code::RateLimited));
}

#[test]
fn its_place_in_the_chain() {
    let wrong = Chain::builder().layer(limited("1/s")).layer(Safety::new(Tier::Readonly)).build();
    assert!(wrong.unwrap_err().to_string().contains("must not be counted"));
    let retry = Retry::new(RetryConfig::default());
    assert!(Chain::builder().layer(retry).layer(limited("1/s")).build().is_err());
    assert_eq!(limited("1/s").describe(), "*/*: 1/s per principal");
}

/// A call that brings this back, to a server that ends it so.
async fn round(chain: &Chain, arguments: &str, returned: Option<&str>, ends: Outcome) -> Outcome {
    let state = returned.map(toolgate_wire::Json::string);
    let returned = crate::InputRound { state, responses: None };
    let mut cx = who("me", "s-1", "default").with_returned_input(&returned);
    let ends = std::sync::Mutex::new(Some(ends));
    let server = ScriptedServer::new(move |_| ends.lock().unwrap().take().expect("called once"));
    let call = Call::new(tool("t", Tier::Readonly), Some(json(arguments.to_owned())));
    chain.call(&mut cx, call, &server).await
}

fn asks(state: &str) -> Outcome {
    let text = format!(r#"{{"resultType":"input_required","requestState":"{state}"}}"#);
    Outcome::answered(ToolResult::new(json(text)))
}

fn done() -> Outcome {
    Outcome::answered(ToolResult::new(json("{}")))
}

/// [issue 12.5] A call that the user had just answered was refused as rate limited.
#[tokio::test]
async fn rounds_of_one_call_count_once_and_made_up_states_count() {
    let layer = Bench::new(
        "rate = [{ tools = '*/*', limit = '1/h' }]\nquota = [{ tools = '*/*', limit = '1/day' }]",
    );
    let chain = crate::testing::chain(layer.layer);
    let code = |outcome: Outcome| outcome.code();
    assert_eq!(code(round(&chain, "{}", Some("forged"), asks("one")).await), None, "it counts");
    assert_eq!(code(round(&chain, "{}", Some("forged"), done()).await), Some(Code::QuotaExceeded));
    assert_eq!(code(round(&chain, "{}", None, done()).await), Some(Code::QuotaExceeded));
    let other = round(&chain, r#"{"a":1}"#, Some("one"), done()).await;
    assert_eq!(code(other), Some(Code::QuotaExceeded), "the state is for other arguments");
    assert_eq!(code(round(&chain, "{}", Some("one"), asks("two")).await), None);
    assert_eq!(
        code(round(&chain, "{}", Some("one"), done()).await),
        Some(Code::QuotaExceeded),
        "once"
    );
    assert_eq!(code(round(&chain, "{}", Some("two"), done()).await), None);
    assert_eq!(code(round(&chain, "{}", Some("two"), done()).await), Some(Code::QuotaExceeded));
}

#[tokio::test]
async fn confirmations_do_not_count_again() {
    let layer = Bench::new("rate = [{ tools = '*/*', limit = '1/h' }]");
    let chain = crate::testing::chain(layer.layer);
    let tool = tool("t", Tier::Readonly);
    let call = async |principal: &str, meta: Option<&str>, ends: Outcome| {
        let control = meta.map(|meta| crate::Control::extract(&json(meta.to_owned())).unwrap().0);
        let mut cx = who(principal, "s", "default").with_control(control.unwrap_or_default());
        let ends = std::sync::Mutex::new(Some(ends));
        let server =
            ScriptedServer::new(move |_| ends.lock().unwrap().take().expect("called once"));
        chain.call(&mut cx, Call::new(Arc::clone(&tool), None), &server).await.code()
    };
    let required = |name, fact: serde_json::Value| {
        Outcome::failed(Failure::new(Code::ConfirmRequired, "ask").with_fact(name, fact))
    };
    let token = || required("preview", serde_json::json!({"confirm_token": "tgc1t-0a"}));
    assert_eq!(call("token", None, token()).await, Some(Code::ConfirmRequired));
    let forged = Some(r#"{"toolgate/confirm":"tgc1t-0b"}"#);
    assert_eq!(call("token", forged, done()).await, Some(Code::RateLimited));
    assert_eq!(call("token", None, done()).await, Some(Code::RateLimited), "not without the token");
    let given = Some(r#"{"toolgate/confirm":"tgc1t-0a"}"#);
    assert_eq!(call("other", given, done()).await, None, "another principal's own first call");
    assert_eq!(call("token", given, done()).await, None);
    assert_eq!(call("token", given, done()).await, Some(Code::RateLimited));
    // A person decides elsewhere: the caller asks again and again.
    let pending = || required("approval", serde_json::json!({"state": "pending"}));
    for _ in 0..3 {
        assert_eq!(call("person", None, pending()).await, Some(Code::ConfirmRequired));
    }
    assert_eq!(call("person", None, done()).await, None, "approved");
    assert_eq!(call("person", None, done()).await, Some(Code::RateLimited));
}
