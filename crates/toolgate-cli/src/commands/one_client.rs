//! What `stdio`, `wrap` and `tmux` share: one client on standard input and output.

use std::{path::Path, process::ExitCode};

use toolgate_gateway::gateway::{GatewayOptions, RunningGateway};

use super::{client_entry, signals::Signals};
use crate::chain_args::ChainArgs;

/// Runs a gateway in this process, for the one client on stdio.
pub(crate) fn run_gateway(
    chain_args: &ChainArgs,
    options: GatewayOptions,
) -> anyhow::Result<ExitCode> {
    let runtime = super::runtime()?;
    let served = runtime.block_on(async {
        let mut signals = Signals::new()?;
        let settles_first = options.settles_first()?;
        let serve = RunningGateway::new(options).await?;
        if settles_first {
            let settled = tokio::select! {
                settled = serve.settle() => settled.map(|()| true),
                _ = signals.end() => Ok(false),
            };
            if !matches!(settled, Ok(true)) {
                serve.end().await;
                return Ok(settled.map(drop)?);
            }
        }
        let _announced = chain_args.announce();
        let stop = async {
            signals.govern(&serve).await;
        };
        let served = serve.one(chain_args.namespace(), stop).await;
        serve.end().await;
        anyhow::Ok(served?)
    });
    // A blocked read from a terminal must not delay the exit.
    runtime.shutdown_background();
    served.map(|()| ExitCode::SUCCESS)
}

/// Explains to a person who started it in a terminal what it waits for. `config` is the file that it reads.
#[expect(clippy::print_stderr, reason = "for the person at the terminal")]
pub(crate) fn explain(name: &str, config: Option<&Path>) {
    let words: Vec<String> =
        std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned()).collect();
    let words = client_entry::elsewhere(words, config);
    let entry = client_entry::of_command(name, &words, &[]);
    let not_there = client_entry::not_into(config);
    eprintln!(
        "toolgate: waiting for an MCP client on standard input. To use it, put this into\n\
         your client's config, or type JSON-RPC here, one message per line:\n\n  {entry}\n{not_there}"
    );
}
