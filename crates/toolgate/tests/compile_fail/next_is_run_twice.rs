//! The rest of the chain is consumed by running it.

use toolgate::{Call, Context, Middleware, Next, Outcome};

struct Twice;

impl Middleware for Twice {
    fn name(&self) -> &'static str {
        "twice"
    }

    async fn call(&self, cx: &mut Context, call: Call, next: Next<'_>) -> Outcome {
        next.call(cx, call.clone()).await;
        next.call(cx, call).await
    }
}

fn main() {}
