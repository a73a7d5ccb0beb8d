//! What each principal makes the gateway keep, and how much of the whole one of them may use.

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

/// So many calls wait for their clients at once.
const MOST_PARKED: usize = 1000;
/// So many bytes their questions may have.
const MOST_PARKED_BYTES: usize = 64 * 1024 * 1024;
/// So many bytes the addresses of subscriptions may have.
const MOST_SUBSCRIPTION_BYTES: usize = 64 * 1024 * 1024;
/// So many bytes of answers are kept for clients that lost their stream.
const MOST_REPLAY_BYTES: usize = 256 * 1024 * 1024;
/// So many servers start at once.
pub(crate) const STARTS: usize = 16;

/// How much of the whole one principal may use.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Share(f64);

impl Share {
    /// All of it where there is one principal; this much where there are several.
    pub(crate) fn new(share: f64, principals: usize) -> Self {
        Self(if principals > 1 { share } else { 1.0 })
    }

    /// What one principal may use of so much: one at least.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "a bound may be off by one beyond 2^52, and is never negative"
    )]
    pub(crate) fn of(self, whole: usize) -> usize {
        if self.0 >= 1.0 { whole } else { ((whole as f64 * self.0) as usize).max(1) }
    }
}

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UsageKind {
    /// Sessions, and requests that listen: `subscriptions/listen`.
    Sessions,
    /// Streams of the transport of 2024-11-05.
    SseStreams,
    Subscriptions,
    SubscriptionBytes,
    /// Calls that wait for their client to come back.
    SuspendedCall,
    ParkedBytes,
    /// Answers that are kept for clients that lost their stream.
    ReplayBytes,
}

impl UsageKind {
    const COUNT: usize = 7;

    /// What it is called in messages, and the setting that bounds it.
    const fn told(self) -> (&'static str, Option<&'static str>) {
        match self {
            Self::Sessions => ("sessions", Some("serve.sessions")),
            Self::SseStreams => ("streams of /sse", Some("serve.sessions")),
            Self::Subscriptions => ("subscriptions", Some("serve.subscriptions")),
            Self::SubscriptionBytes => ("bytes of subscriptions", None),
            Self::SuspendedCall => ("calls that wait for their client", None),
            Self::ParkedBytes => ("bytes of calls that wait for their client", None),
            Self::ReplayBytes => ("bytes of answers for lost streams", None),
        }
    }

    fn full(self, bound: usize, is_share: bool) -> LimitReached {
        let (what, setting) = self.told();
        LimitReached {
            what,
            setting: setting.map(Cow::Borrowed),
            bound,
            is_share,
            is_session: false,
        }
    }
}

/// There is no room: for one principal, or for anybody.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LimitReached {
    what: &'static str,
    setting: Option<Cow<'static, str>>,
    bound: usize,
    /// Whether only this principal is at its bound.
    pub(crate) is_share: bool,
    /// Whether it is what one session may have.
    is_session: bool,
}

impl LimitReached {
    /// Of something that a setting of its own bounds.
    pub(crate) fn new(
        what: &'static str,
        setting: impl Into<Cow<'static, str>>,
        bound: usize,
        is_share: bool,
    ) -> Self {
        Self { what, setting: Some(setting.into()), bound, is_share, is_session: false }
    }

    /// Of something that each session may have so much of.
    pub(crate) fn in_session(what: &'static str, bound: usize) -> Self {
        Self { what, setting: None, bound, is_share: true, is_session: true }
    }

    /// As a failure: nothing ran.
    pub(crate) fn failure(&self) -> Failure {
        let failure = Failure::new(Code::Overloaded, self.to_string())
            .retry_after(std::time::Duration::from_secs(1))
            .with_executed(Executed::No);
        if self.is_share {
            failure.suggest("Wait for some of your own to end, then try again.")
        } else {
            failure.suggest("Wait a moment, then try again.")
        }
    }
}

impl fmt::Display for LimitReached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what, setting, bound, .. } = self;
        let setting = setting.as_deref();
        write!(f, "too many {what}: ")?;
        match (self.is_session, self.is_share, setting) {
            (true, ..) => write!(f, "one session may have {bound}"),
            (_, true, setting) => {
                write!(f, "one principal may have {bound}, its share (`serve.per_principal`)")?;
                setting.map_or(Ok(()), |setting| write!(f, " of `{setting}`"))
            }
            (_, false, Some(setting)) => write!(f, "the gateway allows {bound} (`{setting}`)"),
            (_, false, None) => write!(f, "the gateway allows {bound}"),
        }
    }
}

/// All principals' use of the gateway.
#[derive(Debug)]
pub(crate) struct Usage {
    pub(crate) share: Share,
    whole: Arc<Whole>,
    accounts: Mutex<HashMap<Principal, Arc<Account>>>,
}

#[derive(Debug)]
struct Whole {
    used: [AtomicUsize; UsageKind::COUNT],
    bounds: [usize; UsageKind::COUNT],
}

impl Usage {
    pub(crate) fn new(share: Share, sessions: usize, subscriptions: usize) -> Self {
        let bounds = [
            sessions,
            sessions,
            subscriptions,
            MOST_SUBSCRIPTION_BYTES,
            MOST_PARKED,
            MOST_PARKED_BYTES,
            MOST_REPLAY_BYTES,
        ];
        let whole = Arc::new(Whole { used: Default::default(), bounds });
        Self { share, whole, accounts: Mutex::default() }
    }

    /// The account of a principal: one for all namespaces.
    pub(crate) fn account(&self, principal: &Principal) -> Arc<Account> {
        let mut accounts = self.accounts.lock();
        let account = accounts.entry(principal.clone()).or_insert_with(|| {
            Arc::new(Account {
                principal: principal.clone(),
                share: self.share,
                whole: Arc::clone(&self.whole),
                used: Default::default(),
                starts: Semaphore::new(self.share.of(STARTS)),
            })
        });
        Arc::clone(account)
    }
}

/// What one principal uses.
#[derive(Debug)]
pub(crate) struct Account {
    pub(crate) principal: Principal,
    pub(crate) share: Share,
    whole: Arc<Whole>,
    used: [AtomicUsize; UsageKind::COUNT],
    /// So many servers of its own start at once: others' do not wait for all of them.
    pub(crate) starts: Semaphore,
}

impl Account {
    /// Takes so much, if there is room; given back when it is dropped.
    pub(crate) fn take(
        self: &Arc<Self>,
        kind: UsageKind,
        amount: usize,
    ) -> Result<Reservation, LimitReached> {
        let at = kind as usize;
        let (Some(used), Some(all), Some(whole)) =
            (self.used.get(at), self.whole.used.get(at), self.whole.bounds.get(at))
        else {
            return Err(kind.full(0, true));
        };
        let bound = self.share.of(*whole);
        if used.fetch_add(amount, Ordering::Relaxed).saturating_add(amount) > bound {
            used.fetch_sub(amount, Ordering::Relaxed);
            return Err(kind.full(bound, bound < *whole));
        }
        if all.fetch_add(amount, Ordering::Relaxed).saturating_add(amount) > *whole {
            used.fetch_sub(amount, Ordering::Relaxed);
            all.fetch_sub(amount, Ordering::Relaxed);
            return Err(kind.full(*whole, false));
        }
        Ok(Reservation { account: Arc::clone(self), kind, amount })
    }
}

/// Something that a principal uses. Dropped, it is given back.
#[derive(Debug)]
pub(crate) struct Reservation {
    account: Arc<Account>,
    kind: UsageKind,
    amount: usize,
}

impl Reservation {
    /// Takes so much more of it.
    pub(crate) fn grow(&mut self, amount: usize) -> Result<(), LimitReached> {
        let mut more = self.account.take(self.kind, amount)?;
        self.amount += std::mem::take(&mut more.amount);
        Ok(())
    }

    /// Gives so much of it back.
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
            [self.account.used.get(at), self.account.whole.used.get(at)].into_iter().flatten()
        {
            used.fetch_sub(self.amount, Ordering::Relaxed);
        }
    }
}

/// One principal in one namespace.
#[derive(Debug)]
pub(crate) struct Member {
    /// The session of requests that belong to none: all of one principal are one.
    pub(crate) session: Arc<Session>,
    pub(crate) account: Arc<Account>,
    /// Resources that servers returned to it.
    pub(crate) links: ResourceLinks,
    in_flight: AtomicUsize,
    /// The requests in flight of the whole namespace.
    all: Arc<AtomicUsize>,
}

impl Member {
    pub(crate) fn new(session: Arc<Session>, account: Arc<Account>, all: Arc<AtomicUsize>) -> Self {
        let links = ResourceLinks::default();
        Self { session, account, links, in_flight: AtomicUsize::new(0), all }
    }

    /// Lets one more request in, if there is room: `most` are allowed in the namespace, and a share of it for each
    /// principal.
    pub(crate) fn enter(self: &Arc<Self>, most: usize) -> Result<InFlightPermit, LimitReached> {
        let own = self.in_flight.fetch_add(1, Ordering::Relaxed);
        let all = self.all.fetch_add(1, Ordering::Relaxed);
        let entered = InFlightPermit(Arc::clone(self));
        let share = self.account.share.of(most);
        let full = |bound, is_share| {
            LimitReached::new("requests in flight", "limits.in_flight", bound, is_share)
        };
        if own >= share {
            return Err(full(share, share < most));
        }
        if all >= most {
            return Err(full(most, false));
        }
        Ok(entered)
    }
}

/// A request in flight.
#[derive(Debug)]
pub(crate) struct InFlightPermit(Arc<Member>);

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
        assert!(full.is_share);
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
        assert!(!full.is_share, "{full}");
        drop::<Vec<Reservation>>(held);
        assert!(usage.account(&key("c")).take(UsageKind::Sessions, 1).is_ok());
    }
}
