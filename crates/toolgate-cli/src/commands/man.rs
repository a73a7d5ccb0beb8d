//! `toolgate man FOLDER`

use std::{fs, path::PathBuf, process::ExitCode};

use anyhow::Context as _;
use clap::Args;

/// Write the man pages: one for toolgate, one for each command
///
/// For one user: toolgate man ~/.local/share/man/man1
#[derive(Debug, Args)]
pub(crate) struct Man {
    /// The folder for the pages, made if it does not exist
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,
}

impl Man {
    /// Writes the pages of `program` and of its commands.
    pub(crate) fn run(&self, program: clap::Command) -> anyhow::Result<ExitCode> {
        let folder = &self.folder;
        let failed = || format!("cannot write man pages into `{}`", folder.display());
        fs::create_dir_all(folder).with_context(failed)?;
        clap_mangen::generate_to(program, folder).with_context(failed)?;
        Ok(ExitCode::SUCCESS)
    }
}
