//! Variables, options and hooks that decide which programs run later, for every user of a pane. To set them needs the
//! destructive tier: a command that an agent types is visible in its pane and in the audit, but one in `PATH` or in a
//! status line runs unseen, and remains after the agent has ended.

use toolgate::{Code, Failure, Tier};

use crate::{environment::Environment, options::Options};

/// The variables by name, or by prefix (`*`), and the reason.
const VARIABLES: &[(&[&str], &str)] = &[
    (
        &["LD_*", "DYLD_*", "GCONV_PATH", "LOCPATH", "GTK_MODULES", "GTK_PATH", "QT_PLUGIN_PATH"],
        "decides which libraries are loaded into every program",
    ),
    (&["PATH", "HOME", "TMUX*"], "decides which programs and which settings are found"),
    (
        &["ENV", "BASH_ENV", "BASH_FUNC_*", "BASH_LOADABLES_PATH", "SHELLOPTS", "BASHOPTS", "IFS"],
        "changes what every shell runs or how it reads commands",
    ),
    (
        &["ZDOTDIR", "FPATH", "INPUTRC", "XDG_CONFIG_*", "PROMPT*", "PS0", "PS1", "PS2", "PS4"],
        "changes what an interactive shell runs",
    ),
    (
        &["SHELL", "EDITOR", "VISUAL", "FCEDIT", "BROWSER", "PAGER", "*_PAGER", "MANPAGER"],
        "names a program that other programs run",
    ),
    (
        &["LESS*", "MORE", "SUDO_ASKPASS", "SSH_ASKPASS", "RIPGREP_CONFIG_PATH", "FZF_*"],
        "names a program that other programs run",
    ),
    (
        &["GIT_SSH*", "GIT_EXEC_PATH", "GIT_CONFIG*", "GIT_*PAGER", "GIT_*EDITOR", "GIT_ASKPASS"],
        "names a program that git runs",
    ),
    (
        &["GIT_EXTERNAL_DIFF", "GIT_PROXY_COMMAND", "GIT_TEMPLATE_DIR", "GIT_DIR", "GIT_WORK_TREE"],
        "names a program that git runs",
    ),
    (
        &["VIMINIT", "EXINIT", "GVIMINIT", "EMACSLOADPATH", "PSQLRC", "PSQL_EDITOR"],
        "names what an editor or a client runs when it starts",
    ),
    (
        &["KUBECONFIG", "AWS_CONFIG_FILE", "DOCKER_CONFIG", "OPENSSL_CONF", "PYTEST_*", "PIP_*"],
        "names settings that name programs, or where programs come from",
    ),
    (
        &["HGRCPATH", "CVS_RSH", "RSYNC_RSH", "SVN_EDITOR", "SVN_SSH"],
        "names a program that a version control system runs",
    ),
    (
        &["PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP", "PYTHONUSERBASE", "PYTHONEXECUTABLE"],
        "changes what Python loads",
    ),
    (&["PYTHONWARNINGS", "PYTHONBREAKPOINT"], "changes what Python loads"),
    (&["NODE_OPTIONS", "NODE_PATH", "NPM_CONFIG_*", "npm_config_*"], "changes what Node loads"),
    (&["PERL5*", "PERLLIB", "RUBYOPT", "RUBYLIB", "GEM_*", "BUNDLE_*"], "changes what is loaded"),
    (
        &["JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS", "JDK_JAVA_OPTIONS", "CLASSPATH", "LUA_*", "PHPRC"],
        "changes what is loaded",
    ),
    (
        &["CC", "CXX", "LD", "MAKEFLAGS", "MAKEFILES", "RUSTC*", "CARGO_BUILD_*", "CARGO_HOME"],
        "names a program that a build runs",
    ),
    (
        &["CARGO_TARGET_*_RUNNER", "CARGO_TARGET_*_LINKER", "RUSTUP_*", "GOFLAGS", "GOROOT"],
        "names a program that a build runs",
    ),
];

/// The variables that may be set for all sessions, also for panes that a user opens: language, time, colours, log
/// levels. This is a list of allowed names, since a list of forbidden ones would never be complete.
const GLOBAL: &[&str] = &[
    "LANG",
    "LANGUAGE",
    "LC_*",
    "TZ",
    "NO_COLOR",
    "FORCE_COLOR",
    "CLICOLOR",
    "CLICOLOR_FORCE",
    "COLORTERM",
    "COLUMNS",
    "LINES",
    "CI",
    "RUST_BACKTRACE",
    "RUST_LOG",
    "PYTHONUNBUFFERED",
    "PYTHONDONTWRITEBYTECODE",
    "DEBIAN_FRONTEND",
];

/// The options by name, and the reason. For hooks see [`HOOKS`].
const OPTIONS: &[(&[&str], &str)] = &[
    (
        &["default-command", "default-shell", "default-client-command", "lock-command"],
        "names a program that tmux runs",
    ),
    (&["copy-command", "editor"], "names a program that tmux runs"),
    (&["command-alias"], "changes what tmux commands do"),
    (&["update-environment"], "decides which variables reach programs"),
    (&["history-file"], "names a file that tmux writes"),
    (&["synchronize-panes"], "lets what is typed into one pane reach others"),
    (
        &["destroy-unattached", "exit-unattached", "exit-empty"],
        "ends sessions that no client is attached to",
    ),
];

/// The names and prefixes of hooks. `set-option` sets them, too.
const HOOKS: &[&str] = &[
    "after-*",
    "alert-*",
    "client-active",
    "client-attached",
    "client-detached",
    "client-focus-*",
    "client-resized",
    "client-session-changed",
    "client-light-theme",
    "client-dark-theme",
    "command-error",
    "pane-died",
    "pane-exited",
    "pane-focus-*",
    "pane-mode-changed",
    "pane-set-clipboard",
    "pane-title-changed",
    "session-closed",
    "session-created",
    "session-renamed",
    "session-window-changed",
    "window-layout-changed",
    "window-linked",
    "window-pane-changed",
    "window-renamed",
    "window-resized",
    "window-unlinked",
];

/// Refuses a variable that decides which programs run, below the destructive tier.
pub(crate) fn variable(options: &Options, name: &str) -> Result<(), Failure> {
    let why = VARIABLES.iter().find(|(names, _)| names.iter().any(|rule| fits(rule, name)));
    match why {
        Some((_, why)) if options.safety.get() < Tier::Destructive => Err(denied(
            options,
            &format!("environment variable '{name}' {why}"),
            format!("variable {name}"),
            "For one command, type it before the command instead, as `NAME=value command`.",
        )),
        _ => Ok(()),
    }
}

/// Refuses to set a variable for all sessions if it is not known to be harmless, below the destructive tier.
pub(crate) fn global_variable(options: &Options, name: &str) -> Result<(), Failure> {
    variable(options, name)?;
    let own = options.global_environment.iter().map(String::as_str);
    let known = GLOBAL.iter().copied().chain(own).any(|rule| fits(rule, name));
    if known || options.safety.get() >= Tier::Destructive {
        return Ok(());
    }
    Err(denied(
        options,
        &format!(
            "environment variable '{name}' would reach every pane that anybody opens on this tmux server, and is \
             not known to be harmless"
        ),
        format!("global variable {name}"),
        "Name a session of your own, or type it before a command, as `NAME=value command`.",
    ))
}

/// Checks the argument `environment`. The server calls this for every tool, before the tool runs.
pub(crate) fn variables(options: &Options, given: &serde_json::Value) -> Result<(), Failure> {
    let names = match serde_json::from_value(given.clone()) {
        Ok(Environment::Map(map)) => map,
        // The tool itself refuses text that is not a JSON object of strings.
        Ok(Environment::Text(text)) => serde_json::from_str(&text).unwrap_or_default(),
        Err(_) => return Ok(()),
    };
    names.keys().try_for_each(|name| variable(options, name))
}

/// Refuses an option that decides which programs run, or a value that may run one, below the destructive tier.
pub(crate) fn option(options: &Options, name: &str, value: &str) -> Result<(), Failure> {
    if options.safety.get() >= Tier::Destructive {
        return Ok(());
    }
    let advice = "Ask the user to set it.";
    // tmux takes any unique beginning of a name for the name, and `name[1]` for a part of it.
    let name = name.split('[').next().unwrap_or_default();
    let means = |rule: &str| {
        !name.is_empty() && (fits(rule, name) || rule.replace('*', "").starts_with(name))
    };
    let rule = |what: &str| denied(options, what, format!("option {name}"), advice);
    if let Some((_, why)) = OPTIONS.iter().find(|(names, _)| names.iter().any(|rule| means(rule))) {
        return Err(rule(&format!("option '{name}' {why}")));
    }
    if HOOKS.iter().any(|hook| means(hook)) {
        return Err(rule(&format!("'{name}' is a hook, which runs tmux commands")));
    }
    if may_run(value) {
        let what = format!("the value for '{name}' is a format that may run a program");
        return Err(rule(&what));
    }
    Ok(())
}

/// Whether an option may end sessions, ours among them. tmux takes any unique beginning of a name for the name.
pub(crate) fn ends_sessions(name: &str) -> bool {
    !name.is_empty()
        && ["destroy-unattached", "exit-unattached"].iter().any(|one| one.starts_with(name))
}

/// Whether a format may run a program: by `#( )`, or by expanding text that another program or person wrote
/// (`#{E:…}` and everything else that is more than the name of one variable).
fn may_run(value: &str) -> bool {
    let mut rest = value;
    while let Some((_, after)) = rest.split_once('#') {
        let plain = match after.chars().next() {
            // Where tmux puts the time in, `%p` may stand for nothing: `#%p(…)` is `#(…)` then.
            Some('(' | '%') => false,
            Some('{') => after.split_once('}').is_some_and(|(inside, _)| {
                let mut name = inside.chars().skip(1);
                name.all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '@'))
            }),
            _ => true,
        };
        if !plain {
            return true;
        }
        rest = after;
    }
    false
}

fn denied(options: &Options, what: &str, rule: String, advice: &str) -> Failure {
    let allowed = options.safety.get();
    let message = format!(
        "Refusing: {what}. That needs the destructive safety tier, and the level is {allowed}."
    );
    Failure::new(Code::TierDenied, message)
        .suggest(format!("{advice} Only the operator can allow it."))
        .by("tmux", rule)
}

/// Whether a name is what a rule says, with `*` for any text.
fn fits(rule: &str, name: &str) -> bool {
    match rule.split_once('*') {
        None => rule == name,
        Some((before, after)) => {
            name.strip_prefix(before).is_some_and(|rest| rest.ends_with(after))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_that_choose_programs_need_the_destructive_tier() {
        let mutating = Options::default();
        for name in [
            "PATH",
            "LD_PRELOAD",
            "DYLD_X",
            "GIT_SSH_COMMAND",
            "GIT_PAGER",
            "PS1",
            "IFS",
            "LESS",
            "VIMINIT",
        ] {
            assert!(variable(&mutating, name).is_err(), "{name}");
        }
        for name in ["FOO", "MY_PATH", "HISTFILE", "fish_history", "LANG", "PYTHONUNBUFFERED"] {
            assert!(variable(&mutating, name).is_ok(), "{name}");
        }
        let destructive = Options::default();
        destructive.safety.set(Tier::Destructive);
        assert!(variable(&destructive, "PATH").is_ok());
    }

    #[test]
    fn variables_of_all_sessions_are_known_to_be_harmless() {
        let mutating =
            Options { global_environment: vec!["MYAPP_*".to_owned()], ..Options::default() };
        for name in ["LANG", "LC_ALL", "TZ", "MYAPP_LEVEL"] {
            assert!(global_variable(&mutating, name).is_ok(), "{name}");
        }
        for name in [
            "FOO",
            "DOTNET_STARTUP_HOOKS",
            "STARSHIP_CONFIG",
            "XDG_DATA_DIRS",
            "HISTFILE",
            "HTTPS_PROXY",
            "SSL_CERT_FILE",
            "MYAPP",
            "lang",
        ] {
            assert!(global_variable(&mutating, name).is_err(), "{name}");
            assert!(variable(&mutating, name).is_ok(), "{name} of one session");
        }
        // A pattern of the operator does not open what decides which programs run.
        let any = Options { global_environment: vec!["*".to_owned()], ..Options::default() };
        assert!(global_variable(&any, "FOO").is_ok() && global_variable(&any, "PATH").is_err());
    }

    #[test]
    fn options_that_run_programs_are_known_by_any_beginning_and_part_of_their_name() {
        let options = Options::default();
        let refused = |name, value| option(&options, name, value).is_err();
        for name in [
            "default-command",
            "default-comm",
            "command-alias[9]",
            "after-new-window",
            "pane-died[0]",
        ] {
            assert!(refused(name, "x"), "{name}");
        }
        for (name, value) in [
            ("status-left", "#(date)"),
            ("@mine", "a #(b"),
            ("status-left", "###(x)"),
            ("status-left", "#{E:@a}"),
            ("status-left", "#{?x,#{T:y},}"),
            ("status-left", "#{s|X|(|;E:@a}"),
            ("status-left", "#{unended"),
            ("status-left", "#%p(date)"),
        ] {
            assert!(refused(name, value), "{name} {value}");
        }
        for (name, value) in [
            ("mouse", "on"),
            ("history-limit", "5000"),
            ("status-left", "#S #[fg=red]#{session_name} ##"),
            ("@mine", "50% (x)"),
            ("pane-border-style", "fg=red"),
            ("window-style", "default"),
        ] {
            assert!(!refused(name, value), "{name} {value}");
        }
    }
}
