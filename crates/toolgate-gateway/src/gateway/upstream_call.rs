//! One request of a client on its way to one server and back, across whatever border lies between them.

mod client_input;
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
    Boxed, Chain, Code, Context, Executed, Failure, InputRound, Notice, admission::Edits,
};
use toolgate_wire::{
    Id, Json, Limits, Message, error_response,
    mcp::{Era, code, member, method},
    response,
};

use super::{Gateway, dispatch::IncomingRequest, era_bridge, suspended::SuspendedCalls};
use crate::{
    capabilities::ClientCapabilities,
    catalog::header_params::HeaderParam,
    clients::{
        caller::{Caller, CallerProtocol},
        side_channel::SideChannel,
    },
    hops,
    log_level::LogLevel,
    question_attribution::{attributed, is_asking},
    upstream::{
        connection::Connection,
        in_flight::{
            IdRewrite, InFlightRequest, Interest, StartFailure, UpstreamEvent, UpstreamRequest,
            incapable, nonsense, unavailable,
        },
        server::Server,
    },
};

/// A server of 2026-07-28 may ask a legacy client so often before it answers.
const MOST_ROUNDS: usize = 10;

/// One request, and everything that is needed to have it answered.
#[derive(Debug)]
pub(crate) struct UpstreamCall<'a> {
    /// The layers that look at what the server tells and asks.
    pub(crate) chain: &'a Chain,
    pub(crate) parking: &'a SuspendedCalls,
    pub(crate) caller: &'a Caller,
    pub(crate) side: &'a SideChannel,
    pub(crate) server: &'a Arc<Server>,
    pub(crate) message: &'a Message,
    /// What the request names, by the server's own name.
    pub(crate) name: Option<&'a str>,
    pub(crate) mirrors: &'a [HeaderParam],
    pub(crate) edits: Edits,
    /// Whether the namespace has other servers: what this one asks then says who asks.
    pub(crate) is_one_of_several: bool,
    /// Whether it was sent before: only the first time under the client's own id, whose response may still come.
    pub(crate) was_sent: AtomicBool,
}

/// What came of it.
#[derive(Debug)]
pub(crate) enum UpstreamReply {
    /// The server's answer, and whether it is for the client as it stands.
    Answer { answer: Message, from: Era, is_verbatim: bool },
    /// A result that asks the client for something first.
    Asked(Json),
}

/// How far a flight came.
enum ExchangeResult {
    Answer(Message),
    Asked(Json),
    /// The server has forgotten the session: nothing ran.
    SessionLost,
}

impl<'a> UpstreamCall<'a> {
    /// A request that is about to be sent to a server.
    pub(crate) fn new(
        gateway: &'a Gateway,
        incoming: &'a IncomingRequest,
        chain: &'a Chain,
        server: &'a Arc<Server>,
        name: Option<&'a str>,
        edits: Edits,
    ) -> Self {
        Self {
            chain,
            parking: &gateway.parking,
            caller: &incoming.caller,
            side: &incoming.side,
            server,
            message: &incoming.message,
            name,
            mirrors: &[],
            edits,
            is_one_of_several: incoming.namespace.servers.len() > 1,
            was_sent: AtomicBool::new(false),
        }
    }
}

impl UpstreamCall<'_> {
    /// How the server is spoken to: an exclusive one as its client speaks.
    fn era_of(&self, connection: &Connection) -> Era {
        if self.server.is_exclusive() { self.caller.era() } else { connection.era() }
    }

    /// Has the request answered.
    pub(crate) fn speak<'b>(
        &'b self,
        cx: &'b Context,
        arguments: Option<&'b Json>,
    ) -> Boxed<'b, Result<UpstreamReply, Failure>> {
        Box::pin(async move {
            if let Some((state, responses)) = self.parked_round(cx) {
                return Box::pin(self.take_up(cx, &state, responses.as_ref())).await;
            }
            let mut round = None;
            for turn in 0..MOST_ROUNDS {
                let (connection, answer) = match self
                    .exchange(cx, arguments, round.as_ref())
                    .await?
                {
                    (connection, ExchangeResult::Answer(answer)) => (connection, answer),
                    (_, ExchangeResult::Asked(result)) => return Ok(UpstreamReply::Asked(result)),
                    (_, ExchangeResult::SessionLost) => return Err(self.forgotten()),
                };
                self.server.answered();
                let from = self.era_of(&connection);
                if from == Era::Modern && !self.caller.is_modern() && is_asking(&answer) {
                    round = Some(Box::pin(self.ask_all(cx, &answer)).await?);
                    continue;
                }
                if from == Era::Legacy
                    && self.caller.is_modern()
                    && let Some(asking) = era_bridge::pages_first(&answer)
                {
                    // It did not run: the client opens the pages and calls again.
                    return if self.caller.abilities().has(ClientCapabilities::URLS) {
                        Ok(UpstreamReply::Asked(asking))
                    } else {
                        Err(incapable(
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
            Err(nonsense(
                &self.server.name,
                &format!("asked for input more than {MOST_ROUNDS} times"),
            ))
        })
    }

    /// Sends the request and follows it to its answer. What a server has forgotten before it looked at it is sent once
    /// more.
    async fn exchange(
        &self,
        cx: &Context,
        arguments: Option<&Json>,
        round: Option<&InputRound>,
    ) -> Result<(Arc<Connection>, ExchangeResult), Failure> {
        for _ in 0..2 {
            let (connection, flight) = self.start(cx, arguments, round).await?;
            match self.drive(cx, flight).await {
                Ok(ExchangeResult::SessionLost) => self.server.forget(&connection),
                Ok(driven) => return Ok((connection, driven)),
                Err(failure) => {
                    self.server.failed_to_answer(&failure);
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
        let mut owner = self.server.is_private().then(|| self.caller.owner());
        let mut lease = None;
        if !self.caller.abilities().is_empty()
            && let Some((alone, held)) = owner.as_ref().and_then(|owner| self.server.lease(owner))
        {
            (owner, lease) = (Some(alone), Some(held));
        }
        let mut why = String::new();
        for _ in 0..2 {
            // A start may take long: what is given up meanwhile is not sent.
            let connection = tokio::select! {
                biased;
                () = cx.cancel().cancelled() => return Err(cancelled(Executed::No)),
                opened = self.server.connection_for(owner.as_ref(), self.caller.era()) => opened?,
            };
            let era = self.era_of(&connection);
            self.set_level(era).await;
            let mirrored = self.mirrored(arguments, era);
            let ask = UpstreamRequest {
                method: self.message.method(),
                name: self.name,
                mirrored: &mirrored,
                hears: Interest { lease: lease.clone(), ..self.hears(&connection) },
            };
            // A round is a request of its own.
            let was_sent = self.was_sent.swap(true, Ordering::Relaxed);
            let is_first = round.is_none() && !(was_sent && self.server.is_exclusive());
            let own_id = self.message.id().filter(|_| is_first);
            let hops = match &self.caller.hops {
                Some(hops) => Some(hops.onwards()),
                None => connection.leads_on().then(hops::from_here),
            };
            let compose =
                |hop: IdRewrite| self.line(cx, &hop, era, (arguments, round), hops.as_ref());
            let started = tokio::select! {
                biased;
                () = cx.cancel().cancelled() => return Err(cancelled(Executed::Maybe)),
                started = connection.start(ask, own_id, compose) => started,
            };
            match started {
                Ok(flight) => return Ok((connection, flight)),
                Err(StartFailure::Failed(failure)) => {
                    self.server.failed_to_answer(&failure);
                    return Err(failure);
                }
                // Neither ran: both may be sent again.
                Err(StartFailure::SessionLost) => {
                    self.server.forget(&connection);
                    "it forgets sessions as soon as they are opened".clone_into(&mut why);
                }
                Err(StartFailure::Closed(closed)) => why = closed,
            }
        }
        Err(self.server.never_reached(&why))
    }

    /// A legacy server is told the level of log messages that the request asks for, before it gets the request.
    async fn set_level(&self, to: Era) {
        let CallerProtocol::Modern(said) = &self.caller.speaks else { return };
        let Some(level) = said.level.filter(|_| to == Era::Legacy) else { return };
        let told = self.server.speak_up(level, || self.caller.owner(), move || Some(level));
        if let Some(told) = told {
            let _ = told.await;
        }
    }

    /// What is wanted of the server before its answer.
    fn hears(&self, connection: &Connection) -> Interest {
        if self.server.is_exclusive() {
            // Whatever it says besides its answer passes to its client as it is.
            return Interest::default();
        }
        let token = self.edits.meta(self.message).and_then(|meta| meta.get(member::PROGRESS_TOKEN));
        // Servers of 2026-07-28 ask by their results.
        let abilities = match connection.era() {
            Era::Legacy => self.caller.abilities(),
            Era::Modern => ClientCapabilities::default(),
        };
        // Some servers do not say that they have log messages, and send them.
        let logs = self.caller.hears_logs();
        let (vendor, session) = (self.caller.takes_vendor_requests(), self.caller.session_id());
        Interest { token, abilities, logs, vendor, session, is_ours: false, lease: None }
    }

    fn mirrored(
        &self,
        arguments: Option<&Json>,
        era: Era,
    ) -> Vec<(hyper::header::HeaderName, hyper::header::HeaderValue)> {
        if self.mirrors.is_empty() || era == Era::Legacy {
            return Vec::new();
        }
        let sent = arguments.cloned().or_else(|| self.message.member(member::ARGUMENTS));
        self.mirrors.iter().filter_map(|mirror| mirror.header(sent.as_ref())).collect()
    }

    /// Follows a flight to its end, and hands on what comes before.
    async fn drive(
        &self,
        cx: &Context,
        mut flight: InFlightRequest,
    ) -> Result<ExchangeResult, Failure> {
        let mut waiting = VecDeque::new();
        loop {
            let step = if let Some(step) = waiting.pop_front() {
                step
            } else {
                tokio::select! {
                    biased;
                    step = flight.next() => step?,
                    () = cx.cancel().cancelled() => return Err(cancelled(Executed::Maybe)),
                }
            };
            match step {
                UpstreamEvent::Answer(answer) => {
                    // The only server is asked for everything.
                    if self.is_one_of_several
                        && let Some(result) = answer.result()
                    {
                        self.caller.member.links.note(&self.server.name, &result);
                    }
                    return Ok(ExchangeResult::Answer(self.attributed(answer)));
                }
                UpstreamEvent::SessionLost => return Ok(ExchangeResult::SessionLost),
                UpstreamEvent::Notice(notice) => self.tell(&notice).await,
                UpstreamEvent::Withdrawn(_) => {}
                UpstreamEvent::Question(question) => match &self.caller.speaks {
                    CallerProtocol::Legacy(_) => {
                        let question = self.attributed(question);
                        Box::pin(self.put(cx, &mut flight, &question, &mut waiting)).await?;
                    }
                    CallerProtocol::Modern(_) => {
                        let question = self.attributed(self.shown(question)?);
                        let account = Arc::clone(&self.caller.member.account);
                        let parked = self.parking.park(flight, question, self.binding()?, account);
                        return parked.map(ExchangeResult::Asked);
                    }
                },
            }
        }
    }

    /// Puts a server's question to a legacy client. The server may go on meanwhile: it may take the question back, ask
    /// further ones, which wait for their turn, or answer the call. That answer ends the question, too, unless it may be
    /// about another call of the same client.
    async fn put(
        &self,
        cx: &Context,
        flight: &mut InFlightRequest,
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
                step = flight.next() => step?,
            };
            match step {
                UpstreamEvent::Notice(notice) => self.tell(&notice).await,
                UpstreamEvent::Withdrawn(taken) if taken == id => return Ok(()),
                UpstreamEvent::Withdrawn(taken) => waiting.retain(
                    |step| !matches!(step, UpstreamEvent::Question(other) if other.id() == Some(&taken)),
                ),
                UpstreamEvent::Question(_) if waiting.len() < MOST_ROUNDS => waiting.push_back(step),
                UpstreamEvent::Question(_) => {
                    let what = format!("asked more than {MOST_ROUNDS} questions at once");
                    return Err(nonsense(&self.server.name, &what));
                }
                UpstreamEvent::Answer(_) | UpstreamEvent::SessionLost => {
                    waiting.push_back(step);
                    if self.caller.has_one_request() {
                        waiting.retain(|step| !matches!(step, UpstreamEvent::Question(_)));
                        return Ok(());
                    }
                    // Nothing follows on this flight.
                    break asking.await?;
                }
            }
        };
        let line = match answer {
            Ok(result) => response(&id, &result),
            Err(error) => refusal(&id, &error),
        };
        flight.reply(line).await
    }

    async fn tell(&self, notice: &Message) {
        if self.wants(notice)
            && let Some(line) = told(self.chain, &self.server.name, notice)
        {
            self.side.send(line).await;
        }
    }

    /// A question as the layers let it pass.
    fn shown(&self, question: Message) -> Result<Message, Failure> {
        let params = if self.chain.sees_notices() { question.params() } else { None };
        match self.chain.notice(question.method(), params.as_ref()) {
            Notice::AsItCame => Ok(question),
            Notice::Changed(params) => {
                let line = question.with(None, Some(params));
                Message::parse(line, &Limits::default())
                    .map_err(|refused| nonsense(&self.server.name, &refused.error.to_string()))
            }
            Notice::Withheld(why) => Err(too_long(&self.server.name, &why)),
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

/// The server asks for something that is too long to be passed on.
pub(super) fn too_long(server: &str, why: &str) -> Failure {
    let text = format!("The server `{server}` asks the client: {why}");
    Failure::new(Code::ResponseTooLarge, text).with_executed(Executed::Maybe)
}

/// The line of what a server tells a client, as the layers let it pass; `None` if they withhold it.
pub(crate) fn told(chain: &Chain, server: &str, message: &Message) -> Option<Bytes> {
    passed(chain, server, message).ok()
}

/// The same, with why they withhold it.
pub(crate) fn passed(chain: &Chain, server: &str, message: &Message) -> Result<Bytes, String> {
    let params = if chain.sees_notices() { message.params() } else { None };
    match chain.notice(message.method(), params.as_ref()) {
        Notice::AsItCame => Ok(message.line().clone()),
        Notice::Changed(params) => Ok(message.with(None, Some(params))),
        Notice::Withheld(why) => {
            tracing::warn!(server, "a message of the server is withheld: {why}");
            Err(why)
        }
    }
}

fn cancelled(executed: Executed) -> Failure {
    Failure::new(Code::Cancelled, "the client gave the call up").with_executed(executed)
}

/// An error of the client, passed on to the server.
pub(super) fn refusal(id: &Id, error: &Json) -> Bytes {
    let code = error.get("code").and_then(|json| json.i64()).unwrap_or(code::INTERNAL_ERROR);
    let message = error.get("message");
    let message = message.as_ref().and_then(Json::text).unwrap_or_default();
    error_response(Some(id), code, &message, error.get("data").as_ref())
}
