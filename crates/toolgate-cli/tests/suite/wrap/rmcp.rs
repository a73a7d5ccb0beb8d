//! The official Rust client in front of `toolgate wrap`, in both eras of the protocol.

use rmcp::{
    model::{CallToolRequestParams, ProtocolVersion},
    service::{ClientLifecycleMode, serve_client_with_lifecycle},
    transport::TokioChildProcess,
};

use crate::harness::{fixture, toolgate};

async fn lists_calls_and_is_refused(
    lifecycle: ClientLifecycleMode,
) -> Result<(), Box<dyn std::error::Error>> {
    let mut command = tokio::process::Command::new(toolgate());
    command.args(["wrap", "--audit", "off", "--safety", "readonly", "--"]).arg(fixture());
    let transport = TokioChildProcess::new(command)?;
    let client = serve_client_with_lifecycle((), transport, lifecycle).await?;
    let tools = client.list_all_tools().await?;
    assert!(tools.iter().any(|tool| tool.name == "echo"));
    assert!(tools.iter().all(|tool| tool.name != "crash"));
    let mut params = CallToolRequestParams::new("echo");
    params.arguments = serde_json::json!({"text": "from rust"}).as_object().cloned();
    let echoed = serde_json::to_value(client.call_tool(params).await?)?;
    assert_eq!(echoed.pointer("/content/0/text"), Some(&"from rust".into()));
    let denied =
        serde_json::to_value(client.call_tool(CallToolRequestParams::new("crash")).await?)?;
    assert_eq!(denied.pointer("/_meta/code"), Some(&"TIER_DENIED".into()));
    client.cancel().await?;
    Ok(())
}

#[tokio::test]
async fn the_rust_client_of_2025() -> Result<(), Box<dyn std::error::Error>> {
    lists_calls_and_is_refused(ClientLifecycleMode::Initialize).await
}

#[tokio::test]
async fn the_rust_client_of_2026() -> Result<(), Box<dyn std::error::Error>> {
    let preferred_versions = vec![ProtocolVersion::V_2026_07_28];
    lists_calls_and_is_refused(ClientLifecycleMode::Discover { preferred_versions }).await
}
