//! Adds the server's name to messages in which it asks the user for something.

use toolgate::attribution;
use toolgate_wire::{
    Limits, Message, Shape,
    mcp::{code, member},
};

/// The message with the server's name in it, if it is a request for user input or a response that asks for input first;
/// any other message unchanged.
pub(crate) fn attributed(message: Message, server: &str, is_one_of_several: bool) -> Message {
    let body = match message.shape() {
        Shape::Request => message.params().and_then(|params| {
            attribution::of_server(message.method(), &params, server, is_one_of_several)
        }),
        Shape::Response if is_asking(&message) => message
            .result()
            .and_then(|result| attribution::of_answer(&result, server, is_one_of_several)),
        Shape::Error
            if message.member("code").and_then(|code| code.i64())
                == Some(code::URL_ELICITATION_REQUIRED) =>
        {
            message
                .error()
                .and_then(|error| attribution::of_answer(&error, server, is_one_of_several))
        }
        _ => None,
    };
    let Some(body) = body else { return message };
    // The message was valid before; only its length has changed, so no length limit applies.
    let limits = Limits { max_bytes: usize::MAX, ..Limits::default() };
    Message::parse(message.with_body(body), &limits).unwrap_or(message)
}

/// Whether a response asks for input first (`resultType` is `input_required`).
pub(crate) fn is_asking(answer: &Message) -> bool {
    answer.shape() == Shape::Response
        && answer
            .member(member::RESULT_TYPE)
            .is_some_and(|kind| kind.as_str() == "\"input_required\"")
}
