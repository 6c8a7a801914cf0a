//! The resolver in virtual time. Node `a` is the lowest address and, while it is Up, the leader.

use alloc::vec;

use super::*;
use crate::config::{Config, DownAllWhenUnstable, DowningStrategy, LeaseMajorityConfig};
use crate::downing::resolver::clocks::PictureWait;
use crate::downing::state::view::Watches;
use crate::effect::Effect;
use crate::event::Event;
use crate::fixture::{Fixture, member, node, picture, picture_of};
use crate::ident::{ClusterName, Role, Roles};
use crate::lease::protocol::{LeaseOrder, LeaseOutcome};
use crate::membership::state::gossip::Gossip;
use crate::membership::state::member::Status;
use crate::owner::Requester;
use crate::signal::Signal;
use crate::timer::Timer;

mod fewest;

const HOSTS: [&str; 12] = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"];

fn n(uid: u64) -> UniqueAddress {
    node(HOSTS[usize::try_from(uid - 1).unwrap()], uid)
}

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

struct Bench {
    fixture: Fixture,
    resolver: Resolver,
}

impl Bench {
    /// The resolver of node `me`, stable after 2 s, with Akka's rule.
    fn of(me: u64) -> Self {
        Self::with(me, DowningStrategy::KeepMajority { role: None })
    }

    fn with(me: u64, strategy: DowningStrategy) -> Self {
        let mut config = Config::lan(ClusterName::new("test").unwrap());
        config.downing.stable_after = Some(ms(2000));
        config.downing.strategy = strategy;
        config.downing.rule = IndirectRule::Classic;
        config.downing.down_all_when_indirectly_connected = Some(0.5);
        config.downing.down_all_when_unstable = DownAllWhenUnstable::Off;
        Self::of_config(me, config)
    }

    fn of_config(me: u64, config: Config) -> Self {
        let fixture = Fixture::with_config(n(me), config);
        let resolver = Resolver::new(&fixture.config);
        Self { fixture, resolver }
    }

    fn show(&mut self, view: View) {
        let after = Arc::new(view);
        let before = core::mem::replace(&mut self.fixture.view, Arc::clone(&after));
        self.resolver
            .on_view_changed(&mut self.fixture.cx(), &before, &after);
        self.resolver.check_invariants(&self.fixture.view);
    }

    /// Members with these statuses by uid, and rows `(observer, subject)`; `seen` have seen the state.
    fn see_of(&mut self, statuses: &[(u64, Status)], rows: &[(u64, u64)], seen: &[u64]) {
        let mut gossip = Gossip::new();
        for (uid, status) in statuses {
            gossip.upsert_member(member(&n(*uid), *status));
        }
        for (observer, subject) in rows {
            gossip.reachability_mut().unreachable(&n(*observer), &n(*subject));
        }
        for uid in seen {
            gossip.add_seen(&n(*uid));
        }
        self.show(picture_of(&self.fixture.me.clone(), gossip));
    }

    /// Up members 1 to `count`; only this node has seen the state.
    fn see(&mut self, count: u64, rows: &[(u64, u64)]) {
        let statuses: Vec<(u64, Status)> = (1..=count).map(|uid| (uid, Status::Up)).collect();
        let me = self.fixture.me.uid();
        self.see_of(&statuses, rows, &[me]);
    }

    fn run_for(&mut self, duration: Duration) {
        let until = self.fixture.mono() + duration;
        while let Some(timer) = self.fixture.next_timer(until) {
            assert_eq!(timer, Timer::Downing(DowningTimer::Tick));
            self.resolver
                .on_timer(&mut self.fixture.cx(), &DowningTimer::Tick);
        }
        self.resolver.check_invariants(&self.fixture.view);
    }

    /// Whom the resolver wants down, by uid; empty if it said nothing.
    fn downed(&mut self) -> Vec<u64> {
        let uids =
            |nodes: OrderedSet<UniqueAddress>| nodes.iter().map(UniqueAddress::uid).collect::<Vec<_>>();
        let heard = self.fixture.heard().into_iter().map(|signal| match signal {
            Signal::DownDecided(nodes) => uids(nodes),
            other => panic!("not the resolver's to say: {other:?}"),
        });
        heard.flatten().collect()
    }

    fn events(&mut self) -> Vec<DowningReport> {
        let effects = self.fixture.effects().into_iter().map(|effect| match effect {
            Effect::Notify(Event::Downing(DowningEvent::Decision(event))) => event,
            other => panic!("not the resolver's to do: {other:?}"),
        });
        effects.collect()
    }

    /// What is asked of the lease's keeper: `acquire` or `release`.
    fn orders(&mut self) -> Vec<&'static str> {
        let effects = self.fixture.effects().into_iter();
        let orders = effects.filter_map(|effect| match effect {
            Effect::Lease(Requester::Resolver, LeaseOrder::Acquire { name, owner, .. }) => {
                assert_eq!((&*name, &owner), ("test-sbr", &self.fixture.me));
                Some("acquire")
            }
            Effect::Lease(Requester::Resolver, LeaseOrder::Release { name, owner }) => {
                assert_eq!((&*name, &owner), ("test-sbr", &self.fixture.me));
                Some("release")
            }
            Effect::Notify(Event::Downing(DowningEvent::Decision(_))) => None,
            other => panic!("not the resolver's to do: {other:?}"),
        });
        orders.collect()
    }

    fn answer(&mut self, outcome: LeaseOutcome) {
        let report = LeaseReport {
            name: "test-sbr".into(),
            outcome,
        };
        self.resolver.on_lease(&mut self.fixture.cx(), &report);
        self.resolver.check_invariants(&self.fixture.view);
    }
}

#[test]
fn m_347_nothing_happens_before_the_picture_was_stable_long_enough() {
    let mut bench = Bench::of(1);
    bench.see(3, &[]);
    bench.run_for(ms(10_000));
    bench.see(3, &[(1, 3)]);
    bench.run_for(ms(1999));
    assert_eq!(bench.downed(), []);
    bench.run_for(ms(1));
    assert_eq!(bench.downed(), [3]);
    assert_eq!(bench.fixture.stats.downing.decisions, 1);
    let event = DowningReport {
        strategy: "keep-majority",
        rule: IndirectRule::Classic,
        decision: DowningDecision::DownUnreachable,
        reason: "this side has the majority",
        members: vec![n(1), n(2), n(3)],
        unreachable: vec![n(3)],
        indirectly_connected: vec![],
        down: vec![n(3)],
        waits_for: None,
    };
    assert_eq!(bench.events(), [event]);
}

#[test]
fn m_346_only_the_leader_acts_also_if_it_becomes_leader_late() {
    let mut bench = Bench::of(2);
    bench.see(3, &[(2, 3)]);
    bench.run_for(ms(30_000));
    assert_eq!((bench.downed(), bench.events()), (vec![], vec![]));
    // The leader leaves for good: this node is next, and acts within a tick.
    bench.see_of(&[(2, Status::Up), (3, Status::Up)], &[(2, 3)], &[2]);
    bench.run_for(TICK);
    assert_eq!(bench.downed(), [3]);
}

#[test]
fn m_346_a_leader_that_is_joining_or_leaving_does_not_act() {
    for status in [Status::Joining, Status::Leaving, Status::Exiting] {
        let mut bench = Bench::of(1);
        bench.see_of(&[(1, status), (2, Status::Joining)], &[(1, 2)], &[1]);
        assert!(bench.fixture.view.is_leader(), "{status}");
        bench.run_for(ms(10_000));
        assert_eq!(bench.downed(), [], "{status}");
    }
}

#[test]
fn m_348_what_ends_within_the_window_has_no_consequence() {
    // Reachable again.
    let mut bench = Bench::of(1);
    bench.see(3, &[(1, 3)]);
    bench.run_for(ms(1500));
    bench.see(3, &[]);
    bench.run_for(ms(30_000));
    assert_eq!(bench.downed(), []);
    // Removed.
    bench.see(3, &[(1, 3)]);
    bench.run_for(ms(1500));
    bench.see(2, &[]);
    bench.run_for(ms(30_000));
    assert_eq!(bench.downed(), []);
    // Leadership lost.
    let mut bench = Bench::of(2);
    bench.see_of(
        &[(2, Status::Up), (3, Status::Up), (4, Status::Up)],
        &[(2, 4)],
        &[2],
    );
    assert!(bench.fixture.view.is_leader());
    bench.run_for(ms(1500));
    bench.see(4, &[(2, 4)]);
    bench.run_for(ms(30_000));
    assert_eq!((bench.downed(), bench.events()), (vec![], vec![]));
}

#[test]
fn m_349_a_member_that_is_down_already_is_nobodys_business() {
    let mut bench = Bench::of(1);
    bench.see_of(
        &[(1, Status::Up), (2, Status::Up), (3, Status::Down)],
        &[(1, 3)],
        &[1],
    );
    assert_eq!(bench.fixture.timers.next(), None);
    bench.run_for(ms(30_000));
    assert_eq!((bench.downed(), bench.events()), (vec![], vec![]));
}

#[test]
fn s_3_1_changes_that_unsettle_begin_the_wait_again() {
    use Status::{Down, Exiting, Joining, Leaving, Up, WeaklyUp};
    let base = [(1, Up), (2, Up), (3, Up), (4, Leaving)];
    let rows = [(1, 3)];
    let acts_in_time = |statuses: &[(u64, Status)], changed: &[(u64, u64)]| {
        let mut bench = Bench::of(1);
        bench.see_of(&base, &rows, &[1]);
        bench.run_for(ms(1500));
        bench.see_of(statuses, changed, &[1]);
        bench.run_for(ms(1999));
        let soon = !bench.downed().is_empty();
        bench.run_for(ms(1));
        assert_eq!(bench.downed().is_empty(), soon, "decided once, sooner or later");
        soon
    };
    let with = |change: (u64, Status)| {
        let mut statuses = base.to_vec();
        statuses.retain(|(uid, _)| *uid != change.0);
        statuses.push(change);
        statuses
    };
    // A new member that is Up, one that became Exiting or Down; another one unreachable.
    for unsettling in [with((5, Up)), with((4, Exiting)), with((4, Down))] {
        assert!(!acts_in_time(&unsettling, &rows), "{unsettling:?}");
    }
    assert!(!acts_in_time(&base, &[(1, 3), (1, 4)]));
    // A new member that is Joining or WeaklyUp, one that became Leaving, one removed, one more complaint
    // about the same.
    for settled in [
        with((5, Joining)),
        with((5, WeaklyUp)),
        with((2, Leaving)),
        base[..3].to_vec(),
    ] {
        assert!(acts_in_time(&settled, &rows), "{settled:?}");
    }
    assert!(acts_in_time(&base, &[(1, 3), (2, 3)]));
}

#[test]
fn s_3_1_another_member_that_is_reachable_again_begins_the_wait_again() {
    let mut bench = Bench::of(1);
    bench.see(5, &[(1, 3), (1, 4)]);
    bench.run_for(ms(1500));
    bench.see(5, &[(1, 3)]);
    bench.run_for(ms(1999));
    assert_eq!(bench.downed(), []);
    bench.run_for(ms(1));
    assert_eq!(bench.downed(), [3]);
}

/// Auto-down after 2 s on the leader of five, where member 3 fell silent at once and member 4 after 1.5 s.
fn two_silent_members(me: u64) -> Bench {
    let mut bench = Bench::with(me, DowningStrategy::AutoDown);
    bench.see(5, &[(me, 3)]);
    bench.run_for(ms(1500));
    bench.see(5, &[(me, 3), (me, 4)]);
    bench
}

#[test]
fn m_428_under_auto_down_each_silent_member_has_a_clock_of_its_own() {
    let mut bench = two_silent_members(1);
    bench.run_for(ms(499));
    assert_eq!(bench.downed(), []);
    bench.run_for(ms(1));
    assert_eq!(bench.downed(), [3], "nobody who falls silent later puts it off");
    bench.see_of(&with_down(3), &[(1, 3), (1, 4)], &[1]);
    bench.run_for(ms(1499));
    assert_eq!(bench.downed(), [], "nor does the other one go along with it");
    bench.run_for(ms(1));
    assert_eq!(bench.downed(), [4]);
    let events = bench.events();
    assert_eq!(
        events.iter().map(|event| event.down.clone()).collect::<Vec<_>>(),
        [[n(3)], [n(4)]]
    );
    assert_eq!(events[0].unreachable, [n(3), n(4)], "both are missing");
}

#[test]
fn m_428_other_changes_do_not_put_auto_down_off() {
    use Status::{Exiting, Up};
    let mut bench = Bench::with(1, DowningStrategy::AutoDown);
    bench.see(4, &[(1, 3), (1, 4)]);
    bench.run_for(ms(1500));
    // One is heard again, a new one is Up, and another one is Exiting.
    let statuses = [(1, Up), (2, Exiting), (3, Up), (4, Up), (5, Up)];
    bench.see_of(&statuses, &[(1, 3)], &[1]);
    bench.run_for(ms(500));
    assert_eq!(bench.downed(), [3]);
}

#[test]
fn m_428_whoever_was_heard_again_has_the_whole_time_once_more() {
    let mut bench = two_silent_members(1);
    bench.see(5, &[(1, 4)]);
    bench.see(5, &[(1, 3), (1, 4)]);
    bench.run_for(ms(1999));
    assert_eq!(bench.downed(), []);
    bench.run_for(ms(1));
    assert_eq!(bench.downed(), [3, 4]);
    // Gone, Down or Exiting: never.
    for status in [None, Some(Status::Down), Some(Status::Exiting)] {
        let mut bench = Bench::with(1, DowningStrategy::AutoDown);
        bench.see(3, &[(1, 3)]);
        bench.run_for(ms(1500));
        let mut statuses = up(2);
        statuses.extend(status.map(|status| (3, status)));
        bench.see_of(&statuses, &[(1, 3)][..statuses.len() - 2], &[1]);
        bench.run_for(ms(30_000));
        assert_eq!(bench.downed(), [], "{status:?}");
    }
}

#[test]
fn m_428_whoever_becomes_the_leader_takes_over_those_that_are_due_and_no_others() {
    let mut bench = two_silent_members(2);
    bench.run_for(ms(1000));
    assert_eq!(
        (bench.downed(), bench.events()),
        (vec![], vec![]),
        "it does not lead"
    );
    bench.see_of(&up(5)[1..], &[(2, 3), (2, 4)], &[2]);
    bench.run_for(ms(999));
    assert_eq!(bench.downed(), [3], "within a tick");
    bench.run_for(ms(1));
    assert_eq!(bench.downed(), [4], "when its own time is over");
}

#[test]
fn s_8_5_after_a_pause_all_clocks_of_auto_down_begin_again() {
    let mut bench = two_silent_members(1);
    bench.fixture.stand_still(ms(10_000));
    let since = bench.fixture.mono();
    bench.resolver.on_paused(&mut bench.fixture.cx(), since);
    bench.run_for(ms(1999));
    assert_eq!(bench.downed(), []);
    bench.run_for(ms(1));
    assert_eq!(bench.downed(), [3, 4]);
    // Said again only after another period, should they still be there.
    bench.run_for(ms(1999));
    assert_eq!(bench.downed(), []);
    bench.run_for(ms(1));
    assert_eq!(bench.downed(), [3, 4]);
}

#[test]
fn what_auto_down_would_decide_names_whose_time_is_over_first() {
    let bench = two_silent_members(1);
    let (config, now) = (&bench.fixture.config, bench.fixture.mono());
    let report = bench.resolver.explain(config, now, &bench.fixture.view).unwrap();
    assert_eq!(report.down, [n(3)]);
    let until = now + ms(500);
    assert_eq!(report.waits_for, Some(DowningWait::Stable { until }));
}

#[test]
fn s_8_5_after_a_pause_the_wait_begins_again() {
    let mut bench = Bench::of(1);
    bench.see(3, &[(1, 3)]);
    bench.fixture.stand_still(ms(10_000));
    let since = bench.fixture.mono();
    bench.resolver.on_paused(&mut bench.fixture.cx(), since);
    bench.run_for(ms(1999));
    assert_eq!(bench.downed(), []);
    bench.run_for(ms(1));
    assert_eq!(bench.downed(), [3]);
}

#[test]
fn a_minority_downs_itself_and_whoever_is_with_it() {
    let mut bench = Bench::of(1);
    bench.see(5, &[(1, 3), (1, 4), (1, 5)]);
    bench.run_for(ms(2000));
    assert_eq!(bench.downed(), [1, 2]);
    assert_eq!(
        bench.events().pop().unwrap().reason,
        "the other side has the majority"
    );
}

#[test]
fn a_decision_is_said_again_only_after_another_stable_period() {
    let mut bench = Bench::of(1);
    bench.see(3, &[(1, 3)]);
    bench.run_for(ms(2000));
    assert_eq!(bench.downed(), [3]);
    bench.run_for(ms(1999));
    assert_eq!(bench.downed(), [], "membership has not acted yet");
    bench.run_for(ms(1));
    assert_eq!(bench.downed(), [3]);
}

/// Five members, all Up but `uid`, which is Down.
fn with_down(uid: u64) -> Vec<(u64, Status)> {
    let mut statuses = up(5);
    statuses.retain(|(other, _)| *other != uid);
    statuses.push((uid, Status::Down));
    statuses
}

fn up(count: u64) -> Vec<(u64, Status)> {
    (1..=count).map(|uid| (uid, Status::Up)).collect()
}

#[test]
fn m_311_members_on_a_broken_link_go() {
    let mut bench = Bench::of(1);
    bench.see_of(&up(5), &[(2, 3), (3, 2)], &[1, 2, 3, 4, 5]);
    bench.run_for(ms(1999));
    assert_eq!(bench.downed(), []);
    bench.run_for(ms(1));
    assert_eq!(bench.downed(), [2, 3]);
    let event = bench.events().pop().unwrap();
    assert_eq!(event.decision, DowningDecision::DownIndirectlyConnected);
    assert_eq!(event.indirectly_connected, [n(2), n(3)]);
}

#[test]
fn s_3_7_half_of_the_members_on_broken_links_take_all_along() {
    let mut bench = Bench::of(1);
    bench.see_of(&up(4), &[(2, 3), (3, 2)], &[1, 2, 3, 4]);
    bench.run_for(ms(2000));
    assert_eq!(bench.downed(), [1, 2, 3, 4]);
}

#[test]
fn s_8_7_who_was_heard_since_the_complaint_is_alive_though_seen_was_emptied_since() {
    let downed_by = |rule: IndirectRule| {
        let mut config = Config::lan(ClusterName::new("test").unwrap());
        config.downing.stable_after = Some(ms(2000));
        config.downing.rule = rule;
        let mut bench = Bench::of_config(1, config);
        bench.see_of(&up(5), &[(2, 3)], &[1, 2]);
        bench.see_of(&up(5), &[(2, 3)], &[1, 2, 3]);
        // Some unrelated change: nobody else is known to have seen it at the moment of the decision.
        let mut statuses = up(4);
        statuses.push((5, Status::Leaving));
        bench.see_of(&statuses, &[(2, 3)], &[1]);
        bench.run_for(ms(2000));
        bench.downed()
    };
    assert_eq!(downed_by(IndirectRule::CascadeSafe), [2, 3]);
    assert_eq!(downed_by(IndirectRule::Classic), [3]);
}

#[test]
fn s_8_7_new_complaints_about_broken_links_put_a_decision_off_but_not_for_ever() {
    let mut bench = Bench::of(1);
    bench.see(5, &[(2, 3), (3, 2)]);
    bench.run_for(ms(1900));
    // Everybody was known to be unreachable before: only who says so changes.
    bench.see(5, &[(2, 3), (3, 2), (1, 3)]);
    bench.run_for(ms(900));
    assert_eq!(bench.downed(), []);
    bench.see(5, &[(2, 3), (3, 2), (1, 3), (4, 3)]);
    bench.run_for(ms(199));
    assert_eq!(bench.downed(), []);
    bench.run_for(ms(1));
    assert_ne!(bench.downed(), [], "half a stable period late");
}

#[test]
fn s_8_7_a_complaint_that_makes_a_link_look_broken_puts_the_decision_off() {
    let mut bench = Bench::of(1);
    bench.see(5, &[(1, 3), (1, 4)]);
    bench.run_for(ms(1900));
    // The same two are missing; now one of them complains about the other.
    bench.see(5, &[(1, 3), (1, 4), (3, 4)]);
    bench.run_for(ms(1099));
    assert_eq!(bench.downed(), []);
    bench.run_for(ms(1));
    assert_ne!(bench.downed(), []);
}

#[test]
fn s_8_7_complaints_that_made_a_link_look_broken_put_the_decision_off_when_they_are_gone() {
    let mut bench = Bench::of(1);
    bench.see(5, &[(1, 3), (1, 5), (3, 5), (5, 3)]);
    bench.run_for(ms(1900));
    // One end of the link has been removed: what is left looks clean, and who knows of it is not known yet.
    bench.see(4, &[(1, 3)]);
    bench.run_for(ms(1099));
    assert_eq!(bench.downed(), []);
    bench.run_for(ms(1));
    assert_eq!(bench.downed(), [3]);
}

#[test]
fn s_8_7_who_was_heard_before_the_rows_changed_has_to_be_heard_again() {
    let downed_after = |seen_after: &[u64]| {
        let mut bench = Bench::of_config(1, impatient(IndirectRule::CascadeSafe));
        bench.see_of(&up(7), &[(2, 3)], &[1, 2, 3]);
        bench.see_of(&up(7), &[(2, 3), (1, 4)], seen_after);
        bench.run_for(ms(4000));
        bench.downed()
    };
    // 3 was alive when only 2 complained about it. Whether it has fallen silent since, nobody knows until it
    // is heard.
    assert_eq!(downed_after(&[1, 2]), [3, 4]);
    assert_eq!(downed_after(&[1, 2, 3]), [2, 3, 4]);
}

#[test]
fn s_3_1_a_member_that_is_down_is_on_the_other_side_whoever_reaches_it() {
    /// Downs who is unreachable, if member 3 is.
    #[derive(Debug)]
    struct WithThree;

    impl Strategy for WithThree {
        fn name(&self) -> &'static str {
            "with-three"
        }

        fn decide(&self, view: &DowningView) -> DowningDecision {
            if view.is_unreachable(&n(3)) {
                DowningDecision::DownUnreachable
            } else {
                DowningDecision::DownNobody
            }
        }
    }

    for (status, downed) in [(Status::Down, vec![2]), (Status::Leaving, vec![])] {
        let custom = crate::config::CustomStrategy(Arc::new(WithThree));
        let mut bench = Bench::with(1, DowningStrategy::Custom(custom));
        bench.see_of(&[(1, Status::Up), (2, Status::Up), (3, status)], &[(1, 2)], &[1]);
        bench.run_for(ms(2000));
        assert_eq!(bench.downed(), downed, "{status}");
    }
}

#[test]
fn s_3_8_unrest_without_end_downs_everybody_leader_or_not() {
    for me in [1, 2] {
        let mut bench = Bench::of_config(me, impatient(IndirectRule::CascadeSafe));
        // Unstable for longer than 2 s and the least patience of 4 s.
        for step in 0..6 {
            bench.see(
                4,
                if step % 2 == 0 {
                    &[(2, 3), (2, 4)]
                } else {
                    &[(2, 3)]
                },
            );
            bench.run_for(ms(1000));
            assert_eq!(bench.downed(), [], "{step}");
        }
        bench.run_for(ms(1));
        assert_eq!(bench.downed(), [1, 2, 3, 4]);
        let event = bench.events().pop().unwrap();
        assert_eq!(event.decision, DowningDecision::DownAll);
        assert_eq!(
            event.reason,
            "members became unreachable and reachable for too long"
        );
    }
}

/// Of five members, 3, 4 and so on fail one after the other, each this long after the last; the survivor's
/// first decision.
fn losses(rule: IndirectRule, gap: Duration, count: u64) -> Option<DowningDecision> {
    let mut config = Config::lan(ClusterName::new("test").unwrap());
    config.downing.stable_after = Some(ms(20_000));
    config.downing.rule = rule;
    let mut bench = Bench::of_config(1, config);
    bench.see(5, &[]);
    for lost in 1..=count {
        let rows: Vec<(u64, u64)> = (0..lost).map(|at| (1, 3 + at)).collect();
        bench.see(5, &rows);
        bench.run_for(gap);
    }
    bench.run_for(ms(60_000));
    bench.fixture.heard();
    bench.events().first().map(|event| event.decision)
}

#[test]
fn s_3_9_losses_in_a_row_exhaust_no_patience_under_the_cascade_safe_rule_while_this_side_would_stay() {
    // The second one is noticed 18 s after the first: the wait begins again, and is longer than patience for
    // unrest.
    let after = |rule, losses_in_a_row| losses(rule, ms(18_000), losses_in_a_row);
    assert_eq!(after(IndirectRule::Classic, 2), Some(DowningDecision::DownAll));
    assert_eq!(
        after(IndirectRule::CascadeSafe, 2),
        Some(DowningDecision::DownUnreachable)
    );
    // The third one, at 36 s, makes this side the smaller one: its wait begins with that.
    assert_eq!(
        after(IndirectRule::CascadeSafe, 3),
        Some(DowningDecision::DownReachable)
    );
}

#[test]
fn s_3_9_when_losses_in_a_row_exhaust_patience_the_lease_is_asked_for_at_once() {
    let after = |rule| {
        let mut config = Config::lan(ClusterName::new("test").unwrap());
        config.downing.stable_after = Some(ms(20_000));
        config.downing.rule = rule;
        config.downing.strategy = DowningStrategy::LeaseMajority(LeaseMajorityConfig::default());
        let mut bench = Bench::of_config(1, config);
        bench.see(5, &[]);
        bench.see(5, &[(1, 3)]);
        bench.run_for(ms(18_000));
        bench.see(5, &[(1, 3), (1, 4)]);
        bench.run_for(ms(17_000));
        assert_eq!(bench.orders(), [""; 0]);
        bench.run_for(ms(1));
        (bench.downed(), bench.orders())
    };
    assert_eq!(after(IndirectRule::Classic), (vec![1, 2, 3, 4, 5], vec![]));
    assert_eq!(after(IndirectRule::CascadeSafe), (vec![], vec!["acquire"]));
}

#[test]
fn s_3_8_whoever_comes_and_goes_is_unrest_under_the_cascade_safe_rule_too() {
    let mut config = Config::lan(ClusterName::new("test").unwrap());
    config.downing.stable_after = Some(ms(20_000));
    config.downing.rule = IndirectRule::CascadeSafe;
    let mut bench = Bench::of_config(1, config);
    bench.see(5, &[]);
    for step in 0..7 {
        let rows: &[(u64, u64)] = if step % 2 == 0 {
            &[(1, 3), (1, 4)]
        } else {
            &[(1, 3)]
        };
        bench.see(5, rows);
        bench.run_for(ms(5_000));
        assert_eq!(bench.downed(), [], "{step}");
    }
    bench.run_for(ms(1));
    assert_eq!(bench.downed(), [1, 2, 3, 4, 5]);
}

#[test]
fn s_3_8_unless_it_is_set_the_wait_is_that_of_as_many_members_as_there_are() {
    for (members, wait) in [(5, 7_000), (6, 10_000), (12, 13_000)] {
        let mut bench = Bench::of_config(1, Config::lan(ClusterName::new("test").unwrap()));
        bench.see(members, &[]);
        // Everybody who watches it reports it.
        let others = (1..=members).filter(|at| *at != 3);
        let rows: Vec<(u64, u64)> = others.map(|at| (at, 3)).collect();
        bench.see(members, &rows);
        bench.run_for(ms(wait - 1));
        assert_eq!(bench.downed(), [], "{members}");
        bench.run_for(ms(1));
        assert_eq!(bench.downed(), [3], "{members}");
    }
}

#[test]
fn s_3_8_unrest_ends_when_nobody_is_lost_and_after_a_decision() {
    for rule in [IndirectRule::Classic, IndirectRule::CascadeSafe] {
        let mut bench = Bench::of_config(2, impatient(rule));
        for _ in 0..4 {
            bench.see(4, &[(2, 3)]);
            bench.run_for(ms(1900));
            bench.see(4, &[]);
            bench.run_for(ms(1900));
        }
        assert_eq!(bench.downed(), [], "{rule}");
    }
    // Whoever is lost is Down: the leader has acted.
    let mut bench = Bench::of_config(2, impatient(IndirectRule::Classic));
    let down = [(1, Status::Up), (2, Status::Up), (3, Status::Down)];
    bench.see(3, &[(2, 3)]);
    bench.run_for(ms(1900));
    bench.see_of(&down, &[(2, 3)], &[2]);
    bench.run_for(ms(60_000));
    assert_eq!(bench.downed(), []);
}

/// Stable after 2 s; patience for unrest ends 4 s after that.
fn impatient(rule: IndirectRule) -> Config {
    let mut config = Config::lan(ClusterName::new("test").unwrap());
    config.downing.stable_after = Some(ms(2000));
    config.downing.rule = rule;
    config
}

#[test]
fn s_3_8_a_leader_that_does_not_act_exhausts_the_others_patience() {
    let mut bench = Bench::of_config(2, impatient(IndirectRule::Classic));
    bench.see(4, &[(2, 3)]);
    bench.run_for(ms(6000));
    // Not before it is over: a tick at the last moment is too early.
    bench
        .resolver
        .on_timer(&mut bench.fixture.cx(), &DowningTimer::Tick);
    assert_eq!(bench.downed(), []);
    bench.run_for(ms(1));
    assert_eq!(bench.downed(), [1, 2, 3, 4]);
}

#[test]
fn s_3_8_patience_begins_anew_after_an_own_pause() {
    let mut bench = Bench::of_config(2, impatient(IndirectRule::Classic));
    bench.see(4, &[(2, 3)]);
    bench.run_for(ms(1000));
    let since = bench.fixture.mono();
    bench.fixture.stand_still(ms(20_000));
    bench.resolver.on_paused(&mut bench.fixture.cx(), since);
    let tick = Timer::Downing(DowningTimer::Tick);
    assert_eq!(
        bench.fixture.timers.at(&tick),
        Some(bench.fixture.mono() + ms(2000)),
        "nothing is looked at before"
    );
    bench.run_for(ms(6000));
    assert_eq!(bench.downed(), []);
    bench.run_for(ms(1));
    assert_eq!(bench.downed(), [1, 2, 3, 4]);
}

#[test]
fn s_3_8_unrest_that_a_decision_ended_begins_again_only_with_a_loss_or_a_return() {
    let up = |uid| (uid, Status::Up);
    let decided = || {
        let mut bench = Bench::of_config(2, impatient(IndirectRule::Classic));
        bench.see_of(&[up(2), up(3), up(4)], &[(2, 4)], &[2]);
        bench.run_for(ms(2000));
        assert_eq!(bench.downed(), [4]);
        // Another one leads from now on, and does not act; that somebody joins is no unrest.
        bench.see_of(&[up(1), up(2), up(3), up(4)], &[(2, 4)], &[2]);
        let joining = (5, Status::Joining);
        bench.see_of(&[up(1), up(2), up(3), up(4), joining], &[(2, 4)], &[2]);
        bench.run_for(ms(60_000));
        assert_eq!(bench.downed(), []);
        bench
    };
    let mut lost = decided();
    lost.see_of(&[up(1), up(2), up(3), up(4)], &[(2, 4), (2, 3)], &[2]);
    lost.run_for(ms(6001));
    assert_eq!(lost.downed(), [1, 2, 3, 4]);
    let mut down = decided();
    down.see_of(&[up(1), up(2), (3, Status::Down), up(4)], &[(2, 4)], &[2]);
    down.run_for(ms(6001));
    assert_eq!(down.downed(), [1, 2, 4]);
}

#[test]
fn s_3_8_a_joining_member_that_comes_and_goes_is_no_unrest() {
    for status in [Status::Joining, Status::WeaklyUp] {
        let mut bench = Bench::of_config(2, impatient(IndirectRule::Classic));
        let members = [(1, Status::Up), (2, Status::Up), (3, status), (4, status)];
        for step in 0..30 {
            let rows: &[(u64, u64)] = if step % 2 == 0 {
                &[(2, 3), (2, 4)]
            } else {
                &[(2, 3)]
            };
            bench.see_of(&members, rows, &[2]);
            bench.run_for(ms(1000));
        }
        assert_eq!(bench.downed(), [], "{status}");
    }
}

#[test]
fn it_can_be_asked_what_would_be_decided_and_what_it_waits_for() {
    let mut bench = Bench::of(2);
    let ask = |bench: &Bench| {
        let fixture = &bench.fixture;
        bench
            .resolver
            .explain(&fixture.config, fixture.mono(), &fixture.view)
    };
    bench.see(3, &[]);
    assert_eq!(ask(&bench), None);
    bench.see(3, &[(2, 3)]);
    let until = bench.fixture.mono() + ms(2000);
    let event = ask(&bench).unwrap();
    assert_eq!(event.waits_for, Some(DowningWait::Stable { until }));
    assert_eq!(
        (event.down, event.decision),
        (vec![n(3)], DowningDecision::DownUnreachable)
    );
    bench.run_for(ms(2000));
    assert_eq!(ask(&bench).unwrap().waits_for, Some(DowningWait::Leader));
    assert_eq!(bench.events(), []);
    // It leads now: it waits for nothing but its next tick.
    bench.see_of(&[(2, Status::Up), (3, Status::Up)], &[(2, 3)], &[2]);
    assert_eq!(ask(&bench).unwrap().waits_for, None);
}

#[test]
fn m_300_only_members_with_the_role_are_counted() {
    let role = Role::new("voter").unwrap();
    let mut bench = Bench::with(
        1,
        DowningStrategy::KeepMajority {
            role: Some(role.clone()),
        },
    );
    let members = (1..=5).map(|uid| {
        let mut member = member(&n(uid), Status::Up);
        if uid <= 3 {
            member.roles = Roles::new([role.clone()], "default").unwrap();
        }
        member
    });
    bench.show(picture(
        &n(1),
        members,
        &[(&n(1), &n(3)), (&n(1), &n(4)), (&n(1), &n(5))],
    ));
    bench.run_for(ms(2000));
    assert_eq!(bench.downed(), [3, 4, 5]);
    assert_eq!(bench.events()[0].members, [n(1), n(2), n(3)]);
}

#[test]
fn m_359_members_of_other_data_centers_are_neither_counted_nor_downed() {
    let mut bench = Bench::of(1);
    let members = (1..=5).map(|uid| {
        let mut member = member(&n(uid), Status::Up);
        if uid >= 4 {
            member.roles = Roles::new([], "other").unwrap();
        }
        member
    });
    let mut view = picture(
        &n(1),
        members,
        &[(&n(1), &n(2)), (&n(1), &n(3)), (&n(1), &n(4)), (&n(5), &n(1))],
    );
    view.unreachable.retain(|subject| subject.uid() <= 3);
    bench.show(view);
    bench.run_for(ms(2000));
    assert_eq!(
        bench.downed(),
        [1],
        "two of three of this data center are over there"
    );
}

#[test]
fn without_a_strategy_nothing_is_decided_and_no_timer_set() {
    let mut bench = Bench::with(1, DowningStrategy::Off);
    bench.see(3, &[(1, 3)]);
    let since = bench.fixture.mono();
    bench.resolver.on_paused(&mut bench.fixture.cx(), since);
    bench
        .resolver
        .on_timer(&mut bench.fixture.cx(), &DowningTimer::Tick);
    bench.answer(GRANTED);
    assert_eq!(bench.fixture.timers.next(), None);
    assert_eq!(bench.orders(), [""; 0], "no lease was asked for");
    assert_eq!(bench.downed(), []);
}

#[test]
fn a_removed_node_stops_watching() {
    let mut bench = Bench::of(1);
    bench.see(3, &[(1, 3)]);
    bench.show(View::idle(n(1)));
    assert_eq!(bench.fixture.timers.next(), None);
    assert!(bench.resolver.rows.is_empty() && bench.resolver.heard.is_empty());
    assert!(matches!(
        bench.resolver.wait,
        DecisionWait::Picture(PictureWait::Calm)
    ));
    assert_eq!(bench.resolver.unrest, Unrest::Quiet);
    let mut bench = Bench::with(1, DowningStrategy::AutoDown);
    bench.see(3, &[(1, 3)]);
    bench.show(View::idle(n(1)));
    assert_eq!(
        (bench.fixture.timers.next(), bench.resolver.wait.over_at(ms(1))),
        (None, None)
    );
}

const GRANTED: LeaseOutcome = LeaseOutcome::Granted { token: 7 };

/// The resolver of node 1 with lease-majority, which sees node 2 of three lost for long enough.
fn with_lease(rows: &[(u64, u64)]) -> Bench {
    let strategy = DowningStrategy::LeaseMajority(LeaseMajorityConfig::default());
    let mut bench = Bench::with(1, strategy);
    bench.see(3, rows);
    bench.run_for(ms(2000));
    bench
}

#[test]
fn m_365_who_gets_the_lease_downs_the_others_and_who_does_not_its_own_side() {
    for (outcome, clean, broken) in [
        (GRANTED, vec![2], vec![2, 3]),
        (LeaseOutcome::Denied, vec![1, 3], vec![1, 2, 3]),
        (LeaseOutcome::Lost, vec![1, 3], vec![1, 2, 3]),
    ] {
        let mut bench = with_lease(&[(1, 2)]);
        assert_eq!((bench.downed(), bench.orders()), (vec![], vec!["acquire"]));
        bench.answer(outcome);
        assert_eq!(bench.downed(), clean, "{outcome:?}");
        let mut bench = with_lease(&[(2, 3), (3, 2)]);
        assert_eq!((bench.downed(), bench.orders()), (vec![], vec!["acquire"]));
        bench.answer(outcome);
        // Two of three are at least half of the members: then everybody goes, with the lease or without it.
        let broken = if outcome == GRANTED { vec![1, 2, 3] } else { broken };
        assert_eq!(bench.downed(), broken, "{outcome:?}");
        let decision = if outcome == GRANTED {
            DowningDecision::AcquireLeaseAndDownIndirectlyConnected
        } else {
            DowningDecision::DownIndirectlyConnected
        };
        assert_eq!(bench.events().pop().unwrap().decision, decision, "{outcome:?}");
    }
}

#[test]
fn m_366_a_lease_that_does_not_answer_counts_as_denied() {
    let mut bench = with_lease(&[(1, 2)]);
    assert_eq!(bench.orders(), ["acquire"]);
    bench.run_for(ms(4999));
    assert_eq!(bench.downed(), []);
    bench.run_for(ms(1));
    assert_eq!(bench.downed(), [1, 3]);
    let event = bench.events().pop().unwrap();
    assert_eq!(event.decision, DowningDecision::DownReachable);
    assert_eq!(event.reason, "the lease did not answer in time");
    // The answer comes after all: the other side must not be kept from it.
    bench.answer(GRANTED);
    assert_eq!((bench.downed(), bench.orders()), (vec![], vec!["release"]));
}

#[test]
fn m_340_the_smaller_side_asks_last_and_does_nothing_else_meanwhile() {
    let mut bench = with_lease(&[(1, 2), (1, 3)]);
    let asked = bench.events();
    let until = bench.fixture.mono() + ms(2000);
    assert_eq!(asked[0].waits_for, Some(DowningWait::OtherSide { until }));
    // What happens meanwhile waits, too.
    bench.run_for(ms(1000));
    bench.see(3, &[]);
    bench.see(3, &[(1, 2)]);
    bench.run_for(ms(999));
    assert_eq!(bench.orders(), [""; 0]);
    bench.run_for(ms(1));
    assert_eq!(bench.orders(), ["acquire"]);
    bench.answer(GRANTED);
    assert_eq!(bench.downed(), [2, 3]);
}

#[test]
fn m_367_a_lease_that_is_held_is_not_asked_for_again() {
    let mut bench = with_lease(&[(1, 2)]);
    bench.answer(GRANTED);
    assert_eq!(bench.downed(), [2]);
    bench.see(3, &[(1, 2), (1, 3)]);
    bench.run_for(ms(2000));
    assert_eq!((bench.downed(), bench.orders()), (vec![2, 3], vec!["acquire"]));
    // Once it is lost it has to be asked for.
    bench.answer(LeaseOutcome::Lost);
    bench.run_for(ms(2000));
    bench.run_for(ms(2000));
    assert_eq!((bench.downed(), bench.orders()), (vec![], vec!["acquire"]));
}

#[test]
fn s_3_6_under_a_held_lease_a_later_decision_is_never_too_late_and_its_downed_are_waited_for_too() {
    let up = |uid| (uid, Status::Up);
    let mut bench = with_lease(&[(1, 2)]);
    bench.answer(GRANTED);
    assert_eq!((bench.downed(), bench.orders()), (vec![2], vec!["acquire"]));
    // Membership does not act for a minute: the decision is said again, and again with the lease that is
    // held.
    bench.run_for(ms(60_000));
    assert!(bench.downed().iter().all(|uid| *uid == 2));
    bench.see_of(&[up(1), up(2), up(3)], &[(1, 2), (1, 3)], &[1]);
    bench.run_for(ms(2000));
    assert_eq!((bench.downed(), bench.orders()), (vec![2, 3], vec![]));
    // The first of them is removed, the second not yet.
    bench.see_of(&[up(1), (3, Status::Down)], &[(1, 3)], &[1]);
    bench.run_for(ms(100_000));
    assert_eq!(bench.orders(), [""; 0]);
    bench.see_of(&[up(1)], &[], &[1]);
    bench.run_for(ms(40_000));
    assert_eq!(bench.orders(), ["release"]);
}

#[test]
fn s_3_6_a_decision_under_a_lease_that_is_about_to_be_given_back_keeps_it() {
    let up = |uid| (uid, Status::Up);
    let mut bench = with_lease(&[(1, 2)]);
    bench.answer(GRANTED);
    bench.see_of(&[up(1), up(3)], &[], &[1]);
    bench.run_for(ms(30_000));
    assert_eq!((bench.downed(), bench.orders()), (vec![2], vec!["acquire"]));
    bench.see_of(&[up(1), up(3)], &[(1, 3)], &[1]);
    bench.run_for(ms(2000));
    assert_eq!((bench.downed(), bench.orders()), (vec![3], vec![]));
    bench.see_of(&[up(1), (3, Status::Down)], &[(1, 3)], &[1]);
    bench.run_for(ms(100_000));
    assert_eq!(bench.orders(), [""; 0], "3 is not removed yet");
}

#[test]
fn s_3_6_whoever_is_too_late_for_the_lease_when_patience_ends_goes_with_everybody() {
    let mut config = impatient(IndirectRule::CascadeSafe);
    config.downing.strategy = DowningStrategy::LeaseMajority(LeaseMajorityConfig::default());
    let mut bench = Bench::of_config(2, config);
    bench.see(3, &[(2, 3)]);
    // The leader never acts. Until 32 s the lease would tell who stays: 2 s stable, three quarters of 40 s.
    bench.run_for(ms(32_000));
    assert_eq!((bench.downed(), bench.orders()), (vec![], vec![]));
    bench.run_for(ms(6_100));
    assert_eq!((bench.downed(), bench.orders()), (vec![1, 2, 3], vec![]));
}

#[test]
fn m_368_the_lease_is_kept_until_the_downed_are_removed_and_a_while_longer() {
    let mut bench = with_lease(&[(1, 2)]);
    bench.answer(GRANTED);
    assert_eq!((bench.downed(), bench.orders()), (vec![2], vec!["acquire"]));
    let up = |uid| (uid, Status::Up);
    bench.see_of(&[up(1), (2, Status::Down), up(3)], &[(1, 2)], &[1]);
    bench.run_for(ms(100_000));
    assert_eq!(bench.orders(), [""; 0]);
    bench.see_of(&[up(1), up(3)], &[], &[1]);
    bench.run_for(ms(39_999));
    assert_eq!(bench.orders(), [""; 0]);
    // It is given back again until that is confirmed.
    bench.run_for(ms(1));
    assert_eq!(bench.orders(), ["release"]);
    bench.run_for(ms(1000));
    assert_eq!(bench.orders(), ["release"]);
    bench.answer(LeaseOutcome::Released);
    bench.run_for(ms(100_000));
    assert_eq!((bench.orders(), bench.fixture.timers.next()), (vec![], None));
}

#[test]
fn s_3_6_what_happens_meanwhile_does_not_put_the_return_of_the_lease_off() {
    let up = |uid| (uid, Status::Up);
    let held = || {
        let mut bench = with_lease(&[(1, 2)]);
        bench.answer(GRANTED);
        bench.see_of(&[up(1), up(3)], &[], &[1]);
        bench.run_for(ms(30_000));
        assert_eq!((bench.downed(), bench.orders()), (vec![2], vec!["acquire"]));
        bench
    };
    let returned = |bench: &mut Bench, after: u64| {
        bench.run_for(ms(after - 1));
        assert_eq!(bench.orders(), [""; 0]);
        bench.run_for(ms(1));
        assert_eq!(bench.orders(), ["release"]);
    };
    // Another picture.
    let mut bench = held();
    bench.see_of(&[up(1), up(3), (4, Status::Joining)], &[], &[1]);
    returned(&mut bench, 10_000);
    // Answers that fit nothing.
    let mut bench = held();
    bench.answer(LeaseOutcome::Denied);
    bench.answer(LeaseOutcome::Released);
    bench.answer(GRANTED);
    returned(&mut bench, 10_000);
    // An own pause.
    let mut bench = held();
    let since = bench.fixture.mono();
    bench.resolver.on_paused(&mut bench.fixture.cx(), since);
    returned(&mut bench, 10_000);
}

#[test]
fn s_3_6_a_node_that_stops_does_not_give_the_lease_back() {
    let mut bench = with_lease(&[(1, 2)]);
    bench.answer(GRANTED);
    bench.show(View::idle(n(1)));
    bench.run_for(ms(100_000));
    bench.answer(LeaseOutcome::Lost);
    bench.answer(GRANTED);
    assert!(!bench.resolver.lease.is_held());
    assert_eq!(bench.orders(), ["acquire"]);
    assert_eq!(bench.fixture.timers.next(), None);
}

#[test]
fn s_8_5_after_a_pause_a_decision_that_waits_for_the_lease_is_made_again() {
    let mut bench = with_lease(&[(1, 2)]);
    bench.fixture.stand_still(ms(3000));
    let since = bench.fixture.mono();
    bench.resolver.on_paused(&mut bench.fixture.cx(), since);
    bench.answer(GRANTED);
    assert_eq!(
        (bench.downed(), bench.orders()),
        (vec![], vec!["acquire", "release"])
    );
    bench.answer(LeaseOutcome::Released);
    bench.run_for(ms(2000));
    assert_eq!((bench.downed(), bench.orders()), (vec![], vec!["acquire"]));
}

/// What becomes of node 1's decision about node 2 of three if the process stood still for so long; node 2
/// falls silent so long after somebody counted this node in, or nobody does.
fn after_a_pause(pause: Duration, counted_in: Option<Duration>) -> (Vec<u64>, Vec<&'static str>) {
    let strategy = DowningStrategy::LeaseMajority(LeaseMajorityConfig::default());
    let mut bench = Bench::with(1, strategy);
    bench.see(3, &[]);
    let since = bench.fixture.mono();
    bench.fixture.stand_still(pause);
    bench.resolver.on_paused(&mut bench.fixture.cx(), since);
    if let Some(ago) = counted_in {
        bench.resolver.on_still_member(&bench.fixture.cx());
        bench.run_for(ago);
    }
    bench.see(3, &[(1, 2)]);
    bench.run_for(ms(2000));
    (bench.downed(), bench.orders())
}

#[test]
fn s_8_5_a_process_that_stood_still_does_not_ask_for_a_lease_that_was_held_and_given_back_meanwhile() {
    let (asks, goes) = ((vec![], vec!["acquire"]), (vec![1, 3], vec![]));
    // Stable after 2 s, given back after 40 s: three quarters of that count.
    assert_eq!(after_a_pause(ms(30_000), None), asks);
    assert_eq!(after_a_pause(ms(30_001), None), goes);
    // Who counts it in may have stood still with it; who is there for a stable period after that was not lost
    // meanwhile.
    assert_eq!(after_a_pause(ms(60_000), Some(ms(1_999))), goes);
    assert_eq!(after_a_pause(ms(60_000), Some(ms(2_000))), asks);
}

#[test]
fn i_24_a_refused_decision_that_another_leader_has_carried_out_is_dropped() {
    let up = |uid| (uid, Status::Up);
    for outcome in [Some(GRANTED), Some(LeaseOutcome::Denied), None] {
        let mut bench = with_lease(&[(1, 2)]);
        bench.see_of(&[up(1), (2, Status::Down), up(3)], &[(1, 2)], &[1]);
        match outcome {
            Some(outcome) => bench.answer(outcome),
            None => bench.run_for(ms(5_000)),
        }
        let gives_back = outcome == Some(GRANTED);
        let orders = if gives_back {
            vec!["acquire", "release"]
        } else {
            vec!["acquire"]
        };
        assert_eq!((bench.downed(), bench.orders()), (vec![], orders), "{outcome:?}");
    }
    // Who is left of them is downed, and of this side only who is still there.
    let mut bench = with_lease(&[(1, 2), (1, 3)]);
    bench.run_for(ms(2000));
    bench.see_of(&[up(1), up(3)], &[(1, 3)], &[1]);
    bench.answer(GRANTED);
    assert_eq!((bench.downed(), bench.orders()), (vec![3], vec!["acquire"]));
    let mut bench = with_lease(&[(1, 2)]);
    bench.see_of(&[up(1), up(2)], &[(1, 2)], &[1]);
    bench.answer(LeaseOutcome::Denied);
    assert_eq!(bench.downed(), [1]);
}

#[test]
fn i_21_a_side_that_decides_late_does_not_ask_for_the_lease() {
    let late = |wait| {
        let strategy = DowningStrategy::LeaseMajority(LeaseMajorityConfig::default());
        let mut bench = Bench::with(2, strategy);
        bench.see(3, &[(2, 3)]);
        bench.run_for(wait);
        // Only now it leads.
        bench.see(3, &[(2, 3), (2, 1)]);
        bench.run_for(ms(4_500));
        (bench.downed(), bench.orders())
    };
    assert_eq!(late(ms(10_000)), (vec![], vec!["acquire"]));
    assert_eq!(late(ms(31_000)), (vec![2], vec![]));
}

#[test]
fn s_3_7_a_complaint_that_only_a_part_withdraws_puts_the_decision_off_a_little() {
    let mut bench = Bench::of(1);
    bench.see(5, &[(1, 4), (2, 4)]);
    bench.run_for(ms(1500));
    bench.see(5, &[(2, 4)]);
    bench.run_for(ms(1499));
    assert_eq!(bench.downed(), []);
    bench.run_for(ms(1));
    assert_eq!(bench.downed(), [4], "by half of the stable period at most");
    // The complaint of a member that is gone was not withdrawn by anybody.
    let mut bench = Bench::of(1);
    bench.see(5, &[(1, 4), (5, 4)]);
    bench.run_for(ms(1500));
    bench.see(4, &[(1, 4)]);
    bench.run_for(ms(500));
    assert_eq!(bench.downed(), [4]);
    // Nor was one about a member that is gone: nobody complains about it any more.
    let mut bench = Bench::of(1);
    bench.see(5, &[(1, 4), (1, 5)]);
    bench.run_for(ms(1500));
    bench.see(4, &[(1, 4)]);
    bench.run_for(ms(500));
    assert_eq!(bench.downed(), [4]);
}

#[test]
fn s_3_1_what_is_said_about_oneself_or_across_data_centers_tells_of_no_broken_link() {
    let mut bench = Bench::of(1);
    bench.see_of(&up(3), &[(1, 3), (3, 3)], &[1, 2, 3]);
    assert_eq!(bench.resolver.rows.len(), 1);
    // A complaint that was withdrawn stands in the table while its observer has others.
    let mut gossip = Gossip::clone(bench.fixture.view.gossip());
    gossip.reachability_mut().unreachable(&n(1), &n(2));
    gossip.reachability_mut().reachable(&n(1), &n(3));
    bench.show(picture_of(&n(1), gossip));
    let rows = bench.resolver.rows.iter();
    assert!(rows.map(|row| &row.subject).eq([&n(2)]));
    for (observer, subject) in [(2, 4), (4, 2)] {
        let mut bench = Bench::of(1);
        let mut gossip = Gossip::new();
        for uid in 1..=4 {
            let mut member = member(&n(uid), Status::Up);
            if uid == 4 {
                member.roles = Roles::new([], "other").unwrap();
            }
            gossip.upsert_member(member);
        }
        gossip.reachability_mut().unreachable(&n(1), &n(3));
        gossip.reachability_mut().unreachable(&n(observer), &n(subject));
        for uid in [1, 2, 4] {
            gossip.add_seen(&n(uid));
        }
        let mut view = picture_of(&n(1), gossip);
        view.unreachable = vec![n(3)];
        bench.show(view);
        bench.run_for(ms(2000));
        assert_eq!(bench.downed(), [3], "{observer} about {subject}");
    }
}

#[test]
fn m_371_the_lease_is_named_after_the_cluster_unless_it_has_a_name() {
    let named = |name: Option<&str>| {
        let strategy = DowningStrategy::LeaseMajority(LeaseMajorityConfig {
            lease_name: name.map(Into::into),
            ..LeaseMajorityConfig::default()
        });
        let resolver = Bench::with(1, strategy).resolver;
        ["test-sbr", "shop"].map(|name| resolver.lease.is_named(&name.into()))
    };
    assert_eq!(named(None), [true, false]);
    assert_eq!(named(Some("shop")), [false, true]);
    // What is said about other leases is not for the resolver.
    let mut bench = with_lease(&[(1, 2)]);
    let report = LeaseReport {
        name: "shop".into(),
        outcome: GRANTED,
    };
    bench.resolver.on_lease(&mut bench.fixture.cx(), &report);
    assert_eq!(bench.downed(), []);
}

#[test]
fn one_that_is_finished_has_nothing_to_explain() {
    let mut bench = Bench::of(2);
    bench.see(3, &[]);
    let mut lost = picture(
        &n(2),
        bench.fixture.view.members().iter().cloned(),
        &[(&n(2), &n(3))],
    );
    lost.phase = MembershipPhase::Halted;
    let (config, now) = (&bench.fixture.config, bench.fixture.mono());
    assert_eq!(bench.resolver.explain(config, now, &lost), None);
}

#[test]
fn m_360_more_members_than_a_quorum_can_decide_about_are_warned_of() {
    let strategy = DowningStrategy::StaticQuorum {
        quorum: 2,
        role: None,
    };
    let mut bench = Bench::with(1, strategy);
    bench.see(3, &[]);
    assert_eq!(bench.fixture.effects(), []);
    bench.see(4, &[]);
    let warning = Event::Downing(DowningEvent::TooManyMembersToDecide {
        members: 4,
        members_max: 3,
    });
    assert_eq!(bench.fixture.effects(), [Effect::Notify(warning)]);
    bench.see(4, &[(1, 3), (1, 4)]);
    bench.run_for(ms(2000));
    assert_eq!(bench.downed(), [1, 2, 3, 4]);
}

#[test]
fn m_302_a_role_that_nobody_has_is_warned_of_whenever_somebody_becomes_up() {
    let role = crate::ident::Role::new("backend").unwrap();
    let strategy = DowningStrategy::KeepMajority {
        role: Some(role.clone()),
    };
    let mut bench = Bench::with(1, strategy);
    bench.see(1, &[]);
    bench.see(2, &[]);
    let warning = Effect::Notify(Event::Downing(DowningEvent::NobodyHasDowningRole { role }));
    assert_eq!(bench.fixture.effects(), [warning.clone(), warning]);
    bench.see(2, &[(1, 2)]);
    assert_eq!(bench.fixture.effects(), []);
    let mut bench = Bench::of(1);
    bench.see(2, &[]);
    assert_eq!(bench.fixture.effects(), []);
}

#[test]
fn a_strategy_of_the_application_decides_and_may_leave_it_to_the_operator() {
    /// Nobody goes.
    #[derive(Debug)]
    struct AskOperator;

    impl Strategy for AskOperator {
        fn name(&self) -> &'static str {
            "ask-operator"
        }

        fn decide(&self, _: &DowningView) -> DowningDecision {
            DowningDecision::DownNobody
        }
    }

    let custom = crate::config::CustomStrategy(Arc::new(AskOperator));
    let mut bench = Bench::with(1, DowningStrategy::Custom(custom));
    bench.see(3, &[(1, 3)]);
    bench.run_for(ms(60_000));
    assert_eq!(bench.downed(), []);
    let events = bench.events();
    assert_eq!(events.len(), 1, "told once");
    assert_eq!(events[0].strategy, "ask-operator");
    bench.see(3, &[(1, 3), (2, 3)]);
    bench.run_for(ms(60_000));
    assert_eq!(
        bench.events().len(),
        1,
        "and once more when the complaints are others"
    );
    assert_eq!(bench.fixture.stats.downing.decisions, 0);
}
