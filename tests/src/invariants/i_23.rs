//! I-23: nobody is downed earlier than the stable period after the last time somebody became unreachable or
//! came back, or the process itself stood still, unless unrest lasts too long; and no decision comes later
//! than the stable period and the patience for unrest after unrest began. Under the cascade-safe rule
//! patience may begin anew, as often as it ends before somebody came back: a side that would stay waits until
//! losses end. By the rule of the fewest nodes it may also when somebody came back, so the limit counts from
//! the last change; whom the process itself reports is one, for it tells who is near. A decision that waits
//! for the lease counts from when it was made, and nothing is late while only members that join are missing:
//! nobody may be able to decide. Auto-down waits for each member by itself: whom it downs must have been
//! silent for the stable period. Times are those of the process's own clock.

use std::collections::BTreeMap;

use quorate_core::event::DowningReport;
use quorate_core::ident::UniqueAddress;
use quorate_core::membership::member::Status;
use quorate_core::membership::reachability::ReachabilityStatus;
use quorate_core::view::{MembershipPhase, View};

use super::Moment;
use crate::sim::ProcessId;

/// The strategy that looks at members one by one.
const AUTO_DOWN: &str = "auto-down";

#[derive(Clone, Debug, Default)]
struct Watch {
    /// Since when each unreachable member has been so.
    silent: BTreeMap<UniqueAddress, u64>,
    /// When somebody became unreachable or came back last, or the process went on after it had stood still.
    changed: u64,
    /// The same, or when somebody became Down, or this process reported others than before.
    moved: u64,
    /// Since when somebody is missing without a decision.
    unrest: Option<u64>,
    /// When somebody came back for the first time since then.
    flapping: Option<u64>,
    /// How long nothing had changed when the decision was made that waits for the lease.
    asked: Option<u64>,
}

/// What a step changed.
struct Change {
    lost: bool,
    back: bool,
    joined: bool,
    downed: bool,
    /// This process reports others than before.
    reported: bool,
    /// A full member is missing after it.
    missing: bool,
}

impl Change {
    fn of(before: &View, after: &View) -> Self {
        let is_in = |node: &UniqueAddress| after.member(node).is_some();
        let gone = after.unreachable().iter();
        let mut missing = gone.clone().filter_map(|node| after.member(node));
        let was = |node: &UniqueAddress| before.member(node).map(|member| member.status);
        Self {
            lost: gone.clone().any(|node| before.is_reachable(node)),
            back: before
                .unreachable()
                .iter()
                .any(|node| after.is_reachable(node) && is_in(node)),
            joined: before.phase() != MembershipPhase::Member,
            downed: after
                .members()
                .iter()
                .any(|member| member.status == Status::Down && was(&member.node) != Some(Status::Down)),
            reported: !reported(before).eq(reported(after)),
            missing: missing.any(|member| member.status.is_up_like()),
        }
    }
}

/// Whom the view's node reports.
fn reported(view: &View) -> impl Iterator<Item = &UniqueAddress> {
    let rows = view.gossip().reachability().records().iter();
    rows.filter(|row| row.observer == *view.me() && row.status != ReachabilityStatus::Reachable)
        .map(|row| &row.subject)
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct InTime(BTreeMap<ProcessId, Watch>);

impl InTime {
    pub(super) fn on_step(&mut self, process: ProcessId, now: u64, before: &View, after: &View) {
        if after.phase() != MembershipPhase::Member {
            self.0.remove(&process);
            return;
        }
        let change = Change::of(before, after);
        let watch = self.0.entry(process).or_default();
        watch.silent.retain(|node, _| after.unreachable().contains(node));
        for node in after.unreachable() {
            watch.silent.entry(node.clone()).or_insert(now);
        }
        if change.lost || change.back || change.joined {
            watch.changed = now;
        }
        if change.lost || change.back || change.joined || change.downed {
            watch.moved = now;
            if watch.unrest.is_none() {
                watch.unrest = Some(now);
                watch.flapping = None;
            }
            if change.back {
                watch.flapping.get_or_insert(now);
            }
        }
        if change.reported {
            watch.moved = now;
        }
        if !change.missing {
            watch.unrest = None;
        }
    }

    /// The process stood still: its waits begin anew, and what waited for the lease is dropped.
    pub(super) fn on_paused(&mut self, process: ProcessId, now: u64) {
        if let Some(watch) = self.0.get_mut(&process) {
            watch.changed = now;
            watch.moved = now;
            watch.silent.values_mut().for_each(|since| *since = now);
            watch.unrest = watch.unrest.map(|_| now);
            // Whoever came back before still makes the unrest one that flaps, but patience is counted from
            // now on.
            watch.flapping = watch.flapping.map(|_| now);
            watch.asked = None;
        }
    }

    pub(super) fn on_downing(
        &mut self,
        process: ProcessId,
        event: &DowningReport,
        moment: &Moment<'_>,
    ) -> Result<(), String> {
        if event.down.is_empty() {
            return Ok(());
        }
        let watch = self.0.entry(process).or_default();
        if event.strategy == AUTO_DOWN {
            watch.unrest = None;
            let since = |node| watch.silent.get(node).copied().unwrap_or(moment.mono);
            let mut early = event
                .down
                .iter()
                .filter(|node| moment.mono - since(node) < moment.stable_after);
            return match early.next() {
                Some(node) => Err(format!(
                    "downs {node} {} us after it fell silent",
                    moment.mono - since(node)
                )),
                None => Ok(()),
            };
        }
        let quiet = moment.mono - watch.changed;
        let patience = moment.patience.map(|patience| moment.stable_after + patience);
        let is_too_long = |unrest| patience.is_some_and(|patience| unrest > patience);
        if event.waits_for.is_some() {
            // What was due when the lease was asked for is due when it is answered.
            let unrest = watch.unrest.map_or(0, |since| moment.mono - since);
            let least = if is_too_long(unrest) {
                moment.stable_after
            } else {
                0
            };
            watch.asked = Some(quiet.max(least));
            return Ok(());
        }
        let (since, flapping) = (watch.unrest.take(), watch.flapping);
        let unrest = since.map_or(0, |since| moment.mono - since);
        let was_quiet = watch.asked.take().unwrap_or(quiet);
        let too_long = is_too_long(unrest);
        if was_quiet < moment.stable_after && !too_long {
            return Err(format!("decides {was_quiet} us after the last change: {event:?}"));
        }
        let latest = patience.map(|patience| patience + moment.slack);
        let waited = match (since, flapping, patience) {
            (Some(_), _, _) if moment.flaps_patiently => moment.mono - watch.moved,
            (Some(since), Some(back), Some(patience)) if moment.stays_patiently => {
                // It ends a moment after it is over.
                unrest - (back - since) / (patience + 1) * (patience + 1)
            }
            (Some(_), None, _) if moment.stays_patiently => quiet,
            _ => unrest,
        };
        if latest.is_some_and(|latest| waited > latest) {
            return Err(format!("decides {waited} us after unrest began: {event:?}"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::Arc;

    use quorate_core::downing::decision::DowningDecision;
    use quorate_core::downing::view::IndirectRule;
    use quorate_core::ident::Address;

    use super::*;
    use crate::lease::MemoryLeases;

    const SECOND: u64 = 1_000_000;

    fn me() -> UniqueAddress {
        let address = Address::new("a", 7355).expect("an address");
        UniqueAddress::new(address, 1)
    }

    fn decision() -> DowningReport {
        DowningReport {
            strategy: "keep-majority",
            rule: IndirectRule::CascadeSafe,
            decision: DowningDecision::DownReachable,
            reason: "a test",
            members: Vec::new(),
            unreachable: Vec::new(),
            indirectly_connected: BTreeSet::new().into_iter().collect(),
            down: Vec::from([me()]),
            waits_for: None,
        }
    }

    /// Unrest since second 10, somebody back in second 11, standing still until second 20: what is said of a
    /// decision.
    fn decides_at(second: u64) -> Result<(), String> {
        let watch = Watch {
            silent: BTreeMap::new(),
            changed: 11 * SECOND,
            moved: 11 * SECOND,
            unrest: Some(10 * SECOND),
            flapping: Some(11 * SECOND),
            asked: None,
        };
        let mut checker = InTime(BTreeMap::from([(0, watch)]));
        checker.on_paused(0, 20 * SECOND);
        judge(&mut checker, second)
    }

    fn judge(checker: &mut InTime, second: u64) -> Result<(), String> {
        let moment = Moment {
            at: second * SECOND,
            mono: second * SECOND,
            stable_after: 5 * SECOND,
            patience: Some(5 * SECOND),
            stays_patiently: true,
            flaps_patiently: false,
            slack: SECOND,
            margin: 5 * SECOND,
            view: &Arc::new(View::idle(me())),
            leases: &MemoryLeases::default(),
        };
        checker.on_downing(0, &decision(), &moment)
    }

    /// Somebody became unreachable in second 10, and this is decided in second 22.
    fn decides_late(is_member_missing: bool) -> Result<(), String> {
        let watch = Watch {
            changed: 10 * SECOND,
            unrest: is_member_missing.then_some(10 * SECOND),
            ..Watch::default()
        };
        let mut checker = InTime(BTreeMap::from([(0, watch)]));
        judge(&mut checker, 22)
    }

    #[test]
    fn i_23_who_joins_is_not_decided_about_in_time() {
        assert!(
            decides_late(true).is_err(),
            "twelve seconds after a member was lost"
        );
        assert_eq!(
            decides_late(false),
            Ok(()),
            "nobody was Up until now who could decide"
        );
    }

    #[test]
    fn i_23_waits_are_counted_from_the_end_of_a_pause_also_after_somebody_came_back_before_it() {
        assert_eq!(decides_at(26), Ok(()), "six seconds after the pause");
        assert_eq!(decides_at(31), Ok(()), "patience is over");
        assert!(decides_at(24).is_err(), "not stable yet");
        assert!(decides_at(32).is_err(), "later than patience and a tick allow");
    }
}
