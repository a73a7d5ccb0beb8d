//! A governed server, for `cargo check` with the oldest versions. It names the library only through `toolgate_rmcp`.

use rmcp::{ServerHandler, tool, tool_handler, tool_router};
use toolgate_rmcp::{
    Governed,
    toolgate::{
        BadChain, Chain, Tier,
        middleware::{error_results::ErrorResults, safety::Safety},
    },
};

/// A server with one tool.
#[derive(Debug)]
pub struct Clock;

#[tool_router]
impl Clock {
    #[tool(description = "The time", annotations(read_only_hint = true))]
    fn time(&self) -> String {
        "noon".to_owned()
    }
}

#[tool_handler]
impl ServerHandler for Clock {}

/// The server with a chain around it.
pub fn governed() -> Result<impl ServerHandler, BadChain> {
    let chain = Chain::builder().layer(ErrorResults).layer(Safety::new(Tier::Readonly)).build()?;
    Ok(Governed::new(Clock, chain))
}
