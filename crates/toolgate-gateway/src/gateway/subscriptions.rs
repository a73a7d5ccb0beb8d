//! Subscriptions to changes: `subscriptions/listen` (2026-07-28), `resources/subscribe` and `resources/unsubscribe`
//! (legacy).

use std::sync::Arc;

use toolgate_wire::{
    Json, Object,
    mcp::{Era, code, member, meta, method},
    notification,
};

use super::{
    Gateway, incoming_request::IncomingRequest, proxied::resource_owner, response::JsonRpcResponse,
};
use crate::{
    catalog::snapshot::Snapshot,
    clients::{
        caller::CallerProtocol,
        notifications::{MAX_SUBSCRIPTIONS, NotificationFilter, NotificationQueue},
    },
    upstream::subscription_guard::{MAX_URI_BYTES, SubscribeError, SubscriptionGuard},
    usage::{LimitReached, UsageKind},
};

/// `subscriptions/listen`: sends notifications until the client or the gateway closes the stream.
pub(super) async fn listen(gateway: &Gateway, incoming: &IncomingRequest) -> JsonRpcResponse {
    let namespace = &incoming.namespace;
    let snapshot = namespace.settled().await;
    let filter = incoming.message.member("notifications").and_then(|json| json.object());
    let Some(filter) = filter else {
        return JsonRpcResponse::refused(
            Some(incoming.id()),
            code::INVALID_PARAMS,
            "`notifications` must say what to listen to",
        );
    };
    let _place = match incoming.caller.principal.account.take(UsageKind::Sessions, 1) {
        Ok(place) => place,
        Err(full) => return JsonRpcResponse::full(incoming.id(), &full),
    };
    let has = |capability: &str| snapshot.servers_with(capability).next().is_some();
    let wants = |key: &str| filter.get(key).and_then(|json| json.bool()) == Some(true);
    let wanted = NotificationFilter {
        tools: wants("toolsListChanged"),
        prompts: wants("promptsListChanged") && has("prompts"),
        resources: wants("resourcesListChanged") && has("resources"),
        subscription: Some(incoming.id().clone()),
        owner: Some(incoming.caller.owner().key),
    };
    let mut honoured = Object::new();
    for (key, is_wanted) in [
        ("toolsListChanged", wanted.tools),
        ("promptsListChanged", wanted.prompts),
        ("resourcesListChanged", wanted.resources),
    ] {
        if is_wanted {
            honoured.set(key, Json::value(&true.into()));
        }
    }
    let queue = NotificationQueue::new(wanted);
    let heard = match subscribe_all(incoming, &snapshot, &filter, &queue).await {
        Ok(heard) => heard,
        Err(refusal) => return *refusal,
    };
    if !heard.is_empty() {
        honoured.set("resourceSubscriptions", Json::list(&heard));
    }
    // Register before acknowledging, so that no event after the acknowledgement is missed.
    namespace.add_listener(&queue);
    let meta = subscription(incoming);
    let mut params = Object::new();
    params.set(member::META, meta.clone());
    params.set("notifications", honoured.finish());
    let ack =
        notification(method::NOTIFICATIONS_SUBSCRIPTIONS_ACKNOWLEDGED, Some(&params.finish()));
    let mut is_there = incoming.side.send(ack).await;
    while is_there {
        let lines = tokio::select! {
            lines = queue.next() => lines,
            () = incoming.cancel.cancelled() => break,
            () = gateway.stopping.cancelled() => break,
        };
        for line in lines.unwrap_or_default() {
            is_there = incoming.side.send(line).await;
        }
    }
    let mut result = Object::new();
    result.set(member::RESULT_TYPE, Json::string("complete"));
    result.set(member::META, meta);
    JsonRpcResponse::result(incoming.id(), result.finish())
}

/// Subscribes to the URIs in `resourceSubscriptions`; returns those that servers accepted.
async fn subscribe_all(
    incoming: &IncomingRequest,
    snapshot: &Snapshot,
    filter: &Object,
    queue: &NotificationQueue,
) -> Result<Vec<Json>, Box<JsonRpcResponse>> {
    let uris = filter.get("resourceSubscriptions");
    // Check the size before parsing, because the parsed list takes more memory than the text.
    let fits = |json: &Json| json.len() <= MAX_SUBSCRIPTIONS * (MAX_URI_BYTES + 8);
    let uris = match uris.as_ref().map(|json| fits(json).then(|| json.array().unwrap_or_default()))
    {
        None => Vec::new(),
        Some(Some(uris)) if uris.len() <= MAX_SUBSCRIPTIONS => uris,
        Some(_) => {
            let why = format!(
                "`resourceSubscriptions` has more than {MAX_SUBSCRIPTIONS} addresses of {MAX_URI_BYTES} bytes"
            );
            return Err(Box::new(JsonRpcResponse::refused(
                Some(incoming.id()),
                code::INVALID_PARAMS,
                why,
            )));
        }
    };
    let mut heard = Vec::new();
    let mut beginning = tokio::task::JoinSet::new();
    for uri in uris {
        let Some(text) = uri.text().filter(|text| !text.is_empty()) else { continue };
        let Ok(server) = resource_owner(incoming, snapshot, &text) else { continue };
        let (address, caller) = (Arc::<str>::from(text.as_ref()), incoming.caller.clone());
        beginning.spawn(async move {
            let subscribed = SubscriptionGuard::to(
                &server,
                address,
                Era::Modern,
                &caller.principal.account,
                || caller.owner(),
            )
            .await;
            (subscribed, server, uri)
        });
    }
    while let Some(begun) = beginning.join_next().await {
        match begun {
            Ok((Ok(subscribed), server, uri)) => {
                queue.subscribe(&server, subscribed);
                heard.push(uri);
            }
            // Exceeding the client's limit is an error. A refusal of a server only leaves the URI out.
            Ok((Err(SubscribeError::LimitReached(full)), ..)) => {
                return Err(Box::new(JsonRpcResponse::full(incoming.id(), &full)));
            }
            Ok((Err(why), ..)) => tracing::debug!("a resource cannot be listened to: {why}"),
            Err(_) => {}
        }
    }
    Ok(heard)
}

fn subscription(incoming: &IncomingRequest) -> Json {
    let mut meta = Object::new();
    meta.set(meta::SUBSCRIPTION_ID, incoming.id().as_json().clone());
    meta.finish()
}

/// `resources/subscribe`
pub(super) async fn subscribe(incoming: &IncomingRequest) -> JsonRpcResponse {
    let uri = incoming.text("uri").filter(|uri| !uri.is_empty());
    let (Some(uri), CallerProtocol::Legacy(session)) = (uri, &incoming.caller.speaks) else {
        return JsonRpcResponse::refused(
            Some(incoming.id()),
            code::INVALID_PARAMS,
            "`uri` of resources/subscribe must be a string",
        );
    };
    let snapshot = incoming.namespace.settled().await;
    let server = match resource_owner(incoming, &snapshot, &uri) {
        Ok(server) => server,
        Err(no_owner) => return no_owner.refuse(incoming, &snapshot, &uri),
    };
    let done = || JsonRpcResponse::result(incoming.id(), Json::empty_object());
    if session.notifications.is_subscribed(&server, &uri) {
        return done();
    }
    if !session.notifications.has_room() {
        let full = LimitReached::in_session("subscriptions", MAX_SUBSCRIPTIONS);
        return JsonRpcResponse::full(incoming.id(), &full);
    }
    let _entered = match incoming.caller.principal.admit(incoming.namespace.max_in_flight()) {
        Ok(entered) => entered,
        Err(full) => return JsonRpcResponse::full(incoming.id(), &full),
    };
    let caller = &incoming.caller;
    let account = &caller.principal.account;
    let uri = uri.as_str().into();
    match SubscriptionGuard::to(&server, uri, Era::Legacy, account, || caller.owner()).await {
        Ok(subscribed) => {
            session.notifications.subscribe(&server, subscribed);
            // If the session ended meanwhile, close the queue again to unsubscribe.
            if session.over.is_cancelled() {
                session.notifications.close();
            }
            done()
        }
        Err(SubscribeError::LimitReached(full)) => JsonRpcResponse::full(incoming.id(), &full),
        Err(SubscribeError::Failed(failure)) => {
            JsonRpcResponse::failed(Some(incoming.id()), &failure)
        }
        Err(why @ SubscribeError::TooLong) => {
            JsonRpcResponse::refused(Some(incoming.id()), code::INVALID_PARAMS, why.to_string())
        }
    }
}

/// `resources/unsubscribe`
pub(super) fn unsubscribe(incoming: &IncomingRequest) -> JsonRpcResponse {
    let (Some(uri), CallerProtocol::Legacy(session)) =
        (incoming.text("uri"), &incoming.caller.speaks)
    else {
        return JsonRpcResponse::refused(
            Some(incoming.id()),
            code::INVALID_PARAMS,
            "`uri` of resources/unsubscribe must be a string",
        );
    };
    session.notifications.unsubscribe(&uri);
    JsonRpcResponse::result(incoming.id(), Json::empty_object())
}
