//! The commands, one file each.

pub(crate) mod approvals;
pub(crate) mod audit;
pub(crate) mod chain;
pub(crate) mod check;
mod client_entry;
pub(crate) mod completions;
pub(crate) mod config;
pub(crate) mod demo;
pub(crate) mod doctor;
pub(crate) mod explain;
pub(crate) mod import;
pub(crate) mod init;
pub(crate) mod keep_server;
pub(crate) mod log;
pub(crate) mod man;
mod next_step;
pub(crate) mod one_client;
mod programs;
pub(crate) mod reload;
pub(crate) mod replay;
pub(crate) mod serve;
pub(crate) mod signals;
pub(crate) mod status;
pub(crate) mod stdio;
pub(crate) mod tmux;
pub(crate) mod why;
pub(crate) mod wrap;

use std::ffi::OsString;

use toolgate_gateway::{
    config::{Config, ConfigWatch},
    gateway::Inspection,
};

use crate::chain_args::{ChainArgs, state_folder};

/// A runtime with one thread, which is enough for one client.
pub(crate) fn runtime() -> std::io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()
}

/// Inspects the gateway that the config and the command line describe: all namespaces with all servers, or one server
/// as `toolgate wrap` would run it. With `asks`, it starts the servers and asks them for their tools.
pub(crate) fn inspect(
    chain_args: &ChainArgs,
    config: &Config,
    command: &[OsString],
    namespaces: Option<Vec<String>>,
    asks: bool,
) -> anyhow::Result<Inspection> {
    if command.is_empty()
        && let Some(inspection) = tmux::inspected(chain_args, config)?
    {
        return Ok(inspection);
    }
    let own = || vec![chain_args.namespace().to_owned()];
    let (config, inspects) = match chain_args.one_server(config, command)? {
        Some((name, server)) => (config.with_only(&name, server), own()),
        None if chain_args.namespace.is_some() => (config.clone(), own()),
        None => {
            let all = config.namespaces().iter().map(ToString::to_string).collect();
            (config.clone(), all)
        }
    };
    let watch = ConfigWatch::off(chain_args.config.as_deref());
    let mut options = serve::gateway_options(chain_args, config, watch, &[], None);
    options.inspects = Some(namespaces.unwrap_or(inspects));
    // A serving gateway records in this folder which server owns a name. The inspection only reads it.
    options.manifests = state_folder().ok().map(|folder| folder.join("manifests"));
    let runtime = runtime()?;
    let inspection = runtime.block_on(Inspection::new(options, asks));
    runtime.shutdown_background();
    Ok(inspection?)
}
