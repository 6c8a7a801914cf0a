//! Load on one node: what it tells, asks, hears and publishes. Spec: sharding 5.5, 10.20.

use alloc::vec;
use core::time::Duration;

use super::protocol::{PartMeasure, SAMPLES_MAX};
use super::state::capacity::{Cpu, Heap, MachineLoad};
use super::state::sample::LoadPartId;
use super::state::share::LoadShare;
use super::*;
use crate::config::{Config, Limits, LoadConfig};
use crate::effect::Effect;
use crate::event::Event;
use crate::fixture::{Fixture, member, node, picture};
use crate::ident::{ClusterName, Role, Roles};
use crate::input::SendTarget;
use crate::membership::state::member::Status;
use crate::message::Message;
use crate::timer::Timer as AnyTimer;
use crate::wire::{HEADER_BYTES, encode_message};

/// A node with its surroundings.
struct World {
    fixture: Fixture,
    load: Load,
}

fn numbered(number: u64) -> UniqueAddress {
    node(&alloc::format!("n{number:04}"), number)
}

fn sample(cpu: u16) -> LoadSample {
    LoadSample {
        cpu: LoadShare::from_thousandths(cpu),
        ..LoadSample::default()
    }
}

fn measure(cpu: f64) -> LoadMeasure {
    LoadMeasure {
        cpu: Some(Cpu {
            combined: cpu,
            stolen: 0.0,
        }),
        ..LoadMeasure::default()
    }
}

fn told(cpu: u16) -> Msg {
    Msg::Sample(SampleTold {
        sample: sample(cpu),
        parts: Vec::new(),
    })
}

impl World {
    /// Member `me` of `1..=members`, all of them Up.
    fn new(me: u64, members: u64, change: impl FnOnce(&mut LoadConfig)) -> Self {
        let mut config = Config::lan(ClusterName::new("test").unwrap());
        change(&mut config.load);
        let mut world = Self {
            fixture: Fixture::with_config(numbered(me), config),
            load: Load::default(),
        };
        world.sees(
            (1..=members).map(|number| member(&numbered(number), Status::Up)),
            &[],
        );
        world
    }

    fn sees(&mut self, members: impl IntoIterator<Item = Member>, unreachable: &[u64]) {
        let silent: Vec<_> = unreachable.iter().map(|number| numbered(*number)).collect();
        let me = self.fixture.me.clone();
        let observer = if me == numbered(1) {
            numbered(2)
        } else {
            numbered(1)
        };
        let rows: Vec<_> = silent.iter().map(|node| (&observer, node)).collect();
        let (_, after) = self.fixture.see(picture(&me, members, &rows));
        self.load.on_view_changed(&mut self.fixture.cx(), &after);
        self.check();
    }

    fn check(&self) {
        self.load.check_invariants(&self.fixture.view).unwrap();
    }

    fn measures(&mut self, measure: &LoadMeasure) {
        self.load.on_measured(&mut self.fixture.cx(), measure);
        self.check();
    }

    fn hears(&mut self, from: u64, msg: Msg) {
        self.load.on_message(&mut self.fixture.cx(), &numbered(from), msg);
        self.check();
    }

    /// Lets this time pass; gives what was sent in it.
    fn runs(&mut self, for_ms: u64) -> Vec<(u64, Msg)> {
        let until = self.fixture.mono() + Duration::from_millis(for_ms);
        while let Some(timer) = self.fixture.next_timer(until) {
            if let AnyTimer::Load(timer) = timer {
                self.load.on_timer(&mut self.fixture.cx(), &timer);
                self.check();
            }
        }
        self.sent()
    }

    /// Measures, and lets a round pass.
    fn round(&mut self, cpu: f64) -> Vec<(u64, Msg)> {
        self.measures(&measure(cpu));
        self.runs(3_000)
    }

    fn sent(&mut self) -> Vec<(u64, Msg)> {
        let sent = |effect| match effect {
            Effect::Send {
                to: SendTarget::Node(to),
                message: Message::Load(msg),
            } => Some((to.uid(), msg)),
            Effect::Notify(Event::Rejected { .. }) => None,
            other => panic!("{other:?}"),
        };
        self.fixture.effects().into_iter().filter_map(sent).collect()
    }

    /// What is published, by number of the node: thousandths of processor time, and the age.
    fn known(&self) -> Vec<(u64, u16, u64)> {
        let loads = self.fixture.loads.iter();
        loads
            .map(|(node, known)| {
                let cpu = known.sample.cpu.map_or(u16::MAX, LoadShare::thousandths);
                (node.uid(), cpu, known.age_rounds)
            })
            .collect()
    }
}

fn probes(sent: &[(u64, Msg)]) -> Vec<(u64, ChordProbe)> {
    let probe = |(to, msg): &(u64, Msg)| match msg {
        Msg::Probe(probe) => Some((*to, *probe)),
        Msg::Sample(_) | Msg::Reply(_) => None,
    };
    sent.iter().filter_map(probe).collect()
}

fn replies(sent: &[(u64, Msg)]) -> Vec<(u64, ChordReply)> {
    let reply = |(to, msg): &(u64, Msg)| match msg {
        Msg::Reply(reply) => Some((*to, reply.clone())),
        Msg::Sample(_) | Msg::Probe(_) => None,
    };
    sent.iter().filter_map(reply).collect()
}

fn answer(id: u32, samples: impl IntoIterator<Item = (u64, u16)>) -> Msg {
    Msg::Reply(ChordReply {
        id,
        samples: samples
            .into_iter()
            .map(|(number, cpu)| (numbered(number), sample(cpu)))
            .collect(),
        parts: Vec::new(),
    })
}

#[test]
fn each_tells_all_others_once_a_round_and_what_it_hears_is_published_with_its_age() {
    let mut world = World::new(2, 4, |_| {});
    assert_eq!(
        world.runs(30_000),
        [],
        "nothing is said before anything is measured"
    );
    let sent = world.round(0.3);
    assert_eq!(sent, [(1, told(300)), (3, told(300)), (4, told(300))]);
    world.hears(3, told(700));
    world.hears(4, told(900));
    assert_eq!(world.known(), [(2, 300, 0)], "published once a round");
    world.round(0.3);
    assert_eq!(world.known(), [(2, 300, 0), (3, 700, 0), (4, 900, 0)]);
    world.hears(4, told(100));
    let round = world.fixture.loads.round();
    world.round(0.3);
    assert_eq!(world.known(), [(2, 300, 0), (3, 700, 1), (4, 100, 0)]);
    assert_eq!(world.fixture.loads.round(), round + 1);
    world.round(0.3);
    world.round(0.3);
    assert_eq!(world.known(), [(2, 300, 0), (3, 700, 3), (4, 100, 2)]);
    world.round(0.3);
    assert_eq!(world.known(), [(2, 300, 0), (4, 100, 3)], "too old");
    assert_eq!(world.fixture.stats.load.samples_sent, 3 * 6);
    assert_eq!(world.fixture.stats.load.samples_taken, 3);
}

#[test]
fn a_host_that_stops_measuring_is_said_nothing_of_and_rounds_end() {
    let mut world = World::new(1, 2, |_| {});
    world.round(0.3);
    let sent = world.runs(60_000);
    assert!(
        sent.len() <= 1,
        "an old measure is not told again and again: {sent:?}"
    );
    assert_eq!(world.known(), []);
    assert!(
        !world.fixture.cx::<OfLoad>().is_set(Timer::Round),
        "nobody waits for anything"
    );
    assert_eq!(world.round(0.5).len(), 1, "it begins anew");
}

#[test]
fn measures_are_smoothed_with_the_half_life_however_often_they_are_taken() {
    let settings = |_: &mut LoadConfig| {};
    let mut seldom = World::new(1, 2, settings);
    let mut often = World::new(1, 2, settings);
    seldom.measures(&measure(1.0));
    often.measures(&measure(1.0));
    for _ in 0..4 {
        seldom.runs(3_000);
        seldom.measures(&measure(0.0));
        for _ in 0..30 {
            often.runs(100);
            often.measures(&measure(0.0));
        }
    }
    for world in [&seldom, &often] {
        assert_eq!(world.load.own.sample().cpu, LoadShare::from_thousandths(500));
    }
    let unknown = LoadMeasure::default();
    seldom.measures(&unknown);
    assert_eq!(
        seldom.load.own.sample(),
        LoadSample::default(),
        "what is not measured is not known"
    );
}

#[test]
fn everything_that_is_measured_is_told_as_shares() {
    let mut world = World::new(1, 2, |_| {});
    let part = |number: u16| PartMeasure {
        part: LoadPartId(u64::from(number)),
        mailboxes: 0.25,
        messages_per_second: 1e12,
        units: 3,
    };
    world.measures(&LoadMeasure {
        cpu: Some(Cpu {
            combined: 0.2,
            stolen: 0.1,
        }),
        machine: Some(MachineLoad { load: 9.0, cores: 8 }),
        memory: Some(Heap {
            used: 128,
            committed: 256,
            max: Some(512),
        }),
        stall: Some(f64::NAN),
        mailboxes: Some(-1.0),
        parts: (0..100).map(part).collect(),
    });
    let share = LoadShare::from_thousandths;
    let found = world.load.own.sample();
    let expected = LoadSample {
        cpu: share(330),
        machine: share(1_000),
        memory: share(250),
        stall: None,
        mailboxes: share(0),
    };
    assert_eq!(found, expected);
    let capacities = found.capacities();
    assert_eq!(capacities.heap, Some(0.75));
    assert_eq!(capacities.load, Some(0.0));
    let parts = world.load.own.parts();
    assert_eq!(parts.len(), PARTS_MAX);
    assert_eq!(world.fixture.stats.load.parts_left_out, 36);
    let expected = PartLoad {
        part: LoadPartId(0),
        mailboxes: LoadShare::from_thousandths(250).unwrap(),
        messages_per_second: u32::MAX,
        units: 3,
    };
    assert_eq!(parts[0], expected);
    world.measures(&measure(0.5));
    assert_eq!(world.load.own.parts().len(), 0, "those of the last measure");
}

/// The cost that is documented: 64 bytes at most for each node and round, frame included, and parts for those
/// alone who place things.
#[test]
fn a_sample_takes_at_most_64_bytes_and_parts_go_to_those_who_decide() {
    let mut world = World::new(3, 5, |_| {});
    let part = PartMeasure::default();
    world.measures(&LoadMeasure {
        parts: vec![part],
        ..measure(0.5)
    });
    let sent = world.runs(3_000);
    assert_eq!(sent.len(), 4);
    for (to, msg) in sent {
        let Msg::Sample(told) = &msg else {
            panic!("{msg:?}")
        };
        assert_eq!(
            told.parts.len(),
            usize::from(to == 1),
            "1 is the leader and the oldest"
        );
        let mut bytes = Vec::new();
        encode_message(&Message::Load(msg), 1, &Limits::default(), &mut bytes).unwrap();
        assert!(to == 1 || bytes.len() <= 64, "{} bytes", bytes.len());
        assert!(to == 1 || bytes.len() == HEADER_BYTES + 11);
    }
}

#[test]
fn the_oldest_of_a_role_is_told_parts_too() {
    let backend = Roles::new([Role::new("backend").unwrap()], "default").unwrap();
    let mut world = World::new(3, 0, |_| {});
    let with_role = |number: u64| {
        let mut member = member(&numbered(number), Status::Up);
        if number >= 4 {
            member.roles = backend.clone();
        }
        member
    };
    world.sees((1..=5).map(with_role), &[]);
    let deciders: Vec<_> = deciders(&world.fixture.view)
        .iter()
        .map(UniqueAddress::uid)
        .collect();
    assert_eq!(deciders, [1, 4]);
}

#[test]
fn only_full_members_are_told_and_heard_and_removed_ones_are_forgotten() {
    let mut world = World::new(1, 4, |_| {});
    let statuses = [
        Status::Up,
        Status::Up,
        Status::Joining,
        Status::Down,
        Status::Leaving,
    ];
    let all = || {
        let with = |(number, status): (u64, &Status)| member(&numbered(number), *status);
        (1..).zip(&statuses).map(with)
    };
    world.sees(all(), &[]);
    let told_to: Vec<_> = world.round(0.5).into_iter().map(|(to, _)| to).collect();
    assert_eq!(told_to, [2, 5]);
    for from in [2, 3, 4, 5, 9] {
        world.hears(from, told(600));
    }
    assert_eq!(world.fixture.stats.load.samples_ignored, 3);
    world.round(0.5);
    assert_eq!(world.known(), [(1, 500, 0), (2, 600, 0), (5, 600, 0)]);
    world.sees(all(), &[2]);
    let told_to: Vec<_> = world.round(0.5).into_iter().map(|(to, _)| to).collect();
    assert_eq!(told_to, [5], "nobody tells who cannot be reached");
    assert_eq!(world.known(), [(1, 500, 0), (5, 600, 1)]);
    let usable: Vec<_> = world
        .fixture
        .loads
        .capacities(CapacitySelector::Cpu, &world.fixture.view)
        .into_iter()
        .map(|(node, sample)| (node.uid(), sample.capacity, sample.usable))
        .collect();
    assert_eq!(
        usable,
        [(1, 0.5, true), (5, 0.4, false)],
        "one that leaves gets nothing"
    );
    world.sees(all().take(2), &[]);
    assert_eq!(world.known(), [(1, 500, 0), (2, 600, 1)], "5 was removed");
    assert!(world.load.heard.get(&numbered(5)).is_none());
}

#[test]
fn off_says_and_hears_nothing_and_knows_itself() {
    let mut world = World::new(1, 3, |load| load.spread = LoadSpread::Off);
    assert_eq!(world.round(0.5), []);
    world.hears(2, told(600));
    world.hears(2, Msg::Probe(ChordProbe { id: 1, radius: 2 }));
    assert_eq!(world.round(0.5), []);
    assert_eq!(world.known(), [(1, 500, 0)]);
}

#[test]
fn above_the_limit_leaders_ask_a_few_members_and_nobody_else_says_anything() {
    let mut leader = World::new(1, 101, |_| {});
    let asked = probes(&leader.round(0.5));
    assert_eq!(asked.len(), 5);
    let different: OrderedSet<_> = asked.iter().map(|(to, _)| *to).collect();
    assert_eq!(different.len(), 5);
    assert!(asked.iter().all(|(to, probe)| *to != 1 && probe.radius == 2));
    assert_eq!(leader.round(0.5).len(), 5, "and others in the next round");
    assert_eq!(leader.fixture.stats.load.probes_unanswered, 5, "after a second");
    let mut other = World::new(7, 101, |_| {});
    assert_eq!(other.round(0.5), []);
    let mut small = World::new(1, 100, |_| {});
    assert_eq!(small.round(0.5).len(), 99);
    let mut by_choice = World::new(1, 20, |load| load.spread = LoadSpread::Chord);
    assert_eq!(probes(&by_choice.round(0.5)).len(), 5);
    let mut direct = World::new(1, 120, |load| load.spread = LoadSpread::Direct);
    assert_eq!(direct.round(0.5).len(), 119);
    let mut other_limit = World::new(1, 6, |load| load.direct_members_max = 5);
    assert_eq!(probes(&other_limit.round(0.5)).len(), 5);
    let mut other_numbers = World::new(1, 120, |load| {
        load.chord_contacts = 9;
        load.chord_neighbors = 0;
    });
    let asked = probes(&other_numbers.round(0.5));
    assert!(asked.len() == 9 && asked.iter().all(|(_, probe)| probe.radius == 0));
}

#[test]
fn m_446_a_contact_answers_for_itself_and_its_neighbours_around_the_ring() {
    let mut contact = World::new(1, 12, |load| load.spread = LoadSpread::Chord);
    contact.measures(&measure(0.1));
    contact.hears(6, Msg::Probe(ChordProbe { id: 77, radius: 1 }));
    let asked = probes(&contact.sent());
    let of: Vec<_> = asked.iter().map(|(to, probe)| (*to, probe.radius)).collect();
    assert_eq!(of, [(2, 0), (12, 0)]);
    let cpu_of = |number: u64| u16::try_from(number).unwrap() * 10;
    for (to, probe) in &asked {
        assert_eq!(replies(&contact.sent()), []);
        // A neighbour speaks for itself alone.
        contact.hears(*to, answer(probe.id, [(*to, cpu_of(*to)), (5, 999)]));
    }
    let answered = replies(&contact.sent());
    let [(6, reply)] = &answered[..] else {
        panic!("{answered:?}")
    };
    let of: Vec<_> = reply
        .samples
        .iter()
        .map(|(node, sample)| (node.uid(), *sample))
        .collect();
    assert_eq!(of, [(1, sample(100)), (2, sample(20)), (12, sample(120))]);
    assert_eq!(reply.id, 77);
}

#[test]
fn a_contact_does_not_wait_for_a_neighbour_that_is_silent() {
    let mut contact = World::new(5, 12, |load| load.spread = LoadSpread::Chord);
    contact.measures(&measure(0.1));
    contact.hears(1, Msg::Probe(ChordProbe { id: 3, radius: 1 }));
    let asked = probes(&contact.sent());
    contact.hears(
        4,
        answer(asked.iter().find(|(to, _)| *to == 4).unwrap().1.id, [(4, 400)]),
    );
    assert_eq!(replies(&contact.runs(499)), []);
    let answered = replies(&contact.runs(1));
    let of: Vec<_> = answered[0].1.samples.iter().map(|(node, _)| node.uid()).collect();
    assert_eq!((answered[0].0, of), (1, vec![5, 4]));
    let late = asked.iter().find(|(to, _)| *to == 6).unwrap().1.id;
    contact.hears(6, answer(late, [(6, 600)]));
    assert_eq!(contact.fixture.stats.load.replies_late, 1);
    assert_eq!(replies(&contact.runs(10)), []);
}

#[test]
fn answers_count_in_time_from_who_was_asked_and_of_its_neighbours_alone() {
    let mut leader = World::new(1, 101, |_| {});
    let asked = probes(&leader.round(0.5));
    let (contact, probe) = *asked.iter().find(|(to, _)| (10..=90).contains(to)).unwrap();
    let others = if contact == 50 { 60 } else { 50 };
    leader.hears(others, answer(probe.id, [(others, 1)]));
    assert_eq!(leader.fixture.stats.load.replies_late, 1, "another one was asked");
    let far = contact + 3;
    let samples = [contact, contact - 2, contact + 1, far, 200].map(|number| (number, 600));
    leader.hears(contact, answer(probe.id, samples));
    assert_eq!(
        leader.fixture.stats.load.samples_ignored, 2,
        "too far away, and no member"
    );
    leader.hears(contact, answer(probe.id, samples));
    assert_eq!(
        leader.fixture.stats.load.replies_late, 2,
        "one answer to a question"
    );
    let (slow, missed) = asked.iter().find(|(to, _)| *to != contact).unwrap();
    leader.runs(1_000);
    leader.hears(*slow, answer(missed.id, [(*slow, 1)]));
    assert_eq!(leader.fixture.stats.load.replies_late, 3, "later than a second");
    leader.hears(9, answer(1_000, [(9, 1)]));
    leader.hears(9, answer(0, [(9, 1)]));
    assert_eq!(leader.fixture.stats.node.rejected, 2, "nobody asked that");
    leader.fixture.effects();
    leader.round(0.5);
    let known: Vec<_> = leader.known().into_iter().map(|(number, ..)| number).collect();
    assert_eq!(known, [1, contact - 2, contact, contact + 1]);
}

/// What runs on the most loaded member is told by that member alone. Which one it is the selector says.
#[test]
fn the_most_loaded_member_is_asked_again() {
    let mut leader = World::new(1, 101, |config| config.selector = CapacitySelector::Cpu);
    let asked = probes(&leader.round(0.1));
    let (contact, probe) = *asked.iter().find(|(to, _)| (10..=90).contains(to)).unwrap();
    let full = LoadSample {
        memory: Some(LoadShare::ALL),
        ..sample(850)
    };
    let reply = ChordReply {
        id: probe.id,
        samples: vec![(numbered(contact), full), (numbered(contact + 1), sample(900))],
        parts: Vec::new(),
    };
    leader.hears(contact, Msg::Reply(reply));
    let again = probes(&leader.round(0.1));
    let found = again.iter().find(|(to, _)| *to == contact + 1);
    assert!(found.is_some(), "{again:?}");
    let part = PartLoad::default();
    let reply = ChordReply {
        id: found.unwrap().1.id,
        samples: vec![(numbered(contact + 1), sample(900))],
        parts: vec![part],
    };
    leader.hears(contact + 1, Msg::Reply(reply));
    leader.round(0.1);
    let known = leader.fixture.loads.get(&numbered(contact + 1)).unwrap();
    assert_eq!(*known.parts, [part]);
}

#[test]
fn questions_of_members_are_bounded() {
    let mut contact = World::new(50, 101, |_| {});
    contact.measures(&measure(0.1));
    for id in 1..=3 {
        contact.hears(1, Msg::Probe(ChordProbe { id, radius: 8 }));
    }
    assert_eq!(
        probes(&contact.sent()).len(),
        4,
        "no more neighbours than it would ask for itself"
    );
    assert_eq!(
        contact.fixture.stats.load.probes_refused, 2,
        "one question of a member at a time"
    );
    for from in 2..=45 {
        contact.hears(from, Msg::Probe(ChordProbe { id: 1, radius: 2 }));
    }
    let collections = u64::from(super::probes::COLLECTIONS_MAX);
    let refused = contact.fixture.stats.load.probes_refused;
    assert_eq!(refused, 2 + 45 - collections, "so many members at once");
    let answered = replies(&contact.runs(500));
    assert_eq!(answered.len(), usize::from(super::probes::COLLECTIONS_MAX));
    assert!(
        answered
            .iter()
            .all(|(_, reply)| reply.samples.len() <= SAMPLES_MAX)
    );
    contact.hears(60, Msg::Probe(ChordProbe { id: 1, radius: 0 }));
    assert_eq!(replies(&contact.sent()).len(), 1, "for itself it answers at once");
    contact.hears(60, Msg::Probe(ChordProbe { id: 2, radius: 2 }));
    contact.sees((1..=55).map(|number| member(&numbered(number), Status::Up)), &[]);
    assert_eq!(replies(&contact.runs(600)), [], "nobody answers who was removed");
}
