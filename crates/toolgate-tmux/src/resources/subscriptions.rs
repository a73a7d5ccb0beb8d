//! Who wants to hear of what.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use rmcp::{
    ErrorData,
    model::{ResourceUpdatedNotificationParam, SubscriptionFilter},
    service::SubscriptionContext,
};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    task::{AbortHandle, JoinSet},
};
use toolgate::{Code, Executed, Failure};

use super::{
    allowed,
    follow::{Follower, look},
    read::stands_for,
    refused,
    uri::{Address, is_missing},
};
use crate::{call::Cx, front::Front};

/// The most resources that one client may hear of at a time.
pub(crate) const MOST: usize = 64;

/// The subscriptions of one client. Gone with it.
#[derive(Debug)]
pub(crate) struct Subscriptions {
    room: std::sync::Arc<Semaphore>,
    open: Mutex<HashMap<String, Open>>,
}

impl Default for Subscriptions {
    fn default() -> Self {
        Self { room: Semaphore::new(MOST).into(), open: Mutex::default() }
    }
}

#[derive(Debug)]
struct Open {
    following: AbortHandle,
    _room: OwnedSemaphorePermit,
}

impl Drop for Open {
    fn drop(&mut self) {
        self.following.abort();
    }
}

impl Subscriptions {
    /// `resources/subscribe`: it has to be there, and the client has to be allowed to read it.
    pub(crate) async fn open(&self, cx: Cx, front: &Front, uri: String) -> Result<(), ErrorData> {
        let opened = self.opened(&cx, front, &uri).await;
        opened.map_err(|failure| refused(&cx.request, failure, &uri))
    }

    async fn opened(&self, cx: &Cx, front: &Front, uri: &str) -> Result<(), Failure> {
        let address = Address::parse(uri)?;
        if self.all().contains_key(uri) {
            return Ok(());
        }
        let room = self.room()?;
        allowed(cx, front, &address, || look(cx, &address)).await?;
        let follower = Follower::new(cx.clone(), address).await;
        let (peer, told) = (cx.request.peer.clone(), uri.to_owned());
        let tell = move || {
            let (peer, news) = (peer.clone(), ResourceUpdatedNotificationParam::new(&told));
            async move { peer.notify_resource_updated(news).await.is_ok() }
        };
        let following = tokio::spawn(follower.run(tell)).abort_handle();
        self.all().insert(uri.to_owned(), Open { following, _room: room });
        Ok(())
    }

    /// `resources/unsubscribe`
    pub(crate) fn close(&self, uri: &str) {
        self.all().remove(uri);
    }

    fn room(&self) -> Result<OwnedSemaphorePermit, Failure> {
        std::sync::Arc::clone(&self.room).try_acquire_owned().map_err(|_| {
            let message = format!("{MOST} resources are subscribed to already");
            Failure::new(Code::Refused, message)
                .suggest("Unsubscribe from one that you no longer need.")
                .with_executed(Executed::No)
        })
    }

    fn all(&self) -> MutexGuard<'_, HashMap<String, Open>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `subscriptions/listen`: what of it can be had.
    pub(crate) fn accepted(front: &Front, requested: &SubscriptionFilter) -> SubscriptionFilter {
        let can = |uri: &&String| {
            let Ok(address) = Address::parse(uri) else { return false };
            let (tools, arguments) = stands_for(&address);
            tools.iter().all(|tool| front.allows(tool, &arguments))
        };
        let uris = requested.resource_subscriptions.iter().flatten().filter(can).take(MOST);
        SubscriptionFilter::builder().resource_subscriptions(uris.cloned()).build()
    }

    /// Tells of them until the client no longer listens.
    pub(crate) async fn listen(&self, cx: Cx, front: &Front, context: SubscriptionContext) {
        let mut following = JoinSet::new();
        let uris = context.accepted().resource_subscriptions.clone().unwrap_or_default();
        for uri in uris {
            let (Ok(address), Ok(room)) = (Address::parse(&uri), self.room()) else { continue };
            let looked = allowed(&cx, front, &address, || look(&cx, &address)).await;
            if looked.is_err_and(|failure| !is_missing(&failure)) {
                continue;
            }
            let follower = Follower::new(cx.clone(), address).await;
            let sink = context.sink().clone();
            let tell = move || {
                let (sink, uri) = (sink.clone(), uri.clone());
                async move { sink.notify_resource_updated(uri).await.is_ok() }
            };
            following.spawn(async move {
                // The client was told that it is heard before it was: what changed meanwhile is in here.
                if tell().await {
                    follower.run(tell).await;
                }
                drop(room);
            });
        }
        context.cancelled().await;
    }
}
