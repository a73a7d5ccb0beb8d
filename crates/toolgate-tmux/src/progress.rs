//! Progress notifications of calls that wait.

use std::{fmt, future::Future, time::Duration};

use rmcp::{
    Peer, RoleServer,
    model::{ProgressNotificationParam, ProgressToken},
};
use tokio::time::{Instant, sleep_until};

use crate::call::ToolContext;

/// How long after the start, and after each notification, the next one is sent: more than once a second, also on a busy
/// machine.
const NOTIFICATION_INTERVAL: Duration = Duration::from_millis(600);

/// Progress notifications of one call, each with a higher value than the one before.
pub struct Progress {
    /// Nobody, if the client did not ask for it.
    to: Option<(Peer<RoleServer>, ProgressToken)>,
    started: Instant,
    total: Duration,
    next: Instant,
    what: String,
}

impl Progress {
    /// For a wait of this length at most. `what` is what is done, as `Waiting on pane %0`.
    #[must_use]
    pub fn new(cx: &ToolContext, total: Duration, what: String) -> Self {
        let token = cx.request.meta.get_progress_token();
        let started = Instant::now();
        let to = token.map(|token| (cx.request.peer.clone(), token));
        Self { to, started, total, next: started + NOTIFICATION_INTERVAL, what }
    }

    /// Completes when the next notification was sent; never, if nobody asked. Dropping it loses nothing, so that it
    /// fits into `select!`.
    pub async fn tick(&mut self) {
        let Some((peer, token)) = &self.to else {
            return std::future::pending().await;
        };
        sleep_until(self.next).await;
        self.next = Instant::now() + NOTIFICATION_INTERVAL;
        let elapsed = self.started.elapsed();
        let mut param = ProgressNotificationParam::new(token.clone(), elapsed.as_secs_f64());
        param.total = Some(self.total.as_secs_f64());
        param.message = Some(format!(
            "{}: {:.1}s elapsed, {:.1}s left",
            self.what,
            elapsed.as_secs_f64(),
            self.total.saturating_sub(elapsed).as_secs_f64()
        ));
        // A client that is gone is noticed elsewhere.
        let _ = peer.notify_progress(param).await;
    }
}

impl Progress {
    /// Does something that takes its time, and sends progress meanwhile.
    pub async fn during<T>(&mut self, work: impl Future<Output = T>) -> T {
        tokio::pin!(work);
        loop {
            tokio::select! {
                biased;
                done = &mut work => return done,
                () = self.tick() => {}
            }
        }
    }
}

impl fmt::Debug for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Progress").field("what", &self.what).finish_non_exhaustive()
    }
}
