//! `--record` and `toolgate replay`: what is played looks like what was there.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use serde_json::{Value, json};

use crate::harness::{
    text,
    tmux::{Tmux, structured},
    toolgate,
};

fn casts(folder: &Path) -> Vec<PathBuf> {
    let Ok(files) = fs::read_dir(folder) else { return Vec::new() };
    let mut files: Vec<PathBuf> = files.map(|file| file.unwrap().path()).collect();
    files.sort();
    files
}

fn events(cast: &Path) -> Vec<Value> {
    let text = fs::read_to_string(cast).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn replay(arguments: &[&str]) -> Output {
    Command::new(toolgate()).arg("replay").args(arguments).output().unwrap()
}

fn screen(tmux: &Tmux) -> String {
    tmux.run(&["capture-pane", "-p", "-e", "-t", "%0"])
}

fn has_line(tmux: &Tmux, line: &str) {
    tmux.until(line, |tmux| tmux.run(&["capture-pane", "-p"]).lines().any(|shown| shown == line));
}

#[test]
fn what_is_played_looks_like_what_was_there() {
    let tmux = Tmux::start();
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().join("casts");
    let path = folder.display().to_string();
    tmux.run(&["send-keys", "-t", "%0", "echo be''fore", "Enter"]);
    has_line(&tmux, "before");
    let mut session = tmux.serve(&["--record", &path]);
    structured(&session.call("capture_pane", json!({"pane_id": "%0"})));
    assert!(casts(&folder).is_empty(), "reading records nothing");
    let send = |keys: &str| json!({"keys": keys, "session_name": "one"});
    let colours =
        "printf '\\033[1;31mred\\033[0m \\033[44mblue\\033[0m é 界\\n'; seq 1 50; echo e''nd";
    structured(&session.call("send_keys", send(colours)));
    has_line(&tmux, "end");
    tmux.run(&["resize-window", "-t", "one", "-x", "100", "-y", "30"]);
    structured(&session.call("send_keys", send("echo la''st")));
    has_line(&tmux, "last");
    let missing = session.call("send_keys", json!({"keys": "x", "pane_id": "%77"}));
    assert_eq!(missing["result"]["_meta"]["error_type"], "PaneNotFound");
    let wanted = screen(&tmux);
    let records = session.records();

    let files = casts(&folder);
    assert_eq!(files.len(), 1, "{files:?}");
    let name = files[0].file_name().unwrap().to_string_lossy().into_owned();
    assert!(name.starts_with(&format!("{}-0-20", tmux.name)) && name.ends_with("Z.cast"), "{name}");
    assert_eq!(fs::metadata(&files[0]).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(fs::metadata(&folder).unwrap().permissions().mode() & 0o777, 0o700);
    let all = events(&files[0]);
    assert_eq!(
        (&all[0]["version"], &all[0]["width"], &all[0]["height"]),
        (&json!(2), &json!(120), &json!(40))
    );
    assert!(all[1][1] == "o" && all[1][2].as_str().unwrap().contains("before"), "{}", all[1]);
    assert!(all.iter().any(|event| event[1] == "r" && event[2] == "100x30"), "{all:?}");
    // Each call has a marker with its id, and none of its arguments.
    let markers: Vec<&str> = all
        .iter()
        .filter(|event| event[1] == "m")
        .map(|event| event[2].as_str().unwrap())
        .collect();
    let ids = records.iter().filter(|record| record["tool"] == "send_keys").take(2);
    let ids: Vec<String> =
        ids.map(|record| format!("send_keys {}", record["call_id"].as_str().unwrap())).collect();
    assert_eq!(markers, ids);

    let file = files[0].display().to_string();
    let listed = String::from_utf8(replay(&[&file, "--markers"]).stdout).unwrap();
    assert_eq!(listed.lines().count(), 2, "{listed}");
    let other = Tmux::down();
    let play = format!("{} replay --cat '{file}'; cat", toolgate().display());
    other.until("started", |other| {
        let size = ["new-session", "-d", "-x", "120", "-y", "40", &play];
        other.output(&size).status.success()
    });
    has_line(&other, "last");
    other.run(&["resize-window", "-x", "100", "-y", "30"]);
    // The shell's prompt is the last that came: then the screens are the same, colours and all.
    other.until("the same screen", |other| screen(other) == wanted);

    let played = replay(&[&file, "--speed", "1000", "--idle-limit", "10ms"]);
    let printed = replay(&[&file, "--cat"]);
    assert!(played.status.success() && played.stdout == printed.stdout, "the same bytes");
}

#[test]
fn secrets_are_masked_in_recordings_too() {
    let tmux = Tmux::start();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().display().to_string();
    let mut session = tmux.serve(&["--record", &path, "--mask"]);
    let half = "a1B2".repeat(9);
    let keys = format!("printf 'token %s%s\\n' ghp_ {half}; printf 'no line'; echo; echo e''nd");
    structured(&session.call("send_keys", json!({"keys": keys, "pane_id": "%0"})));
    has_line(&tmux, "end");
    session.finish();
    let recorded = fs::read_to_string(&casts(folder.path())[0]).unwrap();
    assert!(recorded.contains("token [redacted: github-token]"), "{recorded}");
    assert!(
        !recorded.contains(&format!("ghp_{half}")) && recorded.contains("no line"),
        "{recorded}"
    );
}

#[test]
fn what_cannot_be_recorded_is_told_once_or_refused() {
    let tmux = Tmux::start();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "no folder").unwrap();
    let path = file.join("casts").display().to_string();
    let send = json!({"keys": "true", "pane_id": "%0"});
    let mut session = tmux.serve(&["--record", &path]);
    for _ in 0..3 {
        structured(&session.call("send_keys", send.clone()));
    }
    session.finish();
    let told = session.all_stderr();
    let told = told.iter().filter(|line| line.contains("pane %0 is no longer recorded")).count();
    assert_eq!(told, 1);
    let mut session = tmux.serve(&["--record", &path, "--record-required"]);
    let refused = session.call("send_keys", send.clone());
    assert!(text(&refused).contains("recording is required: nothing was done"), "{refused}");
    structured(&session.call("capture_pane", json!({"pane_id": "%0"})));
    // Once there is room again, so is recording.
    fs::remove_file(&file).unwrap();
    structured(&session.call("send_keys", send));
    session.finish();
    assert_eq!(casts(&file.join("casts")).len(), 1);
}

#[test]
fn what_is_no_recording_is_not_played() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("x.cast");
    let path = file.display().to_string();
    for (text, why) in [
        ("", "it is not an asciicast file"),
        ("hello\n", "it is not an asciicast file"),
        (
            "{\"version\": 3}\n",
            "it is an asciicast file of version 3, and only version 2 can be played",
        ),
        ("{\"version\": 2}\n[0, \"o\", \"a\"]\nnonsense\n", "line 3 of"),
    ] {
        fs::write(&file, text).unwrap();
        let output = replay(&[&path, "--cat"]);
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(2) && errors.contains(why), "{text}: {errors}");
    }
    let missing = replay(&["/no/such.cast"]);
    assert!(String::from_utf8_lossy(&missing.stderr).contains("cannot open `/no/such.cast`"));
    // Input that was recorded elsewhere, and events that nobody knows, are not written.
    let mixed =
        "{\"version\":2}\n[0,\"i\",\"typed\"]\n[0.1,\"o\",\"shown\"]\n[0.2,\"x\",\"odd\"]\n";
    fs::write(&file, mixed).unwrap();
    assert_eq!(replay(&[&path]).stdout, b"shown");
}

#[test]
fn ctrl_c_ends_a_replay_and_puts_the_terminal_right() {
    let tmux = Tmux::start();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("x.cast");
    // Another screen, no cursor, the mouse; then an hour of nothing.
    let cast = "{\"version\":2}\n[0,\"o\",\"\\u001b[?1049h\\u001b[?25l\\u001b[?1000h\"]\n[3600,\"o\",\"x\"]\n";
    fs::write(&file, cast).unwrap();
    let state = |tmux: &Tmux| tmux.format("#{alternate_on} #{cursor_flag} #{mouse_any_flag}");
    let play = format!("{} replay '{}'; echo status $?", toolgate().display(), file.display());
    tmux.run(&["send-keys", "-t", "%0", &play, "Enter"]);
    tmux.until("played", |tmux| state(tmux) == "1 0 1");
    tmux.run(&["send-keys", "-t", "%0", "C-c"]);
    has_line(&tmux, "status 130");
    assert_eq!(state(&tmux), "0 1 0");
}
