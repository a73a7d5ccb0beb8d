//! What `toolgate doctor` looks at of the gateway: config, servers, addresses, call log, and running gateways.

use std::net::{SocketAddr, TcpListener};

use toolgate_gateway::{
    config::{Config, toolgate_variables},
    gateway::GatewayStatus,
    instances::{self, StatusReport},
};

use super::{
    super::{log::style::size, next_step, programs},
    Report,
};
use crate::chain_args::{ChainArgs, run_folder};

pub(super) fn look(report: &mut Report, chain_args: &ChainArgs, offline: bool) {
    report.begin("config");
    let config = config(report, chain_args);
    report.begin("servers");
    if let Some(config) = &config {
        servers(report, chain_args, config, offline);
    }
    report.begin("gateways");
    let running = running(report);
    let config = config.unwrap_or_default();
    for address in config.serve().listen {
        port(report, address, &running);
    }
    report.begin("call log");
    call_log(report, chain_args, &config);
}

/// Reads the config; `None` if there is none, or it is refused.
fn config(report: &mut Report, chain_args: &ChainArgs) -> Option<Config> {
    for (name, nearest) in toolgate_variables::unknown() {
        let fix = nearest.map_or_else(|| "remove it".to_owned(), |name| format!("write {name}"));
        report.warn(format!("the variable {name} is unknown to toolgate"), fix);
    }
    let Some(path) = &chain_args.config else {
        report.warn(
            "there is no config in this folder: no toolgate.toml, .mcp.json or mcp.json",
            "`toolgate init` writes one; `toolgate serve FILE` reads one elsewhere",
        );
        return None;
    };
    let config = match crate::config_file::read(path) {
        Ok(config) => config,
        Err(error) => {
            report.error(error.to_string(), "correct the file, then run `toolgate doctor` again");
            return None;
        }
    };
    let servers = config.servers().len();
    let plural = if servers == 1 { "" } else { "s" };
    report.ok(format!("{} is read: {servers} server{plural}", path.display()));
    for hint in config.hints() {
        report.warn(hint, "the old spelling still works");
    }
    for exposure in config.exposure(None) {
        // The sentence ends with the next step.
        let (what, fix) = exposure.rsplit_once(": ").unwrap_or((&exposure, ""));
        report.warn(what, fix);
    }
    for server in config.without_namespace() {
        report.warn(
            format!("the server `{server}` belongs to no namespace, so no client can reach it"),
            "add it to the `servers` of a namespace, or remove it",
        );
    }
    Some(config)
}

fn servers(report: &mut Report, chain_args: &ChainArgs, config: &Config, offline: bool) {
    for (name, server) in config.servers() {
        let Some(command) = server.command.as_ref() else { continue };
        let command = command.as_str();
        if programs::find(command, &programs::shell_path()).is_none() {
            let fix = if command.contains(char::is_whitespace) {
                "write the program into `command` and its arguments into `args`"
            } else {
                "install it, or write its whole path"
            };
            report.error(
                format!("the server `{name}` starts `{command}`, which PATH does not find"),
                fix,
            );
        }
    }
    if offline || config.servers().is_empty() {
        return;
    }
    let inspection = match super::super::inspect(chain_args, config, &[], None, true) {
        Ok(inspection) => inspection,
        Err(error) => {
            report.error(error.to_string(), "correct the config; `toolgate check` tells more");
            return;
        }
    };
    for server in &inspection.servers {
        let name = &server.name;
        match (&*server.state, server.tools) {
            ("ready", Some(tools)) => {
                let protocol = server.protocol.as_deref().unwrap_or("unknown protocol");
                let plural = if tools == 1 { "" } else { "s" };
                report.ok(format!("the server `{name}` lists {tools} tool{plural} ({protocol})"));
            }
            (state, _) => {
                let why = server.why.as_deref().unwrap_or("it did not answer in time");
                let next = server.code.as_deref().and_then(next_step::of_code);
                let next = next.map(|next| format!("; {next}")).unwrap_or_default();
                report.error(
                    format!("the server `{name}` is not ready ({state}): {why}"),
                    format!("start its command by hand and read its messages{next}"),
                );
            }
        }
    }
}

/// The running gateways of this user.
fn running(report: &mut Report) -> Vec<GatewayStatus> {
    let found = run_folder().and_then(|folder| Ok(instances::statuses(&folder)?));
    let reports = match found {
        Ok(reports) => reports,
        Err(error) => {
            report.error(
                format!("cannot ask the running gateways: {error:#}"),
                "check the permissions of the state folder",
            );
            return Vec::new();
        }
    };
    if reports.is_empty() {
        report.ok("no `toolgate serve` of this user runs");
    }
    let mut running = Vec::new();
    for found in reports {
        match found {
            StatusReport::Answered(status) => running.push(*status),
            StatusReport::Unanswered { pid, error } => report.error(
                format!("process {pid} does not report its status: {error}"),
                "restart it if it stays so",
            ),
        }
    }
    for gateway in &running {
        let listens = gateway.addresses.join(", ");
        report.ok(format!("process {} listens on {listens}", gateway.pid));
        if gateway.version != env!("CARGO_PKG_VERSION") {
            report.warn(
                format!("process {} runs toolgate {}", gateway.pid, gateway.version),
                "restart it to run this version",
            );
        }
        for server in gateway.servers.iter().filter(|server| server.state == "failed") {
            let why = server.why.as_deref().unwrap_or("unknown reason");
            report.error(
                format!("its server `{}` failed: {why}", server.name),
                "`toolgate status` shows when it is back",
            );
        }
    }
    running
}

fn port(report: &mut Report, address: SocketAddr, running: &[GatewayStatus]) {
    let is_ours = |gateway: &&GatewayStatus| gateway.addresses.contains(&address.to_string());
    if running.iter().any(|gateway| is_ours(&gateway)) {
        return;
    }
    match TcpListener::bind(address) {
        Ok(_) => report.ok(format!("{address} is free for `toolgate serve`")),
        Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => report.error(
            format!("{address} is in use by another program"),
            "stop that program, or choose another address: `[serve] listen`, or `--listen`",
        ),
        Err(error) => report.error(
            format!("cannot listen on {address}: {error}"),
            "choose another address: `[serve] listen`, or `--listen`",
        ),
    }
}

fn call_log(report: &mut Report, chain_args: &ChainArgs, config: &Config) {
    let Some(url) = chain_args.store(config) else {
        report.ok("no call log is kept; `store = \"sqlite:toolgate.db\"` in the config begins one");
        return;
    };
    let path = match toolgate_store::sqlite_path(&url) {
        Ok(path) => path.to_owned(),
        Err(error) => {
            report.error(error.to_string(), "correct `store` in the config");
            return;
        }
    };
    if !path.exists() {
        report.ok(format!("{} will be created", path.display()));
        return;
    }
    let opened = super::super::runtime().map_err(anyhow::Error::from).and_then(|runtime| {
        runtime.block_on(async {
            let store = toolgate_store::open(&url).await?;
            let size = store.size().await?;
            store.close().await;
            Ok(size)
        })
    });
    match opened {
        Ok(found) => report.ok(format!(
            "{} has {} records, {}",
            path.display(),
            found.records,
            size(found.bytes)
        )),
        Err(error) => report.error(
            format!("cannot use {}: {error:#}", path.display()),
            "check its permissions, or name another file with `store`",
        ),
    }
}
