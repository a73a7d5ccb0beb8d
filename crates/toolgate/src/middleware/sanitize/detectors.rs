//! Detectors of well-known secrets, by their published formats.
//!
//! A detector runs only on texts that contain one of its literals, of which every match must contain one. Patterns use
//! ASCII classes and no look-ahead, so matching takes linear time.

/// One kind of secret.
pub(super) struct Detector {
    /// The kind in `[redacted: KIND]`.
    pub kind: &'static str,
    /// Every match contains at least one of them, in this exact spelling. No two detectors share a literal. With at
    /// most 64 in all, the search uses vector instructions.
    pub literals: &'static [&'static str],
    /// The position of the literal in a match.
    pub place: MatchPosition,
    /// The groups `keep` and `after` stay before and after the replacement.
    pub pattern: &'static str,
    /// A further check, for patterns that also match prose.
    pub check: Check,
}

/// The position of the literal in a match.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MatchPosition {
    /// At its start and at the start of a word: `task-force` does not contain the literal `sk-`.
    Start,
    /// Anywhere.
    Within,
    /// Anywhere, in a text that contains an `@`.
    BeforeAt,
}

/// A check beyond the pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Check {
    /// No check.
    Pattern,
    /// The match without its kept groups contains letters and digits, unlike a word.
    Mixed,
}

macro_rules! detectors {
    ($($kind:literal $place:ident $check:ident [$($literal:literal),+] $pattern:literal;)+) => {
        &[$(Detector {
            kind: $kind,
            literals: &[$($literal),+],
            place: MatchPosition::$place,
            pattern: $pattern,
            check: Check::$check,
        }),+]
    };
}

/// All detectors. Of overlapping matches the first in this list counts.
pub(super) const DETECTORS: &[Detector] = detectors! {
    // A key without an end marker was cut off: it extends to the end of the text.
    "private-key" Within Pattern ["PRIVATE KEY"]
        r"(?s)-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----.*?(?:-----END (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----|\z)";
    "age-key" Start Pattern ["AGE-SECRET-KEY-1"]
        r"(?-u)\bAGE-SECRET-KEY-1[A-Z0-9]{50,}";
    "github-token" Start Pattern ["ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_"]
        r"(?-u)\b(?:gh[pousr]_[A-Za-z0-9][A-Za-z0-9_\-]{35,}(?:\.[A-Za-z0-9_\-]+)*|github_pat_[A-Za-z0-9_]{22,})";
    "gitlab-token" Start Pattern ["glpat-", "gldt-", "glptt-", "glft-", "glimt-", "glagent-", "glrt-", "glsoat-", "glcbt-", "gloas-"]
        r"(?-u)\bgl(?:pat|dt|ptt|ft|imt|agent|rt|soat|cbt|oas)-[A-Za-z0-9_\-]{20,}(?:\.[A-Za-z0-9_\-]+)*";
    "aws-access-key" Start Pattern ["AKIA", "ASIA"]
        r"(?-u)\b(?:AKIA|ASIA)[A-Z2-7]{16}\b";
    "aws-secret-key" Within Pattern ["ecret_access_key", "SECRET_ACCESS_KEY", "ecretAccessKey", "ession_token", "SESSION_TOKEN", "essionToken"]
        r#"(?-u)(?<keep>(?i:aws_?)?(?i:secret_?access_?key|session_?token)[\\"']*[\x20\t]*[:=][\x20\t]*[\\"']*)[A-Za-z0-9/+]{40,}={0,2}"#;
    "slack-token" Start Pattern ["xox", "xapp-"]
        r"(?-u)\b(?:xoxe\.)?(?:xox[abceoprs]-[A-Za-z0-9\-]{10,}|xapp-[0-9]+-[A-Za-z0-9\-]{10,})";
    "slack-webhook" Within Pattern ["hooks.slack.com/"]
        r"(?-u)(?<keep>hooks\.slack\.com/(?:services|workflows|triggers)/)[A-Za-z0-9/_+\-]{20,}";
    "discord-webhook" Within Pattern ["/api/webhooks/"]
        r"(?-u)(?<keep>discord(?:app)?\.com/api/webhooks/)[0-9]+/[A-Za-z0-9_\-]{20,}";
    "google-api-key" Start Pattern ["AIza"]
        r"(?-u)\bAIza[A-Za-z0-9_\-]{35}";
    "google-oauth" Start Pattern ["ya29.", "GOCSPX-"]
        r"(?-u)\b(?:ya29\.[A-Za-z0-9_\-.]{20,}|GOCSPX-[A-Za-z0-9_\-]{20,})";
    "azure-key" Within Pattern ["Key="]
        r"(?-u)(?<keep>(?:AccountKey|SharedAccessKey)=)[A-Za-z0-9+/]{40,}={0,2}";
    "stripe-key" Within Pattern ["k_live_", "k_test_", "whsec_"]
        r"(?-u)\b(?:[rs]k_(?:live|test)_[A-Za-z0-9]{16,}|whsec_[A-Za-z0-9+/]{24,}={0,2})";
    "anthropic-key" Start Pattern ["sk-ant-"]
        r"(?-u)\bsk-ant-[A-Za-z0-9_\-]{20,}";
    "openai-key" Start Mixed ["sk-"]
        r"(?-u)\bsk-(?:(?:proj|svcacct|admin|or)-[A-Za-z0-9_\-]{40,}|[A-Za-z0-9]{32,})";
    "huggingface-token" Start Mixed ["hf_"]
        r"(?-u)\bhf_[A-Za-z0-9]{30,}";
    "groq-key" Start Mixed ["gsk_"]
        r"(?-u)\bgsk_[A-Za-z0-9]{40,}";
    "npm-token" Start Pattern ["npm_"]
        r"(?-u)\bnpm_[A-Za-z0-9]{36,}";
    "pypi-token" Start Pattern ["pypi-"]
        r"(?-u)\bpypi-[A-Za-z0-9_\-]{50,}";
    "docker-token" Start Pattern ["dckr_"]
        r"(?-u)\bdckr_[op]at_[A-Za-z0-9_\-]{20,}";
    "digitalocean-token" Within Pattern ["_v1_"]
        r"(?-u)\bdo[opr]_v1_[a-f0-9]{64}";
    "databricks-token" Start Pattern ["dapi"]
        r"(?-u)\bdapi[a-f0-9]{32}(?:-[0-9])?\b";
    "grafana-token" Start Pattern ["glsa_"]
        r"(?-u)\bglsa_[A-Za-z0-9]{32}_[a-f0-9]{8}";
    "vault-token" Start Pattern ["hvs.", "hvb.", "hvr."]
        r"(?-u)\bhv[sbr]\.[A-Za-z0-9_\-]{20,}";
    "sendgrid-key" Start Pattern ["SG."]
        r"(?-u)\bSG\.[A-Za-z0-9_\-]{16,}\.[A-Za-z0-9_\-]{16,}";
    "shopify-token" Start Pattern ["shpat_", "shpca_", "shppa_", "shpss_"]
        r"(?-u)\bshp(?:at|ca|pa|ss)_[a-fA-F0-9]{32}";
    "telegram-token" Within Pattern [":AA"]
        r"(?-u)\b[0-9]{8,10}:AA[A-Za-z0-9_\-]{33}";
    "linear-key" Start Pattern ["lin_api_"]
        r"(?-u)\blin_api_[A-Za-z0-9]{32,}";
    "notion-token" Start Mixed ["ntn_"]
        r"(?-u)\bntn_[A-Za-z0-9]{40,}";
    // JSON Web Tokens. The header is a JSON object, so its base64 begins with `eyJ`. Signed tokens have three parts, encrypted
    // ones five.
    "jwt" Start Pattern ["eyJ"]
        r"(?-u)\beyJ[A-Za-z0-9_\-]{10,}\.(?:[A-Za-z0-9_\-]*\.){1,3}[A-Za-z0-9_\-]{8,}";
    "authorization-header" Within Pattern ["uthorization", "UTHORIZATION"]
        r#"(?-u)(?<keep>(?i:authorization)[\\"']*[\x20\t]*[:=][\x20\t]*[\\"']*(?i:bearer|basic|token|digest|apikey)[\x20\t]+)[A-Za-z0-9._~+/\-]{8,}=*"#;
    "bearer-token" Within Mixed ["earer ", "EARER "]
        r"(?-u)(?<keep>\b(?i:bearer)[\x20\t]+)[A-Za-z0-9._~+/\-]{20,}=*";
    "url-password" BeforeAt Pattern ["://"]
        r#"(?<keep>://[^\x00-\x20/:@?\#"'<>\\`]*:)[^\x00-\x20/@"'<>\\`]{3,}(?<after>@)"#;
};

/// The patterns of `defaults = true`, from the documentation of `MetaMCP`. They ignore case and write the name in lower
/// case.
pub(super) const DEFAULTS: &[(&str, &str)] =
    &[(r"(?i)api_key=\w+", "api_key=***"), (r"(?i)password=\w+", "password=***")];
