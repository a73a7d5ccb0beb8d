//! Progress notifications for calls that wait.

use std::{fmt, future::Future, time::Duration};

use rmcp::{
    Peer, RoleServer,
    model::{ProgressNotificationParam, ProgressToken},
};
use tokio::time::{Instant, sleep_until};

use crate::call::ToolContext;

/// The time between two notifications: short enough that there is one in each second, also on a busy machine.
const NOTIFICATION_INTERVAL: Duration = Duration::from_millis(600);

/// The progress notifications of one call. Each has a higher value than the one before.
pub struct Progress {
    /// `None` if the client did not ask for progress.
    to: Option<(Peer<RoleServer>, ProgressToken)>,
    started: Instant,
    total: Duration,
    next: Instant,
    what: String,
}

impl Progress {
    /// Progress of a wait that takes `total` at most. `what` describes it, as `Waiting on pane %0`.
    #[must_use]
    pub fn new(cx: &ToolContext, total: Duration, what: String) -> Self {
        let token = cx.request.meta.get_progress_token();
        let started = Instant::now();
        let to = token.map(|token| (cx.request.peer.clone(), token));
        Self { to, started, total, next: started + NOTIFICATION_INTERVAL, what }
    }

    /// Completes when the next notification was sent; never, if the client did not ask for progress. Cancel safe.
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
        // It fails if the client has disconnected, which the transport notices.
        let _ = peer.notify_progress(param).await;
    }
}

impl Progress {
    /// Sends progress notifications while `work` runs.
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
