//! Starting a server again, and bringing it to where the client believes it to be.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;
use toolgate::Failure;
use toolgate_wire::{Json, Shape, notification};

use super::{
    hub::{Hub, Link},
    upstream::exchange_through,
};
use crate::outbox::Outbox;

/// Says `initialize` to a new server on behalf of the client, which has done so already, and opens the
/// way to it.
pub(super) async fn resume(hub: &Arc<Hub>, outbox: &Arc<Outbox>) -> Result<(), Failure> {
    let (initialize, initialized) = {
        let facts = hub.client_facts();
        (facts.initialize.clone(), facts.initialized.clone())
    };
    let mut listens = false;
    if let (Some(initialize), Some(initialized)) = (initialize, initialized) {
        let id = hub.own_id();
        let line = initialize.with_id(&id);
        let never = CancellationToken::new();
        let exchange = exchange_through(hub, outbox, &never, id, line, false);
        let late = || hub.crashed("it did not answer initialize in time", toolgate::Ran::No);
        let answer =
            tokio::time::timeout(hub.start_timeout, exchange).await.map_err(|_| late())??;
        if answer.shape() == Shape::Error {
            return Err(hub.crashed("it refused initialize", toolgate::Ran::No));
        }
        outbox.push(initialized).await;
        let capability = |json: Json| json.get("tools")?.get("listChanged")?.bool();
        listens = answer.member("capabilities").and_then(capability) == Some(true);
    }
    hub.governance().tools.outdated();
    hub.set_link(Link::Up(Arc::clone(outbox)));
    if listens {
        hub.to_client.push(notification("notifications/tools/list_changed", None)).await;
    }
    Ok(())
}
