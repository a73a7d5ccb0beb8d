//! Transforms: a function for the way in, one for the way out, one for listings.

use toolgate_wire::Json;

use super::*;
use crate::{
    Chain, Code, Tier, ToolResult,
    testing::{self, answering, context, json, tool},
};

#[tokio::test]
async fn a_request_is_changed_or_refused_on_its_way_in() {
    let chain = testing::chain(transform_request("units", |mut call: Call, cx: &mut Context| {
        let mut arguments = call.arguments().and_then(Json::object).unwrap_or_default();
        if arguments.contains("unit") {
            return Err(Failure::new(Code::InvalidArguments, "the unit is ours to say"));
        }
        arguments.set("unit", "celsius");
        call.set_arguments(arguments.finish());
        cx.extensions_mut().insert(call.is_changed());
        Ok(call)
    }));
    assert!(!chain.sees_listings() && !chain.sees_request("ping"));
    let server = answering(json("{}"));
    let mut cx = context();
    let call = Call::new(tool("t", None), Some(json(r#"{"n": 1.0}"#)));
    assert!(!call.is_changed());
    chain.call(&mut cx, call, &server).await;
    assert_eq!(cx.extensions().get::<bool>(), Some(&true));
    let refused = testing::call(&chain, &tool("t", None), r#"{"unit":1}"#, &server).await;
    assert_eq!(refused.code(), Some(Code::InvalidArguments));
    assert_eq!(server.calls(), 1);
}

#[tokio::test]
async fn a_response_is_changed_with_its_request_at_hand() {
    let chain = testing::chain(transform_response(
        "echo",
        async |outcome: Outcome, call: &Call, cx: &mut Context| {
            if outcome.failure().is_some() {
                return outcome;
            }
            tokio::task::yield_now().await;
            let asked = call.arguments().map_or("nothing", |json| json.as_str());
            ToolResult::text(&format!("{asked} of {}", cx.principal())).into()
        },
    ));
    let server = answering(json("{}"));
    let outcome = testing::call(&chain, &tool("t", None), r#"{"n": 1.0}"#, &server).await;
    let told = testing::result_value(&outcome);
    assert_eq!(told["content"][0]["text"], r#"{"n": 1.0} of local:me"#);
}

#[tokio::test]
async fn a_listing_is_changed_or_refused_on_its_way_out() {
    let chain = Chain::builder()
        .layer(transform_list(
            "first-only",
            |mut list: ToolList, listing: &Listing, _: &mut Context| {
                if listing.cursor.is_some() {
                    return Err(Failure::new(Code::InvalidRequest, "there is one page"));
                }
                let first = list.tools().first().cloned();
                list.set_tools(first.into_iter().collect());
                Ok(list)
            },
        ))
        .build();
    let (chain, mut cx) = (chain.unwrap(), context());
    let mut server = answering(json("{}"));
    server.tools = vec![tool("a", Tier::Readonly), tool("b", Tier::Readonly)];
    let list = chain.list(&mut cx, Listing::default(), &server).await.unwrap();
    assert_eq!(list.into_result().as_str(), r#"{"tools":[{"name":"a"}]}"#);
    let next = Listing { cursor: Some("2".to_owned()) };
    assert!(chain.list(&mut cx, next, &server).await.is_err());
}

#[test]
fn transforms_show_their_names() {
    let layer = transform_request("units", |call: Call, _: &mut Context| Ok(call));
    assert_eq!(format!("{layer:?}"), "TransformRequest(\"units\")");
    assert_eq!(layer.name(), "units");
    let layer =
        transform_response("r", async |outcome: Outcome, _: &Call, _: &mut Context| outcome);
    assert_eq!(format!("{layer:?}"), "TransformResponse(\"r\")");
    let layer = transform_list("l", async |list: ToolList, _: &Listing, _: &mut Context| Ok(list));
    assert_eq!(format!("{layer:?}"), "TransformList(\"l\")");
}
