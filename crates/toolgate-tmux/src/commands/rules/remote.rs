//! Commands that delete on other systems: clusters, clouds, buckets, volumes, hosted repositories; and schedules.

use super::ProgramCall;
use crate::commands::{
    Class,
    argv::{after_options, operands, texts},
    judge::{Judge, PipeData},
};

pub(super) fn check(judge: &mut Judge<'_>, call: &ProgramCall<'_>, input: &PipeData) {
    if call.has("", &["dry-run", "help"]) {
        return;
    }
    let found = cluster(call)
        .map(|why| (Class::ClusterDelete, why))
        .or_else(|| infrastructure(call).map(|why| (Class::InfrastructureDestroy, why)))
        .or_else(|| storage(call).map(|why| (Class::RemoteStorage, why)))
        .or_else(|| containers(call).map(|why| (Class::ContainerData, why)))
        .or_else(|| repository(call).map(|why| (Class::RemoteRepository, why)))
        .or_else(|| schedule(call, input).map(|why| (Class::Schedule, why)));
    if let Some((class, why)) = found {
        judge.find(class, call.line, why);
    }
}

fn cluster(call: &ProgramCall<'_>) -> Option<&'static str> {
    let long = ["namespace", "context", "kubeconfig", "cluster", "user", "server", "kube-context"];
    let rest = after_options(call.args, "ns", &long);
    let words = texts(&operands(rest));
    Some(match (call.name, words.as_slice()) {
        ("kubectl" | "oc" | "k", ["delete", ..]) => {
            "it deletes from a cluster, with all that is inside"
        }
        ("kubectl" | "oc" | "k", ["drain", ..]) => "it evicts all that runs on a node",
        ("helm", ["uninstall" | "delete" | "un", ..]) => "it deletes a release from a cluster",
        ("kind" | "k3d" | "eksctl" | "minikube", ["delete", ..] | ["cluster", "delete", ..]) => {
            "it deletes a whole cluster"
        }
        _ => return None,
    })
}

fn infrastructure(call: &ProgramCall<'_>) -> Option<&'static str> {
    let words = call.words();
    let destroys = match (call.name, words.as_slice()) {
        (
            "terraform" | "tofu" | "terragrunt" | "pulumi" | "cdk" | "cdktf" | "vagrant" | "fly"
            | "flyctl",
            ["destroy", ..] | ["apps" | "run-all", "destroy", ..],
        )
        | ("heroku", ["apps:destroy" | "pg:reset", ..]) => true,
        ("terraform" | "tofu", ["apply", ..]) => call.args.iter().any(|arg| arg.text == "-destroy"),
        ("aws", [service, verb, ..]) if *service != "s3" => {
            verb.starts_with("delete-") || verb.starts_with("terminate-")
        }
        ("gcloud" | "az" | "doctl", words) if words.first() != Some(&"storage") => {
            words.contains(&"delete")
        }
        _ => false,
    };
    destroys.then_some("it destroys infrastructure, with the data on it")
}

fn storage(call: &ProgramCall<'_>) -> Option<&'static str> {
    let words = call.words();
    Some(match (call.name, words.as_slice()) {
        ("aws", ["s3", "rm", ..]) if call.has("", &["recursive"]) => {
            "it deletes a whole prefix of a bucket"
        }
        ("aws", ["s3", "rb", ..]) | ("gsutil", ["rb", ..]) => "it deletes a bucket",
        ("aws", ["s3", "sync", ..]) if call.has("", &["delete"]) => {
            "it deletes from a bucket what is not here"
        }
        ("gsutil", ["rm", ..]) | ("mc", ["rm" | "rb", ..])
            if call.has("rR", &["recursive", "force"]) =>
        {
            "it deletes from a bucket"
        }
        ("gcloud", ["storage", "rm", ..]) => "it deletes objects from a bucket",
        ("rclone", ["purge" | "delete", ..]) => "it deletes from a remote",
        _ => return None,
    })
}

fn containers(call: &ProgramCall<'_>) -> Option<&'static str> {
    const VOLUMES: &str = "it deletes volumes, with the data in them";
    let words = call.words();
    Some(match (call.name, words.as_slice()) {
        ("docker" | "podman" | "nerdctl", ["system", "prune", ..]) => {
            "it deletes what no container uses right now"
        }
        ("podman", ["system", "reset", ..]) => "it deletes all containers, images and volumes",
        ("docker" | "podman" | "nerdctl", ["volume", "rm" | "remove" | "prune", ..]) => VOLUMES,
        ("docker" | "podman" | "nerdctl", ["compose", "down", ..])
        | ("docker-compose" | "podman-compose", ["down", ..])
            if call.has("v", &["volumes"]) =>
        {
            VOLUMES
        }
        _ => return None,
    })
}

fn repository(call: &ProgramCall<'_>) -> Option<&'static str> {
    let words = call.words();
    Some(match (call.name, words.as_slice()) {
        ("gh" | "glab", ["repo" | "project", "delete" | "archive", ..]) => {
            "it deletes or archives a hosted repository"
        }
        (
            "gh" | "glab",
            ["release" | "secret" | "gist" | "environment", "delete" | "remove", ..],
        ) => "it deletes something of a hosted repository",
        ("gh" | "glab", ["api", ..])
            if call.args.iter().any(|arg| arg.text.ends_with("DELETE")) =>
        {
            "it deletes something at the host"
        }
        _ => return None,
    })
}

fn schedule(call: &ProgramCall<'_>, input: &PipeData) -> Option<&'static str> {
    let words = call.words();
    match call.name {
        "crontab" if call.has("r", &[]) => Some("it deletes all of a user's cron jobs"),
        "crontab" if !call.has("le", &[]) && (!words.is_empty() || input.piped) => {
            Some("it replaces all of a user's cron jobs")
        }
        "at" | "batch" if !call.has("lcdrV", &[]) => Some("it runs something later, unseen"),
        _ => None,
    }
}
