//! What the strategy looks at, and who acts on what it says. Decides nothing about when. Spec: membership
//! 3.1, 3.2, 3.10.

use alloc::vec::Vec;

use crate::config::ValidConfig;
use crate::downing::resolver::{Resolver, watch};
use crate::downing::state::view::{DowningView, IndirectRule, Observation, Standpoint};
use crate::ident::UniqueAddress;
use crate::membership::state::member::Status;
use crate::ordered::OrderedSet;
use crate::time::Instant;
use crate::view::View;

/// Which links count as broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BrokenLinks {
    /// Those that somebody reports now.
    Now,
    /// Those, and the ones that were reported since unrest began.
    SinceUnrest,
}

/// For how many stable periods a link that came and went speaks against its ends.
const DOUBTED_PERIODS: u32 = 4;

impl Resolver {
    /// This data center at `now`, where who is Down counts as unreachable.
    pub(super) fn picture(&self, config: &ValidConfig, view: &View, now: Instant) -> DowningView {
        self.picture_of(config, view, now, BrokenLinks::Now)
    }

    pub(super) fn picture_of(
        &self,
        config: &ValidConfig,
        view: &View,
        now: Instant,
        links: BrokenLinks,
    ) -> DowningView {
        let members = || watch::own_members(view);
        let dead = members()
            .filter(|member| member.status == Status::Down)
            .map(|member| &member.node);
        let unreachable = view.unreachable().iter().chain(dead).cloned();
        let rule = config.downing.rule;
        let alive: OrderedSet<UniqueAddress> = match rule {
            IndirectRule::Classic => view.gossip().seen().cloned().collect(),
            IndirectRule::CascadeSafe => self.heard.clone(),
            IndirectRule::Fewest => OrderedSet::new(),
        };
        let mut rows: Vec<Observation> = self.rows.clone();
        if links == BrokenLinks::SinceUnrest {
            rows.extend(self.evidence.withdrawn_since_calm().cloned());
        }
        let picture = DowningView::new(members().cloned(), unreachable, rows, alive).judged_by(rule);
        if rule != IndirectRule::Fewest {
            return picture;
        }
        let members = view.members().len();
        let (period, held) = (
            config.stable_after(members),
            config.down_members_held_for(members),
        );
        picture.by_the_fewest(Standpoint {
            from: view.me(),
            role: self.strategy.as_ref().and_then(|strategy| strategy.role()),
            watches: &self.evidence.watches(now, config.first_silence()),
            lately_down: &self.evidence.lately_down(now, held),
            withdrawn: &self.evidence.lately_withdrawn(now, period * DOUBTED_PERIODS),
        })
    }
}

/// Only the leader acts, and only as a member that is in: also of a cluster that prepares to stop. By the
/// rule of the fewest nodes it is not the one whom nobody reports, but the first of those that stay.
pub(super) fn is_responsible(view: &View, picture: &DowningView) -> bool {
    let status = view.self_status();
    let acts = match picture.rule() {
        IndirectRule::Classic | IndirectRule::CascadeSafe => view.is_leader(),
        IndirectRule::Fewest => picture.speaker() == Some(view.me()),
    };
    acts && (matches!(status, Status::Up | Status::WeaklyUp) || status.is_preparing())
}
