//! `toolgate completions SHELL`

use std::{io::Write as _, process::ExitCode};

use clap::Args;
use clap_complete::Shell;

/// Print completions for a shell
///
/// For bash: toolgate completions bash > ~/.local/share/bash-completion/completions/toolgate
#[derive(Debug, Args)]
pub(crate) struct Completions {
    /// The shell to print completions for
    shell: Shell,
}

impl Completions {
    /// Prints those of the whole command line.
    pub(crate) fn run(&self, mut program: clap::Command) -> anyhow::Result<ExitCode> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut program, "toolgate", &mut script);
        std::io::stdout().write_all(&script)?;
        Ok(ExitCode::SUCCESS)
    }
}
