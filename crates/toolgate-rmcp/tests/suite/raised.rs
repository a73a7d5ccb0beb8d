//! A failure that a handler raises reaches the chain as it is.

use rmcp::{
    ErrorData, RoleServer, ServerHandler, ServiceExt as _,
    model::{CallToolRequestParams, CallToolResponse},
    service::RequestContext,
};
use toolgate::{Chain, Failure, middleware::error_results::ErrorResults};
use toolgate_rmcp::{Governed, raise};

struct Raises;

impl ServerHandler for Raises {
    async fn call_tool(
        &self,
        _: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let failure = Failure::tool("PaneNotFound", "Pane not found: %9").suggest("Look again.");
        Err(raise(&context, failure))
    }
}

#[tokio::test]
async fn with_its_type_and_its_suggestion() -> Result<(), Box<dyn std::error::Error>> {
    let chain = Chain::builder().layer(ErrorResults).build()?;
    let (ours, theirs) = tokio::io::duplex(4096);
    let serving = tokio::spawn(async move { Governed::new(Raises, chain).serve(ours).await });
    let client = ().serve(theirs).await?;
    let result = client.call_tool(CallToolRequestParams::new("any")).await?;
    let result = serde_json::to_value(result)?;
    assert_eq!(result.pointer("/_meta/error_type"), Some(&"PaneNotFound".into()));
    assert_eq!(result.pointer("/content/0/text"), Some(&"Pane not found: %9\nLook again.".into()));
    client.cancel().await?;
    serving.await??.cancel().await?;
    Ok(())
}

#[tokio::test]
async fn without_a_chain_it_is_an_error() -> Result<(), Box<dyn std::error::Error>> {
    let (ours, theirs) = tokio::io::duplex(4096);
    let serving = tokio::spawn(async move { Raises.serve(ours).await });
    let client = ().serve(theirs).await?;
    let error = client.call_tool(CallToolRequestParams::new("any")).await.err();
    assert!(error.is_some_and(|error| error.to_string().contains("Pane not found: %9")));
    client.cancel().await?;
    serving.await??.cancel().await?;
    Ok(())
}
