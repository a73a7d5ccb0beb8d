//! `toolgate completions SHELL`

use std::{io::Write as _, process::ExitCode};

use clap::Args;
use clap_complete::Shell;

/// Print a completion script for a shell
///
/// bash: toolgate completions bash > ~/.local/share/bash-completion/completions/toolgate
///
/// zsh: toolgate completions zsh > a file `_toolgate` in a folder of $fpath
///
/// fish: toolgate completions fish > ~/.config/fish/completions/toolgate.fish
#[derive(Debug, Args)]
pub(crate) struct Completions {
    /// The shell
    shell: Shell,
}

impl Completions {
    /// Prints the script.
    pub(crate) fn run(&self, mut program: clap::Command) -> anyhow::Result<ExitCode> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut program, "toolgate", &mut script);
        std::io::stdout().write_all(&script)?;
        Ok(ExitCode::SUCCESS)
    }
}
