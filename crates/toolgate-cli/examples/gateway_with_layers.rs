//! A gateway over stdio with layers of its own: `cargo run -p toolgate-cli --example gateway_with_layers -- toolgate.toml`.
//!
//! Its servers have URLs: a program that starts commands needs the keeper of `toolgate`.

use std::{error::Error, path::Path, sync::Arc};

use serde_json::json;
use toolgate::{
    Failure, GetPrompt, Initialize, Json, LogLevel, from_fn, gate, on_notification, on_request,
    stack::PlacedLayer,
};
use toolgate_gateway::{
    config::{BuiltinTable, Config, ConfigWatch, ServeConfig},
    gateway::{GatewayOptions, NamespaceSettings, RunningGateway},
};

/// The layers, each with its place.
fn layers() -> Vec<PlacedLayer> {
    let closed = gate("closed", |_, access| match access.tool().id().name() {
        "reject" => Err(Failure::refused("this tool is private").with_own_code("PRIVATE")),
        _ => Ok(()),
    });
    let twice = from_fn("twice", async |cx, call, next| {
        if call.id().name() != "echo"
            || cx.meta_member("example.com/twice").is_none()
            || cx.depth() > 0
        {
            return next.call(cx, call).await;
        }
        if let Some(peer) = next.peer() {
            peer.progress(1.0, Some(2.0), Some("once more")).await;
            peer.log(LogLevel::Error, "twice", "once more".into()).await;
        }
        let first = next.nested(cx, "echo", Some(json!({"text": "first"}).into())).await;
        let first = first.result().map(|result| result.json().clone());
        next.call(cx, call).await.insert_meta("example.com/first", first)
    });
    let hello = on_request("hello", async |hello: Initialize, cx, request, next| {
        let mut answer = next.request(cx, request).await;
        if let Some(mut result) = answer.body.as_ref().ok().and_then(Json::object) {
            result.set("instructions", format!("Hello, {}", hello.client_info.name));
            answer.set_result(result.finish());
        }
        answer
    });
    let prompts = on_request("prompts", async |prompt: GetPrompt, cx, request, next| {
        if prompt.name.contains("greet") {
            return Err(Failure::refused("nobody is greeted").with_rpc_code(1403));
        }
        Ok(next.request(cx, request).await)
    });
    let watch = on_notification("watch", |cx, method, _| {
        tracing::info!("{} notifies: {method}", cx.principal());
    });
    vec![
        PlacedLayer::before("audit-intent", closed),
        PlacedLayer::after("preconditions", twice),
        PlacedLayer::innermost(hello),
        PlacedLayer::innermost(prompts),
        PlacedLayer::innermost(watch),
    ]
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    let file = std::env::args().nth(1).unwrap_or_else(|| "toolgate.toml".to_owned());
    let config = Config::read(Path::new(&file), BuiltinTable::default())?;
    let source = config.clone();
    let options = GatewayOptions {
        settings: Arc::new(move |namespace: &str| {
            let settings = source.settings(namespace).map_err(|error| error.to_string())?;
            Ok(NamespaceSettings { settings, trail: None, telemetry: None })
        }),
        config,
        serve: ServeConfig::default(),
        store: None,
        manifests: None,
        watch: ConfigWatch::off(Some(Path::new(&file))),
        only: Some("default".to_owned()),
        exclusive: None,
        layers: Vec::new(),
        placed: layers(),
        inspects: None,
    };
    let gateway = RunningGateway::new(options).await?;
    gateway.one("default", std::future::pending()).await?;
    gateway.end().await;
    Ok(())
}
