//! Converts rmcp's types into the JSON that a chain works on, and back.

use rmcp::{
    ErrorData,
    model::{
        CallToolResponse, CompleteResult, CustomResult, DiscoverResult, ErrorCode,
        GetPromptResponse, GetTaskResult, InitializeResult, ListPromptsResult,
        ListResourceTemplatesResult, ListResourcesResult, ReadResourceResponse,
    },
};
use serde_json::Error;
use toolgate::{Answer, Failure, RpcError, admission::complete};
use toolgate_wire::{Json, mcp::member};

/// A result with a JSON form.
pub(crate) trait JsonResult: Sized {
    /// The result as it is sent over the wire.
    fn to_json(&self) -> Result<Json, Error>;

    /// Reads a result that a layer made or changed.
    fn from_json(text: &Json) -> Result<Self, Error>;
}

macro_rules! by_serde {
    ($($type:ty),* $(,)?) => {$(
        impl JsonResult for $type {
            fn to_json(&self) -> Result<Json, Error> {
                Json::serialize(self)
            }

            fn from_json(text: &Json) -> Result<Self, Error> {
                complete(text.clone()).decode()
            }
        }
    )*};
}
by_serde!(
    CompleteResult,
    DiscoverResult,
    GetTaskResult,
    InitializeResult,
    ListPromptsResult,
    ListResourceTemplatesResult,
    ListResourcesResult,
);

/// The results that may also be a request for input.
macro_rules! by_result_type {
    ($($type:ident { $($name:literal => $variant:ident),* })*) => {$(
        impl JsonResult for $type {
            fn to_json(&self) -> Result<Json, Error> {
                match self {
                    Self::Complete(result) => Json::serialize(result),
                    $(Self::$variant(result) => Json::serialize(result),)*
                    // The enum is open: a kind that a later version of rmcp adds must be added here.
                    _ => Err(serde::ser::Error::custom("a kind of result that is not known here")),
                }
            }

            fn from_json(text: &Json) -> Result<Self, Error> {
                let kind = text.get(member::RESULT_TYPE);
                match kind.as_ref().and_then(Json::text).as_deref() {
                    $(Some($name) => text.decode().map(Self::$variant),)*
                    _ => complete(text.clone()).decode().map(Self::Complete),
                }
            }
        }
    )*};
}
by_result_type! {
    CallToolResponse { "input_required" => InputRequired, "task" => Task }
    GetPromptResponse { "input_required" => InputRequired }
    ReadResourceResponse { "input_required" => InputRequired }
}

impl JsonResult for CustomResult {
    fn to_json(&self) -> Result<Json, Error> {
        Json::serialize(&self.0)
    }

    fn from_json(text: &Json) -> Result<Self, Error> {
        text.decode().map(Self)
    }
}

/// A method with an empty result.
impl JsonResult for () {
    fn to_json(&self) -> Result<Json, Error> {
        Ok(Json::empty_object())
    }

    fn from_json(_text: &Json) -> Result<Self, Error> {
        Ok(())
    }
}

/// An error of the handler, as the chain carries it.
pub(crate) fn to_rpc(error: &ErrorData) -> RpcError {
    RpcError {
        code: error.code.0.into(),
        message: error.message.to_string(),
        data: error.data.as_ref().map(Json::value),
    }
}

/// An error that leaves the chain, as rmcp sends it.
pub(crate) fn to_error(rpc: RpcError) -> ErrorData {
    let code = i32::try_from(rpc.code).map_or(ErrorCode::INTERNAL_ERROR, ErrorCode);
    // Data is JSON text; a value that serde cannot read (1e400) is left out.
    let data = rpc.data.and_then(|data| data.to_value().ok());
    ErrorData::new(code, rpc.message, data)
}

/// A layer did something that cannot be expressed in MCP.
pub(crate) fn layer_error(what: &str) -> ErrorData {
    tracing::error!("{what}");
    ErrorData::internal_error(what.to_owned(), None)
}

/// A layer ran the rest of the chain with a request of another kind.
pub(crate) fn wrong_request(path: &str, asked: &str) -> Failure {
    Failure::internal(format!("a layer asked for `{asked}` on the way of `{path}`"))
}

/// A failure as the response to a request.
pub(crate) fn error_answer(failure: &Failure) -> Answer {
    let error = to_error(failure.to_rpc());
    let text = Json::serialize(&error).unwrap_or_else(|_| Json::empty_object());
    Answer { body: Err(text), origin: None }
}

#[cfg(test)]
mod tests {
    use rmcp::model::{CallToolResult, ContentBlock, InputRequiredResult};

    use super::*;

    fn again<T: JsonResult>(value: &T) -> T {
        T::from_json(&value.to_json().unwrap()).unwrap()
    }

    #[test]
    fn every_kind_of_result_comes_back_as_its_kind() {
        let done = CallToolResult::success(vec![ContentBlock::text("done")]);
        let CallToolResponse::Complete(read) = again(&CallToolResponse::Complete(done.clone()))
        else {
            panic!("another kind")
        };
        assert_eq!(read, done);
        let more = InputRequiredResult::from_request_state("state");
        assert!(matches!(again(&CallToolResponse::from(more)), CallToolResponse::InputRequired(_)));
    }

    #[test]
    fn a_result_that_a_layer_made_is_complete_in_the_new_era_too() {
        let made = Json::value(&serde_json::json!({"content": [], "isError": true}));
        let CallToolResponse::Complete(read) = CallToolResponse::from_json(&made).unwrap() else {
            panic!("another kind")
        };
        assert!(read.result_type.is_some_and(|kind| kind.is_complete()));
    }

    #[test]
    fn errors_keep_code_message_and_data() {
        let error = ErrorData::new(ErrorCode(-7), "no", Some(serde_json::json!({"a": [1, null]})));
        assert_eq!(to_error(to_rpc(&error)), error);
        let far = RpcError { code: i64::MAX, message: "no".into(), data: None };
        assert_eq!(to_error(far).code, ErrorCode::INTERNAL_ERROR);
    }
}
