//! What happens at servers, told to clients: lists that changed, resources that changed, and questions that belong to
//! no call.

use std::sync::Arc;

use toolgate::Notice;
use toolgate_wire::{
    Json, Message, error_response,
    mcp::{code, method},
    response,
};

use super::{
    Gateway,
    upstream_call::{refusal, told},
};
use crate::{
    capabilities::is_vendor,
    clients::{legacy_session::LegacySession, side_channel::SideChannel},
    log_level::LogLevel,
    question_attribution::attributed,
    upstream::{
        events::{ListKind, ReplyTo},
        server::{Server, ServerEvents},
    },
};

impl Gateway {
    fn owner(&self, key: Option<&str>) -> Option<Arc<LegacySession>> {
        self.sessions.by_id(key?)
    }
}

impl ServerEvents for Gateway {
    fn changed(&self, server: &Arc<Server>, kinds: &[ListKind]) {
        for namespace in self.namespaces().filter(|namespace| namespace.has(server)) {
            namespace.rebuild();
            namespace.tell(|outlet| kinds.iter().for_each(|kind| outlet.changed(*kind)));
        }
    }

    fn updated(&self, server: &Arc<Server>, owner: Option<&str>, message: &Message) {
        let uri = message.member("uri");
        let Some(uri) = uri.as_ref().and_then(Json::text) else { return };
        let uri: Arc<str> = uri.as_ref().into();
        for namespace in self.namespaces().filter(|namespace| namespace.has(server)) {
            namespace.tell(|outlet| outlet.updated_at(server, owner, &uri));
        }
    }

    fn told(&self, server: &Arc<Server>, owner: Option<&str>, message: &Message) {
        if let Some(session) = self.owner(owner) {
            if message.method() != method::NOTIFICATIONS_MESSAGE
                || session.wants_log(LogLevel::of(message))
            {
                let namespace = self.namespaces().find(|n| n.name == session.session.namespace);
                let line =
                    namespace.and_then(|n| told(&n.charter().stack.chain, &server.name, message));
                if let Some(line) = line {
                    session.outlet.push(line);
                }
            }
            return;
        }
        if owner.is_some() {
            // Somebody's own, who cannot be told.
            return;
        }
        if message.method() == method::NOTIFICATIONS_MESSAGE {
            // Nobody can say whose call it is about: told to all, it might be told to the wrong one.
            tracing::debug!("a log message of `{}` belongs to no call that is known", server.name);
            return;
        }
        // Where callers are told apart, what one of them caused is not for the others.
        let open = self.namespaces().filter(|namespace| !namespace.has_principals());
        for namespace in open.filter(|namespace| namespace.has(server)) {
            let line = told(&namespace.charter().stack.chain, &server.name, message);
            let Some(line) = line else { continue };
            namespace.tell(|outlet| {
                if outlet.is_session() {
                    outlet.push(line.clone());
                }
            });
        }
    }

    fn asked(
        &self,
        server: &Arc<Server>,
        owner: Option<&str>,
        message: Message,
        reply: ReplyTo,
    ) -> bool {
        let Some(session) = self.owner(owner) else { return false };
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
        match namespace.charter().stack.chain.notice(message.method(), params.as_ref()) {
            Notice::AsItCame => {}
            Notice::Changed(changed) => params = Some(changed),
            Notice::Withheld(why) => {
                let name = &server.name;
                tracing::warn!(server = %name, "a question of the server is withheld: {why}");
                return false;
            }
        }
        server.surroundings.control.spawn(async move {
            let side = SideChannel::NotificationQueue(Arc::clone(&session.outlet));
            let asked = tokio::select! {
                asked = session.questions.ask(&side, message.method(), params.as_ref()) => asked,
                () = session.over.cancelled() => None,
            };
            let line = match asked {
                Some(Ok(result)) => response(&id, &result),
                // Its own words: also that it does not know the method.
                Some(Err(error)) => refusal(&id, &error),
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

    fn failed(&self, server: &Server) {
        self.namespaces().for_each(|namespace| namespace.without(server));
    }
}
