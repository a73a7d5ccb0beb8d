//! Commands that stop or disrupt the machine, change permissions, or run as another user.

use super::ProgramCall;
use crate::commands::{
    Class,
    argv::{after_options, operands},
    judge::Judge,
    paths::PathLocation,
};

pub(super) fn check(judge: &mut Judge<'_>, call: &ProgramCall<'_>) {
    if call.is(&["sudo", "su", "doas", "pkexec", "run0", "sudoedit", "visudo", "gosu", "runuser"]) {
        judge.find(Class::Privilege, call.line, "it runs as another user");
    }
    permissions(judge, call);
    if let Some(why) =
        ends(call).or_else(|| services(call)).or_else(|| network(call)).or_else(|| rights(call))
    {
        judge.find(Class::System, call.line, why);
    }
}

fn ends(call: &ProgramCall<'_>) -> Option<&'static str> {
    let words = call.words();
    let it = match (call.name, words.as_slice()) {
        ("shutdown", _) if call.has("c", &["help"]) => return None,
        ("shutdown" | "reboot" | "halt" | "poweroff" | "kexec", _)
            if !call.has("", &["help", "version"]) =>
        {
            true
        }
        ("init" | "telinit", ["0" | "1" | "6" | "s" | "S", ..]) | ("killall5", _) => true,
        ("kill", _) => return kill(call),
        ("pkill" | "killall", _) if call.has("u", &["user", "euid"]) => {
            return Some("it ends all processes of a user");
        }
        ("tmux", words) if words.contains(&"kill-server") => {
            return Some("it ends the tmux server, with all that runs in it");
        }
        _ => false,
    };
    it.then_some("it stops the machine")
}

/// `kill -9 -1` ends all processes, `kill 1` the first process.
fn kill(call: &ProgramCall<'_>) -> Option<&'static str> {
    let args: Vec<&str> = call.args.iter().map(|arg| arg.text.as_str()).collect();
    let targets = match args.as_slice() {
        ["-l" | "-L", ..] => return None,
        ["-s" | "-n", _, rest @ ..] => rest,
        [first, rest @ ..] if first.starts_with('-') && *first != "--" && !rest.is_empty() => rest,
        all => all,
    };
    targets
        .iter()
        .any(|target| matches!(*target, "-1" | "1"))
        .then_some("it ends all processes, or the first one")
}

fn services(call: &ProgramCall<'_>) -> Option<&'static str> {
    let rest = after_options(
        call.args,
        "HMnopst",
        &["host", "machine", "lines", "output", "type", "signal"],
    );
    let words: Vec<&str> = operands(rest).iter().map(|arg| arg.text.as_str()).collect();
    let stops = match (call.name, words.as_slice()) {
        ("systemctl", [verb, ..]) => matches!(
            *verb,
            "stop"
                | "disable"
                | "mask"
                | "kill"
                | "isolate"
                | "poweroff"
                | "reboot"
                | "halt"
                | "kexec"
                | "rescue"
                | "emergency"
                | "suspend"
                | "hibernate"
        ),
        ("service" | "rc-service", [_, "stop", ..])
        | ("rc-update", ["del", ..])
        | ("launchctl", ["unload" | "bootout" | "remove" | "disable" | "reboot", ..])
        | ("loginctl", ["terminate-user" | "kill-user" | "terminate-session", ..]) => true,
        _ => false,
    };
    stops.then_some("it stops a service, or the machine")
}

fn network(call: &ProgramCall<'_>) -> Option<&'static str> {
    let words = call.words();
    let opens = match (call.name, words.as_slice()) {
        ("iptables" | "ip6tables", _) => call.has("FXP", &["flush", "delete-chain", "policy"]),
        ("nft", ["flush" | "delete", ..])
        | ("ufw", ["disable" | "reset", ..])
        | ("setenforce", ["0" | "Permissive", ..]) => true,
        ("pfctl", _) => call.has("Fd", &[]),
        ("ip", words) => {
            words.ends_with(&["down"]) || matches!(words, ["route" | "addr", "flush" | "del", ..])
        }
        ("ifconfig", words) => words.contains(&"down"),
        ("nmcli", words) => matches!(words, ["networking" | "radio", .., "off"]),
        _ => false,
    };
    opens.then_some("it changes the network or its defences")
}

/// Changes of owners and permissions of whole folders.
fn permissions(judge: &mut Judge<'_>, call: &ProgramCall<'_>) {
    let whole = call.has("R", &["recursive"]) || judge.context.bulk;
    if !whole || !call.is(&["chmod", "chown", "chgrp", "setfacl"]) {
        return;
    }
    let words = operands(call.args);
    let adds = words.first().is_some_and(|mode| call.name == "chmod" && only_adds(&mode.text));
    let inside = |spot| matches!(spot, PathLocation::Inside | PathLocation::Whole);
    if !adds || !words.iter().skip(1).all(|path| inside(judge.location_of(path))) {
        judge.find(
            Class::Permissions,
            call.line,
            "it changes owners or permissions of a whole folder",
        );
    }
}

/// Whether a mode only gives the owner more permissions, or lets others read.
fn only_adds(mode: &str) -> bool {
    mode.split(',').all(|part| {
        part.split_once('+').is_some_and(|(who, what)| {
            let reads = what.chars().all(|c| "rxX".contains(c));
            reads && who.chars().all(|c| "ugoa".contains(c))
                || who == "u" && what.chars().all(|c| "rwxX".contains(c))
        })
    })
}

fn rights(call: &ProgramCall<'_>) -> Option<&'static str> {
    let unsettles = match call.name {
        "userdel" | "groupdel" | "usermod" | "deluser" | "chpasswd" | "swapoff" | "rmmod"
        | "insmod" => true,
        "modprobe" => call.has("r", &["remove"]),
        "umount" => call.has("al", &["all", "lazy"]),
        "sysctl" => call.has("wp", &["write", "load"]),
        _ => false,
    };
    unsettles.then_some("it changes users, rights or the kernel")
}
