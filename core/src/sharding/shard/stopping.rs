//! How a shard stops: its entities are told to, or killed, and how it goes on when its hand-off is cancelled
//! meanwhile. Decides neither when nor why. Spec: sharding 1.4 (hand-off), 10.14 g.

use alloc::vec::Vec;

use super::{Shard, ShardLifecycle, ShardStop};
use crate::effect::HostOrder;
use crate::sharding::Cx;
use crate::sharding::entity_state::{EntityState, StopOrder};
use crate::sharding::state::ids::{EntityId, Slot, Term};

impl Shard {
    /// Asks every entity to stop, and says then so or begins anew. Nothing happens if they were asked before.
    pub(crate) fn stop(&mut self, cx: &mut Cx<'_>, stop: ShardStop) {
        let was_told = match self.lifecycle {
            ShardLifecycle::Loading | ShardLifecycle::Running => false,
            ShardLifecycle::Failed => true,
            ShardLifecycle::Stopping(_) => return,
        };
        self.lifecycle = ShardLifecycle::Stopping(stop);
        if !was_told {
            self.tell_all_to_stop(cx);
        }
        self.start_nobody();
    }

    /// The store failed: entities are told to stop, after what they have been given. Nothing that was to be
    /// written is.
    pub(crate) fn fail_over_store(&mut self, cx: &mut Cx<'_>) {
        cx.counters().remember_failures += 1;
        match self.lifecycle {
            ShardLifecycle::Loading | ShardLifecycle::Running => {
                self.lifecycle = ShardLifecycle::Failed;
                self.tell_all_to_stop(cx);
            }
            ShardLifecycle::Failed | ShardLifecycle::Stopping(_) => {}
        }
        self.give_up_writing(cx);
    }

    fn tell_all_to_stop(&mut self, cx: &mut Cx<'_>) {
        // Who is being passivated was told before.
        for state in self.entities.values_mut() {
            match state {
                EntityState::Active(running) if running.told == StopOrder::Nothing => {
                    running.told = StopOrder::Stop;
                    if let (Some(passivation), Some(place)) = (&mut self.passivation, running.place.take()) {
                        passivation.remove(place);
                    }
                    cx.order(HostOrder::Stop { slot: running.slot });
                }
                EntityState::Active(_)
                | EntityState::Passivating(_)
                | EntityState::RememberedButNotCreated
                | EntityState::RememberingStart
                | EntityState::RememberingStop
                | EntityState::WaitingForRestart => {}
            }
        }
    }

    /// The hand-off that it stops for is cancelled: it goes on. Entities that were told to stop do, and what
    /// comes for them waits for their next incarnations. `false` if it cannot, because its entities were
    /// killed or the store failed: then the next incarnation of the shard begins when this one has ended.
    pub(crate) fn take_back(&mut self) -> bool {
        let knows_its_entities = self.remembered.as_ref().is_none_or(|it| it.is_loaded());
        let goes_on = self.stops_for_hand_off() && !self.killed && knows_its_entities;
        if goes_on {
            self.lifecycle = ShardLifecycle::Running;
        }
        goes_on
    }

    /// Entities that were told to stop and have not.
    pub(crate) fn told_to_stop(&self) -> impl Iterator<Item = &EntityId> {
        let told = |state: &EntityState| {
            state
                .running()
                .is_some_and(|running| running.told != StopOrder::Nothing)
        };
        let running = self.entities.iter().filter(move |(_, state)| told(state));
        running.map(|(entity, _)| entity)
    }

    /// Another coordinator knows that this shard runs here: if it stops, that one is told.
    pub(crate) fn tells(&mut self, term: &Term) {
        if let Some(stop) = self.stopping_mut() {
            stop.tell = Some(term.clone());
        }
    }

    /// A coordinator waits for its end, and does not want it here again. Whether it is to be forced now and
    /// was not before.
    pub(crate) fn stops_for(&mut self, term: &Term, force: bool) -> bool {
        let Some(stop) = self.stopping_mut() else {
            return false;
        };
        (stop.tell, stop.again) = (Some(term.clone()), None);
        force && !core::mem::replace(&mut stop.by_force, true)
    }

    /// A coordinator wants it here again, and was heard in a pause of the process. Nothing happens unless it
    /// stops.
    pub(crate) fn want(&mut self, term: Term) {
        if let Some(stop) = self.stopping_mut() {
            stop.wanted = Some(term);
        }
    }

    /// The coordinator that was heard in a pause and wants it here, if one does.
    pub(crate) fn take_wanted(&mut self) -> Option<Term> {
        self.stopping_mut()?.wanted.take()
    }

    const fn stopping_mut(&mut self) -> Option<&mut ShardStop> {
        match &mut self.lifecycle {
            ShardLifecycle::Stopping(stop) => Some(stop),
            ShardLifecycle::Loading | ShardLifecycle::Running | ShardLifecycle::Failed => None,
        }
    }

    /// Has every entity stopped at once. The shard stays until the host has reported each of them. Nothing
    /// happens if that was ordered before.
    pub(crate) fn kill(&mut self, cx: &mut Cx<'_>) {
        if !self.is_stopping() {
            self.lifecycle = ShardLifecycle::Stopping(ShardStop::default());
        }
        self.kill_entities(cx);
    }

    /// Its node has ended: nobody waits for its end any more, and it does not begin again.
    pub(crate) fn stop_for_good(&mut self, cx: &mut Cx<'_>) {
        self.lifecycle = ShardLifecycle::Stopping(ShardStop::default());
        self.kill_entities(cx);
    }

    /// The same for its entities alone: the shard goes on as it was to.
    pub(crate) fn kill_entities(&mut self, cx: &mut Cx<'_>) {
        if core::mem::replace(&mut self.killed, true) {
            return;
        }
        self.give_up_writing(cx);
        let running = self.entities.values().filter_map(EntityState::running);
        for running in running.filter(|running| running.told != StopOrder::Kill) {
            cx.order(HostOrder::Kill { slot: running.slot });
        }
    }

    /// Has every entity stopped at once, and goes on: their next messages start new ones. Who is being
    /// passivated is stopped at once as well; the one in this slot, over which it failed, ends by itself.
    /// Gives the slots of all of them.
    pub(crate) fn fail(&mut self, cx: &mut Cx<'_>, over: Slot) -> Vec<Slot> {
        cx.counters().shards_failed += 1;
        let mut ending = Vec::new();
        for state in self.entities.values_mut() {
            let running = match state {
                EntityState::Active(running) | EntityState::Passivating(running) => running,
                EntityState::RememberedButNotCreated
                | EntityState::RememberingStart
                | EntityState::RememberingStop
                | EntityState::WaitingForRestart => continue,
            };
            let place = running.place.take();
            if let (Some(passivation), Some(place)) = (&mut self.passivation, place) {
                passivation.remove(place);
            }
            ending.push(running.slot);
            let before = core::mem::replace(&mut running.told, StopOrder::Kill);
            if before != StopOrder::Kill && running.slot != over {
                cx.order(HostOrder::Kill { slot: running.slot });
            }
        }
        ending
    }

    /// Whether it was told to stop.
    pub(crate) const fn is_stopping(&self) -> bool {
        matches!(self.lifecycle, ShardLifecycle::Stopping(_))
    }

    /// Whether it was told to stop because it is to go on elsewhere: a coordinator waits for that, and may
    /// cancel it.
    pub(crate) const fn stops_for_hand_off(&self) -> bool {
        match &self.lifecycle {
            ShardLifecycle::Stopping(stop) => stop.tell.is_some() && !stop.by_force,
            ShardLifecycle::Loading | ShardLifecycle::Running | ShardLifecycle::Failed => false,
        }
    }

    /// Whether the shard was told to stop, nothing of it runs, and nothing is written about it.
    pub(crate) fn has_stopped(&self) -> bool {
        self.is_stopping() && self.runs_nothing() && !self.is_writing()
    }
}
