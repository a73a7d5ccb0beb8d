//! Commands that publish something.

use super::ProgramCall;
use crate::commands::{Class, judge::Judge};

/// Programs with a command `publish`.
const PUBLISHERS: &[&str] = &[
    "npm",
    "pnpm",
    "yarn",
    "bun",
    "cargo",
    "poetry",
    "flit",
    "hatch",
    "uv",
    "pdm",
    "vsce",
    "ovsx",
    "lerna",
    "jsr",
    "deno",
    "maturin",
    "changeset",
];
/// Programs with a command `push` to a registry.
const PUSHERS: &[&str] =
    &["gem", "docker", "podman", "nerdctl", "helm", "buildah", "nuget", "cosign", "crane", "oras"];

pub(super) fn check(judge: &mut Judge<'_>, call: &ProgramCall<'_>) {
    if call.has("", &["dry-run", "help"])
        || call.args.iter().any(|arg| arg.text == "--dry-run=true")
    {
        return;
    }
    let words = call.words();
    let own = match words.first() {
        Some(&"publish") => PUBLISHERS.contains(&call.name),
        Some(&"push") => PUSHERS.contains(&call.name),
        _ => false,
    };
    let publishes = match (call.name, words.as_slice()) {
        ("npm" | "pnpm", ["unpublish", ..] | ["dist-tag", "add", ..])
        | ("yarn", ["npm", "publish", ..])
        | ("cargo", ["yank" | "release", ..])
        | ("twine" | "maturin", ["upload", ..])
        | ("docker" | "podman", ["image" | "manifest" | "compose", "push", ..])
        | ("dotnet", ["nuget", "push", ..])
        | ("pod", ["trunk", "push", ..])
        | ("mix", ["hex.publish", ..])
        | ("gh", ["release", "create" | "upload", ..])
        | ("skopeo" | "crane", ["copy", ..])
        | ("semantic-release" | "np", _) => true,
        ("docker", ["buildx", "build" | "bake", ..] | ["build", ..]) => call.has("", &["push"]),
        ("python" | "python3", ["twine", "upload", ..] | ["flit", "publish", ..]) => {
            call.args.first().is_some_and(|arg| arg.text == "-m")
        }
        ("mvn" | "mvnw", words) => {
            words.iter().any(|word| matches!(*word, "deploy" | "release:perform"))
        }
        ("gradle" | "gradlew", words) => words.iter().any(|word| {
            let task = word.rsplit(':').next().unwrap_or_default();
            task.starts_with("publish") && !task.ends_with("ToMavenLocal")
        }),
        ("goreleaser", ["release", ..]) => !call.has("", &["snapshot", "skip-publish"]),
        _ => false,
    };
    if own || publishes {
        judge.find(Class::Publish, call.line, "it publishes, and that cannot be taken back");
    }
}
