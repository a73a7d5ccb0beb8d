//! The session's stream, on which the gateway sends messages that belong to no request. The bridge opens it again
//! whenever it ends.

use std::{sync::Arc, time::Duration};

use hyper::StatusCode;

use super::{
    headers,
    session::{BridgeSession, SessionHeaders},
};
use crate::{http_client::EventStream, upstream::resume::Resume};

/// Passes the stream's messages to the client. Returns when the gateway refuses the stream.
pub(super) async fn follow(session: Arc<BridgeSession>) {
    let mut resume = Resume::default();
    let mut of_session = None;
    loop {
        let SessionHeaders { headers, number } = session.headers();
        if of_session != number {
            (of_session, resume) = (number, Resume::default());
        }
        let pause = match session.link.open(&headers::after(&headers, resume.last_event())).await {
            Ok(stream) => {
                resume.opened();
                read(&session, stream, number, &mut resume).await
            }
            Err(None) => resume.wait_after_failure(),
            Err(Some(StatusCode::METHOD_NOT_ALLOWED)) => return,
            Err(Some(status)) => match (status, number) {
                (StatusCode::NOT_FOUND, Some(number)) => match session.renew(number).await {
                    Ok(()) => Duration::ZERO,
                    Err(failure) => {
                        tracing::debug!("{failure}");
                        resume.wait_after_failure()
                    }
                },
                (StatusCode::TOO_MANY_REQUESTS | StatusCode::CONFLICT, _) => {
                    resume.wait_after_failure()
                }
                (status, _) if status.is_server_error() => resume.wait_after_failure(),
                _ => {
                    tracing::warn!(
                        "the gateway answered {status} to a request for the session's stream"
                    );
                    return;
                }
            },
        };
        tokio::time::sleep(pause).await;
    }
}

/// Reads until the stream or its session ends. Returns how long to wait before the stream is opened again.
async fn read(
    session: &BridgeSession,
    mut stream: EventStream,
    number: Option<u64>,
    resume: &mut Resume,
) -> Duration {
    let mut renewed = session.renewed.subscribe();
    loop {
        let event = tokio::select! {
            event = stream.next() => event,
            _ = renewed.wait_for(|newest| number.is_some_and(|number| *newest > number)) => {
                return Duration::ZERO;
            }
        };
        match event {
            Ok(Some(event)) => {
                resume.note(&event);
                session.link.pass(event.data).await;
            }
            Ok(None) => return resume.wait(),
            Err(error) => {
                tracing::debug!(%error, "the session's stream broke off");
                return resume.wait();
            }
        }
    }
}
