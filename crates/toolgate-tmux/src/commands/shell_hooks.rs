//! Findings for commands that make a shell run something later: prompt variables, traps, start-up files, key bindings,
//! hook functions.

use super::{
    Class,
    arg::{Arg, UNKNOWN, VariableValue},
    argv::{has, operands, value},
    judge::Judge,
};

const WHY: &str = "it makes the shell run something later, unasked";

/// Functions that shells call by themselves.
const FUNCTIONS: &[&str] = &[
    "precmd",
    "preexec",
    "chpwd",
    "periodic",
    "zshaddhistory",
    "zshexit",
    "command_not_found_handle",
    "command_not_found_handler",
    "fish_prompt",
    "fish_right_prompt",
    "fish_mode_prompt",
    "fish_title",
    "fish_greeting",
    "fish_preexec",
    "fish_postexec",
    "fish_command_not_found",
    "fish_user_key_bindings",
];

/// How a variable makes a shell run something.
enum Hook {
    /// The shell runs the value, or the program that it names.
    Any,
    /// The shell runs substitutions in the value.
    Substitutions,
    /// The shell runs the file that the value names.
    File,
    /// The value affects every program that is started later. Setting it for a single command is allowed.
    Exported,
}

fn hook(name: &str) -> Option<Hook> {
    let name = name.split('[').next().unwrap_or_default();
    Some(match name {
        "PROMPT_COMMAND"
        | "BASH_ENV"
        | "ZDOTDIR"
        | "precmd_functions"
        | "preexec_functions"
        | "chpwd_functions"
        | "periodic_functions"
        | "zshaddhistory_functions"
        | "zshexit_functions" => Hook::Any,
        "PS0" | "PS1" | "PS2" | "PS3" | "PS4" | "PROMPT" | "RPROMPT" | "RPS1" | "PROMPT2"
        | "PROMPT3" | "PROMPT4" | "prompt" => Hook::Substitutions,
        "ENV" => Hook::File,
        "LD_PRELOAD" | "LD_AUDIT" | "DYLD_INSERT_LIBRARIES" => Hook::Exported,
        _ if name.starts_with("BASH_FUNC_") => Hook::Any,
        _ => return None,
    })
}

/// Whether a tmux command sets a hook, or a variable for panes of other users.
fn tmux(args: &[Arg]) -> bool {
    let mut words = args.iter().map(|arg| arg.text.as_str());
    let is_option = |word: &str| {
        let names = ["default-command", "default-shell", "update-environment", "command-alias"];
        names.iter().any(|name| {
            word.len() > 6 && name.starts_with(word.split('[').next().unwrap_or_default())
        }) || word.contains("#(")
    };
    let is_set = |word: &str| matches!(word, "set" | "set-option" | "setw" | "set-window-option");
    let sets = args.iter().any(|arg| is_set(&arg.text));
    words.any(|word| {
        matches!(
            word,
            "set-environment" | "setenv" | "set-hook" | "bind-key" | "bind" | "pipe-pane" | "pipep"
        ) || sets && is_option(word)
    })
}

impl Judge<'_> {
    /// Judges an assignment; `once` for a single command.
    pub(super) fn hook_variable(&mut self, name: &str, value: &VariableValue, once: bool) {
        let text = value.text.as_str();
        let runs = match hook(name) {
            None => false,
            Some(Hook::Any) => !text.is_empty(),
            Some(Hook::Substitutions) => {
                text.contains("$(") || text.contains("${") || text.contains(['`', UNKNOWN])
            }
            Some(Hook::File) => text.contains(['/', '.', UNKNOWN, '$', '`']),
            Some(Hook::Exported) => !once && !text.is_empty(),
        };
        if runs {
            let line = [Arg { text: format!("{name}={text}"), ..Arg::default() }];
            self.find(Class::ShellHook, &line, WHY);
            self.text(text, value.fetched, &super::judge::PipeData::default());
        }
    }

    /// Judges the definition of a function.
    pub(super) fn hook_function(&mut self, name: &str) {
        if FUNCTIONS.contains(&name) || name.starts_with("TRAP") {
            let line = [Arg { text: format!("{name}()"), ..Arg::default() }];
            self.find(Class::ShellHook, &line, WHY);
        }
    }

    /// Judges a program or a builtin that may set a hook.
    pub(super) fn hook(&mut self, name: &str, line: &[Arg], args: &[Arg]) {
        let words = operands(args);
        let word = |at: usize| words.get(at).map_or("", |arg| arg.text.as_str());
        let sets = match name {
            "trap" => words.iter().skip(1).any(|arg| {
                let signal = arg.text.to_ascii_uppercase();
                matches!(signal.trim_start_matches("SIG"), "DEBUG" | "ERR" | "RETURN" | "ZERR")
            }),
            "add-zsh-hook" => !has(args, "dDL", &[]),
            "zle" => has(args, "N", &[]),
            "bindkey" => has(args, "s", &[]),
            "bind" => has(args, "xf", &[]) || args.iter().any(|arg| arg.text.contains("\":")),
            "enable" => has(args, "f", &[]),
            "tmux" => tmux(args),
            // fish
            "set" if has(args, "gxUl", &["global", "export", "universal"]) => {
                let rest = words.iter().skip(1).map(|arg| arg.text.as_str());
                let text = rest.collect::<Vec<_>>().join(" ");
                let fetched = words.iter().any(|arg| arg.fetched);
                self.hook_variable(word(0), &VariableValue { text, fetched }, false);
                false
            }
            "function" => {
                self.hook_function(word(0));
                false
            }
            "printf" if args.first().is_some_and(|arg| arg.text.starts_with("-v")) => {
                let value = value(args, Some('v'), &[]).map(|(_, name)| name).unwrap_or_default();
                self.hook_variable(
                    &value,
                    &VariableValue { text: UNKNOWN.to_string(), fetched: false },
                    false,
                );
                false
            }
            // The shell reader does not read `PROMPT_COMMAND[1]=x` as an assignment.
            _ => {
                let first = line.first().map_or("", |arg| arg.text.as_str());
                if let Some((name, text)) = first.split_once("]=") {
                    let text = text.to_owned();
                    self.hook_variable(name, &VariableValue { text, fetched: false }, false);
                }
                false
            }
        };
        if sets {
            self.find(Class::ShellHook, line, WHY);
        }
        if name == "fc"
            && (has(args, "s", &[])
                || value(args, Some('e'), &[]).is_some_and(|(_, editor)| editor == "-"))
        {
            self.find(
                Class::History,
                line,
                "it runs an earlier command, which the guard does not see",
            );
        }
        if name == "set" && !args.is_empty() {
            // `set` replaces the positional parameters.
            self.variables.retain(|name, _| {
                !name.starts_with(|c: char| c.is_ascii_digit() || "@*".contains(c))
            });
        }
    }
}
