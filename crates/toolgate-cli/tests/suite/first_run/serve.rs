//! `toolgate serve` without a config: it shows governed calls at once, and serves a config as soon as there is one.

use std::process::Command;

use serde_json::{Value, json};

use crate::harness::{
    Session,
    clients::Modern,
    fixture,
    gateway::{Place, stdio},
    text, toolgate,
};

/// `toolgate serve` in the folder of a place, with a home folder of its own.
fn serve(place: &Place, arguments: &[&str]) -> Command {
    let mut command = Command::new(toolgate());
    command.arg("serve").args(arguments).current_dir(place.path("")).env_remove("TOOLGATE_CONFIG");
    command.env("XDG_STATE_HOME", place.path("state")).env("TOOLGATE_LOG", "info");
    for (variable, name) in [("HOME", "home"), ("TMPDIR", "tmp")] {
        std::fs::create_dir(place.path(name)).unwrap();
        command.env(variable, place.path(name));
    }
    command
}

/// The same in a place without a config.
fn without_config() -> (Place, Command) {
    let place = Place::new("");
    std::fs::remove_file(place.path("toolgate.toml")).unwrap();
    let command = serve(&place, &["--listen", "127.0.0.1:0"]);
    (place, command)
}

#[test]
fn it_shows_governed_calls_and_what_to_do() {
    let (place, command) = without_config();
    let mut gateway = place.start_as(command);
    gateway.wait_for_stderr("as soon as one is in this");
    let told = gateway.stderr().join("\n");
    for part in [
        "files/read_file README.md             allowed",
        "refused   by policy",
        "There are no servers yet",
        "toolgate serve mcp.json",
        "toolgate demo",
    ] {
        assert!(told.contains(part), "{part:?} is missing:\n{told}");
    }
    assert_eq!(gateway.terminate().code(), Some(0));
    let left = std::fs::read_dir(gateway.path("tmp")).unwrap().count();
    assert_eq!(left, 0, "the example leaves no file");
}

#[test]
fn it_offers_the_servers_of_clients() {
    let (place, command) = without_config();
    let entry = json!({"command": fixture(), "args": []});
    let wrapped = json!({"command": "toolgate", "args": ["wrap", "--", "x"]});
    let file = json!({"mcpServers": {"files": entry, "search": entry, "behind": wrapped}});
    std::fs::create_dir(place.path("home/.cursor")).unwrap();
    std::fs::write(place.path("home/.cursor/mcp.json"), file.to_string()).unwrap();
    let gateway = place.start_as(command);
    let line = gateway.wait_for_stderr("Cursor");
    assert!(line.ends_with("2 servers: files, search"), "{line}");
    let path = gateway.path("home/.cursor/mcp.json").display().to_string();
    gateway.wait_for_stderr(&format!("toolgate serve {path}"));
}

#[test]
fn a_config_that_appears_is_served_at_the_same_address() {
    let (place, command) = without_config();
    let gateway = place.start_as(command);
    gateway.wait_for_stderr("There are no servers yet");
    assert_eq!(gateway.modern().tools(), Vec::<String>::new());
    // The gateway reports a config that it cannot use, and goes on.
    gateway.place().write("toolgate.toml", "[servers.a]\ncommad = \"x\"\n");
    gateway.wait_for_stderr("did you mean `command`?");
    gateway.wait_for_stderr_times("listening on", 2);
    assert_eq!(gateway.modern().tools(), Vec::<String>::new());
    gateway.place().configure(&stdio("pipes", &[], ""));
    gateway.wait_for_stderr_times("listening on", 3);
    gateway.settled(14);
    let client = Modern::new(gateway.address, "/mcp");
    assert_eq!(text(&client.call("echo", json!({"text": "hello"}))), "hello");
    // It is a gateway with a config now: it reloads, and the example is shown once.
    let told = gateway.stderr().join("\n");
    assert_eq!(told.matches("There are no servers yet").count(), 1, "{told}");
}

#[test]
fn the_file_of_a_client_that_appears_is_served() {
    let (place, command) = without_config();
    let gateway = place.start_as(command);
    let file = json!({"mcpServers": {"pipes": {"command": fixture(), "args": []}}});
    gateway.place().write(".mcp.json", &file.to_string());
    gateway.wait_for_stderr_times("listening on", 2);
    gateway.settled(14);
    gateway.wait_for_stderr("Not into `.mcp.json`, which toolgate reads");
}

/// The entry that begins so on stderr, as JSON.
fn printed(told: &str, start: &str) -> Value {
    let at = told.find(start).unwrap_or_else(|| panic!("no {start:?} in {told}"));
    let entry = told[at..].split("\n\n").next().unwrap();
    let entry: Value = serde_json::from_str(&format!("{{{entry}}}")).unwrap();
    entry["toolgate"].clone()
}

#[test]
fn the_printed_entries_work_when_they_are_pasted() {
    let token = "a-token-that-is-long";
    let config = format!(
        "{}\n[serve]\nlisten = \"0.0.0.0:0\"\ntokens = {{ ci = \"{token}\" }}\n",
        stdio("pipes", &[], "")
    );
    let place = Place::new(&config);
    let command = serve(&place, &[]);
    let gateway = place.start_as(command);
    gateway.wait_for_stderr("The system chose this port");
    let told = gateway.stderr().join("\n").replace("YOUR_TOKEN", token);
    assert!(!told.contains("Not into"), "clients do not read toolgate.toml: {told}");
    let port = gateway.address.port();
    let http = printed(&told, "\"toolgate\": { \"type\"");
    assert_eq!(
        http["url"],
        format!("http://127.0.0.1:{port}/mcp"),
        "0.0.0.0 is no address to connect to"
    );
    let header = http["headers"]["Authorization"].as_str().unwrap();
    assert_eq!(header, format!("Bearer {token}"));
    let pasted = printed(&told, "\"toolgate\": {\n");
    let folder = tempfile::tempdir().unwrap();
    let words = pasted["args"].as_array().unwrap().iter().map(|word| word.as_str().unwrap());
    let mut client = Command::new(pasted["command"].as_str().unwrap());
    client.args(words).env_clear().current_dir(folder.path());
    for (name, value) in pasted["env"].as_object().unwrap() {
        client.env(name, value.as_str().unwrap());
    }
    let mut session = Session::spawn(client, folder);
    session.initialize();
    assert_eq!(text(&session.call("echo", json!({"text": "hello"}))), "hello");
}
