//! Which versions of a member's dots are believed of whom. A version that is far beyond what anybody mints
//! leaves its member none, so the last half is believed of the member itself alone, and of others only as far
//! as it has come by its own word. Spec: reliability I-100.

use super::protocol::Rejection;
use super::{Cx, Replicator};
use crate::ddata::crdt::{CLAIM_MAX, claim_max};
use crate::ident::UniqueAddress;
use crate::ordered::OrderedMap;
use crate::view::View;

/// How far members have come in the last half of all versions, by their own word: nobody, unless there was a
/// liar.
#[derive(Clone, Debug, Default)]
pub(super) struct SaidVersions(OrderedMap<UniqueAddress, u64>);

impl SaidVersions {
    /// What members that were removed have said bounds nothing any more.
    pub(super) fn forget_removed(&mut self, view: &View) {
        self.0.retain(|node, _| view.member(node).is_some());
    }
}

impl Replicator {
    /// Checks versions beyond [`CLAIM_MAX`] that somebody names. Of this node itself
    /// [`skip_to`](Replicator::skip_to) decides, and one that is no member any more needs none.
    pub(super) fn check_versions<'n>(
        &mut self,
        cx: &Cx<'_>,
        from: &UniqueAddress,
        versions: impl Iterator<Item = (&'n UniqueAddress, u64)>,
    ) -> Result<(), Rejection> {
        for (node, version) in versions.filter(|(_, version)| *version > CLAIM_MAX) {
            if node == cx.me() || cx.view().member(node).is_none() {
                continue;
            }
            if node == from {
                let said = self.said_versions.0.entry(node.clone()).or_default();
                *said = version.max(*said);
                continue;
            }
            let said = self.said_versions.0.get(node).copied().unwrap_or(0);
            if version > claim_max(said) {
                return Err(Rejection::OutOfRange { what: "version" });
            }
        }
        Ok(())
    }
}
