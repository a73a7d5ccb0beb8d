//! Input that a server requests during a call: the gateway asks the client in the way of the client's era, and resumes
//! suspended calls when the client comes back with the input.

use toolgate::{Code, Context, Executed, Failure, InputRound, NotificationDecision};
use toolgate_wire::{
    Json, Message, Object,
    mcp::{Era, code, member, method},
    response,
};

use super::{ExchangeResult, UpstreamCall, UpstreamReply, cancelled, withheld};
use crate::{
    capabilities::{ClientCapabilities, is_question, is_vendor},
    clients::{caller::CallerProtocol, client_requests::ClientReply},
    gateway::suspended,
    upstream::failures::client_incapable,
};

impl UpstreamCall<'_> {
    /// Sends a request to a legacy client, and waits for the answer.
    pub(super) async fn ask(
        &self,
        cx: &Context,
        method: &str,
        params: Option<&Json>,
    ) -> Result<ClientReply, Failure> {
        let CallerProtocol::Legacy(session) = &self.caller.speaks else {
            return Err(Failure::internal("a client of 2026-07-28 is asked by results"));
        };
        let shown;
        let params = match self.chain.notice(method, params) {
            NotificationDecision::AsItCame => params,
            NotificationDecision::Changed(changed) => {
                shown = changed;
                Some(&shown)
            }
            NotificationDecision::Withheld(why) => return Err(withheld(&self.server.name, &why)),
        };
        let asked = tokio::select! {
            biased;
            asked = session.client_requests.ask(self.side, method, params) => asked,
            () = cx.cancel().cancelled() => return Err(cancelled(Executed::Maybe)),
        };
        asked.ok_or_else(|| cancelled(Executed::Maybe))
    }

    /// Asks a legacy client for everything that a result of a server of 2026-07-28 requests.
    pub(super) async fn ask_all(
        &self,
        cx: &Context,
        response: &Message,
    ) -> Result<InputRound, Failure> {
        let requests = response.member(member::INPUT_REQUESTS).and_then(|json| json.object());
        let mut responses = Object::new();
        for (key, request) in requests.iter().flat_map(Object::iter) {
            let method = request.get("method");
            let method = method.as_ref().and_then(Json::text).unwrap_or_default().into_owned();
            let params = request.get("params").map(|params| for_session(&method, &params));
            let can_answer = || self.caller.abilities().can_answer(&method, params.as_ref());
            // Vendor methods pass unchecked.
            if !is_vendor(&method) && !can_answer() {
                let needed = ClientCapabilities::needed_for(&method, params.as_ref());
                return Err(client_incapable(
                    &self.server.name,
                    &format!("asks for `{method}`"),
                    needed,
                ));
            }
            match self.ask(cx, &method, params.as_ref()).await? {
                ClientReply::Result(result) => responses.set(&key, result),
                ClientReply::Error(error) => {
                    let text = error.get("message");
                    let text = text.as_ref().and_then(Json::text).unwrap_or_default();
                    let message = format!("The client did not answer `{method}`: {text}");
                    return Err(
                        Failure::new(Code::ServerRejected, message).with_executed(Executed::Maybe)
                    );
                }
            }
        }
        let responses = (!responses.is_empty()).then(|| responses.finish());
        Ok(InputRound { state: response.member(member::REQUEST_STATE), responses })
    }

    /// Checks that the client declared the capabilities for all that a result requests.
    pub(super) fn check_questions(&self, response: &Message) -> Result<(), Failure> {
        let requests = response.member(member::INPUT_REQUESTS).and_then(|json| json.object());
        let abilities = self.caller.abilities();
        for (_, request) in requests.iter().flat_map(Object::iter) {
            let method = request.get("method");
            let method = method.as_ref().and_then(Json::text).unwrap_or_default();
            // Vendor methods pass unchecked.
            if is_question(&method)
                && !abilities.can_answer(&method, request.get("params").as_ref())
            {
                let needed =
                    ClientCapabilities::needed_for(&method, request.get("params").as_ref());
                return Err(client_incapable(
                    &self.server.name,
                    &format!("asks for `{method}`"),
                    needed,
                ));
            }
        }
        Ok(())
    }

    /// The `requestState` and `inputResponses` of a request that resumes a call suspended in this gateway.
    pub(super) fn resumption(&self, cx: &Context) -> Option<(Json, Option<Json>)> {
        let (state, responses) = match cx.forwarded_input() {
            Some(round) => (round.state.clone(), round.responses.clone()),
            None if self.edits.has_own_round() => (None, None),
            None => (
                self.message.member(member::REQUEST_STATE),
                self.message.member(member::INPUT_RESPONSES),
            ),
        };
        state.filter(suspended::is_ours).map(|state| (state, responses))
    }

    /// Resumes a suspended call with the client's input.
    pub(super) async fn resume(
        &self,
        cx: &Context,
        state: &Json,
        responses: Option<&Json>,
    ) -> Result<UpstreamReply, Failure> {
        let taken = self.suspended_calls.take(state, &self.binding()?);
        let mut suspended = taken.map_err(|why| {
            let message = format!("`requestState` cannot be used: {}", why.0);
            Failure::new(Code::InvalidRequest, message).with_executed(Executed::No).with_rpc(
                toolgate::RpcError {
                    code: code::INVALID_PARAMS,
                    message: format!(
                        "`requestState` cannot be used: {}; call again without it",
                        why.0
                    ),
                    data: Some(Json::value(&serde_json::json!({"ran": false}))),
                },
            )
        })?;
        let Some((id, answer)) = suspended.answer(responses) else {
            return suspended.ask_again(self.suspended_calls).map(UpstreamReply::Asked);
        };
        suspended.in_flight.reply(response(&id, &answer)).await?;
        match self.follow(cx, suspended.in_flight).await? {
            ExchangeResult::Answer(answer) => {
                Ok(UpstreamReply::Answer { answer, from: Era::Legacy, is_verbatim: false })
            }
            ExchangeResult::Asked(result) => Ok(UpstreamReply::Asked(result)),
            ExchangeResult::SessionLost => Err(self.forgotten()),
        }
    }

    pub(super) fn binding(&self) -> Result<[u8; 32], Failure> {
        let caller = format!("{} {}", self.caller.session.namespace, self.caller.session.principal);
        let name = format!("{}/{}", self.server.name, self.name.unwrap_or_default());
        let params = self.message.params();
        suspended::binding(&caller, self.message.method(), &name, params.as_ref()).map_err(
            |twice| {
                let message = format!("the request is ambiguous: {twice}");
                Failure::new(Code::InvalidRequest, message).suggest("Give each member once.")
            },
        )
    }
}

/// The params of a request to a legacy client: elicitation by URL needs an `elicitationId` there.
fn for_session(method: &str, params: &Json) -> Json {
    let mode = params.get("mode");
    let is_url = mode.as_ref().and_then(Json::text).is_some_and(|mode| mode == "url");
    match params.object() {
        Some(mut object) if method == method::ELICITATION_CREATE && is_url => {
            if !object.contains("elicitationId")
                && let Ok(id) = crate::ids::random_id()
            {
                object.set(member::ELICITATION_ID, Json::string(&id));
            }
            object.finish()
        }
        _ => params.clone(),
    }
}
