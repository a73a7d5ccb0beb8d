//! The entries that a user pastes into the config of an MCP client.

use std::{net::SocketAddr, path::Path};

use super::{log::style::clean, programs};

/// The environment variable that the printed entry passes a token in.
const TOKEN_VARIABLE: &str = "GATEWAY_TOKEN";

/// A JSON string.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// `"NAME": { "command": …, "args": […] }` for this program.
pub(super) fn of_command(name: &str, words: &[String], env: &[(&str, &str)]) -> String {
    let program = quoted(&programs::own().to_string_lossy());
    let words: Vec<String> = words.iter().map(|word| quoted(word)).collect();
    let env: Vec<String> =
        env.iter().map(|(name, value)| format!("{}: {}", quoted(name), quoted(value))).collect();
    let env = if env.is_empty() {
        String::new()
    } else {
        format!(",\n    \"env\": {{ {} }}", env.join(", "))
    };
    format!(
        "{}: {{\n    \"command\": {program},\n    \"args\": [{}]{env} }}",
        quoted(name),
        words.join(", ")
    )
}

/// The URL of a namespace, as clients reach it.
pub(super) fn url(address: SocketAddr, namespace: &str) -> String {
    let mut address = address;
    // The address for all interfaces is none to connect to.
    if address.ip().is_unspecified() {
        let host = if address.is_ipv4() {
            [127, 0, 0, 1].into()
        } else {
            std::net::Ipv6Addr::LOCALHOST.into()
        };
        address.set_ip(host);
    }
    match namespace {
        "default" => format!("http://{address}/mcp"),
        other => format!("http://{address}/mcp/{other}"),
    }
}

/// The entries for a gateway at this URL. `config` is the file that it reads.
pub(super) fn of_gateway(url: &str, needs_token: bool, config: Option<&Path>) -> String {
    let headers = if needs_token {
        ",\n    \"headers\": { \"Authorization\": \"Bearer YOUR_TOKEN\" }"
    } else {
        ""
    };
    let mut words = vec!["stdio".to_owned(), "--to".to_owned(), url.to_owned()];
    let mut env = Vec::new();
    let mut note = "";
    if needs_token {
        words.extend(["--token-env".to_owned(), TOKEN_VARIABLE.to_owned()]);
        env.push((TOKEN_VARIABLE, "YOUR_TOKEN"));
        note = "\nYOUR_TOKEN is one of `[serve.tokens]`.\n";
    }
    let url = quoted(url);
    let command = of_command("toolgate", &words, &env);
    let mut text = format!(
        "\nTo use it, put this into your client's config, in place of the servers\n\
         that toolgate now serves:\n\n  \
         \"toolgate\": {{ \"type\": \"http\", \"url\": {url}{headers} }}\n\n\
         or, for a client that speaks stdio only:\n\n  {command}\n{note}"
    );
    text.push_str(&not_into(config));
    text
}

/// Where an entry must not go: into the file that toolgate reads, if that is the config of a client.
pub(super) fn not_into(config: Option<&Path>) -> String {
    let is_clients = |path: &&Path| path.extension().is_none_or(|extension| extension != "toml");
    let Some(config) = config.filter(is_clients) else { return String::new() };
    let shown = clean(&config.display().to_string()).into_owned();
    format!(
        "\nNot into `{shown}`, which toolgate reads. If your client reads that file, \
         `toolgate import {shown}`\nputs toolgate in front of its servers, in place.\n"
    )
}

/// The words of this command line for a client, which may start it in another folder: the path of the config is
/// absolute, and named also if toolgate found it by itself.
pub(super) fn elsewhere(mut words: Vec<String>, config: Option<&Path>) -> Vec<String> {
    let Some(config) = config else { return words };
    let Ok(absolute) = config.canonicalize() else { return words };
    let (config, absolute) = (config.to_string_lossy(), absolute.to_string_lossy().into_owned());
    let end = words.iter().position(|word| word == "--").unwrap_or(words.len());
    let own = words.iter_mut().take(end).enumerate();
    let is_value = |word: &str| word == config || word.strip_prefix("--config=") == Some(&config);
    match own.into_iter().find(|(at, word)| *at > 0 && is_value(word)) {
        Some((_, word)) if word.starts_with("--config=") => *word = format!("--config={absolute}"),
        Some((_, word)) => *word = absolute,
        None => {
            let at = end.min(1);
            words.splice(at..at, ["--config".to_owned(), absolute]);
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_works_in_every_folder() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().canonicalize().unwrap().join("mcp.json");
        std::fs::write(&path, "{}").unwrap();
        let shown = path.display().to_string();
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        for (before, after) in [
            (format!("wrap --config {shown} -- x"), format!("wrap --config {shown} -- x")),
            (format!("wrap --config={shown}"), format!("wrap --config={shown}")),
            ("stdio".to_owned(), format!("stdio --config {shown}")),
            ("wrap -- x".to_owned(), format!("wrap --config {shown} -- x")),
        ] {
            assert_eq!(elsewhere(words(&before), Some(&path)), words(&after));
        }
        assert_eq!(elsewhere(words("wrap -- x"), None), words("wrap -- x"));
    }

    #[test]
    fn the_address_of_all_interfaces_is_replaced() {
        assert_eq!(url("0.0.0.0:8642".parse().unwrap(), "default"), "http://127.0.0.1:8642/mcp");
        assert_eq!(url("[::]:1".parse().unwrap(), "work"), "http://[::1]:1/mcp/work");
    }
}
