//! Nor can a second one be had by copying it.

use toolgate::{Call, Context, Next, Outcome};

async fn twice(cx: &mut Context, call: Call, next: Next<'_>) -> Outcome {
    next.clone().call(cx, call.clone()).await;
    next.call(cx, call).await
}

fn main() {}
