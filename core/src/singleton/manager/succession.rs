//! When what ran on members that are gone has certainly stopped, as far as it matters to the manager of this
//! node. Reads what the room of the oldest knows. Spec: sharding 1.10, 10.1.

use alloc::vec::Vec;

use super::{HandOverStage, Happened, SingletonManager};
use crate::ident::UniqueAddress;
use crate::oldest::state::departures::Departure;
use crate::oldest::state::may_act;
use crate::singleton::Cx;

impl SingletonManager {
    /// Whether a member was removed, and whatever ran there has certainly stopped; and on everybody older
    /// than this node who was removed, for this one may have waited for them itself when it went.
    pub(super) fn is_free(&self, cx: &Cx<'_>, node: &UniqueAddress) -> bool {
        let is_over = cx.succession().departures().safe_at_of(node) <= cx.mono();
        cx.view().is_removed(node) && is_over && self.predecessors_gone(cx)
    }

    /// Whether this node, which stays, has handed over to one that is removed, and whose margin is over. Any
    /// member may ask for a hand-over, one that is not next in age too: without this nobody would be
    /// responsible after its removal (I-100).
    pub(super) fn has_outlived_its_successor(&self, cx: &Cx<'_>) -> bool {
        let stays = !self.exited && may_act(cx.view().self_status());
        let successor = self
            .handed_to
            .as_ref()
            .filter(|_| self.stage == HandOverStage::End);
        stays && successor.is_some_and(|to| self.is_free(cx, to))
    }

    /// Whether this node has handed over to nobody, because who was older is gone, and is the oldest.
    pub(super) fn is_left_alone(&self, cx: &Cx<'_>) -> bool {
        let is_younger = matches!(self.stage, HandOverStage::Younger { .. });
        is_younger && self.head.as_ref() == Some(cx.me()) && !cx.view().is_shutting_down()
    }

    /// A node on its way out whose successor is removed, with nobody else left, has nobody to wait for: the
    /// successor that left as well was faster.
    pub(super) fn stop_if_nobody_follows(&mut self, cx: &mut Cx<'_>) {
        let HandOverStage::WasOldest { new, .. } = &self.stage else {
            return;
        };
        let is_gone = new.as_ref().is_none_or(|node| cx.view().is_removed(node));
        if self.exited && self.head.is_none() && is_gone {
            self.tell(cx, Happened::TakeOverRetry(u32::MAX));
        }
    }

    /// Whether nothing can be running any more on members of the role that are older than this node and were
    /// removed. One that hands over, or has gone in good order, may never have been responsible, or may have
    /// handed over to somebody else before: an older one that was removed a moment ago, and does not know it
    /// yet.
    pub(super) fn predecessors_gone(&self, cx: &Cx<'_>) -> bool {
        let me = cx.view().self_member();
        let is_older = |gone: &Departure| me.is_none_or(|me| gone.up_number <= me.up_number);
        let safe_at = cx
            .succession()
            .departures()
            .safe_at(self.settings.role.as_ref(), is_older);
        safe_at <= cx.mono()
    }

    /// Whose removal would let this manager go on.
    pub(super) fn awaited(&self) -> Vec<UniqueAddress> {
        match &self.stage {
            HandOverStage::Younger { previous } | HandOverStage::BecomingOldest { previous } => {
                previous.clone()
            }
            HandOverStage::WasOldest { new, .. } => new.iter().cloned().collect(),
            HandOverStage::Start
            | HandOverStage::AcquiringLease { .. }
            | HandOverStage::Oldest { .. }
            | HandOverStage::HandingOver { .. }
            | HandOverStage::Stopping
            | HandOverStage::End
            | HandOverStage::Stopped
            | HandOverStage::Stuck => Vec::new(),
        }
    }
}
