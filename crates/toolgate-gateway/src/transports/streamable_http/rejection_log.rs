//! Records rejected requests: all of them in the metrics, and a bounded rate of them in the log and in the audit.

use std::{collections::HashMap, net::SocketAddr, sync::Arc, time::Instant};

use hyper::{Response, StatusCode, http::request::Parts};
use parking_lot::Mutex;
use toolgate::middleware::{audit::Rejection, telemetry::Instruments};

use super::PathTarget;
use crate::{
    gateway::{Gateway, namespace::Namespace},
    transports::http::{RejectReason, body::ResponseBody},
};

/// The maximum number of rejections of one kind that are logged per second; the others are only counted.
const PER_SECOND: u32 = 10;

/// Counts rejections by status and reason.
#[derive(Debug)]
pub(super) struct RejectionLog {
    started: Instant,
    kinds: Mutex<HashMap<(u16, &'static str), Kind>>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Kind {
    second: u64,
    logged: u32,
    suppressed: u64,
}

impl RejectionLog {
    pub(super) fn new() -> Self {
        Self { started: Instant::now(), kinds: Mutex::default() }
    }

    /// Records a response, if it rejects its request. Never waits.
    pub(super) fn note(
        &self,
        gateway: &Gateway,
        peer: Option<SocketAddr>,
        head: &Parts,
        answer: &Response<ResponseBody>,
    ) {
        let noted = answer.extensions().get::<RejectReason>().map(|reason| reason.0);
        let Some(reason) = noted.or_else(|| reason(answer.status())) else { return };
        let place = PathTarget::of(head.uri.path());
        let namespace = place.namespace().and_then(|name| gateway.namespace(name));
        self.record(
            gateway,
            namespace,
            Rejection {
                status: answer.status().as_u16(),
                reason,
                peer,
                method: head.method.as_str().to_owned(),
                path: head.uri.path().to_owned(),
                more: 0,
            },
        );
    }

    /// Records a connection that was refused for lack of capacity.
    pub(super) fn note_connection(&self, gateway: &Gateway, peer: Option<SocketAddr>) {
        let status = StatusCode::SERVICE_UNAVAILABLE.as_u16();
        let (method, path) = (String::new(), String::new());
        let reason = "too_many_connections";
        self.record(gateway, None, Rejection { status, reason, peer, method, path, more: 0 });
    }

    fn record(
        &self,
        gateway: &Gateway,
        namespace: Option<Arc<Namespace>>,
        mut rejection: Rejection,
    ) {
        let namespace =
            namespace.or_else(|| gateway.namespaces().min_by_key(|one| one.name.clone()).cloned());
        let current = namespace.map(|namespace| namespace.current_chain());
        let stack = current.as_ref().map(|current| &current.stack);
        if let Some(instruments) = stack.and_then(|stack| stack.parts().inputs.get::<Instruments>())
        {
            instruments.count_rejected(rejection.status, rejection.reason);
        }
        let Some(more) = self.take_suppressed((rejection.status, rejection.reason)) else { return };
        rejection.more = more;
        let Rejection { status, reason, .. } = rejection;
        let path = Rejection::shown(&rejection.path);
        let method = Rejection::shown(&rejection.method);
        let peer = rejection.peer.map(|peer| peer.to_string()).unwrap_or_default();
        let further = match more {
            0 => String::new(),
            more => format!(", and {more} more like it before"),
        };
        tracing::warn!("rejected with {status} ({reason}): {method} {path} from {peer}{further}");
        if let Some(audit) = stack.and_then(|stack| stack.audit.as_ref()) {
            audit.reject(rejection);
        }
    }

    /// The number of rejections that were suppressed since the last logged one; `None` if this one is suppressed too.
    fn take_suppressed(&self, kind: (u16, &'static str)) -> Option<u64> {
        let now = self.started.elapsed().as_secs();
        let mut kinds = self.kinds.lock();
        let kind = kinds.entry(kind).or_default();
        if kind.second != now {
            (kind.second, kind.logged) = (now, 0);
        }
        if kind.logged >= PER_SECOND {
            kind.suppressed += 1;
            return None;
        }
        kind.logged += 1;
        Some(std::mem::take(&mut kind.suppressed))
    }
}

/// The reason for a response that carries none; `None` if the response rejects nothing.
fn reason(status: StatusCode) -> Option<&'static str> {
    Some(match status.as_u16() {
        401 => "no_token",
        403 => "forbidden",
        404 => "not_found",
        405 => "method",
        406 => "accept",
        408 => "too_slow",
        413 => "too_large",
        415 => "content_type",
        421 => "misdirected",
        429 => "too_many_requests",
        503 => "overloaded",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_counted_and_not_logged() {
        let rejections = RejectionLog::new();
        let logged =
            (0..10_000).filter(|_| rejections.take_suppressed((401, "no_token")).is_some()).count();
        assert!(logged <= 10 * 100, "{logged}");
        assert!(rejections.take_suppressed((404, "not_found")).is_some(), "another kind is logged");
        let suppressed = |kind| rejections.kinds.lock()[&kind].suppressed;
        assert!(suppressed((401, "no_token")) > 0);
    }
}
