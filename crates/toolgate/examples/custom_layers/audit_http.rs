//! A layer that records each call at an HTTP service before it runs. A call that cannot be recorded does not run. (The
//! layers `audit` and `audit-trail` do more: redaction, outcomes, a hash chain.)

use std::net::SocketAddr;

use serde_json::json;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};
use toolgate::{
    Code, Failure, Middleware, Timestamp, from_fn_with,
    testing::{Harness, assert_denied},
};

use super::http_post::post;

fn audit_http(service: SocketAddr) -> impl Middleware {
    from_fn_with("audit-http", service, async |service, cx, call, next| {
        let record = json!({
            "timestamp": Timestamp::now().to_string(),
            "userId": cx.principal().to_string(),
            "namespace": &*cx.session().namespace,
            "tool": call.id().to_string(),
            "arguments": call.arguments(),
        });
        let lost = |_| Failure::new(Code::AuditUnavailable, "the call cannot be recorded");
        post(service, &record).await.map_err(lost)?;
        Ok(next.call(cx, call).await)
    })
}

/// The service gets the record; without the service the call is refused.
pub(crate) async fn show() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let harness = Harness::new(audit_http(address)).user("eve");
    let service = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut request = [0_u8; 1024];
        let length = stream.read(&mut request).await.unwrap();
        stream.write_all(b"HTTP/1.0 200 OK\r\n\r\n").await.unwrap();
        String::from_utf8_lossy(request.get(..length).unwrap()).into_owned()
    };
    let (request, outcome) = tokio::join!(service, harness.call("write", json!({"path": "a"})));
    assert_eq!(outcome.code(), None);
    assert!(request.contains(r#""userId":"local:eve""#) && request.contains(r#"{"path":"a"}"#));
    drop(listener);
    assert_denied(&harness.call("write", ()).await, Code::AuditUnavailable);
    assert_eq!(harness.seen().len(), 1);
}
