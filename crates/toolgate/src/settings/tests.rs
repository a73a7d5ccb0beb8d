//! Settings: tests of valid config text, and of the error messages for invalid text.

use serde::de::DeserializeOwned;

use super::*;
use crate::middleware::{
    audit::{AuditKind, DigestAlgorithm, OnFull, Target},
    retry::RetryConfig,
};

fn read<T: DeserializeOwned>(text: &str) -> T {
    toml::from_str(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

#[track_caller]
fn refused<T: DeserializeOwned + std::fmt::Debug>(text: &str, sentence: &str) {
    let error = toml::from_str::<T>(text).expect_err(text);
    assert_eq!(error.message(), sentence, "{text}");
}

/// A table with what stands by itself in a namespace.
#[derive(Debug, Deserialize)]
struct Namespace {
    chain: Option<ChainOrder>,
    safety: Option<Tier>,
    annotations: Option<Annotations>,
}

#[test]
fn a_chain_is_default_or_a_list() {
    let chain = |text: &str| read::<Namespace>(text).chain.unwrap();
    assert_eq!(chain("chain = \"default\""), ChainOrder::Default);
    assert_eq!(
        chain("chain = [\"safety\", \"timeout\"]"),
        ChainOrder::Listed(vec!["safety".to_owned(), "timeout".to_owned()])
    );
    assert_eq!(chain("chain = \"libtmux\""), ChainOrder::Preset(Preset::Libtmux));
    refused::<Namespace>(
        "chain = \"tmux\"",
        "unknown chain `tmux`: write `default`, `libtmux`, `metamcp`, `mcp-core` or a list of layers",
    );
    refused::<Namespace>("chain = 1", "expected `default` or a list of layers");
    refused::<Namespace>("chain = [1]", "expected `default` or a list of layers");
}

#[test]
fn a_tier_is_one_of_three() {
    assert_eq!(read::<Namespace>("safety = \"readonly\"").safety, Some(Tier::Readonly));
    for wrong in ["all", "Readonly", ""] {
        refused::<Namespace>(
            &format!("safety = {wrong:?}"),
            &format!(
                "unknown variant `{wrong}`, expected one of `readonly`, `mutating`, `destructive`"
            ),
        );
    }
    let annotations = read::<Namespace>("annotations = \"ignore\"").annotations;
    assert_eq!(annotations, Some(Annotations::Ignore));
    refused::<Namespace>(
        "annotations = \"distrust\"",
        "unknown variant `distrust`, expected `trust` or `ignore`",
    );
}

#[test]
fn limits_have_defaults_and_can_be_off() {
    let limits: LimitsConfig = read("");
    assert_eq!(limits, LimitsConfig::default());
    assert_eq!(limits.response_bytes.get(), Some(1_000_000));
    assert_eq!(limits.timeout.get(), Some(Duration::from_mins(5)));
    let limits: LimitsConfig = read(
        "response_bytes = 2_000\nkeep = \"head\"\ntimeout = \"90s\"\nmessage_bytes = 5\nin_flight = 1",
    );
    assert_eq!(limits.response_bytes, Switch::On(2000));
    assert_eq!(limits.keep, Keep::Head);
    assert_eq!(limits.timeout, Switch::On(Duration::from_secs(90)));
    let off: LimitsConfig = read("response_bytes = \"off\"\ntimeout = \"off\"");
    assert_eq!((off.response_bytes.get(), off.timeout.get()), (None, None));
    let text: LimitsConfig = read("response_bytes = \"1_000_000\"");
    assert_eq!(text.response_bytes, Switch::On(1_000_000));
    let units: LimitsConfig = read("response_bytes = \"1MB\"\nmessage_bytes = \"64MiB\"");
    assert_eq!((units.response_bytes, units.message_bytes), (text.response_bytes, 64 << 20));
}

const UNKNOWN_LIMIT: &str = "unknown field `respones_bytes`, expected one of `response_bytes`, `keep`, \
    `timeout`, `message_bytes`, `in_flight`, `rate`, `quota`";

#[test]
fn wrong_limits_are_refused() {
    for (text, sentence) in [
        ("response_bytes = 999", "`999` is too small: at least 1000 bytes"),
        ("response_bytes = -1", "expected a number of bytes, as 1_000_000 or \"1MB\", or \"off\""),
        (
            "response_bytes = true",
            "expected a number of bytes, as 1_000_000 or \"1MB\", or \"off\"",
        ),
        (
            "response_bytes = \"1 million\"",
            "`1 million` is not a number of bytes: write digits, as `1_000_000`, or a unit behind them, as `500kB`, \
             `1MB` or `64MiB`, or `off`",
        ),
        (
            "message_bytes = \"1M\"",
            "`1M` is not a number of bytes: write digits, as `1_000_000`, or a unit behind them, as `500kB`, `1MB` or \
             `64MiB`",
        ),
        (
            "timeout = \"60\"",
            "`60` is not a duration: write a number and a unit, as `250ms`, `60s`, `5m` or `1h`, or \
             `off`",
        ),
        (
            "timeout = \"0s\"",
            "`0s` is not a duration: write a number and a unit, as `250ms`, `60s`, `5m` or `1h`, or \
             `off`",
        ),
        ("timeout = 60", "invalid type: integer `60`, expected a string"),
        ("keep = \"middle\"", "unknown variant `middle`, expected `tail` or `head`"),
        ("in_flight = 0", "`0` would let nothing pass: write at least 1"),
        ("message_bytes = 0", "`0` would let nothing pass: write at least 1"),
        ("respones_bytes = 1000", UNKNOWN_LIMIT),
    ] {
        refused::<LimitsConfig>(text, sentence);
    }
}

#[test]
fn audit_and_redact_say_where_and_what() {
    let audit: AuditConfig = read(
        "file = \"a.jsonl\"\nrotate_bytes = 10\nkeep_files = 0\nqueue = 1\non_full = \"drop\"",
    );
    assert_eq!(audit.file, Target::File("a.jsonl".into()));
    assert_eq!(audit.on_full, OnFull::Drop);
    assert_eq!(read::<AuditConfig>("file = \"stderr\"").file, Target::Stderr);
    assert_eq!(read::<AuditConfig>("file = \"off\"").file, Target::Off);
    refused::<AuditConfig>("file = \"\"", "an empty audit file: write a path, `stderr` or `off`");
    refused::<AuditConfig>(
        "on_full = \"block\"",
        "unknown variant `block`, expected `wait` or `drop`",
    );
    refused::<AuditConfig>(
        "path = \"a\"",
        "unknown field `path`, expected one of `file`, `rotate_bytes`, `keep_files`, `keep_days`, `keep_bytes`, `sync`, \
         `queue`, `on_full`, `record`, `readonly`, `intents`, `required`, `key_file`, `store`, `otlp`",
    );
    assert_eq!(read::<AuditConfig>("record = [\"decisions\"]").record, [AuditKind::Decisions]);
    refused::<AuditConfig>(
        "record = []",
        "nothing would be recorded: write `executions`, `decisions` or both, or `audit.file = \"off\"`",
    );
    refused::<AuditConfig>(
        "record = [\"denials\"]",
        "unknown variant `denials`, expected `executions` or `decisions`",
    );
    refused::<AuditConfig>(
        "intents = \"some\"",
        "unknown variant `some`, expected one of `mutating`, `all`, `off`",
    );
    let redact: RedactConfig = read("keys = [\"q\"]\ndefaults = false\ndigest = \"hmac\"");
    assert_eq!((redact.digest, redact.defaults), (DigestAlgorithm::Hmac, false));
    refused::<RedactConfig>(
        "digest = \"md5\"",
        "unknown variant `md5`, expected `sha256` or `hmac`",
    );
    refused::<RedactConfig>(
        "key = \"a\"",
        "unknown field `key`, expected one of `keys`, `defaults`, `digest`, `key_file`",
    );
}

#[test]
fn retry_and_tools_refuse_what_they_do_not_know() {
    let retry: RetryConfig = read("times = 3\nbase_delay = \"1s\"\nmax_delay = \"5m\"");
    assert_eq!(retry.max_delay, Duration::from_mins(5));
    assert_eq!(read::<RetryConfig>(""), RetryConfig::default());
    refused::<RetryConfig>(
        "base_delay = \"soon\"",
        "`soon` is not a duration: write a number and a unit, as `250ms`, `60s`, `5m` or `1h`",
    );
    refused::<RetryConfig>(
        "attempts = 3",
        "unknown field `attempts`, expected one of `times`, `base_delay`, `max_delay`, `codes`, `messages`",
    );
    let tool: ToolSettings = read("tier = \"mutating\"\nresponse_bytes = 1000\nkeep = \"head\"");
    assert_eq!((tool.tier, tool.response_bytes), (Some(Tier::Mutating), Some(1000)));
    assert_eq!(read::<ToolSettings>(""), ToolSettings::default());
    refused::<ToolSettings>("response_bytes = 10", "`10` is too small: at least 1000 bytes");
    refused::<ToolSettings>(
        "level = 1",
        "unknown field `level`, expected one of `status`, `tier`, `category`, `scopes`, `response_bytes`, `keep`, `name`, `title`, `description`, `annotations`, `defaults`, `hidden`, `original`",
    );
}

#[test]
fn selectors_are_refused_by_what_they_lack() {
    #[derive(Debug, Deserialize)]
    struct Table {
        #[expect(dead_code, reason = "only whether it can be read is asked")]
        of: Selector,
    }
    read::<Table>("of = \"main/*\"");
    refused::<Table>(
        "of = \"echo\"",
        "`echo` does not select tools: write `server/tool`, for example `main/*` or `*/delete_*`",
    );
}
