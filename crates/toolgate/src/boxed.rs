//! Futures on the heap.

use std::pin::Pin;

/// A future on the heap: the one allocation that a layer costs.
pub type Boxed<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;
