//! One request of a client on its way to one server and back, across whatever border lies between them.

use std::sync::Arc;

use bytes::Bytes;
use toolgate::{Boxed, Code, Context, Failure, Ran, Round, Trace};
use toolgate_wire::{Id, Json, Message, Object, Shape, error_response, response};

use super::{
    eras,
    parked::{self, Parking},
};
use crate::{
    catalog::mirrors::Mirror,
    outbound::{
        connection::{Connection, Era},
        flight::{Ask, Flight, Hears, Hop, NotStarted, Step, nonsense, unavailable},
        server::Server,
    },
    sessions::{
        abilities::{Abilities, is_question},
        caller::{Caller, Said, Speaks},
        level::Level,
        side::Side,
    },
};

/// A server of 2026-07-28 may ask a client of old so often before it answers.
const MOST_ROUNDS: usize = 10;

/// One request, and everything that is needed to have it answered.
#[derive(Debug)]
pub(crate) struct Conversation<'a> {
    pub(crate) parking: &'a Parking,
    pub(crate) caller: &'a Caller,
    pub(crate) side: &'a Side,
    pub(crate) server: &'a Arc<Server>,
    pub(crate) message: &'a Message,
    /// What the request names, by the server's own name.
    pub(crate) name: Option<&'a str>,
    pub(crate) mirrors: &'a [Mirror],
    pub(crate) changes: Changes,
}

/// What the door has changed about a request.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    /// Members of the params.
    pub(crate) members: Vec<(&'static str, Json)>,
    pub(crate) meta: Meta,
    /// The state that the client gave back is ours.
    pub(crate) has_our_round: bool,
}

/// The `_meta` of a request after control data was lifted off at the door.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) enum Meta {
    #[default]
    AsItCame,
    Replaced(Json),
    Removed,
}

/// What came of it.
#[derive(Debug)]
pub(crate) enum Heard {
    /// The server's answer, and whether it is for the client as it stands.
    Answer { answer: Message, from: Era, is_verbatim: bool },
    /// A result that asks the client for something first.
    Asked(Json),
}

/// How far a flight came.
enum Driven {
    Answer(Message),
    Asked(Json),
    /// The server has forgotten the session: nothing ran.
    SessionLost,
}

impl Conversation<'_> {
    /// Has the request answered.
    pub(crate) fn speak<'b>(
        &'b self,
        cx: &'b Context,
        arguments: Option<&'b Json>,
    ) -> Boxed<'b, Result<Heard, Failure>> {
        Box::pin(async move {
            if let Some((state, responses)) = self.parked_round(cx) {
                return self.take_up(cx, &state, responses.as_ref()).await;
            }
            let mut round = None;
            for turn in 0..MOST_ROUNDS {
                let (connection, answer) =
                    match self.exchange(cx, arguments, round.as_ref()).await? {
                        (connection, Driven::Answer(answer)) => (connection, answer),
                        (_, Driven::Asked(result)) => return Ok(Heard::Asked(result)),
                        (_, Driven::SessionLost) => return Err(self.forgotten()),
                    };
                self.server.answered();
                let from = connection.era();
                if from == Era::Modern && !self.caller.is_modern() && is_asking(&answer) {
                    round = Some(self.ask_all(cx, &answer).await?);
                    continue;
                }
                if from == Era::Legacy
                    && self.caller.is_modern()
                    && let Some(asking) = eras::pages_first(&answer)
                {
                    // It did not run: the client opens the pages and calls again.
                    return if self.caller.abilities().has(Abilities::URLS) {
                        Ok(Heard::Asked(asking))
                    } else {
                        Err(nonsense(
                            &self.server.name,
                            "wants a page opened, which the client cannot do",
                        ))
                    };
                }
                if from == Era::Modern && is_asking(&answer) {
                    self.check_questions(&answer)?;
                }
                let is_verbatim = turn == 0 && answer.id() == self.message.id();
                return Ok(Heard::Answer { answer, from, is_verbatim });
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
        round: Option<&Round>,
    ) -> Result<(Arc<Connection>, Driven), Failure> {
        for _ in 0..2 {
            let (connection, flight) = self.start(cx, arguments, round).await?;
            match self.drive(cx, flight).await {
                Ok(Driven::SessionLost) => self.server.forget(&connection),
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
        round: Option<&Round>,
    ) -> Result<(Arc<Connection>, Flight), Failure> {
        let owner = self.server.is_private().then(|| self.caller.owner());
        let mut why = String::new();
        for _ in 0..2 {
            // A start may take long: what is given up meanwhile is not sent.
            let connection = tokio::select! {
                biased;
                () = cx.cancel().cancelled() => return Err(cancelled(Ran::No)),
                opened = self.server.connection_for(owner.as_ref(), self.caller.era()) => opened?,
            };
            let era = connection.era();
            let mirrored = self.mirrored(arguments, era);
            let ask = Ask {
                method: self.message.method(),
                name: self.name,
                mirrored: &mirrored,
                hears: self.hears(&connection),
            };
            // A round is a request of its own.
            let own_id = self.message.id().filter(|_| round.is_none());
            let compose = |hop: Hop| self.line(cx, &hop, era, arguments, round);
            let started = tokio::select! {
                biased;
                () = cx.cancel().cancelled() => return Err(cancelled(Ran::Maybe)),
                started = connection.start(ask, own_id, compose) => started,
            };
            match started {
                Ok(flight) => return Ok((connection, flight)),
                Err(NotStarted::Failed(failure)) => {
                    self.server.failed_to_answer(&failure);
                    return Err(failure);
                }
                // Neither ran: both may be sent again.
                Err(NotStarted::SessionLost) => {
                    self.server.forget(&connection);
                    "it forgets sessions as soon as they are opened".clone_into(&mut why);
                }
                Err(NotStarted::Closed(closed)) => why = closed,
            }
        }
        Err(self.server.never_reached(&why))
    }

    /// What is wanted of the server before its answer.
    fn hears(&self, connection: &Connection) -> Hears {
        let meta = match &self.changes.meta {
            Meta::AsItCame => self.message.member("_meta"),
            Meta::Replaced(meta) => Some(meta.clone()),
            Meta::Removed => None,
        };
        let token = meta.and_then(|meta| meta.get("progressToken"));
        // Servers of 2026-07-28 ask by their results.
        let abilities = match connection.era() {
            Era::Legacy => self.caller.abilities(),
            Era::Modern => Abilities::default(),
        };
        let logs = self.caller.hears_logs() && connection.has_logs();
        if let Speaks::Modern(Said { level: Some(level), .. }) = &self.caller.speaks
            && logs
            && connection.era() == Era::Legacy
        {
            self.server.speak_up(*level, self.caller);
        }
        Hears { token, abilities, logs, is_ours: false }
    }

    fn mirrored(
        &self,
        arguments: Option<&Json>,
        era: Era,
    ) -> Vec<(hyper::header::HeaderName, hyper::header::HeaderValue)> {
        if self.mirrors.is_empty() || era == Era::Legacy {
            return Vec::new();
        }
        let sent = arguments.cloned().or_else(|| self.message.member("arguments"));
        self.mirrors.iter().filter_map(|mirror| mirror.header(sent.as_ref())).collect()
    }

    /// The line to send: the client's own bytes unless something has to change.
    fn line(
        &self,
        cx: &Context,
        hop: &Hop,
        era: Era,
        arguments: Option<&Json>,
        round: Option<&Round>,
    ) -> Bytes {
        let is_translated = self.caller.era() != era;
        let changes = &self.changes;
        let is_same = arguments.is_none()
            && round.is_none()
            && changes.members.is_empty()
            && changes.meta == Meta::AsItCame
            && !changes.has_our_round
            && cx.span().is_none()
            && hop.token.is_none()
            && !is_translated;
        if is_same {
            return match &hop.id {
                None => self.message.line().clone(),
                Some(id) => self.message.with_id(id),
            };
        }
        let mut params = self.message.body().unwrap_or_default();
        if let Some(arguments) = arguments {
            params.set("arguments", arguments.clone());
        }
        for (key, value) in &changes.members {
            params.set(key, value.clone());
        }
        match &changes.meta {
            Meta::Replaced(meta) => params.set("_meta", meta.clone()),
            Meta::Removed => drop(params.remove("_meta")),
            Meta::AsItCame => {}
        }
        if changes.has_our_round {
            put_round(&mut params, cx.resumed());
        }
        if is_translated {
            eras::translate_meta(&mut params, self.caller, era);
        }
        if round.is_some() {
            put_round(&mut params, round);
        }
        follow(&mut params, cx.span(), hop.token.as_ref());
        self.message.with(hop.id.as_ref(), Some(params.finish()))
    }

    /// Follows a flight to its end, and hands on what comes before.
    async fn drive(&self, cx: &Context, mut flight: Flight) -> Result<Driven, Failure> {
        loop {
            let step = tokio::select! {
                biased;
                step = flight.next() => step?,
                () = cx.cancel().cancelled() => return Err(cancelled(Ran::Maybe)),
            };
            match step {
                Step::Answer(answer) => return Ok(Driven::Answer(answer)),
                Step::SessionLost => return Ok(Driven::SessionLost),
                Step::Notice(notice) => {
                    if self.wants(&notice) {
                        self.side.send(notice.line().clone()).await;
                    }
                }
                Step::Question(question) => match &self.caller.speaks {
                    Speaks::Legacy(_) => {
                        let Some(id) = question.id().cloned() else { continue };
                        let params = question.params();
                        let answer = self.ask(cx, question.method(), params.as_ref()).await?;
                        let line = match answer {
                            Ok(result) => response(&id, &result),
                            Err(error) => refusal(&id, &error),
                        };
                        flight.reply(line).await?;
                    }
                    Speaks::Modern(_) => {
                        let who = self.caller.session.principal.to_string();
                        let parked = self.parking.park(flight, question, self.binding(), who);
                        return parked
                            .map(Driven::Asked)
                            .map_err(|why| Failure::new(Code::Overloaded, why).ran(Ran::Maybe));
                    }
                },
            }
        }
    }

    fn wants(&self, notice: &Message) -> bool {
        match notice.method() {
            "notifications/message" => self.caller.wants_log(Level::of(notice)),
            _ => true,
        }
    }

    /// Asks a client of old something, and waits for what it answers.
    async fn ask(
        &self,
        cx: &Context,
        method: &str,
        params: Option<&Json>,
    ) -> Result<Result<Json, Json>, Failure> {
        let Speaks::Legacy(session) = &self.caller.speaks else {
            return Err(Failure::internal("a client of 2026-07-28 is asked by results"));
        };
        let asked = tokio::select! {
            biased;
            asked = session.questions.ask(self.side, method, params) => asked,
            () = cx.cancel().cancelled() => return Err(cancelled(Ran::Maybe)),
        };
        asked.ok_or_else(|| cancelled(Ran::Maybe))
    }

    /// Asks a client of old everything that a result of 2026-07-28 asks for.
    async fn ask_all(&self, cx: &Context, answer: &Message) -> Result<Round, Failure> {
        let requests = answer.member("inputRequests").and_then(|json| json.object());
        let mut responses = Object::new();
        for (key, request) in requests.iter().flat_map(Object::iter) {
            let method = request.get("method");
            let method = method.as_ref().and_then(Json::text).unwrap_or_default().into_owned();
            let params = request.get("params").map(|params| for_session(&method, &params));
            if !self.caller.abilities().can_answer(&method, params.as_ref()) {
                let what = format!("asks for `{method}`, which the client cannot do");
                return Err(nonsense(&self.server.name, &what));
            }
            match self.ask(cx, &method, params.as_ref()).await? {
                Ok(result) => responses.set(&key, result),
                Err(error) => {
                    let text = error.get("message");
                    let text = text.as_ref().and_then(Json::text).unwrap_or_default();
                    let message = format!("The client did not answer `{method}`: {text}");
                    return Err(Failure::new(Code::ServerRejected, message).ran(Ran::Maybe));
                }
            }
        }
        let responses = (!responses.is_empty()).then(|| responses.finish());
        Ok(Round { state: answer.member("requestState"), responses })
    }

    /// A client is asked only what it said that it can answer.
    fn check_questions(&self, answer: &Message) -> Result<(), Failure> {
        let requests = answer.member("inputRequests").and_then(|json| json.object());
        let abilities = self.caller.abilities();
        for (_, request) in requests.iter().flat_map(Object::iter) {
            let method = request.get("method");
            let method = method.as_ref().and_then(Json::text).unwrap_or_default();
            // What we know nothing of is between the two.
            if is_question(&method)
                && !abilities.can_answer(&method, request.get("params").as_ref())
            {
                let what = format!("asks for `{method}`, which the client cannot do");
                return Err(nonsense(&self.server.name, &what));
            }
        }
        Ok(())
    }

    /// The state that the client came back with, if it is one of a call that waits here.
    fn parked_round(&self, cx: &Context) -> Option<(Json, Option<Json>)> {
        let (state, responses) = match cx.resumed() {
            Some(round) => (round.state.clone(), round.responses.clone()),
            None if self.changes.has_our_round => (None, None),
            None => (self.message.member("requestState"), self.message.member("inputResponses")),
        };
        state.filter(parked::is_ours).map(|state| (state, responses))
    }

    /// Goes on with a call that waited for its client.
    async fn take_up(
        &self,
        cx: &Context,
        state: &Json,
        responses: Option<&Json>,
    ) -> Result<Heard, Failure> {
        let taken = self.parking.take(state, &self.binding());
        let mut parked = taken.map_err(|why| {
            let message = format!("`requestState` cannot be used: {}", why.0);
            Failure::new(Code::InvalidRequest, message).ran(Ran::No).with_rpc(toolgate::RpcError {
                code: -32602,
                message: format!("`requestState` cannot be used: {}; call again without it", why.0),
                data: None,
            })
        })?;
        let Some((id, answer)) = parked.answer(responses) else {
            let asked = parked.ask_again(self.parking);
            return asked.map(Heard::Asked).map_err(|why| Failure::new(Code::Overloaded, why));
        };
        parked.flight.reply(response(&id, &answer)).await?;
        match self.drive(cx, parked.flight).await? {
            Driven::Answer(answer) => {
                Ok(Heard::Answer { answer, from: Era::Legacy, is_verbatim: false })
            }
            Driven::Asked(result) => Ok(Heard::Asked(result)),
            Driven::SessionLost => Err(self.forgotten()),
        }
    }

    fn binding(&self) -> [u8; 32] {
        let caller = format!("{} {}", self.caller.session.namespace, self.caller.session.principal);
        let name = format!("{}/{}", self.server.name, self.name.unwrap_or_default());
        let arguments = self.message.member("arguments");
        parked::binding(&caller, self.message.method(), &name, arguments.as_ref())
    }
}

fn cancelled(ran: Ran) -> Failure {
    Failure::new(Code::Cancelled, "the client gave the call up").ran(ran)
}

/// Whether an answer asks for input first.
fn is_asking(answer: &Message) -> bool {
    answer.shape() == Shape::Response
        && answer.member("resultType").is_some_and(|kind| kind.as_str() == "\"input_required\"")
}

/// The params of a question for a session: addresses to open have an id there.
fn for_session(method: &str, params: &Json) -> Json {
    let mode = params.get("mode");
    let is_url = mode.as_ref().and_then(Json::text).is_some_and(|mode| mode == "url");
    match params.object() {
        Some(mut object) if method == "elicitation/create" && is_url => {
            if !object.contains("elicitationId")
                && let Ok(id) = crate::sessions::table::random_id()
            {
                object.set("elicitationId", Json::string(&id));
            }
            object.finish()
        }
        _ => params.clone(),
    }
}

fn put_round(params: &mut Object, round: Option<&Round>) {
    for (key, value) in [
        ("requestState", round.and_then(|round| round.state.as_ref())),
        ("inputResponses", round.and_then(|round| round.responses.as_ref())),
    ] {
        match value {
            Some(value) => params.set(key, value.clone()),
            None => drop(params.remove(key)),
        }
    }
}

/// Names our span as the server's parent, and the token under which it tells of progress. A `_meta` that is no object
/// stays.
fn follow(params: &mut Object, span: Option<&Trace>, token: Option<&Json>) {
    if span.is_none() && token.is_none() {
        return;
    }
    let meta = params.get("_meta").map_or_else(|| Some(Object::new()), |meta| meta.object());
    if let Some(mut meta) = meta {
        if let Some(span) = span {
            span.put(&mut meta);
        }
        if let Some(token) = token {
            meta.set("progressToken", token.clone());
        }
        params.set("_meta", meta.finish());
    }
}

/// An error of the client, passed on to the server.
fn refusal(id: &Id, error: &Json) -> Bytes {
    let code = error.get("code").and_then(|json| json.i64()).unwrap_or(-32603);
    let message = error.get("message");
    let message = message.as_ref().and_then(Json::text).unwrap_or_default();
    error_response(Some(id), code, &message, error.get("data").as_ref())
}
