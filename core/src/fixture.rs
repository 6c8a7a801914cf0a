//! Surroundings for the unit test of one machine: what a [`crate::cx::Cx`] borrows from, and short ways to
//! build members and pictures. Compiled for tests only.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

use rand_chacha::ChaCha8Rng;
use rand_core::SeedableRng;

use crate::config::Config;
use crate::cx::NodeBase;
use crate::effect::Effect;
use crate::ident::{Address, ClusterName, Roles, UniqueAddress};
use crate::membership::state::app_version::AppVersion;
use crate::membership::state::gossip::Gossip;
use crate::membership::state::leader;
use crate::membership::state::member::{Member, Status, UpNumber};
use crate::membership::state::reachability::ReachabilityStatus;
use crate::oldest::Oldest;
use crate::signal::Signal;
use crate::time::{Instant, Now};
use crate::timer::Timer;
use crate::view::{MembershipPhase, View};

/// Everything a machine under test touches.
pub(crate) type Fixture = NodeBase<ChaCha8Rng>;

impl Fixture {
    /// The documented defaults, a fixed seed, at an odd time after the origin.
    pub(crate) fn new(me: UniqueAddress) -> Self {
        Self::with_config(me, Config::lan(ClusterName::new("test").unwrap()))
    }

    pub(crate) fn with_config(me: UniqueAddress, config: Config) -> Self {
        let now = Now {
            mono: Instant::from_millis(100_003),
            unix_ms: 1_700_000_000_000,
        };
        Self::idle(config.validate().unwrap(), me, ChaCha8Rng::seed_from_u64(7), now)
    }

    pub(crate) fn mono(&self) -> Instant {
        self.now.mono
    }

    /// Lets time pass without running timers: a pause.
    pub(crate) fn stand_still(&mut self, duration: Duration) {
        self.now.mono = self.now.mono + duration;
    }

    /// Goes to the next deadline up to `until` and takes its timer; stops at `until` without one.
    pub(crate) fn next_timer(&mut self, until: Instant) -> Option<Timer> {
        let next = self.timers.next().map(|(at, _)| at).filter(|at| *at <= until);
        self.now.mono = self.now.mono.max(next.unwrap_or(until));
        next.and_then(|_| self.timers.pop_due(self.now.mono))
    }

    /// Gives the machine under test another picture, with the ages that belong to it.
    pub(crate) fn see(&mut self, after: View) -> (Arc<View>, Arc<View>) {
        let shutting_down = self.view.shutting_down || after.shutting_down;
        let after = Arc::new(View {
            shutting_down,
            ..after
        });
        let before = core::mem::replace(&mut self.view, Arc::clone(&after));
        Oldest.on_view_changed(&mut self.cx(), &before, &after);
        (before, after)
    }

    /// Takes the effects so far.
    pub(crate) fn effects(&mut self) -> Vec<Effect> {
        self.outbox.effects.drain(..).collect()
    }

    /// Takes the statements so far.
    pub(crate) fn heard(&mut self) -> Vec<Signal> {
        let view = Arc::clone(&self.view);
        core::iter::from_fn(|| self.signals.take(&view)).collect()
    }
}

/// The incarnation `uid` on host `host`.
pub(crate) fn node(host: &str, uid: u64) -> UniqueAddress {
    UniqueAddress::new(Address::new(host, 7355).unwrap(), uid)
}

/// A member without roles; its age is its uid.
pub(crate) fn member(node: &UniqueAddress, status: Status) -> Member {
    let mut member = Member::joining(node.clone(), Roles::default(), AppVersion::default());
    member.status = status;
    if !matches!(status, Status::Joining | Status::WeaklyUp) {
        member.up_number = UpNumber::new(u32::try_from(node.uid()).unwrap());
    }
    member
}

/// `me`'s picture of `members`, where each row `(observer, subject)` says that the subject is unreachable.
pub(crate) fn picture(
    me: &UniqueAddress,
    members: impl IntoIterator<Item = Member>,
    rows: &[(&UniqueAddress, &UniqueAddress)],
) -> View {
    let mut gossip = Gossip::new();
    for member in members {
        assert!(gossip.upsert_member(member));
    }
    for (observer, subject) in rows {
        gossip
            .reachability_mut()
            .change(observer, subject, ReachabilityStatus::Unreachable);
    }
    gossip.add_seen(me);
    picture_of(me, gossip)
}

/// `me`'s picture of a state.
pub(crate) fn picture_of(me: &UniqueAddress, gossip: Gossip) -> View {
    let mut view = View::idle(me.clone());
    if gossip.contains(me) {
        view.phase = MembershipPhase::Member;
    }
    view.leader = leader::leader(&gossip, me);
    view.unreachable = gossip.reachability().all_unreachable_or_terminated();
    view.unreachable.retain(|subject| subject != me);
    view.shutting_down = gossip.members().iter().any(|m| m.status.is_preparing());
    view.gossip = Arc::new(gossip);
    view
}
