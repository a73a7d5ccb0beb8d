//! The session's own stream: what the gateway says without being asked. Opened again whenever it ends.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use hyper::{Method, StatusCode};

use super::{answers, headers, hub::Hub};
use crate::outbound::http::{Answer, EventStream};

/// The first wait before it is opened again; each further one is twice as long.
const FIRST: Duration = Duration::from_millis(500);
/// The longest wait.
const LONGEST: Duration = Duration::from_secs(30);

/// How it goes on.
enum Next {
    /// The gateway has the stream no longer: at once, or as it says.
    Again(Option<Duration>),
    /// It could not be opened.
    Failed,
    /// There is none to be had.
    Never,
}

/// Follows the stream as long as there is a session.
pub(super) async fn listen(hub: Arc<Hub>) {
    let mut last = None;
    let mut wait = FIRST;
    let mut of_session = None;
    loop {
        let (mut asked, number) = hub.session().headers();
        if of_session != number {
            (of_session, last) = (number, None);
        }
        asked.extend(last.as_ref().and_then(headers::after));
        let next = match hub.gateway.send(Method::GET, None, &asked, Bytes::new()).await {
            Ok(answer) if answer.status.is_success() && answers::is_stream(&answer) => {
                wait = FIRST;
                follow(&hub, answer, number, &mut last).await
            }
            Ok(answer) => refused(&hub, answer.status, number).await,
            Err(error) => {
                tracing::debug!(%error, "the session's stream is not there");
                Next::Failed
            }
        };
        let pause = match next {
            Next::Never => return,
            Next::Again(pause) => pause.unwrap_or(FIRST).min(LONGEST),
            Next::Failed => {
                let pause = wait;
                wait = (wait * 2).min(LONGEST);
                pause
            }
        };
        tokio::time::sleep(pause).await;
    }
}

/// Hands the client what comes, until the stream or its session ends.
async fn follow(
    hub: &Arc<Hub>,
    answer: Answer,
    number: Option<u64>,
    last: &mut Option<Bytes>,
) -> Next {
    let mut stream = EventStream::new(answer, hub.limits.max_bytes);
    let mut renewed = hub.renewed.subscribe();
    let mut pause = None;
    loop {
        let event = tokio::select! {
            event = stream.next() => event,
            _ = renewed.wait_for(|newest| number.is_some_and(|number| *newest > number)) => {
                return Next::Again(Some(Duration::ZERO));
            }
        };
        match event {
            Ok(Some(event)) => {
                pause = event.retry.map(Duration::from_millis).or(pause);
                if event.id.is_some() {
                    *last = event.id;
                }
                answers::pass(hub, event.data).await;
            }
            Ok(None) => return Next::Again(pause),
            Err(error) => {
                tracing::debug!(%error, "the session's stream broke off");
                return Next::Again(pause);
            }
        }
    }
}

async fn refused(hub: &Arc<Hub>, status: StatusCode, number: Option<u64>) -> Next {
    match (status, number) {
        (StatusCode::NOT_FOUND, Some(number)) => match hub.renew(number).await {
            Ok(()) => Next::Again(Some(Duration::ZERO)),
            Err(failure) => {
                tracing::debug!("{failure}");
                Next::Failed
            }
        },
        (StatusCode::TOO_MANY_REQUESTS | StatusCode::CONFLICT, _) => Next::Failed,
        (status, _) if status.is_server_error() => Next::Failed,
        (StatusCode::METHOD_NOT_ALLOWED, _) => Next::Never,
        (status, _) => {
            tracing::warn!("the gateway answered {status} to a request for the session's stream");
            Next::Never
        }
    }
}
