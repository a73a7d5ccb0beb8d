//! A layer that checks the arguments of two tools by their types.

use serde::Deserialize;
use serde_json::json;
use toolgate::{
    Call, Code, Context, Failure, Middleware,
    testing::{Harness, assert_denied},
    transform_request,
};

#[derive(Deserialize)]
struct FileRead {
    path: String,
}

#[derive(Deserialize)]
struct HttpRequest {
    url: String,
    method: String,
}

fn typed_arguments() -> impl Middleware {
    transform_request("typed-arguments", |call: Call, _: &mut Context| {
        let fits = match call.id().name() {
            "file_read" => call.args::<FileRead>()?.path.starts_with("/allowed/"),
            "http_request" => matches!(call.args()?, HttpRequest { url, method }
                if url.starts_with("https://") && ["GET", "POST"].contains(&&*method)),
            _ => true,
        };
        fits.then_some(call).ok_or_else(|| Failure::new(Code::InvalidArguments, "not allowed"))
    })
}

/// Invalid arguments never reach a tool, and the caller reads which argument is wrong.
pub(crate) async fn show() {
    let harness = Harness::new(typed_arguments());
    for (tool, arguments) in [
        ("file_read", json!({"path": "/etc/passwd"})),
        ("http_request", json!({"url": "https://example.com", "method": "DELETE"})),
    ] {
        assert_denied(&harness.call(tool, arguments).await, Code::InvalidArguments);
    }
    let outcome = harness.call("file_read", json!({"path": 7})).await;
    assert!(assert_denied(&outcome, Code::InvalidArguments).message().contains("path"));
    let allowed = json!({"path": "/allowed/a"});
    assert_eq!(harness.call("file_read", allowed.clone()).await.code(), None);
    assert_eq!(harness.seen(), [allowed]);
}
