//! Boxed futures.

use std::pin::Pin;

/// A boxed future. Each layer allocates one per call.
pub type Boxed<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;
