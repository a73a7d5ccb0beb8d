//! Resource accounting: what each principal uses of the gateway's limits, and the share that one principal may use.

use std::{
    borrow::Cow,
    collections::HashMap,
    fmt,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use parking_lot::Mutex;
use tokio::sync::Semaphore;
use toolgate::{Code, Executed, Failure, Principal, Session};

use crate::resource_links::ResourceLinks;

/// The number of calls that may wait for input of their clients.
const MAX_SUSPENDED_CALLS: usize = 1000;
/// The size of the requests for input of these calls.
const MAX_SUSPENDED_BYTES: usize = 64 * 1024 * 1024;
/// The size of the URIs of all subscriptions.
const MAX_SUBSCRIPTION_BYTES: usize = 64 * 1024 * 1024;
/// The size of the responses kept for clients that lost their stream.
const MAX_REPLAY_BYTES: usize = 256 * 1024 * 1024;
/// The number of servers that may start at the same time.
pub(crate) const MAX_STARTS: usize = 16;

/// The fraction of each limit that one principal may use.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Share(f64);

impl Share {
    /// `share` if there are several principals; a single principal may use everything.
    pub(crate) fn new(share: f64, principals: usize) -> Self {
        Self(if principals > 1 { share } else { 1.0 })
    }

    /// What one principal may use of a limit: at least one.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "a bound may be off by one beyond 2^52, and is never negative"
    )]
    pub(crate) fn of(self, limit: usize) -> usize {
        if self.0 >= 1.0 { limit } else { ((limit as f64 * self.0) as usize).max(1) }
    }
}

/// The resources that are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UsageKind {
    /// Sessions, and open `subscriptions/listen` requests.
    Sessions,
    /// Streams of the SSE transport of 2024-11-05.
    SseStreams,
    Subscriptions,
    SubscriptionBytes,
    /// Calls that wait until their client comes back with input.
    SuspendedCalls,
    SuspendedBytes,
    /// Responses kept for clients that lost their stream.
    ReplayBytes,
}

impl UsageKind {
    const COUNT: usize = 7;

    /// The name in messages, and the setting with the limit.
    const fn label(self) -> (&'static str, Option<&'static str>) {
        match self {
            Self::Sessions => ("sessions", Some("serve.sessions")),
            Self::SseStreams => ("streams of /sse", Some("serve.sessions")),
            Self::Subscriptions => ("subscriptions", Some("serve.subscriptions")),
            Self::SubscriptionBytes => ("bytes of subscriptions", None),
            Self::SuspendedCalls => ("calls that wait for their client", None),
            Self::SuspendedBytes => ("bytes of calls that wait for their client", None),
            Self::ReplayBytes => ("bytes of answers for lost streams", None),
        }
    }

    fn full(self, bound: usize, scope: LimitScope) -> LimitReached {
        let (what, setting) = self.label();
        LimitReached { what, setting: setting.map(Cow::Borrowed), bound, scope }
    }
}

/// Whose limit is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LimitScope {
    /// The limit of one session.
    Session,
    /// The share of one principal; others may go on.
    Principal,
    /// The limit of the whole gateway.
    Gateway,
}

/// A limit is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LimitReached {
    what: &'static str,
    setting: Option<Cow<'static, str>>,
    bound: usize,
    pub(crate) scope: LimitScope,
}

impl LimitReached {
    /// A limit that an operator sets by `setting`.
    pub(crate) fn new(
        what: &'static str,
        setting: impl Into<Cow<'static, str>>,
        bound: usize,
        scope: LimitScope,
    ) -> Self {
        Self { what, setting: Some(setting.into()), bound, scope }
    }

    /// A fixed limit for each session.
    pub(crate) fn in_session(what: &'static str, bound: usize) -> Self {
        Self { what, setting: None, bound, scope: LimitScope::Session }
    }

    /// The failure to answer with: nothing ran.
    pub(crate) fn failure(&self) -> Failure {
        let failure = Failure::new(Code::Overloaded, self.to_string())
            .retry_after(std::time::Duration::from_secs(1))
            .with_executed(Executed::No);
        match self.scope {
            LimitScope::Session | LimitScope::Principal => {
                failure.suggest("Wait for some of your own to end, then try again.")
            }
            LimitScope::Gateway => failure.suggest("Wait a moment, then try again."),
        }
    }
}

impl fmt::Display for LimitReached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what, setting, bound, .. } = self;
        let setting = setting.as_deref();
        write!(f, "too many {what}: ")?;
        match (self.scope, setting) {
            (LimitScope::Session, _) => write!(f, "one session may have {bound}"),
            (LimitScope::Principal, setting) => {
                write!(f, "one principal may have {bound}, its share (`serve.per_principal`)")?;
                setting.map_or(Ok(()), |setting| write!(f, " of `{setting}`"))
            }
            (LimitScope::Gateway, Some(setting)) => {
                write!(f, "the gateway allows {bound} (`{setting}`)")
            }
            (LimitScope::Gateway, None) => write!(f, "the gateway allows {bound}"),
        }
    }
}

/// The use of all principals together.
#[derive(Debug)]
pub(crate) struct Usage {
    pub(crate) share: Share,
    gateway: Arc<GatewayUsage>,
    accounts: Mutex<HashMap<Principal, Arc<Account>>>,
}

#[derive(Debug)]
struct GatewayUsage {
    used: [AtomicUsize; UsageKind::COUNT],
    bounds: [usize; UsageKind::COUNT],
}

impl Usage {
    pub(crate) fn new(share: Share, sessions: usize, subscriptions: usize) -> Self {
        let bounds = [
            sessions,
            sessions,
            subscriptions,
            MAX_SUBSCRIPTION_BYTES,
            MAX_SUSPENDED_CALLS,
            MAX_SUSPENDED_BYTES,
            MAX_REPLAY_BYTES,
        ];
        let gateway = Arc::new(GatewayUsage { used: Default::default(), bounds });
        Self { share, gateway, accounts: Mutex::default() }
    }

    /// The account of a principal, which all namespaces share.
    pub(crate) fn account(&self, principal: &Principal) -> Arc<Account> {
        let mut accounts = self.accounts.lock();
        let account = accounts.entry(principal.clone()).or_insert_with(|| {
            Arc::new(Account {
                principal: principal.clone(),
                share: self.share,
                gateway: Arc::clone(&self.gateway),
                used: Default::default(),
                starts: Semaphore::new(self.share.of(MAX_STARTS)),
            })
        });
        Arc::clone(account)
    }
}

/// The use of one principal.
#[derive(Debug)]
pub(crate) struct Account {
    pub(crate) principal: Principal,
    pub(crate) share: Share,
    gateway: Arc<GatewayUsage>,
    used: [AtomicUsize; UsageKind::COUNT],
    /// Limits how many servers start at once for this principal, so that those of others need not wait for all of them.
    pub(crate) starts: Semaphore,
}

impl Account {
    /// Reserves an amount, if the limits allow it. Dropping the reservation releases it.
    pub(crate) fn take(
        self: &Arc<Self>,
        kind: UsageKind,
        amount: usize,
    ) -> Result<Reservation, LimitReached> {
        let at = kind as usize;
        let (Some(used), Some(all), Some(limit)) =
            (self.used.get(at), self.gateway.used.get(at), self.gateway.bounds.get(at))
        else {
            return Err(kind.full(0, LimitScope::Principal));
        };
        let bound = self.share.of(*limit);
        if used.fetch_add(amount, Ordering::Relaxed).saturating_add(amount) > bound {
            used.fetch_sub(amount, Ordering::Relaxed);
            let scope = if bound < *limit { LimitScope::Principal } else { LimitScope::Gateway };
            return Err(kind.full(bound, scope));
        }
        if all.fetch_add(amount, Ordering::Relaxed).saturating_add(amount) > *limit {
            used.fetch_sub(amount, Ordering::Relaxed);
            all.fetch_sub(amount, Ordering::Relaxed);
            return Err(kind.full(*limit, LimitScope::Gateway));
        }
        Ok(Reservation { account: Arc::clone(self), kind, amount })
    }
}

/// An amount that a principal has reserved. Dropping it releases the amount.
#[derive(Debug)]
pub(crate) struct Reservation {
    account: Arc<Account>,
    kind: UsageKind,
    amount: usize,
}

impl Reservation {
    /// Reserves more.
    pub(crate) fn grow(&mut self, amount: usize) -> Result<(), LimitReached> {
        let mut more = self.account.take(self.kind, amount)?;
        self.amount += std::mem::take(&mut more.amount);
        Ok(())
    }

    /// Releases a part.
    pub(crate) fn shrink(&mut self, amount: usize) {
        let amount = amount.min(self.amount);
        self.amount -= amount;
        drop(Self { account: Arc::clone(&self.account), kind: self.kind, amount });
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let at = self.kind as usize;
        for used in
            [self.account.used.get(at), self.account.gateway.used.get(at)].into_iter().flatten()
        {
            used.fetch_sub(self.amount, Ordering::Relaxed);
        }
    }
}

/// One principal in one namespace.
#[derive(Debug)]
pub(crate) struct PrincipalInNamespace {
    /// The session for requests of 2026-07-28, which have none: all requests of one principal share it.
    pub(crate) session: Arc<Session>,
    pub(crate) account: Arc<Account>,
    /// The resources that servers returned to this principal.
    pub(crate) links: ResourceLinks,
    in_flight: AtomicUsize,
    /// The number of requests in flight in the whole namespace.
    all: Arc<AtomicUsize>,
}

impl PrincipalInNamespace {
    pub(crate) fn new(session: Arc<Session>, account: Arc<Account>, all: Arc<AtomicUsize>) -> Self {
        let links = ResourceLinks::default();
        Self { session, account, links, in_flight: AtomicUsize::new(0), all }
    }

    /// Admits one more request, if the limits allow it: `limit` for the namespace, and a share of `limit` for each
    /// principal.
    pub(crate) fn admit(self: &Arc<Self>, limit: usize) -> Result<InFlightPermit, LimitReached> {
        let own = self.in_flight.fetch_add(1, Ordering::Relaxed);
        let all = self.all.fetch_add(1, Ordering::Relaxed);
        let permit = InFlightPermit(Arc::clone(self));
        let share = self.account.share.of(limit);
        let full = |bound, scope| {
            LimitReached::new("requests in flight", "limits.in_flight", bound, scope)
        };
        if own >= share {
            let scope = if share < limit { LimitScope::Principal } else { LimitScope::Gateway };
            return Err(full(share, scope));
        }
        if all >= limit {
            return Err(full(limit, LimitScope::Gateway));
        }
        Ok(permit)
    }
}

/// The permit of a request in flight. Dropping it ends the request's count.
#[derive(Debug)]
pub(crate) struct InFlightPermit(Arc<PrincipalInNamespace>);

impl Drop for InFlightPermit {
    fn drop(&mut self) {
        self.0.in_flight.fetch_sub(1, Ordering::Relaxed);
        self.0.all.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> Principal {
        Principal::Key(name.into())
    }

    #[test]
    fn one_principal_has_all_and_each_of_several_a_share() {
        assert_eq!(Share::new(0.25, 1).of(100), 100);
        assert_eq!(Share::new(0.25, 2).of(100), 25);
        assert_eq!(Share::new(0.25, 2).of(2), 1, "one at least");
        assert_eq!(Share::new(1.0, 2).of(7), 7);
    }

    #[test]
    fn what_is_given_back_can_be_taken_again_and_others_have_their_own() {
        let usage = Usage::new(Share::new(0.25, 2), 8, 8);
        let (mine, yours) = (usage.account(&key("a")), usage.account(&key("b")));
        let held: Vec<Reservation> =
            (0..2).map(|_| mine.take(UsageKind::Sessions, 1).unwrap()).collect();
        let full = mine.take(UsageKind::Sessions, 1).unwrap_err();
        assert_eq!(full.scope, LimitScope::Principal);
        let text = full.to_string();
        assert!(text.contains("may have 2") && text.contains("serve.sessions"), "{text}");
        let _other = yours.take(UsageKind::Sessions, 1).unwrap();
        drop(held);
        assert!(mine.take(UsageKind::Sessions, 2).is_ok());
        assert!(usage.account(&key("a")).take(UsageKind::Sessions, 3).is_err(), "the same account");
    }

    #[test]
    fn the_whole_is_bounded_too() {
        let usage = Usage::new(Share::new(0.5, 3), 2, 2);
        let held: Vec<_> =
            ["a", "b"].map(|n| usage.account(&key(n)).take(UsageKind::Sessions, 1).unwrap()).into();
        let full = usage.account(&key("c")).take(UsageKind::Sessions, 1).unwrap_err();
        assert_eq!(full.scope, LimitScope::Gateway, "{full}");
        drop::<Vec<Reservation>>(held);
        assert!(usage.account(&key("c")).take(UsageKind::Sessions, 1).is_ok());
    }
}
