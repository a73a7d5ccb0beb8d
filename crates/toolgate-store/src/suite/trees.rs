//! Tests of trees of nested calls.

use std::sync::Arc;

use super::{fill, sample};
use crate::store::{Store, Tree};
use toolgate::middleware::log::CallRecord;

fn under(number: u32, parent: u32) -> CallRecord {
    CallRecord { parent: Some(sample(parent).id), ..sample(number) }
}

/// Depths and numbers, as `0:1`.
fn shape(tree: &Tree) -> Vec<String> {
    let number = |id: &str| u32::from_str_radix(&id[24..], 16).unwrap();
    let nodes = tree.nodes.iter();
    nodes.map(|node| format!("{}:{}", node.depth, number(&node.record.id))).collect()
}

pub(super) async fn whole(store: Arc<dyn Store>) {
    // Children end before their parents, so they are written first.
    let records = [under(5, 3), under(4, 1), under(3, 1), under(2, 0), under(1, 0), sample(0)];
    store.append(&records).await.unwrap();
    fill(&*store, 0).await;
    store.append(&[sample(9)]).await.unwrap();
    for asked in [0, 1, 3, 5] {
        let tree = store.tree(&sample(asked).id).await.unwrap().unwrap();
        assert_eq!(shape(&tree), ["0:0", "1:1", "2:3", "3:5", "2:4", "1:2"], "asked for {asked}");
        assert_eq!((tree.missing_parent, tree.is_cut), (None, false));
    }
    let alone = store.tree(&sample(9).id).await.unwrap().unwrap();
    assert_eq!(shape(&alone), ["0:9"]);
    assert_eq!(store.tree("unknown").await.unwrap(), None);
}

pub(super) async fn orphan(store: Arc<dyn Store>) {
    store.append(&[under(2, 1), under(1, 0)]).await.unwrap();
    let tree = store.tree(&sample(2).id).await.unwrap().unwrap();
    assert_eq!(shape(&tree), ["0:1", "1:2"]);
    assert_eq!(tree.missing_parent, Some(sample(0).id));
}

pub(super) async fn circle(store: Arc<dyn Store>) {
    store.append(&[under(1, 3), under(2, 1), under(3, 2), under(4, 4)]).await.unwrap();
    for asked in 1..=3 {
        let tree = store.tree(&sample(asked).id).await.unwrap().unwrap();
        assert_eq!(tree.nodes.len(), 3, "each once: {tree:?}");
    }
    let own = store.tree(&sample(4).id).await.unwrap().unwrap();
    assert_eq!(shape(&own), ["0:4"]);
}
