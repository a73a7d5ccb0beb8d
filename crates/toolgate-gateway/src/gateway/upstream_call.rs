//! The end of the chain: sends one client request to one server and awaits the response. Translates both if client and
//! server speak different protocol versions, and forwards notifications and requests that the server sends meanwhile.

mod client_input;
mod endpoint;
mod peer;
mod request_line;

use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use bytes::Bytes;
use toolgate::{
    Boxed, Chain, Code, Context, Executed, Failure, InputRound, NotificationDecision,
    admission::Edits,
};
use toolgate_wire::{
    Id, Json, Limits, Message, error_response,
    mcp::{Era, code, member, method},
    response,
};

use request_line::RequestChanges;

use super::{Gateway, era_bridge, incoming_request::IncomingRequest, suspended::SuspendedCalls};
use crate::{
    capabilities::ClientCapabilities,
    catalog::header_params::HeaderParam,
    clients::{
        caller::{Caller, CallerProtocol},
        client_requests::ClientReply,
        side_channel::SideChannel,
    },
    hops,
    log_level::LogLevel,
    question_attribution::{attributed, is_asking},
    upstream::{
        connection::Connection,
        failures::{client_incapable, protocol_violation, unavailable},
        in_flight::InFlightRequest,
        request::{IdRewrite, Interest, Requester, StartFailure, UpstreamEvent, UpstreamRequest},
        server::Server,
    },
};

/// How often a server of 2026-07-28 may request input from a legacy client before it answers.
const MAX_INPUT_ROUNDS: usize = 10;

/// One request with everything that is needed to send it to its server.
#[derive(Debug)]
pub(crate) struct UpstreamCall<'a> {
    /// The layers that filter the server's notifications and requests.
    pub(crate) chain: &'a Chain,
    pub(crate) gateway: &'a Gateway,
    pub(crate) incoming: &'a IncomingRequest,
    pub(crate) suspended_calls: &'a SuspendedCalls,
    pub(crate) caller: &'a Caller,
    pub(crate) side: &'a SideChannel,
    pub(crate) server: &'a Arc<Server>,
    pub(crate) message: &'a Message,
    /// The server's own name for the tool, prompt, resource or task.
    pub(crate) name: Option<&'a str>,
    pub(crate) header_params: &'a [HeaderParam],
    pub(crate) edits: Edits,
    /// Whether the namespace has other servers. If so, requests for user input name this server.
    pub(crate) is_one_of_several: bool,
    /// Whether the request was sent before. A repetition must not use the client's own id, because a response to the
    /// first attempt may still come.
    pub(crate) was_sent: AtomicBool,
}

/// What a server replied.
#[derive(Debug)]
pub(crate) enum UpstreamReply {
    /// The server's response. `is_verbatim`: it can go to the client without changing its id.
    Answer { answer: Message, from: Era, is_verbatim: bool },
    /// A result that asks the client for input first.
    Asked(Json),
}

/// The result of sending a request once.
enum ExchangeResult {
    Answer(Message),
    Asked(Json),
    /// The server no longer knows the session: the request did not run.
    SessionLost,
}

impl<'a> UpstreamCall<'a> {
    /// A request to send to a server, without edits.
    pub(crate) fn new(
        gateway: &'a Gateway,
        incoming: &'a IncomingRequest,
        chain: &'a Chain,
        server: &'a Arc<Server>,
    ) -> Self {
        Self {
            chain,
            gateway,
            incoming,
            suspended_calls: &gateway.suspended_calls,
            caller: &incoming.caller,
            side: &incoming.side,
            server,
            message: &incoming.message,
            name: None,
            header_params: &[],
            edits: Edits::default(),
            is_one_of_several: incoming.namespace.servers.len() > 1,
            was_sent: AtomicBool::new(false),
        }
    }
}

impl UpstreamCall<'_> {
    /// The era of the connection. An exclusive server gets the messages of its client's era.
    fn era_of(&self, connection: &Connection) -> Era {
        if self.server.is_exclusive() { self.caller.era() } else { connection.era() }
    }

    /// Sends the request, answers the server's requests for input, and returns the final response.
    pub(crate) fn send<'b>(
        &'b self,
        cx: &'b Context,
        arguments: Option<&'b Json>,
    ) -> Boxed<'b, Result<UpstreamReply, Failure>> {
        Box::pin(async move {
            if let Some((state, responses)) = self.resumption(cx) {
                return Box::pin(self.resume(cx, &state, responses.as_ref())).await;
            }
            let mut round = None;
            for turn in 0..MAX_INPUT_ROUNDS {
                let (connection, answer) = match self
                    .exchange(cx, arguments, round.as_ref())
                    .await?
                {
                    (connection, ExchangeResult::Answer(answer)) => (connection, answer),
                    (_, ExchangeResult::Asked(result)) => return Ok(UpstreamReply::Asked(result)),
                    (_, ExchangeResult::SessionLost) => return Err(self.forgotten()),
                };
                self.server.note_answer();
                let from = self.era_of(&connection);
                if from == Era::Modern && !self.caller.is_modern() && is_asking(&answer) {
                    round = Some(Box::pin(self.ask_all(cx, &answer)).await?);
                    continue;
                }
                if from == Era::Legacy
                    && self.caller.is_modern()
                    && let Some(asking) = era_bridge::pages_first(&answer)
                {
                    // The call did not run: the client opens the pages and calls again.
                    return if self.caller.abilities().has(ClientCapabilities::URLS) {
                        Ok(UpstreamReply::Asked(asking))
                    } else {
                        Err(client_incapable(
                            &self.server.name,
                            "wants a page opened",
                            ClientCapabilities::URLS,
                        ))
                    };
                }
                if from == Era::Modern && !self.server.is_exclusive() && is_asking(&answer) {
                    self.check_questions(&answer)?;
                }
                let is_verbatim = turn == 0 && answer.id() == self.message.id();
                return Ok(UpstreamReply::Answer { answer, from, is_verbatim });
            }
            Err(protocol_violation(
                &self.server.name,
                &format!("asked for input more than {MAX_INPUT_ROUNDS} times"),
            ))
        })
    }

    /// Sends the request and waits for the response. If the server no longer knows the session, the request did not run
    /// and is sent once more.
    async fn exchange(
        &self,
        cx: &Context,
        arguments: Option<&Json>,
        round: Option<&InputRound>,
    ) -> Result<(Arc<Connection>, ExchangeResult), Failure> {
        for _ in 0..2 {
            let (connection, in_flight) = self.start(cx, arguments, round).await?;
            match self.follow(cx, in_flight).await {
                Ok(ExchangeResult::SessionLost) => self.server.forget(&connection),
                Ok(driven) => return Ok((connection, driven)),
                Err(failure) => {
                    self.server.note_failure(&failure);
                    return Err(failure);
                }
            }
        }
        Err(self.forgotten())
    }

    fn forgotten(&self) -> Failure {
        unavailable(&self.server.name, "it forgets sessions as soon as they are opened")
    }

    async fn start(
        &self,
        cx: &Context,
        arguments: Option<&Json>,
        round: Option<&InputRound>,
    ) -> Result<(Arc<Connection>, InFlightRequest), Failure> {
        let mut owner = self.server.is_per_session().then(|| self.caller.owner());
        let mut lease = None;
        if !self.caller.abilities().is_empty()
            && let Some((alone, held)) = owner.as_ref().and_then(|owner| self.server.lease(owner))
        {
            (owner, lease) = (Some(alone), Some(held));
        }
        let mut why = String::new();
        for _ in 0..2 {
            // Starting a server may take long. If the client cancels meanwhile, the request is not sent.
            let connection = tokio::select! {
                biased;
                () = cx.cancel().cancelled() => return Err(cancelled(Executed::No)),
                opened = self.server.connection_for(owner.as_ref(), self.caller.era()) => opened?,
            };
            let era = self.era_of(&connection);
            self.set_level(era).await;
            let mirrored = self.header_values(arguments, era);
            let ask = UpstreamRequest {
                method: self.message.method(),
                name: self.name,
                param_headers: &mirrored,
                interest: Interest { lease: lease.clone(), ..self.interest(&connection) },
            };
            // A request that brings input has an id of its own.
            let was_sent = self.was_sent.swap(true, Ordering::Relaxed);
            let is_first = round.is_none() && !(was_sent && self.server.is_exclusive());
            let own_id = self.message.id().filter(|_| is_first);
            let hops = match &self.caller.hops {
                Some(hops) => Some(hops.onwards()),
                None => connection.is_stdio_gateway().then(hops::from_here),
            };
            let changes = RequestChanges { arguments, input: round, hops: hops.as_ref() };
            let compose = |hop: IdRewrite| self.line(cx, &hop, era, changes);
            let started = tokio::select! {
                biased;
                () = cx.cancel().cancelled() => return Err(cancelled(Executed::Maybe)),
                started = connection.start(ask, own_id, compose) => started,
            };
            match started {
                Ok(in_flight) => return Ok((connection, in_flight)),
                Err(StartFailure::Failed(failure)) => {
                    self.server.note_failure(&failure);
                    return Err(failure);
                }
                // In both cases the request did not run and may be sent again.
                Err(StartFailure::SessionLost) => {
                    self.server.forget(&connection);
                    "it forgets sessions as soon as they are opened".clone_into(&mut why);
                }
                Err(StartFailure::Closed(closed)) => why = closed,
            }
        }
        Err(self.server.never_reached(&why))
    }

    /// Sets the log level that a request of 2026-07-28 asks for at a legacy server, before the server gets the request.
    async fn set_level(&self, to: Era) {
        let CallerProtocol::Modern(said) = &self.caller.speaks else { return };
        let Some(level) = said.level.filter(|_| to == Era::Legacy) else { return };
        let raised =
            self.server.raise_log_level(level, || self.caller.owner(), move || Some(level));
        if let Some(raised) = raised {
            let _ = raised.await;
        }
    }

    /// Which notifications and requests of the server the client accepts before the response.
    fn interest(&self, connection: &Connection) -> Interest {
        if self.server.is_exclusive() {
            // Everything that an exclusive server sends passes to its client unchanged.
            return Interest::default();
        }
        let token = self.edits.meta(self.message).and_then(|meta| meta.get(member::PROGRESS_TOKEN));
        // Servers of 2026-07-28 request input by their results.
        let capabilities = match connection.era() {
            Era::Legacy => self.caller.abilities(),
            Era::Modern => ClientCapabilities::default(),
        };
        // Do not check the server's `logging` capability: some servers send log messages without declaring it.
        let logs = self.caller.hears_logs();
        let (vendor, session) = (self.caller.takes_vendor_requests(), self.caller.session_id());
        let (requester, lease) = (Requester::Client, None);
        Interest { token, capabilities, logs, vendor, session, requester, lease }
    }

    fn header_values(
        &self,
        arguments: Option<&Json>,
        era: Era,
    ) -> Vec<(hyper::header::HeaderName, hyper::header::HeaderValue)> {
        if self.header_params.is_empty() || era == Era::Legacy {
            return Vec::new();
        }
        let sent = arguments.cloned().or_else(|| self.message.member(member::ARGUMENTS));
        self.header_params.iter().filter_map(|param| param.header(sent.as_ref())).collect()
    }

    /// Waits for the response, and forwards notifications and requests that come before.
    async fn follow(
        &self,
        cx: &Context,
        mut in_flight: InFlightRequest,
    ) -> Result<ExchangeResult, Failure> {
        let mut waiting = VecDeque::new();
        loop {
            let step = if let Some(step) = waiting.pop_front() {
                step
            } else {
                tokio::select! {
                    biased;
                    step = in_flight.next() => step?,
                    () = cx.cancel().cancelled() => return Err(cancelled(Executed::Maybe)),
                }
            };
            match step {
                UpstreamEvent::Response(answer) => {
                    // Not needed with one server: it gets all requests.
                    if self.is_one_of_several
                        && let Some(result) = answer.result()
                    {
                        self.caller.principal.links.note(&self.server.name, &result);
                    }
                    return Ok(ExchangeResult::Answer(self.attributed(answer)));
                }
                UpstreamEvent::SessionLost => return Ok(ExchangeResult::SessionLost),
                UpstreamEvent::Notification(notice) => self.pass_notice(&notice).await,
                UpstreamEvent::ServerRequestCancelled(_) => {}
                UpstreamEvent::ServerRequest(question) => match &self.caller.speaks {
                    CallerProtocol::Legacy(_) => {
                        let question = self.attributed(question);
                        Box::pin(self.ask_meanwhile(cx, &mut in_flight, &question, &mut waiting))
                            .await?;
                    }
                    CallerProtocol::Modern(_) => {
                        let question = self.attributed(self.filtered(question)?);
                        let account = Arc::clone(&self.caller.principal.account);
                        let suspended = self.suspended_calls.suspend(
                            in_flight,
                            question,
                            self.binding()?,
                            account,
                        );
                        return suspended.map(ExchangeResult::Asked);
                    }
                },
            }
        }
    }

    /// Forwards a server's request to a legacy client and waits for the answer. Meanwhile the server may cancel the
    /// request, send further ones (they are queued), or respond to the call. That response ends the wait, too, unless the
    /// request may belong to another call of the same client.
    async fn ask_meanwhile(
        &self,
        cx: &Context,
        in_flight: &mut InFlightRequest,
        question: &Message,
        waiting: &mut VecDeque<UpstreamEvent>,
    ) -> Result<(), Failure> {
        let Some(id) = question.id().cloned() else { return Ok(()) };
        let params = question.params();
        let mut asking = Box::pin(self.ask(cx, question.method(), params.as_ref()));
        let answer = loop {
            let step = tokio::select! {
                biased;
                answer = &mut asking => break answer?,
                step = in_flight.next() => step?,
            };
            match step {
                UpstreamEvent::Notification(notice) => self.pass_notice(&notice).await,
                UpstreamEvent::ServerRequestCancelled(taken) if taken == id => return Ok(()),
                UpstreamEvent::ServerRequestCancelled(taken) => waiting.retain(
                    |step| !matches!(step, UpstreamEvent::ServerRequest(other) if other.id() == Some(&taken)),
                ),
                UpstreamEvent::ServerRequest(_) if waiting.len() < MAX_INPUT_ROUNDS => waiting.push_back(step),
                UpstreamEvent::ServerRequest(_) => {
                    let what = format!("asked more than {MAX_INPUT_ROUNDS} questions at once");
                    return Err(protocol_violation(&self.server.name, &what));
                }
                UpstreamEvent::Response(_) | UpstreamEvent::SessionLost => {
                    waiting.push_back(step);
                    if self.caller.has_one_request() {
                        waiting.retain(|step| !matches!(step, UpstreamEvent::ServerRequest(_)));
                        return Ok(());
                    }
                    // The response was the last event of this request.
                    break asking.await?;
                }
            }
        };
        let line = match answer {
            ClientReply::Result(result) => response(&id, &result),
            ClientReply::Error(error) => refusal(&id, &error),
        };
        in_flight.reply(line).await
    }

    async fn pass_notice(&self, notice: &Message) {
        if self.wants(notice)
            && let Some(line) = filter_notice(self.chain, &self.server.name, notice)
        {
            self.side.send(line).await;
        }
    }

    /// The request of a server after the layers have filtered it.
    fn filtered(&self, question: Message) -> Result<Message, Failure> {
        let params = if self.chain.sees_notices() { question.params() } else { None };
        match self.chain.notice(question.method(), params.as_ref()) {
            NotificationDecision::AsItCame => Ok(question),
            NotificationDecision::Changed(params) => {
                let line = question.with(None, Some(params));
                Message::parse(line, &Limits::default()).map_err(|refused| {
                    protocol_violation(&self.server.name, &refused.error.to_string())
                })
            }
            NotificationDecision::Withheld(why) => Err(withheld(&self.server.name, &why)),
        }
    }

    fn attributed(&self, message: Message) -> Message {
        attributed(message, &self.server.name, self.is_one_of_several)
    }

    fn wants(&self, notice: &Message) -> bool {
        match notice.method() {
            method::NOTIFICATIONS_MESSAGE => self.caller.wants_log(LogLevel::of(notice)),
            _ => true,
        }
    }
}

/// The failure for a request of a server that the layers withhold.
pub(super) fn withheld(server: &str, why: &str) -> Failure {
    let text = format!("The server `{server}` asks the client: {why}");
    Failure::new(Code::ResponseTooLarge, text).with_executed(Executed::Maybe)
}

/// A server's notification after the layers have filtered it; `None` if they withhold it.
pub(crate) fn filter_notice(chain: &Chain, server: &str, message: &Message) -> Option<Bytes> {
    filter_message(chain, server, message).ok()
}

/// A server's message after the layers have filtered it. The error is the reason why they withhold it.
pub(crate) fn filter_message(
    chain: &Chain,
    server: &str,
    message: &Message,
) -> Result<Bytes, String> {
    let params = if chain.sees_notices() { message.params() } else { None };
    match chain.notice(message.method(), params.as_ref()) {
        NotificationDecision::AsItCame => Ok(message.line().clone()),
        NotificationDecision::Changed(params) => Ok(message.with(None, Some(params))),
        NotificationDecision::Withheld(why) => {
            tracing::warn!(server, "a message of the server is withheld: {why}");
            Err(why)
        }
    }
}

fn cancelled(executed: Executed) -> Failure {
    Failure::new(Code::Cancelled, "the client cancelled the call").with_executed(executed)
}

/// The client's error as the response to a server's request.
pub(super) fn refusal(id: &Id, error: &Json) -> Bytes {
    let code = error.get("code").and_then(|json| json.i64()).unwrap_or(code::INTERNAL_ERROR);
    let message = error.get("message");
    let message = message.as_ref().and_then(Json::text).unwrap_or_default();
    error_response(Some(id), code, &message, error.get("data").as_ref())
}
