//! Records a real pane that is written into faster than a file may grow.

use std::{
    path::Path,
    process::{Command, Output},
    time::Duration,
};

use serde_json::Value;

use super::{RecordConfig, Recorder};
use crate::engine::{ANSWER_TIMEOUT, Engine, Socket};

/// A private tmux server, killed at the end.
struct Tmux(String);

impl Tmux {
    fn run(&self, arguments: &[&str]) -> bool {
        self.output(arguments).status.success()
    }

    fn output(&self, arguments: &[&str]) -> Output {
        let mut tmux = Command::new("tmux");
        tmux.args(["-u", "-L", &self.0, "-f", "/dev/null"]).args(arguments);
        tmux.env_remove("TMUX").output().unwrap()
    }
}

impl Drop for Tmux {
    fn drop(&mut self) {
        // tmux 3.3a sometimes stays when it is killed while a control client disconnects.
        let deadline = std::time::Instant::now() + Duration::from_secs(2);
        let clients = || self.output(&["list-clients"]).stdout;
        while !clients().is_empty() && std::time::Instant::now() < deadline {}
        self.run(&["kill-server"]);
    }
}

fn casts(folder: &Path) -> Vec<String> {
    let files = std::fs::read_dir(folder).unwrap();
    let mut files: Vec<_> = files.map(|file| file.unwrap().path()).collect();
    files.sort();
    files.iter().map(|file| std::fs::read_to_string(file).unwrap()).collect()
}

#[test]
fn a_file_that_is_full_is_followed_by_another() {
    let tmux = Tmux(format!("tg-record-{}", std::process::id()));
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    // The runtime ends before tmux does, and with it the clients.
    runtime.enable_all().build().unwrap().block_on(record(&tmux));
}

async fn record(tmux: &Tmux) {
    assert!(tmux.run(&["new-session", "-d", "-x", "80", "-y", "24", "bash --norc"]));
    let server = Engine::new("tmux", ANSWER_TIMEOUT).server(Socket::Name(tmux.0.clone()));
    let folder = tempfile::tempdir().unwrap();
    let config = RecordConfig {
        folder: Some(folder.path().to_owned()),
        max_bytes: 10_000,
        ..RecordConfig::default()
    };
    let recorder = Recorder::new(&config, false).unwrap();
    recorder.called(&server, "%0", "first".to_owned()).await.unwrap();
    assert!(tmux.run(&["send-keys", "-t", "%0", "seq 1 20000; echo e''nd", "Enter"]));
    let deadline = tokio::time::Instant::now() + Duration::from_secs(20);
    while !casts(folder.path()).last().is_some_and(|cast| cast.contains("end\\r\\n")) {
        assert!(tokio::time::Instant::now() < deadline, "{:?}", casts(folder.path()).len());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    // When a pane ends, its recording ends; the next call for another pane starts a new recording.
    assert!(tmux.run(&["split-window", "-t", "%0", "bash --norc"]));
    recorder.called(&server, "%1", "second".to_owned()).await.unwrap();
    assert!(tmux.run(&["kill-pane", "-t", "%1"]));
    recorder.called(&server, "%9", "none".to_owned()).await.unwrap();
    recorder.close().await;
    let casts = casts(folder.path());
    assert!(casts.len() > 2, "{}", casts.len());
    for cast in &casts {
        let lines: Vec<Value> =
            cast.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(lines[0]["version"], 2);
        assert!(lines[1][2].as_str().unwrap().starts_with("\u{1b}[H\u{1b}[2J"), "{}", lines[1]);
        let times: Vec<f64> = lines[1..].iter().map(|line| line[0].as_f64().unwrap()).collect();
        assert!(times.is_sorted());
    }
    let markers: Vec<&str> = casts
        .iter()
        .flat_map(|cast| cast.lines())
        .filter(|line| line.contains(",\"m\","))
        .collect();
    assert!(
        markers.len() >= 2 && markers.iter().any(|line| line.contains("second")),
        "{markers:?}"
    );
}
