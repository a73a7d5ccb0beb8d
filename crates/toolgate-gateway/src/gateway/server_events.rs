//! Forwards events of servers to clients: changed lists, updated resources, and messages that belong to no request in
//! flight.

use std::sync::Arc;

use toolgate::NotificationDecision;
use toolgate_wire::{
    Json, Message, error_response,
    mcp::{code, method},
    response,
};

use super::{
    Gateway,
    upstream_call::{filter_notice, refusal},
};
use crate::{
    capabilities::is_vendor,
    clients::{
        client_requests::ClientReply, legacy_session::LegacySession, side_channel::SideChannel,
    },
    log_level::LogLevel,
    question_attribution::attributed,
    upstream::{
        events::{ListKind, ReplyTo},
        server::{OwnerKey, Server, ServerEvents},
    },
};

impl Gateway {
    fn session_of(&self, owner: Option<&OwnerKey>) -> Option<Arc<LegacySession>> {
        match owner? {
            OwnerKey::Session(id) => self.sessions.by_id(id),
            OwnerKey::Sessionless { .. } => None,
        }
    }
}

impl ServerEvents for Gateway {
    fn on_lists_changed(&self, server: &Arc<Server>, kinds: &[ListKind]) {
        for namespace in self.namespaces().filter(|namespace| namespace.has(server)) {
            namespace.rebuild();
            namespace.notify(|queue| kinds.iter().for_each(|kind| queue.changed(*kind)));
        }
    }

    fn on_list_changed_for(&self, server: &Arc<Server>, owner: &OwnerKey, kind: ListKind) {
        for namespace in self.namespaces().filter(|namespace| namespace.has(server)) {
            namespace.notify(|queue| queue.changed_at(owner, kind));
        }
    }

    fn on_resource_updated(
        &self,
        server: &Arc<Server>,
        owner: Option<&OwnerKey>,
        message: &Message,
    ) {
        let uri = message.member("uri");
        let Some(uri) = uri.as_ref().and_then(Json::text) else { return };
        let uri: Arc<str> = uri.as_ref().into();
        for namespace in self.namespaces().filter(|namespace| namespace.has(server)) {
            namespace.notify(|queue| queue.updated_at(server, owner, &uri));
        }
    }

    fn on_notification(&self, server: &Arc<Server>, owner: Option<&OwnerKey>, message: &Message) {
        if let Some(session) = self.session_of(owner) {
            if message.method() != method::NOTIFICATIONS_MESSAGE
                || session.wants_log(LogLevel::of(message))
            {
                let namespace = self.namespaces().find(|n| n.name == session.session.namespace);
                let line = namespace.and_then(|n| {
                    filter_notice(&n.current_chain().stack.chain, &server.name, message)
                });
                if let Some(line) = line {
                    session.notifications.push(line);
                }
            }
            return;
        }
        if owner.is_some() {
            // The connection belongs to a caller without a session, who has no notification stream.
            return;
        }
        if message.method() == method::NOTIFICATIONS_MESSAGE {
            // The gateway cannot tell whose call caused the message, so it must not send it to any client.
            tracing::debug!("a log message of `{}` belongs to no call that is known", server.name);
            return;
        }
        // With several principals, a message that one of them caused must not reach the others.
        let open = self.namespaces().filter(|namespace| !namespace.has_principals());
        for namespace in open.filter(|namespace| namespace.has(server)) {
            let line = filter_notice(&namespace.current_chain().stack.chain, &server.name, message);
            let Some(line) = line else { continue };
            namespace.notify(|queue| {
                if queue.is_session() {
                    queue.push(line.clone());
                }
            });
        }
    }

    fn on_request(
        &self,
        server: &Arc<Server>,
        owner: Option<&OwnerKey>,
        message: Message,
        reply: ReplyTo,
    ) -> bool {
        let Some(session) = self.session_of(owner) else { return false };
        let namespace = self.namespace(&session.session.namespace);
        let is_one_of_several = namespace.is_none_or(|namespace| namespace.servers.len() > 1);
        let message = attributed(message, &server.name, is_one_of_several);
        let mut params = message.params();
        let method = message.method();
        if !is_vendor(method) && !session.abilities.can_answer(method, params.as_ref()) {
            return false;
        }
        let Some(id) = message.id().cloned() else { return false };
        let namespace = self.namespaces().find(|n| n.name == session.session.namespace);
        let Some(namespace) = namespace else { return false };
        match namespace.current_chain().stack.chain.notice(message.method(), params.as_ref()) {
            NotificationDecision::AsItCame => {}
            NotificationDecision::Changed(changed) => params = Some(changed),
            NotificationDecision::Withheld(why) => {
                let name = &server.name;
                tracing::warn!(server = %name, "a question of the server is withheld: {why}");
                return false;
            }
        }
        server.deps.control.spawn(async move {
            let side = SideChannel::NotificationQueue(Arc::clone(&session.notifications));
            let asked = tokio::select! {
                asked = session.client_requests.ask(&side, message.method(), params.as_ref()) => asked,
                () = session.over.cancelled() => None,
            };
            let line = match asked {
                Some(ClientReply::Result(result)) => response(&id, &result),
                // The server reads the client's own error, such as an unknown method.
                Some(ClientReply::Error(error)) => refusal(&id, &error),
                None => error_response(
                    Some(&id),
                    code::INTERNAL_ERROR,
                    "the client did not answer",
                    None,
                ),
            };
            reply.send(line).await;
        });
        true
    }

    fn on_failure(&self, server: &Server) {
        self.namespaces().for_each(|namespace| namespace.server_failed(server));
    }
}
