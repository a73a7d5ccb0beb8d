//! A handler's own answer, kept while its text passes through the chain.

use std::{
    ptr,
    sync::{Mutex, MutexGuard, PoisonError},
};

use rmcp::ErrorData;
use toolgate_wire::Json;

/// Whether two texts are one and the same: not equal, but the very bytes.
///
/// Layers pass on what they do not change, so identity tells whether one did, at no cost.
pub(crate) fn same(one: &Json, other: &Json) -> bool {
    ptr::eq(one.as_bytes(), other.as_bytes())
}

/// The answer that the handler gave last, with the text that stands for it in the chain: a result,
/// or the `data` of an error.
///
/// The chain works on text, rmcp on types. An answer that comes out of the chain as the text that
/// went in is handed back as the typed value that the handler made, so that nothing can get lost in
/// between.
pub(crate) struct Kept<T>(Mutex<Option<Answered<T>>>);

struct Answered<T> {
    text: Option<Json>,
    answer: Result<T, ErrorData>,
}

impl<T> Kept<T> {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(None))
    }

    pub(crate) fn keep(&self, text: Option<Json>, answer: Result<T, ErrorData>) {
        *self.lock() = Some(Answered { text, answer });
    }

    /// The answer that this text stands for.
    pub(crate) fn take_if(&self, text: &Json) -> Option<Result<T, ErrorData>> {
        let is_it = |answered: &mut Answered<T>| {
            answered.text.as_ref().is_some_and(|kept| same(kept, text))
        };
        Some(self.lock().take_if(is_it)?.answer)
    }

    /// The answer, whatever became of it in the chain.
    pub(crate) fn take(&self) -> Option<Result<T, ErrorData>> {
        Some(self.lock().take()?.answer)
    }

    fn lock(&self) -> MutexGuard<'_, Option<Answered<T>>> {
        // Nothing can panic between the two halves of a change here.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_very_text_brings_the_answer_back() {
        let kept = Kept::new();
        let text = Json::string("sum");
        kept.keep(Some(text.clone()), Ok(7));
        assert_eq!(kept.take_if(&Json::string("sum")), None, "equal is not identical");
        assert_eq!(kept.take_if(&text.clone()), Some(Ok(7)));
        assert_eq!(kept.take_if(&text), None, "it is handed back once");
    }
}
