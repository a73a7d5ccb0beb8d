//! A process that has no handles left. The limit is that of a whole process, so this runs in one of its own.

use std::process::Command;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::*;

const WITHIN: &str = "inbound::http::tests::shortage::within";

#[test]
fn a_shortage_of_handles_is_survived() {
    let mut child = Command::new(std::env::current_exe().unwrap());
    let child = child.args(["--exact", WITHIN, "--ignored", "--nocapture"]).output().unwrap();
    let said = String::from_utf8_lossy(&child.stdout);
    assert!(child.status.success() && said.contains("1 passed"), "{said}");
}

#[test]
#[ignore = "lowers the limits of its process: the test above runs it in another one"]
fn within() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let door = Door::open(|_| {});
        let mut first = door.client().await;
        assert_eq!(first.get("/a").await.status, 200);
        let limits = getrlimit(Resource::Nofile);
        setrlimit(Resource::Nofile, Rlimit { current: Some(64), ..limits }).unwrap();
        let mut crowd = Vec::new();
        // Each connection takes two handles here. The last one takes the client's, and leaves none to accept it.
        while let Ok(stream) = TcpStream::connect(door.address).await {
            crowd.push(Client { stream, read: vec![] });
        }
        assert!(crowd.len() > 5, "{}", crowd.len());
        // Those who were let in are served, and so is the one from before.
        assert_eq!(first.get("/a").await.status, 200);
        let mut served = 0;
        for client in &mut crowd {
            let _gone = client.stream.write_all(get("/a").as_bytes()).await;
            let head = client.more().await;
            assert!(head == 0 || client.read.starts_with(b"HTTP/1.1 "));
            served += usize::from(client.read.starts_with(b"HTTP/1.1 200"));
        }
        assert!(served > 5, "{served}");
        drop(crowd);
        door.until_open(1).await;
        assert_eq!(door.client().await.get("/a").await.status, 200);
        setrlimit(Resource::Nofile, limits).unwrap();
    });
}
