//! What stores of this node say: who hears it, what users hear, what is counted. Decides nothing. Spec:
//! sharding 10.19 b.

use alloc::sync::Arc;

use super::hosting::Listener;
use super::protocol::Event;
use super::state::bucket::BucketName;
use super::{Cx, KeyedStore, send};
use crate::oldest::state::oldest;

impl KeyedStore {
    /// Sends what this node's store of a bucket says.
    pub(super) fn speak_for_store(&mut self, cx: &mut Cx<'_>, bucket: &BucketName) {
        let Some(open) = self.buckets.get_mut(bucket) else {
            return;
        };
        let Some(store) = open.store.as_mut() else {
            return;
        };
        let (said, news) = (store.take_said(cx.mono()), store.take_news());
        let hints = store.take_hint_counts();
        let counters = cx.counters();
        counters.puts_full += store.take_refused();
        counters.hints_kept += hints.kept;
        counters.hints_expired += hints.expired;
        counters.hints_refused += hints.refused;
        for event in news {
            match &event {
                Event::OwnerOf { .. } => cx.counters().ranges_taken += 1,
                Event::OwnerNoMore { .. } => cx.counters().ranges_given += 1,
                Event::Coordinating { .. }
                | Event::CoordinatorOutdone
                | Event::CoordinatorRefused { .. }
                | Event::TableDamaged
                | Event::StoreFull { .. }
                | Event::Ranges(_)
                | Event::RefusedOn { .. }
                | Event::Refused { .. }
                | Event::Watched { .. }
                | Event::StoreDamaged => {}
            }
            cx.notify((bucket.clone(), event));
        }
        let view = Arc::clone(cx.view());
        for (to, body) in said {
            let node = match to {
                Listener::Node(node) => Some(node),
                Listener::Store(store) => open.place_of(store, &view),
                Listener::Coordinator => {
                    let oldest = oldest(&view, open.settings().role.as_ref());
                    oldest.map(|oldest| oldest.node.clone())
                }
            };
            match node {
                Some(node) => send(cx, &node, bucket, body),
                None => open.miss(),
            }
        }
    }
}
