//! Entities that are taken out of memory, and what comes for them meanwhile. Spec: sharding 1.4, 1.6.

use alloc::boxed::Box;
use core::num::NonZeroUsize;

use proptest::prelude::*;

use super::*;
use crate::cx::OfSharding;
use crate::effect::HostedInstance;
use crate::ordered::OrderedMap;
use crate::owner::Requester;
use crate::sharding::passivation::{LimitSettings, Replacement};
use crate::sharding::state::chain::AskChain;

/// The other shard.
const OTHER: ShardId = ShardId(5);

fn idle(millis: u64) -> PassivationSettings {
    PassivationSettings::idle(Duration::from_millis(millis)).unwrap()
}

fn least_recent(per_region: usize) -> PassivationSettings {
    let per_region = NonZeroUsize::new(per_region).unwrap();
    PassivationSettings::limit(LimitSettings::plain(per_region, Replacement::LeastRecentlyUsed))
}

fn hosting(passivation: PassivationSettings) -> Rig {
    let config = Config::lan(ClusterName::new("test").unwrap());
    let mut rig = Rig::with_strategy(true, config, passivation);
    rig.act(|region, shared| region.on_register_ack(shared, &a(), term()));
    rig.host(SHARD);
    rig
}

impl Rig {
    fn host(&mut self, shard: ShardId) -> Vec<Effect> {
        self.act(|region, shared| region.on_host_shard(shared, &a(), term(), (shard, TOKEN)))
    }

    fn tell(&mut self, shard: ShardId, entity: &str, text: &str) -> Vec<Effect> {
        self.give(shard, entity, text, None)
    }

    fn give(&mut self, shard: ShardId, entity: &str, text: &str, from: Option<UniqueAddress>) -> Vec<Effect> {
        let pending = PendingMessage {
            envelope: EntityEnvelope {
                shard,
                entity: EntityId::from(entity),
                ..envelope(text, None, u8::from(from.is_some()))
            },
            deadline: None,
            from,
            is_admitted: false,
        };
        self.act(|region, shared| region.route(shared, pending))
    }

    fn passivate(&mut self, shard: ShardId, entity: &str, slot: Slot) -> Vec<Effect> {
        let entity = EntityId::from(entity);
        self.act(|region, shared| region.on_passivate(shared, shard, &entity, slot))
    }

    fn stopped(&mut self, slot: Slot) -> Vec<Effect> {
        let tenant = self.slots.release(slot).unwrap();
        self.act(|region, shared| region.on_entity_stopped(shared, tenant.shard, &tenant.entity))
    }

    /// What the timers want that are due within a time.
    fn pass(&mut self, millis: u64) -> Vec<Effect> {
        let until = self.fixture.mono() + Duration::from_millis(millis);
        let mut effects = Vec::new();
        while let Some(timer) = self.fixture.next_timer(until) {
            if let Timer::Sharding(ShardingTimer::Region(_, timer)) = timer {
                effects.extend(self.act(|region, shared| region.on_timer(shared, &timer)));
            }
        }
        effects
    }
}

fn starts(slot: Slot, shard: ShardId, entity: &str) -> Effect {
    Effect::Host(
        Requester::Sharding,
        HostOrder::Start {
            slot,
            instance: HostedInstance::Entity {
                kind: KindId::of("files"),
                shard,
                entity: EntityId::from(entity),
                token: PlacementToken {
                    token: TOKEN,
                    is_stored: false,
                },
            },
        },
    )
}

fn stops(slot: Slot) -> Effect {
    Effect::Host(Requester::Sharding, HostOrder::Stop { slot })
}

const fn again(index: u32) -> Slot {
    Slot { index, generation: 1 }
}

fn entity_effects(effects: Vec<Effect>) -> Vec<Effect> {
    let of_entity = |effect: &Effect| matches!(effect, Effect::Host(..));
    effects.into_iter().filter(of_entity).collect()
}

#[test]
fn what_comes_for_an_entity_that_is_being_passivated_reaches_its_next_incarnation_in_order() {
    let mut rig = hosting(PassivationSettings::off());
    assert_eq!(
        rig.tell(SHARD, "e", "1"),
        [starts(slot(0), SHARD, "e"), delivers(slot(0), "1")]
    );
    assert_eq!(rig.passivate(SHARD, "e", slot(0)), [stops(slot(0))]);
    assert_eq!(rig.passivate(SHARD, "e", slot(0)), [], "it stops already");
    assert_eq!(rig.tell(SHARD, "e", "2"), []);
    assert_eq!(rig.give(SHARD, "e", "3", Some(c())), []);
    assert_eq!(
        rig.tell(SHARD, "f", "x"),
        [starts(slot(1), SHARD, "f"), delivers(slot(1), "x")],
        "others go on"
    );
    assert_eq!(rig.region.state().passivating, 1);
    assert_eq!(
        rig.stopped(slot(0)),
        [
            starts(again(0), SHARD, "e"),
            delivers(again(0), "2"),
            delivers(again(0), "3")
        ]
    );
    assert_eq!(rig.tell(SHARD, "e", "4"), [delivers(again(0), "4")]);
    assert_eq!(
        (rig.region.state().passivating, rig.region.buffered().messages),
        (0, 0)
    );
    let counters = rig.fixture.stats.sharding;
    assert_eq!(
        (counters.entities_passivated, counters.passivations_ignored),
        (1, 1)
    );
}

#[test]
fn an_entity_that_nobody_needs_stays_out_of_memory() {
    let mut rig = hosting(PassivationSettings::off());
    rig.tell(SHARD, "e", "1");
    rig.passivate(SHARD, "e", slot(0));
    assert_eq!(rig.stopped(slot(0)), []);
    assert_eq!(rig.region.entities(), 0);
    assert_eq!(rig.passivate(SHARD, "e", slot(0)), [], "it does not run");
}

#[test]
fn s_080_an_entity_for_which_messages_wait_goes_on_instead() {
    let mut rig = hosting(PassivationSettings::off());
    rig.tell(SHARD, "e", "first");
    rig.passivate(SHARD, "e", slot(0));
    for number in 0..300 {
        rig.tell(SHARD, "e", &alloc::format!("{number}"));
    }
    let effects = rig.stopped(slot(0));
    assert_eq!(
        effects.len(),
        1 + 256,
        "started, and one step's worth of what waits"
    );
    assert_eq!(rig.passivate(SHARD, "e", again(0)), [], "ignored");
    assert_eq!(rig.tell(SHARD, "e", "last"), [], "behind the others");
    let rest = rig.pass(1);
    assert_eq!(rest.len(), 45);
    assert_eq!(rest[44], delivers(again(0), "last"));
    assert_eq!(
        rig.passivate(SHARD, "e", again(0)),
        [stops(again(0))],
        "nothing waits any more"
    );
}

#[test]
fn an_entity_without_messages_for_the_time_is_told_to_stop() {
    let mut rig = hosting(idle(10_000));
    rig.tell(SHARD, "e", "1");
    rig.pass(6_000);
    rig.tell(SHARD, "f", "1");
    assert_eq!(rig.pass(4_000), [], "ten seconds are not longer than ten seconds");
    assert_eq!(rig.pass(5_000), [stops(slot(0))]);
    assert_eq!(rig.tell(SHARD, "e", "2"), []);
    assert_eq!(
        rig.stopped(slot(0)),
        [starts(again(0), SHARD, "e"), delivers(again(0), "2")]
    );
    assert_eq!(rig.pass(5_000), [stops(slot(1))]);
}

#[test]
fn many_unused_entities_are_told_a_bounded_number_per_step() {
    let mut rig = hosting(idle(10_000));
    rig.host(OTHER);
    for number in 0..300 {
        rig.tell(SHARD, &alloc::format!("a{number}"), "1");
        rig.tell(OTHER, &alloc::format!("b{number}"), "1");
    }
    rig.pass(14_999);
    let start = rig.fixture.mono();
    let mut steps = Vec::new();
    while let Some(timer) = rig.fixture.next_timer(start + Duration::from_millis(2)) {
        if let Timer::Sharding(ShardingTimer::Region(_, timer)) = timer {
            steps.push(rig.act(|region, shared| region.on_timer(shared, &timer)).len());
        }
    }
    assert_eq!(steps, [256, 256, 88]);
}

#[test]
fn a_region_of_more_shards_gives_each_less_and_the_newest_message_is_delivered_first() {
    let mut rig = hosting(least_recent(4));
    for entity in ["a", "b", "c", "d"] {
        rig.tell(SHARD, entity, "1");
    }
    assert_eq!(
        rig.tell(SHARD, "e", "1"),
        [
            starts(slot(4), SHARD, "e"),
            delivers(slot(4), "1"),
            stops(slot(0))
        ]
    );
    let effects = entity_effects(rig.host(OTHER));
    assert_eq!(
        effects,
        [stops(slot(1)), stops(slot(2))],
        "two for each of two shards"
    );
    rig.tell(OTHER, "x", "1");
    rig.tell(OTHER, "y", "1");
    assert_eq!(rig.tell(OTHER, "z", "1").last(), Some(&stops(slot(5))));
    // A shard goes, and the others may have more again.
    rig.act(|region, shared| region.on_hand_off(shared, &a(), term(), (OTHER, false)));
    for gone in 5..8 {
        rig.stopped(slot(gone));
    }
    rig.tell(SHARD, "f", "1");
    assert_eq!(
        entity_effects(rig.tell(SHARD, "g", "1")).len(),
        2,
        "four in one shard again"
    );
}

#[test]
fn the_limit_is_changed_while_it_runs_and_reached_in_steps() {
    let mut rig = hosting(least_recent(1_000));
    for number in 0..600 {
        rig.tell(SHARD, &alloc::format!("{number}"), "1");
    }
    let set = |rig: &mut Rig, limit| {
        let mut is_limited = false;
        let effects = rig.act(|region, shared| is_limited = region.set_entity_limit(shared, limit));
        (is_limited, effects.len())
    };
    assert_eq!(set(&mut rig, 700), (true, 0));
    assert_eq!(set(&mut rig, 100), (true, 256));
    assert_eq!(rig.pass(1).len(), 244);
    let mut unlimited = hosting(idle(1_000));
    assert_eq!(set(&mut unlimited, 100), (false, 0));
}

#[test]
fn a_shard_that_moves_gives_back_what_waits_for_its_entities_before_what_waits_for_itself() {
    let mut rig = hosting(PassivationSettings::off());
    rig.tell(SHARD, "e", "1");
    rig.passivate(SHARD, "e", slot(0));
    rig.tell(SHARD, "e", "2");
    rig.give(SHARD, "e", "theirs", Some(c()));
    rig.act(|region, shared| region.on_begin_hand_off(shared, &a(), term(), (SHARD, 1)));
    rig.tell(SHARD, "e", "3");
    let effects = rig.act(|region, shared| region.on_hand_off(shared, &a(), term(), (SHARD, false)));
    let theirs = EntityEnvelope {
        hops: 1,
        ..envelope("theirs", None, 0)
    };
    assert_eq!(effects, [hands_back(c(), theirs)], "it was told to stop before");
    rig.stopped(slot(0));
    let home = rig.act(|region, shared| region.on_shard_homes(shared, &a(), term(), homes(c())));
    let mine = |text| offers(c(), envelope(text, None, 0));
    assert_eq!(home, [mine("2"), mine("3")]);
}

#[test]
fn while_the_process_is_in_doubt_no_entity_begins_again() {
    let mut rig = hosting(PassivationSettings::off());
    rig.tell(SHARD, "e", "1");
    rig.passivate(SHARD, "e", slot(0));
    rig.tell(SHARD, "e", "2");
    rig.region.on_paused();
    assert_eq!(rig.stopped(slot(0)), []);
    assert_eq!(rig.tell(SHARD, "e", "3"), []);
    let effects = rig.act(|region, shared| region.on_still_member(shared));
    assert_eq!(
        effects,
        [
            starts(again(0), SHARD, "e"),
            delivers(again(0), "2"),
            delivers(again(0), "3")
        ]
    );
}

#[test]
fn an_ask_that_waits_for_an_entity_ends_there_when_its_time_is_over() {
    let mut rig = hosting(PassivationSettings::off());
    rig.tell(SHARD, "e", "1");
    rig.passivate(SHARD, "e", slot(0));
    let (id, deadline) = {
        let open = rig.asks.open(
            &mut rig.fixture.cx::<OfSharding>(),
            77,
            (rig.region.kind.id, SHARD),
            Duration::from_secs(1),
        );
        open.unwrap()
    };
    let ticket = AskTicket {
        ask: AskRef {
            asker: rig.fixture.me.clone(),
            id,
        },
        remaining_ms: 0,
        chain: AskChain::default(),
    };
    let mut ask = pending("2", Some(ticket), 0);
    ask.deadline = Some(deadline);
    assert_eq!(rig.act(|region, shared| region.route(shared, ask)), []);
    rig.fixture.now.mono = deadline;
    let expired = rig
        .asks
        .on_deadline(&mut rig.fixture.cx::<OfSharding>(), |_| false);
    let kind = rig.region.kind.id;
    rig.act(|region, shared| region.on_ask_expired(shared.cx, expired[0].place.1, expired[0].id));
    assert_eq!(
        (expired.len(), expired[0].place.0, rig.region.buffered().messages),
        (1, kind, 0)
    );
    assert_eq!(rig.stopped(slot(0)), [], "nobody needs it");
}

#[test]
fn a_node_that_ends_says_of_each_message_that_waits_for_an_entity_that_it_was_not_handled() {
    let mut rig = hosting(PassivationSettings::off());
    rig.tell(SHARD, "e", "1");
    rig.passivate(SHARD, "e", slot(0));
    rig.tell(SHARD, "e", "2");
    let effects = rig.act(|region, shared| region.halt(shared));
    let lost = ShardingEvent::DeadLetter {
        shard: SHARD,
        reason: AskFailure::NodeStoppedUnsent,
    };
    let kill = Effect::Host(Requester::Sharding, HostOrder::Kill { slot: slot(0) });
    assert_eq!(effects, [event(lost), kill]);
}

#[test]
fn what_waits_for_entities_is_bounded_with_everything_else_that_waits() {
    let mut config = Config::lan(ClusterName::new("test").unwrap());
    config.sharding.buffer_messages_max = 2;
    config.sharding.buffer_waiting_max = 0;
    let mut rig = Rig::with_strategy(true, config, PassivationSettings::off());
    rig.act(|region, shared| region.on_register_ack(shared, &a(), term()));
    rig.host(SHARD);
    rig.tell(SHARD, "e", "1");
    rig.passivate(SHARD, "e", slot(0));
    rig.tell(SHARD, "e", "2");
    rig.tell(ShardId(1), "elsewhere", "2");
    let effects = rig.tell(SHARD, "e", "3");
    let full = event(ShardingEvent::BufferFull { messages: 2 });
    let lost = event(ShardingEvent::DeadLetter {
        shard: SHARD,
        reason: AskFailure::BufferFull,
    });
    assert_eq!(effects, [full, lost]);
}

/// One thing that happens to the region in a random run.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// A message from this node (0) or another one, to an entity.
    Tell(u8, u8),
    /// An entity asks to be passivated.
    Passivate(u8),
    /// The host reports one of the entities that it was told to stop.
    Stopped(u8),
    /// Time passes.
    Pass(u16),
    Limit(u8),
    Pause,
    StillMember,
    /// The shard is to move, and comes back.
    HandOff,
    Host,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        30 => (0_u8..3, 0_u8..6).prop_map(|(from, entity)| Step::Tell(from, entity)),
        8 => (0_u8..6).prop_map(Step::Passivate),
        12 => any::<u8>().prop_map(Step::Stopped),
        4 => (0_u16..2_000).prop_map(Step::Pass),
        1 => (1_u8..6).prop_map(Step::Limit),
        1 => Just(Step::Pause),
        2 => Just(Step::StillMember),
        1 => Just(Step::HandOff),
        2 => Just(Step::Host),
    ];
    prop::collection::vec(step, 1..200)
}

/// A region, a host that stops entities when it likes, and what was said and delivered.
struct Run {
    rig: Rig,
    told: u32,
    /// Entities that were told to stop and have not been reported.
    stopping: Vec<Slot>,
    running: OrderedMap<Slot, EntityId>,
    /// Numbers by sender and entity, in the order of delivery.
    delivered: OrderedMap<(u8, EntityId), Vec<u32>>,
    handed_back: usize,
}

impl Run {
    fn new(passivation: PassivationSettings) -> Self {
        Self {
            rig: hosting(passivation),
            told: 0,
            stopping: Vec::new(),
            running: OrderedMap::new(),
            delivered: OrderedMap::new(),
            handed_back: 0,
        }
    }

    fn obey(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Host(
                    Requester::Sharding,
                    HostOrder::Start {
                        slot,
                        instance: HostedInstance::Entity { entity, .. },
                    },
                ) => {
                    let twice = self.running.values().any(|running| *running == entity);
                    assert!(!twice, "two incarnations of {entity}");
                    self.running.insert(slot, entity);
                }
                Effect::Host(Requester::Sharding, HostOrder::Deliver { slot, payload, .. }) => {
                    assert!(!self.stopping.contains(&slot), "delivered to one that stops");
                    let [from, number @ ..] = <[u8; 5]>::try_from(&payload[..]).unwrap();
                    let entity = self.running[&slot].clone();
                    let delivered = self.delivered.entry((from, entity)).or_default();
                    delivered.push(u32::from_be_bytes(number));
                }
                Effect::Host(Requester::Sharding, HostOrder::Stop { slot }) => {
                    assert!(self.running.contains_key(&slot) && !self.stopping.contains(&slot));
                    self.stopping.push(slot);
                }
                Effect::Send {
                    message: Message::Sharding(ShardingMsg::HandBack(_)),
                    ..
                } => self.handed_back += 1,
                _ => {}
            }
        }
    }

    fn step(&mut self, step: Step) {
        let effects = match step {
            Step::Tell(from, entity) => {
                self.told += 1;
                let [a, b, c, d] = self.told.to_be_bytes();
                let pending = PendingMessage {
                    envelope: EntityEnvelope {
                        entity: name(entity),
                        payload: Box::new([from, a, b, c, d]),
                        ..envelope("", None, from)
                    },
                    deadline: None,
                    from: (from > 0).then(|| node("c", u64::from(from))),
                    is_admitted: false,
                };
                self.rig.act(|region, shared| region.route(shared, pending))
            }
            Step::Passivate(entity) => {
                let entity = name(entity);
                let slot = self.running.iter().find(|(_, running)| **running == entity);
                let Some(slot) = slot.map(|(slot, _)| *slot) else {
                    return;
                };
                self.rig
                    .act(|region, shared| region.on_passivate(shared, SHARD, &entity, slot))
            }
            Step::Stopped(pick) => return self.stop_one(pick),
            Step::Pass(millis) => self.rig.pass(u64::from(millis)),
            Step::Limit(limit) => self.rig.act(|region, shared| {
                region.set_entity_limit(shared, usize::from(limit));
            }),
            Step::Pause => self.rig.act(|region, _| region.on_paused()),
            Step::StillMember => self.rig.act(|region, shared| region.on_still_member(shared)),
            Step::HandOff => {
                let mut effects = self
                    .rig
                    .act(|region, shared| region.on_begin_hand_off(shared, &a(), term(), (SHARD, 1)));
                effects.extend(
                    self.rig
                        .act(|region, shared| region.on_hand_off(shared, &a(), term(), (SHARD, false))),
                );
                effects
            }
            Step::Host => self.rig.host(SHARD),
        };
        self.obey(effects);
    }

    fn stop_one(&mut self, pick: u8) {
        if self.stopping.is_empty() {
            return;
        }
        let slot = self.stopping.remove(usize::from(pick) % self.stopping.len());
        self.running.remove(&slot);
        let effects = self.rig.stopped(slot);
        self.obey(effects);
    }

    /// The pause is over, the shard is here, and nothing is sent any more.
    fn settle(&mut self) {
        self.step(Step::StillMember);
        for _ in 0..self.told + 10 {
            while !self.stopping.is_empty() {
                self.stop_one(0);
            }
            self.step(Step::Host);
            self.step(Step::Pass(1));
        }
    }
}

fn name(entity: u8) -> EntityId {
    EntityId::from(alloc::format!("e{entity}").as_str())
}

proptest! {
    /// Whatever is passivated when, every message is delivered once or given back, each sender's in order,
    /// and no entity lives twice.
    #[test]
    fn messages_are_neither_lost_nor_doubled_nor_overtaken_by_passivation(
        steps in steps(),
        strategy in 0_usize..3,
    ) {
        let strategy = match strategy {
            0 => PassivationSettings::off(),
            1 => idle(700),
            _ => least_recent(2).and_idle(Duration::from_millis(900)).unwrap(),
        };
        let mut run = Run::new(strategy);
        for step in steps {
            run.step(step);
        }
        run.settle();
        let mut delivered = 0;
        for ((from, entity), numbers) in &run.delivered {
            prop_assert!(numbers.is_sorted_by(|a, b| a < b), "{from} to {entity}: {numbers:?}");
            delivered += numbers.len();
        }
        prop_assert_eq!(delivered + run.handed_back, run.told as usize);
        prop_assert_eq!(run.rig.region.buffered().messages, 0);
    }
}

#[test]
fn a_shard_fails_with_one_of_its_entities_and_what_comes_meanwhile_starts_them_anew() {
    let mut rig = hosting(PassivationSettings::default());
    rig.tell(SHARD, "a", "1");
    rig.tell(SHARD, "b", "1");
    rig.tell(SHARD, "c", "1");
    rig.passivate(SHARD, "c", slot(2));
    let kill = |index| Effect::Host(Requester::Sharding, HostOrder::Kill { slot: slot(index) });
    let failed = rig.act(|region, shared| drop(region.on_escalated(shared, SHARD, slot(0))));
    assert_eq!(failed, [kill(1), kill(2)], "the one that failed ends by itself");
    assert_eq!(rig.fixture.stats.sharding.shards_failed, 1);
    // Nobody is told twice.
    let again = rig.act(|region, shared| drop(region.on_escalated(shared, SHARD, slot(1))));
    assert_eq!(again, []);
    assert_eq!(rig.tell(SHARD, "a", "2"), [], "it waits");
    rig.stopped(slot(1));
    rig.stopped(slot(2));
    let new = rig.stopped(slot(0));
    assert!(
        matches!(&new[..], [Effect::Host(Requester::Sharding, HostOrder::Start { instance: HostedInstance::Entity { entity, .. }, .. }), Effect::Host(Requester::Sharding, HostOrder::Deliver { .. })] if *entity == EntityId::from("a")),
        "{new:?}"
    );
    // A shard that stops is told nothing more.
    rig.act(|region, shared| region.on_begin_hand_off(shared, &a(), term(), (SHARD, 1)));
    rig.act(|region, shared| region.on_hand_off(shared, &a(), term(), (SHARD, false)));
    let stopping = rig.act(|region, shared| drop(region.on_escalated(shared, SHARD, slot(0))));
    assert_eq!(stopping, []);
}
