//! The detector set: what well-known secrets look like, by the formats that their makers publish.
//!
//! A detector is only run on texts that contain one of its literals, so each names literals that every
//! match must have. Their classes are ASCII, and none needs to look past the end of a match: linear time on any text.

/// One kind of secret.
pub(super) struct Detector {
    /// What stands in `[redacted: KIND]`.
    pub kind: &'static str,
    /// Every match contains at least one of them, spelt exactly so.
    pub literals: &'static [&'static str],
    /// A group called `keep` stays in front of what replaces the match, `after` behind it.
    pub pattern: &'static str,
    /// What else must hold of the match, where the pattern alone would hit prose.
    pub check: Check,
}

/// A check beyond the pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Check {
    /// None.
    Pattern,
    /// The match, less what it keeps, has letters and digits both: words have no digits.
    Mixed,
}

macro_rules! detectors {
    ($($kind:literal $check:ident [$($literal:literal),+] $pattern:literal;)+) => {
        &[$(Detector {
            kind: $kind,
            literals: &[$($literal),+],
            pattern: $pattern,
            check: Check::$check,
        }),+]
    };
}

/// All of them. Where two overlap the one that stands first wins.
pub(super) const DETECTORS: &[Detector] = detectors! {
    // A key without its end is one that was cut: it goes up to the end of the text.
    "private-key" Pattern ["PRIVATE KEY"]
        r"(?s)-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----.*?(?:-----END (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----|\z)";
    "age-key" Pattern ["AGE-SECRET-KEY-1"]
        r"(?-u)\bAGE-SECRET-KEY-1[A-Z0-9]{50,}";
    "github-token" Pattern ["ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_"]
        r"(?-u)\b(?:gh[pousr]_[A-Za-z0-9][A-Za-z0-9_\-]{35,}(?:\.[A-Za-z0-9_\-]+)*|github_pat_[A-Za-z0-9_]{22,})";
    "gitlab-token" Pattern ["glpat-", "gldt-", "glptt-", "glft-", "glimt-", "glagent-", "glrt-", "glsoat-", "glcbt-", "gloas-"]
        r"(?-u)\bgl(?:pat|dt|ptt|ft|imt|agent|rt|soat|cbt|oas)-[A-Za-z0-9_\-]{20,}(?:\.[A-Za-z0-9_\-]+)*";
    "aws-access-key" Pattern ["AKIA", "ASIA"]
        r"(?-u)\b(?:AKIA|ASIA)[A-Z2-7]{16}\b";
    "aws-secret-key" Pattern ["ecret_access_key", "SECRET_ACCESS_KEY", "ecretAccessKey", "ession_token", "SESSION_TOKEN", "essionToken"]
        r#"(?-u)(?<keep>(?i:aws_?)?(?i:secret_?access_?key|session_?token)[\\"']*[\x20\t]*[:=][\x20\t]*[\\"']*)[A-Za-z0-9/+]{40,}={0,2}"#;
    "slack-token" Pattern ["xox", "xapp-"]
        r"(?-u)\b(?:xoxe\.)?(?:xox[abceoprs]-[A-Za-z0-9\-]{10,}|xapp-[0-9]+-[A-Za-z0-9\-]{10,})";
    "slack-webhook" Pattern ["hooks.slack.com/"]
        r"(?-u)(?<keep>hooks\.slack\.com/(?:services|workflows|triggers)/)[A-Za-z0-9/_+\-]{20,}";
    "discord-webhook" Pattern ["/api/webhooks/"]
        r"(?-u)(?<keep>discord(?:app)?\.com/api/webhooks/)[0-9]+/[A-Za-z0-9_\-]{20,}";
    "google-api-key" Pattern ["AIza"]
        r"(?-u)\bAIza[A-Za-z0-9_\-]{35}";
    "google-oauth" Pattern ["ya29.", "GOCSPX-"]
        r"(?-u)\b(?:ya29\.[A-Za-z0-9_\-.]{20,}|GOCSPX-[A-Za-z0-9_\-]{20,})";
    "azure-key" Pattern ["AccountKey=", "SharedAccessKey="]
        r"(?-u)(?<keep>(?:AccountKey|SharedAccessKey)=)[A-Za-z0-9+/]{40,}={0,2}";
    "stripe-key" Pattern ["k_live_", "k_test_", "whsec_"]
        r"(?-u)\b(?:[rs]k_(?:live|test)_[A-Za-z0-9]{16,}|whsec_[A-Za-z0-9+/]{24,}={0,2})";
    "anthropic-key" Pattern ["sk-ant-"]
        r"(?-u)\bsk-ant-[A-Za-z0-9_\-]{20,}";
    "openai-key" Mixed ["sk-"]
        r"(?-u)\bsk-(?:(?:proj|svcacct|admin|or)-[A-Za-z0-9_\-]{40,}|[A-Za-z0-9]{32,})";
    "huggingface-token" Mixed ["hf_"]
        r"(?-u)\bhf_[A-Za-z0-9]{30,}";
    "groq-key" Mixed ["gsk_"]
        r"(?-u)\bgsk_[A-Za-z0-9]{40,}";
    "npm-token" Pattern ["npm_"]
        r"(?-u)\bnpm_[A-Za-z0-9]{36,}";
    "pypi-token" Pattern ["pypi-"]
        r"(?-u)\bpypi-[A-Za-z0-9_\-]{50,}";
    "docker-token" Pattern ["dckr_pat_", "dckr_oat_"]
        r"(?-u)\bdckr_[op]at_[A-Za-z0-9_\-]{20,}";
    "digitalocean-token" Pattern ["_v1_"]
        r"(?-u)\bdo[opr]_v1_[a-f0-9]{64}";
    "databricks-token" Pattern ["dapi"]
        r"(?-u)\bdapi[a-f0-9]{32}(?:-[0-9])?\b";
    "grafana-token" Pattern ["glsa_", "glc_eyJ"]
        r"(?-u)\b(?:glsa_[A-Za-z0-9]{32}_[a-f0-9]{8}|glc_eyJ[A-Za-z0-9+/]{20,}={0,2})";
    "vault-token" Pattern ["hvs.", "hvb.", "hvr."]
        r"(?-u)\bhv[sbr]\.[A-Za-z0-9_\-]{20,}";
    "sendgrid-key" Pattern ["SG."]
        r"(?-u)\bSG\.[A-Za-z0-9_\-]{16,}\.[A-Za-z0-9_\-]{16,}";
    "shopify-token" Pattern ["shpat_", "shpca_", "shppa_", "shpss_"]
        r"(?-u)\bshp(?:at|ca|pa|ss)_[a-fA-F0-9]{32}";
    "telegram-token" Pattern [":AA"]
        r"(?-u)\b[0-9]{8,10}:AA[A-Za-z0-9_\-]{33}";
    "linear-key" Pattern ["lin_api_"]
        r"(?-u)\blin_api_[A-Za-z0-9]{32,}";
    "notion-token" Mixed ["ntn_"]
        r"(?-u)\bntn_[A-Za-z0-9]{40,}";
    // JSON Web Tokens, signed (three parts) or encrypted (five): the header is always an object.
    "jwt" Pattern ["eyJ"]
        r"(?-u)\beyJ[A-Za-z0-9_\-]{10,}\.(?:[A-Za-z0-9_\-]*\.){1,3}[A-Za-z0-9_\-]{8,}";
    "authorization-header" Pattern ["uthorization", "UTHORIZATION"]
        r#"(?-u)(?<keep>(?i:authorization)[\\"']*[\x20\t]*[:=][\x20\t]*[\\"']*(?i:bearer|basic|token|digest|apikey)[\x20\t]+)[A-Za-z0-9._~+/\-]{8,}=*"#;
    "bearer-token" Mixed ["earer ", "EARER "]
        r"(?-u)(?<keep>\b(?i:bearer)[\x20\t]+)[A-Za-z0-9._~+/\-]{20,}=*";
    "url-password" Pattern ["://"]
        r#"(?<keep>://[^\x00-\x20/:@?\#"'<>\\`]*:)[^\x00-\x20/@"'<>\\`]{3,}(?<after>@)"#;
};

/// What `defaults = true` adds, as seed 002 has it: whatever the case, the name is written small.
pub(super) const DEFAULTS: &[(&str, &str)] =
    &[(r"(?i)api_key=\w+", "api_key=***"), (r"(?i)password=\w+", "password=***")];
