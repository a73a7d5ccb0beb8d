//! The resource subscriptions of a client.

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
    follow::{ResourceWatch, look},
    read::stands_for,
    refused,
    uri::{ResourceAddress, is_missing},
};
use crate::{call::ToolContext, governed_resources::GovernedResources};

/// How many resources a client may subscribe to.
pub(crate) const MAX_SUBSCRIPTIONS: usize = 64;

/// The subscriptions of one client. They end when this is dropped.
#[derive(Debug)]
pub(crate) struct Subscriptions {
    room: std::sync::Arc<Semaphore>,
    open: Mutex<HashMap<String, OpenSubscription>>,
}

impl Default for Subscriptions {
    fn default() -> Self {
        Self { room: Semaphore::new(MAX_SUBSCRIPTIONS).into(), open: Mutex::default() }
    }
}

#[derive(Debug)]
struct OpenSubscription {
    following: AbortHandle,
    _room: OwnedSemaphorePermit,
}

impl Drop for OpenSubscription {
    fn drop(&mut self) {
        self.following.abort();
    }
}

impl Subscriptions {
    /// `resources/subscribe`: the resource must exist, and the client must be allowed to read it.
    pub(crate) async fn open(
        &self,
        cx: ToolContext,
        governed: &GovernedResources,
        uri: String,
    ) -> Result<(), ErrorData> {
        let opened = self.opened(&cx, governed, &uri).await;
        opened.map_err(|failure| refused(&cx.request, failure, &uri))
    }

    async fn opened(
        &self,
        cx: &ToolContext,
        governed: &GovernedResources,
        uri: &str,
    ) -> Result<(), Failure> {
        let address = ResourceAddress::parse(uri)?;
        if self.all().contains_key(uri) {
            return Ok(());
        }
        let room = self.room()?;
        allowed(cx, governed, &address, || look(cx, &address)).await?;
        let follower = ResourceWatch::new(cx.clone(), address).await;
        let (peer, told) = (cx.request.peer.clone(), uri.to_owned());
        let tell = move || {
            let (peer, news) = (peer.clone(), ResourceUpdatedNotificationParam::new(&told));
            async move { peer.notify_resource_updated(news).await.is_ok() }
        };
        let following = tokio::spawn(follower.run(tell)).abort_handle();
        self.all().insert(uri.to_owned(), OpenSubscription { following, _room: room });
        Ok(())
    }

    /// `resources/unsubscribe`
    pub(crate) fn close(&self, uri: &str) {
        self.all().remove(uri);
    }

    fn room(&self) -> Result<OwnedSemaphorePermit, Failure> {
        std::sync::Arc::clone(&self.room).try_acquire_owned().map_err(|_| {
            let message = format!("{MAX_SUBSCRIPTIONS} resources are subscribed to already");
            Failure::new(Code::Refused, message)
                .suggest("Unsubscribe from one that you no longer need.")
                .with_executed(Executed::No)
        })
    }

    fn all(&self) -> MutexGuard<'_, HashMap<String, OpenSubscription>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `subscriptions/listen`: the part of the filter that is granted.
    pub(crate) fn accepted(
        governed: &GovernedResources,
        requested: &SubscriptionFilter,
    ) -> SubscriptionFilter {
        let can = |uri: &&String| {
            let Ok(address) = ResourceAddress::parse(uri) else { return false };
            let (tools, arguments) = stands_for(&address);
            tools.iter().all(|tool| governed.allows(tool, &arguments))
        };
        let uris =
            requested.resource_subscriptions.iter().flatten().filter(can).take(MAX_SUBSCRIPTIONS);
        SubscriptionFilter::builder().resource_subscriptions(uris.cloned()).build()
    }

    /// Notifies the client of changes until it stops listening.
    pub(crate) async fn listen(
        &self,
        cx: ToolContext,
        governed: &GovernedResources,
        context: SubscriptionContext,
    ) {
        let mut following = JoinSet::new();
        let uris = context.accepted().resource_subscriptions.clone().unwrap_or_default();
        for uri in uris {
            let (Ok(address), Ok(room)) = (ResourceAddress::parse(&uri), self.room()) else {
                continue;
            };
            let looked = allowed(&cx, governed, &address, || look(&cx, &address)).await;
            if looked.is_err_and(|failure| !is_missing(&failure)) {
                continue;
            }
            let follower = ResourceWatch::new(cx.clone(), address).await;
            let sink = context.sink().clone();
            let tell = move || {
                let (sink, uri) = (sink.clone(), uri.clone());
                async move { sink.notify_resource_updated(uri).await.is_ok() }
            };
            following.spawn(async move {
                // The client was told that it is subscribed before the watch began: this notification covers changes in
                // between.
                if tell().await {
                    follower.run(tell).await;
                }
                drop(room);
            });
        }
        context.cancelled().await;
    }
}
