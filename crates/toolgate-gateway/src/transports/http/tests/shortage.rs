//! A process without free file descriptors. The limit applies to a whole process, so this test runs in its own process.

use std::{fs::File, process::Command};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::*;

const WITHIN: &str = "transports::http::tests::shortage::within";

#[test]
fn a_shortage_of_handles_is_survived() {
    let mut child = Command::new(std::env::current_exe().unwrap());
    let child = child.args(["--exact", WITHIN, "--ignored", "--nocapture"]).output().unwrap();
    let output = String::from_utf8_lossy(&child.stdout);
    assert!(child.status.success() && output.contains("1 passed"), "{output}");
}

#[test]
#[ignore = "lowers the limits of its process: the test above runs it in another one"]
fn within() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let server = TestServer::open(|_| {});
        let mut first = server.client().await;
        assert_eq!(first.get("/a").await.status, 200);
        let limits = getrlimit(Resource::Nofile);
        setrlimit(Resource::Nofile, Rlimit { current: Some(64), ..limits }).unwrap();
        let mut taken: Vec<_> = std::iter::from_fn(|| File::open("/dev/null").ok()).collect();
        assert!(taken.len() > 5);
        for _ in 0..3 {
            // One file descriptor for the client, and none to accept its connection.
            drop(taken.pop());
            let mut last = server.client().await;
            let _gone = last.stream.write_all(get("/a").as_bytes()).await;
            let refusal = last.end().await;
            // What was sent too early may cut it off.
            assert!(refusal.is_empty() || refusal.starts_with("HTTP/1.1 503 "), "{refusal}");
            assert_eq!(first.get("/b").await.status, 200);
            drop(last);
            taken.extend(File::open("/dev/null"));
        }
        drop(taken);
        // A refused client tries again.
        bounded(async {
            loop {
                let mut client = server.client().await;
                let _gone = client.stream.write_all(get("/a").as_bytes()).await;
                while client.more().await > 0 && !client.read.ends_with(b"/a ") {}
                if client.read.starts_with(b"HTTP/1.1 200 ") {
                    break;
                }
            }
        })
        .await;
        setrlimit(Resource::Nofile, limits).unwrap();
    });
}
