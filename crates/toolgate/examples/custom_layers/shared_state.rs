//! Two layers that share a value during a call: the key is its type.

use toolgate::{
    Call, Context, Middleware, Outcome, from_fn,
    testing::{Harness, result_value},
    transform_response,
};

#[derive(Clone, Copy)]
struct Budget {
    rows: u32,
}

fn set_budget() -> impl Middleware {
    from_fn("set-budget", async |cx, call, next| {
        cx.extensions_mut().insert(Budget { rows: 100 });
        next.call(cx, call).await
    })
}

fn report_budget() -> impl Middleware {
    transform_response("report-budget", |outcome: Outcome, _: &Call, cx: &mut Context| {
        let rows = cx.extensions().get::<Budget>().map_or(0, |budget| budget.rows);
        outcome.insert_meta("rows", rows)
    })
}

/// The inner layer finds what the outer one left.
pub(crate) async fn show() {
    let chain = toolgate::Chain::builder().layer(set_budget()).layer(report_budget()).build();
    let result = result_value(&Harness::of(chain.unwrap()).call("query", ()).await);
    assert_eq!(result["_meta"]["rows"], 100);
}
