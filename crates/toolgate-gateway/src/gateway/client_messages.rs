//! Messages of clients that are no requests: a response goes to the question that waits for it, a notification to the
//! servers that it concerns.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use toolgate::{ClientInfo, Context, Session};
use toolgate_wire::{
    Id, Json, Message, Shape,
    mcp::{Era, member, method},
};

use super::{Gateway, namespace::Namespace};
use crate::{
    clients::{caller::Caller, legacy_session::LegacySession},
    hops::{self, Hops},
    upstream::server::ConnectionOwner,
    usage::PrincipalInNamespace,
};

/// How long a client's notification may take to reach the servers. The client's next message waits for that.
const NOTIFICATION_TIMEOUT: Duration = Duration::from_secs(2);

impl Gateway {
    /// Handles a notification or a response of a legacy session.
    pub(crate) async fn receive(
        session: &Arc<LegacySession>,
        namespace: &Namespace,
        message: &Message,
    ) {
        if !matches!(message.shape(), Shape::Response | Shape::Error) {
            show_notification(&session.session, session.info.clone(), namespace, message);
        }
        match (message.shape(), message.method()) {
            (Shape::Response | Shape::Error, _) => {
                if !session.client_requests.deliver(message) {
                    tracing::debug!("a client responds to a request that is not pending");
                }
            }
            (_, method::NOTIFICATIONS_CANCELLED) => {
                if let Some(id) = message.member(member::REQUEST_ID).and_then(Id::from_json) {
                    session.requests.cancel(&id);
                }
            }
            (_, method::NOTIFICATIONS_INITIALIZED) => {}
            _ => {
                let meta = message.member(member::META);
                match hops::read(session.hops.as_ref(), None, meta.as_ref()) {
                    Ok(hops) => {
                        let (principal, owner) = (Arc::clone(&session.principal), session.owner());
                        let sender = Sender { principal, owner, era: Era::Legacy, hops };
                        pass_on(&sender, namespace, message).await;
                    }
                    Err(why) => tracing::warn!("a notification is dropped: {why}"),
                }
            }
        }
    }

    /// Handles a notification of a client of 2026-07-28. That version has no notification of clients that a server needs
    /// from the gateway, so servers get only those of vendors.
    pub(crate) async fn receive_sessionless(
        caller: &Caller,
        namespace: &Namespace,
        message: &Message,
    ) {
        if message.shape() == Shape::Notification {
            show_notification(&caller.session, caller.info(), namespace, message);
        }
        if message.shape() == Shape::Notification && is_vendors(message.method()) {
            let (principal, hops) = (Arc::clone(&caller.principal), caller.hops.clone());
            let sender = Sender { principal, owner: caller.owner(), era: Era::Modern, hops };
            pass_on(&sender, namespace, message).await;
        }
    }
}

/// Shows a notification of the client to the layers that observe notifications.
pub(crate) fn show_notification(
    session: &Arc<Session>,
    client: Option<Arc<ClientInfo>>,
    namespace: &Namespace,
    message: &Message,
) {
    let current = namespace.current_chain();
    let chain = &current.stack.chain;
    if chain.sees_notifications() {
        let cx = Context::new(Arc::clone(session)).with_client(client);
        chain.notified(&cx, message.method(), message.params().as_ref());
    }
}

/// The client that sent a notification.
struct Sender {
    principal: Arc<PrincipalInNamespace>,
    owner: ConnectionOwner,
    era: Era,
    hops: Option<Hops>,
}

/// Whether no version of the protocol has the notification.
fn is_vendors(method: &str) -> bool {
    !matches!(
        method,
        method::NOTIFICATIONS_CANCELLED
            | method::NOTIFICATIONS_INITIALIZED
            | method::NOTIFICATIONS_ROOTS_LIST_CHANGED
            | method::NOTIFICATIONS_PROGRESS
            | method::NOTIFICATIONS_TASKS_STATUS
    )
}

/// Forwards a notification to the servers that it concerns: those that the client has for itself, or the only server. The
/// client's next message waits until they have accepted it, as on a direct connection, but no longer than
/// `NOTIFICATION_TIMEOUT`.
async fn pass_on(sender: &Sender, namespace: &Namespace, message: &Message) {
    let is_only = namespace.servers.len() == 1;
    // 2026-07-28 has no other notifications of clients, so its servers get only vendor notifications.
    let is_vendors = is_vendors(message.method());
    let concerned = namespace.servers.iter().filter(|server| server.is_per_session() || is_only);
    let mut deliveries = Vec::new();
    for server in concerned.filter(|server| is_vendors || server.takes_legacy()) {
        // Counts as a request, so that the number of notifications waiting for a slow server is limited.
        let Ok(entered) = sender.principal.admit(namespace.max_in_flight()) else {
            tracing::debug!("a notification is dropped: too many requests are in flight");
            break;
        };
        let (server, owner, era) = (Arc::clone(server), sender.owner.clone(), sender.era);
        let (message, hops) = (message.clone(), sender.hops.clone());
        deliveries.push(server.deps.control.clone().spawn(async move {
            let owner = server.is_per_session().then_some(owner);
            if let Ok(connection) = server.connection_for(owner.as_ref(), era).await
                && (is_vendors || connection.era() == Era::Legacy)
            {
                let hops = match &hops {
                    Some(hops) => Some(hops.onwards()),
                    None => connection.is_stdio_gateway().then(hops::from_here),
                };
                let line = hops.map_or_else(|| message.line().clone(), |h| with_hops(&message, h));
                let _ = connection.transport().send_line(line).await;
            }
            drop(entered);
        }));
    }
    let delivered = async {
        for delivery in deliveries {
            let _ = delivery.await;
        }
    };
    let _ = tokio::time::timeout(NOTIFICATION_TIMEOUT, delivered).await;
}

/// A copy of a notification that names the gateways that it has passed.
fn with_hops(message: &Message, hops: Json) -> Bytes {
    let mut params = message.body().unwrap_or_default();
    let meta = params.get(member::META).and_then(|meta| meta.object());
    let mut meta = meta.unwrap_or_default();
    meta.set(hops::META, hops);
    params.set(member::META, meta.finish());
    message.with(None, Some(params.finish()))
}
