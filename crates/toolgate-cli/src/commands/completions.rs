//! `toolgate completions SHELL`

use std::{io::Write as _, process::ExitCode};

use clap::{Args, CommandFactory as _};
use clap_complete::Shell;

use crate::arguments::Arguments;

/// Print completions for a shell
///
/// For bash: toolgate completions bash > ~/.local/share/bash-completion/completions/toolgate
#[derive(Debug, Args)]
pub(crate) struct Completions {
    /// The shell to print completions for
    shell: Shell,
}

impl Completions {
    pub(crate) fn run(&self) -> anyhow::Result<ExitCode> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut Arguments::command(), "toolgate", &mut script);
        std::io::stdout().write_all(&script)?;
        Ok(ExitCode::SUCCESS)
    }
}
