//! Single cases of hand-offs: who dies at which step, what is said twice, who comes late. Spec: sharding
//! 6.11, membership 6 P.

use std::time::Duration;

use quorate_core::config::Config;
use quorate_core::effect::CommandError;
use quorate_core::event::PathEvent;
use quorate_core::input::{Command, PathCommand};
use quorate_core::message::Lane;
use quorate_core::paths::protocol::{PathCommandError, PathRefusal};
use quorate_core::paths::state::options::{HandoffOptions, NewHost};
use quorate_core::paths::state::settings::PathSettings;
use quorate_core::paths::state::table::MoveStatus;

use crate::laws::check;
use crate::scenes::{path, registered};
use crate::world::{World, link_of};

const SOON: Duration = Duration::from_secs(120);

/// One slot about to move: from where to where, neither of them the leader, on five nodes.
pub(crate) struct Case {
    pub(crate) world: World,
    pub(crate) path: PathSettings,
    from: usize,
    pub(crate) to: usize,
}

impl Case {
    pub(crate) fn new(handoff: HandoffOptions, seed: u64) -> Self {
        let stubborn = |config: &mut Config| config.paths.stop_timeout = Duration::from_secs(60);
        let mut world = World::with(5, seed, stubborn);
        let path = path("shop", handoff, 1);
        registered(&mut world, std::slice::from_ref(&path));
        // The slot is where nothing but it can be wrong: not at the leader.
        let host = |world: &World, slot: usize| {
            let host = world.hosts_of(&path.name)[slot].clone().unwrap();
            (0..5).find(|at| world.address(*at) == host).unwrap()
        };
        if host(&world, 0) == 0 {
            let other = (1..5).find(|at| host(&world, 1) != *at).unwrap();
            let to = world.address(other);
            let (name, slot) = (path.name.clone(), 0);
            world.told(1, PathCommand::Move { path: name, slot, to }).unwrap();
            world.run_until(SOON, World::is_quiet);
            world.run_for(Duration::from_secs(5));
        }
        let from = host(&world, 0);
        let to = (1..5)
            .rev()
            .find(|at| *at != from && *at != host(&world, 1))
            .unwrap();
        let mut case = Self {
            world,
            path,
            from,
            to,
        };
        case.begin();
        case
    }

    fn begin(&mut self) {
        let (path, slot, to) = (self.path.name.clone(), 0, self.world.address(self.to));
        self.world
            .command(1, Command::Path(PathCommand::Move { path, slot, to }));
    }

    /// How far the move is for this node; `None` once it is over or before it begins.
    fn status(world: &World, at: usize, path: &PathSettings) -> Option<MoveStatus> {
        let table = world.hosts[at].node.view().gossip().paths();
        table.get(&path.name)?.pending(0).map(|change| change.status)
    }

    /// Everybody sends while it gets that far, as the old host sees it.
    fn until(&mut self, status: MoveStatus) {
        for _ in 0..4_000 {
            if Self::status(&self.world, self.from, &self.path) == Some(status) {
                return;
            }
            self.everybody_asks();
            self.world.run_for(Duration::from_millis(5));
        }
        panic!("it never was {status:?}");
    }

    fn everybody_asks(&mut self) {
        for at in self.world.live_nodes() {
            self.world.ask(at, self.path.name.id(), 0);
        }
    }

    /// Comes to rest with this host, and is served there.
    pub(crate) fn ends_at(mut self, host: Option<usize>, clean: bool) {
        let (path, wanted) = (self.path.clone(), host.map(|at| self.world.address(at)));
        self.world.run_until(SOON, |world| {
            let hosts = world.hosts_of(&path.name);
            let runs = world.running(&path.name) == 2 && world.is_quiet();
            runs && wanted
                .as_ref()
                .is_none_or(|wanted| hosts[0].as_ref() == Some(wanted))
        });
        // What was sent meanwhile has its outcome first.
        self.world.run_for(Duration::from_secs(25));
        let before = self.world.handled.len();
        self.everybody_asks();
        self.world.run_for(Duration::from_secs(25));
        let live = self.world.live_nodes().len();
        assert_eq!(self.world.handled.len() - before, live, "all are served");
        check(&self.world, std::slice::from_ref(&self.path), clean);
    }
}

#[test]
fn s_311_m_440_the_next_leader_notes_a_move_that_is_complete() {
    let mut case = Case::new(HandoffOptions::ORDERED, 11);
    case.until(MoveStatus::Complete);
    case.world.crash(0);
    let to = case.to;
    case.ends_at(Some(to), false);
}

#[test]
fn m_440_the_next_leader_goes_on_with_a_move_that_is_awaited() {
    let mut case = Case::new(HandoffOptions::STATEFUL, 12);
    let to = case.to;
    case.world.slow.insert(to);
    case.until(MoveStatus::Awaiting);
    case.world.crash(0);
    case.world.run_for(Duration::from_millis(500));
    case.world.slow.clear();
    case.world.say_running();
    case.ends_at(None, false);
}

#[test]
fn s_312_a_new_host_that_dies_before_it_is_ready_leaves_the_slot_where_it_is() {
    for handoff in [
        HandoffOptions::STATELESS,
        HandoffOptions::STATEFUL,
        HandoffOptions::LOSSY,
    ] {
        let mut case = Case::new(handoff, 13);
        let (from, to) = (case.from, case.to);
        case.world.slow.insert(to);
        case.until(MoveStatus::Awaiting);
        case.world.run_for(Duration::from_millis(300));
        case.world.crash(to);
        case.ends_at(Some(from), false);
    }
}

#[test]
fn a_move_that_is_given_up_while_the_instance_stops_goes_on_with_what_it_leaves() {
    let mut case = Case::new(HandoffOptions::STATEFUL, 21);
    let (from, path) = (case.from, case.path.clone());
    case.world.busy.insert(from);
    case.everybody_asks();
    case.until(MoveStatus::Awaiting);
    // It is killed after a minute; the new host would have to be ready after three seconds.
    case.world.run_for(Duration::from_secs(4));
    assert_eq!(Case::status(&case.world, from, &path), Some(MoveStatus::Awaiting));
    case.world.busy.clear();
    let aborted = |event: &PathEvent| matches!(event, PathEvent::MoveAborted { slot: 0, .. });
    case.world
        .run_until(SOON, |world| world.hosts[from].events.iter().any(aborted));
    assert!(case.world.has_state(from, &path.name));
    case.ends_at(Some(from), true);
}

#[test]
fn a_move_to_a_member_whose_last_instance_still_stops_waits_for_that_alone() {
    let mut case = Case::new(HandoffOptions::ORDERED, 22);
    let (from, to, path) = (case.from, case.to, case.path.clone());
    // The first move is given up, and the new host's instance takes its time to stop.
    case.world.slow.insert(to);
    case.world.busy.insert(to);
    let aborted = |event: &&PathEvent| matches!(event, PathEvent::MoveAborted { slot: 0, .. });
    let aborts = |world: &World| world.hosts[from].events.iter().filter(aborted).count();
    case.world.run_until(SOON, |world| aborts(world) == 1);
    case.world.slow.clear();
    // It may host again after the cool-down.
    case.world.run_for(Duration::from_secs(8));
    case.begin();
    case.until(MoveStatus::Awaiting);
    case.world.run_for(Duration::from_millis(500));
    assert_eq!(Case::status(&case.world, from, &path), Some(MoveStatus::Awaiting));
    case.world.busy.clear();
    case.world.run_until(SOON, |world| {
        world.hosts_of(&path.name)[0] == Some(world.address(to))
    });
    assert_eq!(aborts(&case.world), 1, "it was not given up again");
    case.ends_at(Some(to), true);
}

#[test]
fn m_439_a_slot_that_has_to_go_gets_another_target_when_the_new_host_dies() {
    let mut case = Case::new(HandoffOptions::ORDERED, 14);
    case.world.run_until(SOON, World::is_quiet);
    case.world.run_for(Duration::from_secs(5));
    // Its present host leaves, and the member that is to take over crashes first.
    let leaver = case.to;
    for at in 0..5 {
        if at != leaver {
            case.world.slow.insert(at);
        }
    }
    case.world.leave(leaver);
    let path = case.path.clone();
    case.world.run_until(SOON, |world| {
        Case::status(world, leaver, &path) == Some(MoveStatus::Awaiting)
    });
    let table = case.world.hosts[leaver].node.view().gossip().paths().clone();
    let entry = table.get(&path.name).unwrap();
    let target = entry.pending(0).unwrap().to.clone().unwrap();
    let target = (0..5).find(|at| case.world.address(*at) == target).unwrap();
    case.world.crash(target);
    case.world.slow.clear();
    case.world.say_running();
    case.world.run_until(SOON, |world| {
        let quiet = world.running(&path.name) == 2 && world.is_quiet();
        quiet && !world.is_live(leaver)
    });
    check(&case.world, &[path], false);
}

#[test]
fn s_314_what_is_asked_again_starts_one_instance() {
    let mut case = Case::new(HandoffOptions::ORDERED, 15);
    let to = case.to;
    case.world.slow.insert(to);
    case.until(MoveStatus::Awaiting);
    // Init is repeated every 200 ms.
    case.world.run_for(Duration::from_millis(1_500));
    case.world.slow.clear();
    case.world.say_running();
    let started = |event: &&PathEvent| matches!(event, PathEvent::Started { slot: 0, .. });
    assert_eq!(case.world.hosts[to].events.iter().filter(started).count(), 1);
    case.ends_at(Some(to), true);
}

#[test]
fn s_320_m_434_whoever_sends_waits_for_all_that_is_passed_on_however_late_that_comes() {
    for handoff in [HandoffOptions::ORDERED, HandoffOptions::STATEFUL] {
        // What is passed on is late, and what the new host's own users have sent.
        for is_back in [false, true] {
            let mut case = Case::new(handoff, 23);
            let (from, to) = (case.from, case.to);
            case.until(MoveStatus::Awaiting);
            let late = if is_back { (to, from) } else { (from, to) };
            case.world.clogged.insert((late.0, late.1, link_of(Lane::User)));
            case.until(MoveStatus::Complete);
            for _ in 0..100 {
                case.everybody_asks();
                case.world.run_for(Duration::from_millis(50));
            }
            let status = Case::status(&case.world, from, &case.path);
            assert_eq!(status, Some(MoveStatus::Complete), "marks are on the way, too");
            case.world.clogged.clear();
            case.ends_at(Some(to), true);
        }
    }
}

#[test]
fn a_new_host_handles_nothing_before_it_knows_that_the_move_is_complete() {
    let unordered = HandoffOptions {
        new_host: NewHost::Serves,
        ..HandoffOptions::DURABLE
    };
    for handoff in [HandoffOptions::LOSSY, unordered] {
        let mut case = Case::new(handoff, 24);
        let (to, path) = (case.to, case.path.clone());
        case.until(MoveStatus::Awaiting);
        case.world.run_until(SOON, |world| world.runs_at(to, &path.name));
        // It is ready, and hears nothing more of the move; all others do. What is passed on says it, too.
        for from in (0..5).filter(|from| *from != to) {
            case.world.clogged.insert((from, to, link_of(Lane::Gossip)));
        }
        case.world.clogged.insert((case.from, to, link_of(Lane::User)));
        case.until(MoveStatus::Complete);
        let sender = (0..5).find(|at| *at != to && *at != case.from).unwrap();
        case.world.run_until(SOON, |world| {
            Case::status(world, sender, &path) >= Some(MoveStatus::Complete)
        });
        for _ in 0..10 {
            case.everybody_asks();
            case.world.run_for(Duration::from_millis(20));
        }
        assert_eq!(Case::status(&case.world, to, &path), Some(MoveStatus::Awaiting));
        let here = |it: &&crate::world::Handled| it.slot == 0 && it.by == to;
        assert_eq!(case.world.handled.iter().filter(here).count(), 0);
        case.world.clogged.clear();
        case.ends_at(Some(to), false);
    }
}

#[test]
fn a_slot_is_not_moved_again_before_everybody_has_acknowledged_its_last_move() {
    let mut case = Case::new(HandoffOptions::ORDERED, 25);
    let (from, to) = (case.from, case.to);
    case.until(MoveStatus::Awaiting);
    case.world.clogged.insert((from, to, link_of(Lane::User)));
    case.until(MoveStatus::Complete);
    case.world.run_for(Duration::from_secs(5));
    let back = PathCommand::Move {
        path: case.path.name.clone(),
        slot: 0,
        to: case.world.address(from),
    };
    let moving = CommandError::Path(PathCommandError::Refused(PathRefusal::Moving));
    assert_eq!(case.world.told(1, back.clone()), Err(moving));
    case.world.clogged.clear();
    case.world.run_until(SOON, World::is_quiet);
    assert_eq!(case.world.told(1, back), Ok(()));
    case.ends_at(Some(from), true);
}

#[test]
fn s_317_a_sender_that_is_removed_is_not_waited_for() {
    let mut case = Case::new(HandoffOptions::ORDERED, 16);
    case.until(MoveStatus::Complete);
    let sender = (1..5).find(|at| *at != case.from && *at != case.to).unwrap();
    case.world.crash(sender);
    let to = case.to;
    case.ends_at(Some(to), false);
}

#[test]
fn s_318_who_joins_later_is_not_waited_for_and_finds_the_new_host() {
    let mut case = Case::new(HandoffOptions::ORDERED, 17);
    case.until(MoveStatus::Complete);
    case.world.add();
    let to = case.to;
    case.ends_at(Some(to), true);
}

#[test]
fn m_438_an_old_host_that_dies_when_the_move_is_complete_does_not_undo_it() {
    for handoff in [
        HandoffOptions::STATELESS,
        HandoffOptions::ORDERED,
        HandoffOptions::STATEFUL,
    ] {
        let mut case = Case::new(handoff, 18);
        case.until(MoveStatus::Complete);
        // Who has not seen it from this host cannot know of it.
        case.world.run_for(Duration::from_secs(2));
        let (from, to) = (case.from, case.to);
        case.world.crash(from);
        case.ends_at(Some(to), false);
    }
}

#[test]
fn m_435_an_old_host_that_stops_first_handles_nothing_after_the_new_one_began() {
    for handoff in [HandoffOptions::STATEFUL, HandoffOptions::DURABLE] {
        let mut case = Case::new(handoff, 19);
        let (from, to) = (case.from, case.to);
        case.until(MoveStatus::Complete);
        case.everybody_asks();
        case.world.run_for(Duration::from_secs(5));
        let of_slot = |by: usize| move |it: &&crate::world::Handled| it.slot == 0 && it.by == by;
        let handled = &case.world.handled;
        let last_there = handled
            .iter()
            .filter(of_slot(from))
            .map(|it| it.at)
            .max()
            .unwrap();
        let first_here = handled.iter().filter(of_slot(to)).map(|it| it.at).min().unwrap();
        assert!(last_there <= first_here, "{last_there:?} {first_here:?}");
        case.ends_at(Some(to), true);
    }
}

#[test]
fn m_436_what_the_options_drop_is_counted_and_told() {
    let mut case = Case::new(HandoffOptions::LOSSY, 20);
    let (from, to) = (case.from, case.to);
    case.world.slow.insert(to);
    case.until(MoveStatus::Awaiting);
    case.world.run_for(Duration::from_millis(300));
    let letters = |world: &World| world.hosts[from].node.stats().paths.dead_letters;
    let before = letters(&case.world);
    for at in 0..5 {
        case.world.tell(at, case.path.name.id(), 0);
    }
    case.world.run_for(Duration::from_millis(300));
    assert_eq!(letters(&case.world) - before, 5);
    let told = |event: &&PathEvent| matches!(event, PathEvent::DeadLetter { .. });
    assert!(case.world.hosts[from].events.iter().filter(told).count() >= 5);
    case.world.slow.clear();
    case.world.say_running();
    case.ends_at(Some(to), false);
}
