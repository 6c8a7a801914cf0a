//! The heartbeat machine, one call or one virtual second at a time.

use alloc::sync::Arc;
use alloc::vec;

mod refused;

use super::*;
use crate::config::{Config, DowningStrategy};
use crate::effect::Effect;
use crate::event::{DetectorEvent, Event};
use crate::fixture::{Fixture, member, node, picture, picture_of};
use crate::ident::ClusterName;
use crate::input::SendTarget;
use crate::membership::state::gossip::Gossip;
use crate::membership::state::member::Status;
use crate::message::Message;
use crate::signal::Signal;
use crate::timer::Timer;

const HOSTS: [&str; 6] = ["aa", "bb", "cc", "dd", "ee", "ff"];

fn n(uid: u64) -> UniqueAddress {
    node(HOSTS[usize::try_from(uid - 1).unwrap()], uid)
}

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// Node `aa` with its detector.
struct Bench {
    fixture: Fixture,
    detector: Detector,
}

impl Bench {
    fn new(monitored_by: usize) -> Self {
        let mut config = Config::lan(ClusterName::new("test").unwrap());
        config.failure_detector.monitored_by_nr_of_members = monitored_by;
        let fixture = Fixture::with_config(n(1), config);
        let detector = Detector::new(&fixture.config);
        Self { fixture, detector }
    }

    /// A running detector among Up members, who all answered once.
    fn among(monitored_by: usize, uids: &[u64]) -> Self {
        let mut bench = Self::new(monitored_by);
        bench.see(uids, &[]);
        bench.run_for(secs(1), &[]);
        let receivers = bench.active();
        bench.answer(&receivers);
        bench.fixture.effects();
        bench
    }

    fn show(&mut self, view: View) {
        let after = Arc::new(view);
        let before = core::mem::replace(&mut self.fixture.view, Arc::clone(&after));
        self.detector
            .on_view_changed(&mut self.fixture.cx(), &before, &after);
        self.detector.check_invariants(&self.fixture.view);
    }

    /// Up members with these uids; `aa` itself observes `unreachable`.
    fn see(&mut self, uids: &[u64], unreachable: &[u64]) {
        let me = n(1);
        let subjects: Vec<UniqueAddress> = unreachable.iter().map(|uid| n(*uid)).collect();
        let rows: Vec<_> = subjects.iter().map(|subject| (&me, subject)).collect();
        self.show(picture(
            &me,
            uids.iter().map(|uid| member(&n(*uid), Status::Up)),
            &rows,
        ));
    }

    /// Whom heartbeats go to, by uid.
    fn active(&self) -> Vec<u64> {
        self.detector
            .receivers
            .union(&self.detector.former)
            .map(UniqueAddress::uid)
            .collect()
    }

    fn monitored(&self) -> Vec<u64> {
        self.detector
            .registry
            .monitored()
            .map(UniqueAddress::uid)
            .collect()
    }

    fn answer_with(&mut self, from: &UniqueAddress, sequence: u64) {
        let response = Heartbeat::new(&n(1), sequence);
        self.detector.notice_pause(&mut self.fixture.cx());
        self.detector
            .on_heartbeat_rsp(&mut self.fixture.cx(), from, response);
    }

    fn answer(&mut self, uids: &[u64]) {
        let sequence = self.detector.sequence;
        uids.iter().for_each(|uid| self.answer_with(&n(*uid), sequence));
    }

    /// Runs timers for `duration`; after each round `answering` answer at once.
    fn run_for(&mut self, duration: Duration, answering: &[u64]) {
        let until = self.fixture.mono() + duration;
        while let Some(timer) = self.fixture.next_timer(until) {
            let Timer::Detector(timer) = timer else {
                panic!("a foreign timer: {timer:?}")
            };
            self.detector.notice_pause(&mut self.fixture.cx());
            self.detector.on_timer(&mut self.fixture.cx(), timer.clone());
            if timer == DetectorTimer::Heartbeat {
                self.answer(answering);
            }
        }
        self.detector.check_invariants(&self.fixture.view);
    }

    /// Verdicts not yet taken: uids that became silent, and uids that are back.
    fn verdicts(&mut self) -> Option<(Vec<u64>, Vec<u64>)> {
        let uids = |nodes: &OrderedSet<UniqueAddress>| nodes.iter().map(UniqueAddress::uid).collect();
        self.fixture.heard().into_iter().find_map(|signal| match signal {
            Signal::Verdicts(verdicts) => Some((uids(&verdicts.unreachable), uids(&verdicts.reachable))),
            Signal::Paused { .. } | Signal::StillMember | Signal::RollCall | Signal::LinksCut(_) => None,
            other => panic!("not the detector's to say: {other:?}"),
        })
    }
}

fn heartbeat(to: u64, sequence: u64) -> Effect {
    let message = Message::Detector(DetectorMsg::Heartbeat(Heartbeat::new(&n(to), sequence)));
    Effect::Send {
        to: SendTarget::Node(n(to)),
        message,
    }
}

#[test]
fn m_176_nothing_is_sent_before_this_node_is_a_member() {
    let mut bench = Bench::new(3);
    bench.show(View::idle(n(1)));
    assert_eq!(bench.fixture.next_timer(Instant::MAX), None);
    // A picture of others without this node does not start it either.
    let mut others = picture_of(&n(1), Gossip::new());
    others.phase = MembershipPhase::Joining;
    bench.show(others);
    // Nor one of its own that it was not welcomed to.
    let mut early = picture(
        &n(1),
        [member(&n(1), Status::Joining), member(&n(2), Status::Up)],
        &[],
    );
    early.phase = MembershipPhase::Joining;
    bench.show(early);
    assert_eq!(bench.detector.stage, MonitorStage::Stopped);

    let mut bench = Bench::new(3);
    let welcomed = bench.fixture.mono();
    bench.see(&[1, 2], &[]);
    assert_eq!(
        bench.fixture.next_timer(Instant::MAX),
        Some(Timer::Detector(DetectorTimer::Heartbeat))
    );
    assert_eq!(bench.fixture.mono(), welcomed + secs(1));
}

#[test]
fn m_231_to_m_236_receivers_follow_the_members() {
    let mut bench = Bench::new(3);
    bench.see(&[1], &[]);
    assert_eq!(bench.active(), []);
    bench.see(&[1, 2, 3], &[]);
    assert_eq!(bench.active(), [2, 3]);
    bench.see(&[1, 2, 3], &[2]);
    assert_eq!(bench.active(), [2, 3]);
    bench.see(&[1, 3], &[]);
    assert_eq!(bench.active(), [3]);
    bench.see(&[1, 2, 3, 4, 5], &[]);
    assert_eq!(bench.active(), [2, 3, 4]);
    bench.see(&[1, 2, 3, 4, 5], &[3]);
    assert_eq!(bench.active(), [2, 3, 4, 5]);
}

#[test]
fn m_237_an_answer_of_a_node_that_was_not_asked_is_ignored() {
    let mut bench = Bench::new(3);
    bench.see(&[1, 2, 3, 4, 5, 6], &[]);
    bench.run_for(secs(1), &[2, 3, 4, 5]);
    assert_eq!(bench.monitored(), [2, 3, 4]);
    assert_eq!(bench.fixture.stats.node.rejected, 0);
}

#[test]
fn m_242_a_round_has_one_number_and_the_answer_echoes_it() {
    let mut bench = Bench::new(3);
    bench.see(&[1, 2, 3], &[]);
    bench.run_for(secs(2), &[2, 3]);
    let expected = [heartbeat(2, 1), heartbeat(3, 1), heartbeat(2, 2), heartbeat(3, 2)];
    assert_eq!(bench.fixture.effects(), expected);
    assert_eq!(bench.fixture.stats.detector.heartbeats_sent, 4);

    let asked = Heartbeat { to: 1, sequence: 77 };
    bench.detector.on_heartbeat(&mut bench.fixture.cx(), &n(2), asked);
    let echo = Message::Detector(DetectorMsg::HeartbeatRsp(Heartbeat { to: 2, sequence: 77 }));
    assert_eq!(
        bench.fixture.effects(),
        [Effect::Send {
            to: SendTarget::Node(n(2)),
            message: echo
        }]
    );
}

#[test]
fn s_8_6_heartbeats_are_answered_in_any_status_but_only_by_their_receiver() {
    let mut bench = Bench::new(3);
    let to_me = Heartbeat { to: 1, sequence: 1 };
    bench.detector.on_heartbeat(&mut bench.fixture.cx(), &n(2), to_me);
    assert_eq!(bench.fixture.effects().len(), 1, "not a member yet");
    bench.show(picture(
        &n(1),
        [member(&n(1), Status::Down), member(&n(2), Status::Up)],
        &[],
    ));
    bench.detector.on_heartbeat(&mut bench.fixture.cx(), &n(2), to_me);
    assert_eq!(bench.fixture.effects().len(), 1, "down");
    assert_eq!(bench.fixture.stats.detector.heartbeats_answered, 2);

    let old = node("aa", 99);
    let to_old = Heartbeat::new(&old, 1);
    bench
        .detector
        .on_heartbeat(&mut bench.fixture.cx(), &n(2), to_old);
    bench
        .detector
        .on_heartbeat_rsp(&mut bench.fixture.cx(), &n(2), to_old);
    let rejected = Effect::Notify(Event::Rejected {
        peer: n(2),
        rejection: Rejection::Unexpected {
            what: "heartbeat for another incarnation",
        },
    });
    assert_eq!(bench.fixture.effects(), [rejected.clone(), rejected]);
}

#[test]
fn b_50_an_answer_to_a_round_that_never_was_is_rejected() {
    let mut bench = Bench::among(3, &[1, 2, 3]);
    for sequence in [0, 2, u64::MAX] {
        bench.answer_with(&n(2), sequence);
        let rejection = Rejection::Unexpected {
            what: "heartbeat response",
        };
        assert_eq!(
            bench.fixture.effects(),
            [Effect::Notify(Event::Rejected {
                peer: n(2),
                rejection
            })],
            "{sequence}"
        );
    }
    assert_eq!(bench.fixture.stats.node.rejected, 3);
}

#[test]
fn rounds_are_told_apart_when_their_low_half_begins_anew() {
    let mut bench = Bench::among(9, &[1, 2, 3]);
    bench.detector.sequence = (1 << 32) - 3;
    bench.run_for(secs(10), &[2, 3]);
    assert!(bench.detector.sequence > 1 << 32 && bench.verdicts().is_none());
    let last = bench.detector.sequence;
    for _ in 0..8 {
        bench.run_for(secs(1), &[3]);
        bench.answer_with(&n(2), last);
        bench.answer_with(&n(2), last - 8);
    }
    assert_eq!(bench.verdicts(), Some((vec![2], vec![])));
}

#[test]
fn f_17_an_answer_that_comes_again_or_behind_a_later_one_is_no_sign_of_life() {
    let mut bench = Bench::among(9, &[1, 2, 3]);
    bench.run_for(secs(10), &[2, 3]);
    let last = bench.detector.sequence;
    // Node 2 has crashed; its answers of before come once more, every second.
    for _ in 0..8 {
        bench.run_for(secs(1), &[3]);
        bench.answer_with(&n(2), last);
        bench.answer_with(&n(2), last - 1);
    }
    assert_eq!(bench.verdicts(), Some((vec![2], vec![])));
}

#[test]
fn m_243_silence_from_the_very_first_heartbeat_on_is_noticed() {
    let mut bench = Bench::new(3);
    bench.see(&[1, 2], &[]);
    bench.run_for(secs(2), &[]);
    assert_eq!(bench.monitored(), [2]);
    // 5307 ms after the artificial heartbeat, seen by the next reaper tick.
    bench.run_for(secs(5), &[]);
    assert_eq!(bench.verdicts(), None);
    bench.run_for(secs(1), &[]);
    assert_eq!(bench.verdicts(), Some((vec![2], vec![])));
}

#[test]
fn m_244_members_of_every_status_are_asked() {
    let mut bench = Bench::new(9);
    let statuses = [
        Status::Up,
        Status::Joining,
        Status::Leaving,
        Status::Exiting,
        Status::Down,
        Status::WeaklyUp,
    ];
    let members = statuses
        .iter()
        .zip(1..)
        .map(|(status, uid)| member(&n(uid), *status));
    bench.show(picture(&n(1), members, &[]));
    assert_eq!(bench.active(), [2, 3, 4, 5, 6]);
}

#[test]
fn s_2_11_a_silent_member_is_reported_until_published_and_reported_back_once_it_answers() {
    let mut bench = Bench::among(9, &[1, 2, 3]);
    bench.run_for(secs(4), &[3]);
    assert_eq!(bench.verdicts(), None);
    bench.run_for(secs(2), &[3]);
    assert_eq!(bench.verdicts(), Some((vec![2], vec![])));
    bench.run_for(secs(1), &[3]);
    assert_eq!(
        bench.verdicts(),
        Some((vec![2], vec![])),
        "said again while membership has not published it"
    );
    assert_eq!(bench.fixture.stats.detector.unreachable_verdicts, 2);
    bench.see(&[1, 2, 3], &[2]);
    bench.run_for(secs(3), &[3]);
    assert_eq!(bench.verdicts(), None);
    assert_eq!(bench.active(), [2, 3], "an unreachable member is asked on");
    bench.run_for(secs(2), &[2, 3]);
    assert_eq!(bench.verdicts(), Some((vec![], vec![2])));
    let stats = &bench.fixture.stats.detector;
    assert_eq!((stats.unreachable_verdicts, stats.reachable_verdicts), (2, 2));
    assert_eq!(stats.heartbeats_late, 1, "the gap was counted");
}

#[test]
fn s_1_5_a_terminated_incarnation_never_comes_back() {
    let mut bench = Bench::among(9, &[1, 2]);
    let mut gossip = Gossip::new();
    gossip.upsert_member(member(&n(1), Status::Up));
    gossip.upsert_member(member(&n(2), Status::Up));
    gossip.reachability_mut().terminated(&n(1), &n(2));
    bench.show(picture_of(&n(1), gossip));
    bench.run_for(secs(3), &[2]);
    assert_eq!(bench.verdicts(), None);
    bench.run_for(secs(10), &[]);
    assert_eq!(bench.verdicts(), None, "what is final is not said again");
}

#[test]
fn s_2_13_a_receiver_that_falls_out_is_forgotten_if_fine_and_asked_on_if_silent() {
    // aa asks bb and cc of a ring of five; a node that joins between pushes cc out.
    let mut fine = Bench::among(2, &[1, 3, 4, 5]);
    assert_eq!(fine.active(), [3, 4]);
    fine.see(&[1, 2, 3, 4, 5], &[]);
    assert_eq!((fine.active(), fine.monitored()), (vec![2, 3], vec![3]));

    let mut silent = Bench::among(2, &[1, 3, 4, 5]);
    silent.run_for(secs(6), &[3]);
    silent.see(&[1, 2, 3, 4, 5], &[]);
    assert_eq!((silent.active(), silent.monitored()), (vec![2, 3, 4], vec![3, 4]));
    silent.run_for(secs(1), &[2, 3]);
    assert_eq!(silent.verdicts(), Some((vec![4], vec![])));
    // Its answer ends the interest in it.
    silent.answer(&[4]);
    assert_eq!((silent.active(), silent.monitored()), (vec![2, 3], vec![2, 3]));
    silent.see(&[1, 2, 3, 4, 5], &[4]);
    silent.run_for(secs(1), &[2, 3]);
    assert_eq!(silent.verdicts(), Some((vec![], vec![4])));
}

#[test]
fn a_removed_member_is_forgotten_wherever_it_was() {
    let mut bench = Bench::among(2, &[1, 3, 4, 5]);
    bench.run_for(secs(6), &[3]);
    bench.see(&[1, 2, 3, 4, 5], &[]);
    assert_eq!(bench.detector.former.len(), 1);
    bench.see(&[1, 2, 5], &[]);
    assert_eq!((bench.active(), bench.monitored()), (vec![2, 5], vec![]));
    bench.run_for(secs(1), &[]);
    bench.see(&[1, 5], &[]);
    assert!(
        bench.fixture.timers.at(&first_heartbeat(&n(2)).into()).is_none(),
        "nobody waits for a removed member"
    );
}

#[test]
fn s_2_13_a_removed_node_stops_and_sets_no_timer_again() {
    let mut bench = Bench::among(9, &[1, 2, 3]);
    let mut removed = View::idle(n(1));
    removed.phase = MembershipPhase::Halted;
    bench.show(removed);
    assert_eq!(bench.fixture.next_timer(Instant::MAX), None);
    bench
        .detector
        .on_timer(&mut bench.fixture.cx(), DetectorTimer::Heartbeat);
    assert_eq!(
        (bench.fixture.effects(), bench.fixture.timers.next()),
        (vec![], None)
    );
}

#[test]
fn m_245_the_last_of_six_notices_all_five_although_it_watches_two() {
    let mut bench = Bench::among(2, &[1, 2, 3, 4, 5, 6]);
    let mut gone: OrderedSet<u64> = OrderedSet::new();
    for _ in 0..30 {
        bench.run_for(secs(1), &[]);
        if let Some((unreachable, reachable)) = bench.verdicts() {
            assert_eq!(reachable, []);
            gone.extend(unreachable);
            // Whoever is unreachable is downed and removed at once, which moves the ring on.
            let left: Vec<u64> = (1..=6).filter(|uid| !gone.contains(uid)).collect();
            bench.see(&left, &[]);
        }
    }
    assert_eq!(gone, (2..=6).collect());
    assert_eq!(bench.active(), []);
}

#[test]
fn s_8_5_a_pause_is_forgiven_and_told() {
    let mut bench = Bench::among(9, &[1, 2, 3]);
    bench.run_for(secs(10), &[2, 3]);
    bench.fixture.effects();
    bench.fixture.stand_still(secs(40));
    let excess = bench
        .fixture
        .mono()
        .since(bench.detector.stage.round_due().unwrap());
    bench.run_for(Duration::ZERO, &[]);
    assert!(
        matches!(bench.fixture.heard()[..], [Signal::Paused { .. }]),
        "and no verdict"
    );
    assert_eq!(bench.fixture.stats.detector.pauses_compensated, 1);
    let told = bench
        .fixture
        .effects()
        .into_iter()
        .filter(|effect| matches!(effect, Effect::Notify(_)));
    assert_eq!(
        told.collect::<Vec<_>>(),
        [Effect::Notify(Event::Detector(DetectorEvent::Paused { excess }))]
    );
    // Who does not answer after the pause is found out as ever.
    bench.run_for(secs(6), &[3]);
    assert_eq!(bench.verdicts(), Some((vec![2], vec![])));
}

/// Whether it was said since the last time that this node is still a member.
fn is_believed(bench: &mut Bench) -> bool {
    let effects = bench.fixture.effects();
    effects.contains(&Effect::Notify(Event::Detector(DetectorEvent::StillMember)))
}

#[test]
fn s_8_5_after_a_pause_only_a_member_reached_since_then_and_its_gossip_end_the_revalidation() {
    let mut bench = Bench::among(9, &[1, 2, 3]);
    bench.run_for(secs(10), &[2, 3]);
    bench.fixture.stand_still(secs(40));
    // What was on its way before the pause: an answer to the last round, and gossip.
    bench.answer(&[2]);
    bench.detector.on_gossip_heard(&mut bench.fixture.cx(), &n(2));
    assert!(!is_believed(&mut bench));
    // An answer to a round since, but no gossip after it.
    bench.run_for(secs(1), &[3]);
    assert!(!is_believed(&mut bench));
    bench.detector.on_gossip_heard(&mut bench.fixture.cx(), &n(6));
    assert!(!is_believed(&mut bench), "a stranger's gossip says nothing");
    bench.detector.on_gossip_heard(&mut bench.fixture.cx(), &n(2));
    assert!(is_believed(&mut bench));
    bench.detector.on_gossip_heard(&mut bench.fixture.cx(), &n(2));
    assert!(!is_believed(&mut bench), "said once");
}

#[test]
fn s_8_5_with_nobody_else_left_there_is_no_doubt() {
    let mut bench = Bench::among(9, &[1]);
    bench.run_for(secs(10), &[]);
    bench.fixture.stand_still(secs(40));
    bench.run_for(Duration::ZERO, &[]);
    assert!(is_believed(&mut bench));
    let mut bench = Bench::among(9, &[1, 2]);
    bench.run_for(secs(10), &[2]);
    bench.fixture.stand_still(secs(40));
    bench.run_for(Duration::ZERO, &[]);
    bench.see(&[1, 2], &[2]);
    assert!(
        !is_believed(&mut bench),
        "the other side may have taken over; the resolver says who stays"
    );
    bench.see(&[1], &[]);
    assert!(is_believed(&mut bench));
}

#[test]
fn s_8_5_an_answer_handled_first_after_a_pause_is_not_moved_into_the_future() {
    let mut bench = Bench::among(9, &[1, 2, 3]);
    bench.run_for(secs(10), &[2, 3]);
    bench.fixture.stand_still(secs(40));
    bench.answer(&[2]);
    assert_eq!(bench.fixture.stats.detector.pauses_compensated, 1);
    bench.run_for(secs(6), &[3]);
    assert_eq!(
        bench.verdicts(),
        Some((vec![2], vec![])),
        "40 s of credit would hide the silence"
    );
}

#[test]
fn s_8_5_a_second_pause_within_a_minute_is_told_but_not_forgiven() {
    let mut bench = Bench::among(9, &[1, 2]);
    bench.run_for(secs(10), &[2]);
    bench.fixture.stand_still(secs(20));
    bench.run_for(secs(3), &[2]);
    assert_eq!(bench.verdicts(), None);
    bench.fixture.stand_still(secs(20));
    bench.run_for(Duration::ZERO, &[]);
    assert_eq!(bench.fixture.stats.detector.pauses_compensated, 1);
    let heard = bench.fixture.heard();
    assert!(
        matches!(heard[..], [Signal::Paused { .. }, Signal::Verdicts(_)]),
        "{heard:?}"
    );
    // A minute after the first one there is forgiveness again.
    bench.see(&[1, 2], &[2]);
    bench.run_for(secs(30), &[2]);
    bench.see(&[1, 2], &[]);
    bench.fixture.heard();
    bench.fixture.stand_still(secs(20));
    bench.run_for(Duration::ZERO, &[]);
    assert_eq!(bench.fixture.stats.detector.pauses_compensated, 2);
    assert_eq!(bench.verdicts(), None);
}

#[test]
fn s_8_5_a_round_late_by_less_than_the_acceptable_pause_is_no_pause() {
    let mut bench = Bench::among(9, &[1, 2]);
    bench.fixture.stand_still(secs(4));
    bench.run_for(secs(2), &[2]);
    assert_eq!(bench.fixture.stats.detector.pauses_compensated, 0);
    assert!(bench.fixture.heard().is_empty());
}

#[test]
fn members_of_other_data_centers_are_not_asked() {
    let mut bench = Bench::new(9);
    let mut abroad = member(&n(3), Status::Up);
    abroad.roles = crate::ident::Roles::new([], "abroad").unwrap();
    bench.show(picture(
        &n(1),
        [member(&n(1), Status::Up), member(&n(2), Status::Up), abroad],
        &[],
    ));
    assert_eq!(bench.active(), [2]);
}

#[test]
fn changes_of_the_picture_put_no_round_off() {
    let mut bench = Bench::among(3, &[1, 2, 3]);
    let rounds = bench.detector.sequence;
    for step in 0..4 {
        bench.run_for(Duration::from_millis(900), &[2, 3]);
        bench.see(if step % 2 == 0 { &[1, 2, 3, 4] } else { &[1, 2, 3] }, &[]);
    }
    assert_eq!(bench.detector.sequence, rounds + 3, "3.6 s have passed");
}

#[test]
fn only_a_pause_is_answered_with_being_a_member_still() {
    let mut bench = Bench::among(9, &[1, 2]);
    bench.see(&[1], &[]);
    assert!(!is_believed(&mut bench));
    assert!(bench.fixture.heard().is_empty());
}

#[test]
fn s_8_5_the_other_machines_hear_of_a_pause_once_and_of_its_end() {
    let mut bench = Bench::among(9, &[1, 2]);
    bench.run_for(secs(10), &[2]);
    let due = bench.detector.stage.round_due().unwrap();
    bench.fixture.stand_still(secs(40));
    assert!(bench.detector.notice_pause(&mut bench.fixture.cx()));
    assert!(
        !bench.detector.notice_pause(&mut bench.fixture.cx()),
        "it is over"
    );
    let paused = bench.fixture.heard();
    assert!(
        matches!(paused[..], [Signal::Paused { since }] if since == due),
        "{paused:?}"
    );
    bench.run_for(secs(1), &[2]);
    bench.detector.on_gossip_heard(&mut bench.fixture.cx(), &n(2));
    assert!(matches!(bench.fixture.heard()[..], [Signal::StillMember]));
}

#[test]
fn s_8_5_where_only_an_operator_downs_a_node_alone_in_reach_goes_on() {
    for (strategy, goes_on) in [
        (DowningStrategy::Off, true),
        (DowningStrategy::KeepMajority { role: None }, false),
    ] {
        let mut config = Config::lan(ClusterName::new("test").unwrap());
        config.downing.strategy = strategy;
        let fixture = Fixture::with_config(n(1), config);
        let detector = Detector::new(&fixture.config);
        let mut bench = Bench { fixture, detector };
        bench.see(&[1, 2, 3], &[2, 3]);
        bench.fixture.stand_still(secs(40));
        bench.run_for(Duration::ZERO, &[]);
        assert_eq!(is_believed(&mut bench), goes_on);
        // Somebody in reach could tell.
        let mut bench = Bench::among(9, &[1, 2, 3]);
        bench.see(&[1, 2, 3], &[2]);
        bench.fixture.stand_still(secs(40));
        bench.run_for(Duration::ZERO, &[]);
        assert!(!is_believed(&mut bench));
    }
}

#[test]
fn s_8_5_a_pause_a_minute_after_the_last_one_is_forgiven_again() {
    for (apart, forgiven) in [(59_999, 1), (60_000, 2)] {
        let mut bench = Bench::among(9, &[1, 2]);
        let pause = |bench: &mut Bench, length: Duration| {
            bench.fixture.stand_still(length);
            bench.detector.notice_pause(&mut bench.fixture.cx());
        };
        pause(&mut bench, secs(20));
        pause(&mut bench, Duration::from_millis(apart));
        assert_eq!(
            bench.fixture.stats.detector.pauses_compensated, forgiven,
            "{apart}"
        );
    }
}

#[test]
fn s_2_13_a_silent_receiver_that_comes_back_into_the_rings_choice_is_not_forgotten_by_its_answer() {
    let mut bench = Bench::among(2, &[1, 3, 4, 5]);
    bench.run_for(secs(6), &[3]);
    bench.see(&[1, 2, 3, 4, 5], &[]);
    assert!(bench.detector.former.contains(&n(4)));
    bench.see(&[1, 3, 4, 5], &[]);
    bench.run_for(secs(1), &[3]);
    bench.answer(&[4]);
    assert_eq!((bench.active(), bench.monitored()), (vec![3, 4], vec![3, 4]));
    assert!(bench.detector.former.is_empty());
}

#[test]
fn s_2_13_a_node_that_stops_forgets_whom_it_still_asked_on() {
    let mut bench = Bench::among(2, &[1, 3, 4, 5]);
    bench.run_for(secs(6), &[3]);
    bench.see(&[1, 2, 3, 4, 5], &[]);
    assert!(bench.detector.former.contains(&n(4)));
    let mut removed = View::idle(n(1));
    removed.phase = MembershipPhase::Halted;
    bench.show(removed);
    assert_eq!((bench.active(), bench.monitored()), (vec![], vec![]));
}

#[test]
fn m_243_the_first_answer_is_expected_of_each_receiver_for_itself() {
    let mut bench = Bench::new(9);
    bench.see(&[1, 2], &[]);
    bench.run_for(Duration::from_millis(1_500), &[]);
    // Node 2 was asked half a second ago, node 3 has not been asked yet.
    bench.see(&[1, 2, 3], &[]);
    bench.run_for(Duration::from_millis(500), &[]);
    assert_eq!(bench.monitored(), [2]);
    bench.run_for(secs(1), &[]);
    assert_eq!(bench.monitored(), [2, 3]);
    // Once they are monitored nothing more is expected for the first time.
    bench.run_for(secs(1), &[2, 3]);
    for node in [n(2), n(3)] {
        assert!(
            bench.fixture.timers.at(&first_heartbeat(&node).into()).is_none(),
            "{node}"
        );
    }
}
