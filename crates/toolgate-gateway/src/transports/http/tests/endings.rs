//! How the server starts and stops.

use super::*;
use crate::transports::http::listen::raise_open_files;

#[tokio::test]
async fn what_is_under_way_is_answered_and_what_is_idle_ends() {
    let mut door = Door::open(|_| {});
    let mut idle = door.client().await;
    assert_eq!(idle.get("/a").await.status, 200);
    let mut fresh = door.client().await;
    let mut busy = door.client().await;
    busy.send(get("/wait")).await;
    assert!(matches!(door.told().await, Told::Waiting));
    door.until_open(3).await;
    let stopping = tokio::spawn(door.listening.stop(LONG));
    assert_eq!(idle.end().await, "");
    assert_eq!(fresh.end().await, "");
    assert!(bounded(TcpStream::connect(door.address)).await.is_err());
    assert!(!stopping.is_finished());
    door.handler.go_on.notify_one();
    let answer = busy.answer().await;
    assert_eq!((answer.body.as_str(), answer.header("connection")), ("waited", Some("close")));
    assert_eq!(busy.end().await, "");
    bounded(stopping).await.unwrap();
    // The threads have ended, and with them all references to the handler.
    assert_eq!(Arc::strong_count(&door.handler), 1);
}

#[tokio::test]
async fn what_is_not_done_in_time_is_dropped() {
    let mut door = Door::open(|_| {});
    let mut client = door.client().await;
    client.send(get("/wait")).await;
    assert!(matches!(door.told().await, Told::Waiting));
    let mut reader = door.client().await;
    reader.send(get("/events")).await;
    let Told::Stream(sender) = door.told().await else { panic!("no stream") };
    bounded(door.listening.stop(millis(50))).await;
    assert!(matches!(bounded(door.told.recv()).await, Some(Told::Dropped)));
    bounded(sender.closed()).await;
    assert_eq!(client.end().await, "");
    assert_eq!(Arc::strong_count(&door.handler), 1);
}

#[tokio::test]
async fn a_door_that_is_dropped_is_shut() {
    let mut door = Door::open(|_| {});
    let mut client = door.client().await;
    client.send(get("/wait")).await;
    assert!(matches!(door.told().await, Told::Waiting));
    drop(door.listening);
    assert!(matches!(bounded(door.told.recv()).await, Some(Told::Dropped)));
    assert_eq!(client.end().await, "");
}

#[test]
fn an_address_that_is_taken_is_said_with_what_to_do() {
    let first = BoundAddresses::bind(&["127.0.0.1:0".parse().unwrap(), "[::1]:0".parse().unwrap()])
        .unwrap();
    let [four, six] = first.addresses() else { panic!("two were asked for") };
    assert!(four.port() != 0 && six.port() != 0);
    let error = BoundAddresses::bind(&[*four]).unwrap_err().to_string();
    let expected =
        format!("`{four}` is in use: stop the other program, or choose another with `--listen`");
    assert_eq!(error, expected);
    let error = BoundAddresses::bind(&["192.0.2.1:80".parse().unwrap()]).unwrap_err().to_string();
    assert!(error.contains("is no address of this machine"), "{error}");
    let four = *four;
    drop(first);
    BoundAddresses::bind(&[four]).unwrap();
}

#[test]
fn the_limit_of_open_files_is_raised() {
    let limit = raise_open_files();
    assert_eq!(raise_open_files(), limit);
    let now = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    assert_eq!((now.current, now.maximum), (limit, limit));
}
