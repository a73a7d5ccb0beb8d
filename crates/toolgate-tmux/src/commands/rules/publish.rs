//! What gives something to the world.

use super::Called;
use crate::commands::{Class, walk::Judge};

pub(super) fn check(judge: &mut Judge<'_>, call: &Called<'_>) {
    if call.has("", &["dry-run", "help"])
        || call.args.iter().any(|arg| arg.text == "--dry-run=true")
    {
        return;
    }
    let words = call.words();
    let publishes = match (call.name, words.as_slice()) {
        (
            "npm" | "pnpm" | "yarn" | "bun" | "cargo" | "poetry" | "flit" | "hatch" | "uv" | "pdm"
            | "vsce" | "ovsx" | "lerna" | "jsr" | "deno" | "maturin" | "changeset",
            ["publish", ..],
        )
        | ("npm" | "pnpm", ["unpublish", ..] | ["dist-tag", "add", ..])
        | ("yarn", ["npm", "publish", ..])
        | ("cargo", ["yank", ..] | ["release", ..])
        | ("twine" | "maturin", ["upload", ..])
        | (
            "gem" | "docker" | "podman" | "nerdctl" | "helm" | "buildah" | "nuget" | "cosign",
            ["push", ..],
        )
        | ("docker" | "podman", ["image" | "manifest", "push", ..])
        | ("docker", ["compose", "push", ..])
        | ("dotnet", ["nuget", "push", ..])
        | ("pod", ["trunk", "push", ..])
        | ("mix", ["hex.publish", ..])
        | ("gh", ["release", "create" | "upload", ..])
        | ("semantic-release" | "np", _) => true,
        ("docker", ["buildx", "build" | "bake", ..] | ["build", ..]) => call.has("", &["push"]),
        ("cargo", [..]) if words.first() == Some(&"publish") => true,
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
        ("skopeo", ["copy", ..]) | ("crane", ["push" | "copy", ..]) | ("oras", ["push", ..]) => {
            true
        }
        _ => false,
    };
    if publishes {
        judge.find(Class::Publish, call.argv, "it publishes, and that cannot be taken back");
    }
}
