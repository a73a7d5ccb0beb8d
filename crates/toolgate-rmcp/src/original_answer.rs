//! The handler's original response, kept while its text passes through the chain.

use std::{
    ptr,
    sync::{Mutex, MutexGuard, PoisonError},
};

use rmcp::ErrorData;
use toolgate_wire::Json;

/// Whether two texts are the same bytes in memory, not only equal.
///
/// Layers pass on the text that they do not change, so this tells at no cost whether one did.
pub(crate) fn is_same_text(one: &Json, other: &Json) -> bool {
    ptr::eq(one.as_bytes(), other.as_bytes())
}

/// The handler's last response, with the text that represents it in the chain: the result, or the `data` of the error.
///
/// The chain works on text, rmcp on types. If the text leaves the chain unchanged, the client gets the handler's
/// original value, so that nothing is lost by the conversion.
pub(crate) struct OriginalAnswer<T>(Mutex<Option<TextAndAnswer<T>>>);

struct TextAndAnswer<T> {
    text: Option<Json>,
    answer: Result<T, ErrorData>,
}

impl<T> OriginalAnswer<T> {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(None))
    }

    pub(crate) fn keep(&self, text: Option<Json>, answer: Result<T, ErrorData>) {
        *self.lock() = Some(TextAndAnswer { text, answer });
    }

    /// Takes the response, if this text represents it.
    pub(crate) fn take_if(&self, text: &Json) -> Option<Result<T, ErrorData>> {
        let is_it = |answered: &mut TextAndAnswer<T>| {
            answered.text.as_ref().is_some_and(|kept| is_same_text(kept, text))
        };
        Some(self.lock().take_if(is_it)?.answer)
    }

    /// Takes the response, whether or not a layer changed its text.
    pub(crate) fn take(&self) -> Option<Result<T, ErrorData>> {
        Some(self.lock().take()?.answer)
    }

    fn lock(&self) -> MutexGuard<'_, Option<TextAndAnswer<T>>> {
        // No panic can happen while the lock is held.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_very_text_brings_the_answer_back() {
        let kept = OriginalAnswer::new();
        let text = Json::string("sum");
        kept.keep(Some(text.clone()), Ok(7));
        assert_eq!(kept.take_if(&Json::string("sum")), None, "equal is not identical");
        assert_eq!(kept.take_if(&text.clone()), Some(Ok(7)));
        assert_eq!(kept.take_if(&text), None, "it is handed back once");
    }
}
