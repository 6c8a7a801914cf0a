//! One region, one call, and everything it asks for.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

use super::*;
use crate::config::{Config, DowningStrategy, KindConfig};
use crate::effect::HostedInstance;
use crate::effect::{Effect, HostOrder, PlacementToken};
use crate::event::{Event, ShardingEvent};
use crate::fixture::{Fixture, member, node, picture};
use crate::ident::ClusterName;
use crate::input::{KindSettings, SendTarget};
use crate::membership::state::member::{Status, UpNumber};
use crate::message::{AskTicket, EntityEnvelope, Message, ShardMark, ShardingBody, ShardingMsg};
use crate::messaging::Asks;
use crate::owner::Requester;
use crate::reject::{Rejection, ShardingRejection};
use crate::sharding::pending_message::{PendingMessage, Waits};

use crate::sharding::protocol::ListPart;
use crate::sharding::region::registration::KindAcceptance;
use crate::sharding::slots::EntitySlots;
use crate::sharding::state::chain::AskChain;
use crate::sharding::state::errors::AskFailure;
use crate::sharding::state::fields::{FieldDifferences, KindFields};
use crate::sharding::state::ids::{AskRef, EntityId, KindId, Slot, Term};
use crate::timer::Timer;
use crate::token::Token;

mod admission;
mod fencing;
mod handed_back;
mod leasing;
mod passivation;
mod queues;
mod remembering;
mod starting;
mod waiting;

const SHARD: ShardId = ShardId(3);

const TOKEN: Token = Token::new(1, 1);

/// A region on node `b` (2); the coordinator is on `a` (1), which is older; `c` (3) is another member.
struct Rig {
    fixture: Fixture,
    asks: Asks<Waits>,
    slots: EntitySlots,
    region: ShardRegion,
}

fn a() -> UniqueAddress {
    node("a", 1)
}

fn c() -> UniqueAddress {
    node("c", 3)
}

fn term() -> Term {
    Term {
        up_number: UpNumber::FIRST,
        node: a(),
    }
}

impl Rig {
    fn new(hosts: bool) -> Self {
        Self::with_config(hosts, Config::lan(ClusterName::new("test").unwrap()))
    }

    fn with_config(hosts: bool, config: Config) -> Self {
        Self::with_strategy(hosts, config, PassivationSettings::off())
    }

    fn with_strategy(hosts: bool, config: Config, passivation: PassivationSettings) -> Self {
        let me = node("b", 2);
        // What the kind says counts, not what the node does: every test of a setting shows it.
        let mut config = config;
        let own = KindConfig::taken_from(&mut config.sharding);
        let mut fixture = Fixture::with_config(me.clone(), config);
        let members = [&a(), &me, &c()].map(|node| member(node, Status::Up));
        fixture.view = Arc::new(picture(&me, members, &[]));
        let settings = KindSettings {
            config: Box::new(own),
            ..settings(8, hosts)
        };
        let kind = RegisteredKind::new(
            KindId::of("files"),
            settings,
            &fixture.config.sharding,
            &DowningStrategy::Off,
        );
        Self {
            fixture,
            asks: Asks::default(),
            slots: EntitySlots::default(),
            region: ShardRegion {
                contact: CoordinatorContact {
                    acceptance: KindAcceptance::Accepted,
                    ..CoordinatorContact::default()
                },
                ..ShardRegion::new(kind, passivation)
            },
        }
    }

    /// Registered with the coordinator; what it said on the way is forgotten.
    fn registered(hosts: bool) -> Self {
        let mut rig = Self::new(hosts);
        rig.act(|region, shared| region.on_register_ack(shared, &a(), term()));
        rig
    }

    /// Hosting a shard too.
    fn hosting() -> Self {
        let mut rig = Self::registered(true);
        rig.act(|region, shared| region.on_host_shard(shared, &a(), term(), (SHARD, TOKEN)));
        rig
    }

    fn act(&mut self, call: impl FnOnce(&mut ShardRegion, &mut RegionContext<'_, '_>)) -> Vec<Effect> {
        let mut shared = RegionContext {
            cx: &mut self.fixture.cx(),
            asks: &mut self.asks,
            slots: &mut self.slots,
        };
        call(&mut self.region, &mut shared);
        self.region.check_invariants(&self.fixture.me).unwrap();
        self.fixture.effects()
    }

    fn route(&mut self, text: &str) -> Vec<Effect> {
        let pending = pending(text, None, 0);
        self.act(|region, shared| region.route(shared, pending))
    }

    /// The entity in the first slot wants to be passivated.
    fn passivate_first(&mut self) {
        let entity = EntityId::from("e");
        self.act(|region, shared| region.on_passivate(shared, SHARD, &entity, slot(0)));
    }

    fn acknowledged(&mut self, from: UniqueAddress, number: u64) -> Vec<Effect> {
        let mark = marks(number);
        self.act(|region, shared| region.on_mark_ack(shared, &from, mark))
    }

    fn timer(&self, timer: RegionTimer) -> bool {
        let timer = Timer::Sharding(ShardingTimer::Region(self.region.kind.id, timer));
        self.fixture.timers.at(&timer).is_some()
    }

    /// A member is lost.
    fn view_without(&mut self, lost: &UniqueAddress) {
        let members = [a(), node("b", 2), c()];
        let members = members.iter().filter(|node| *node != lost);
        let members: Vec<_> = members.map(|node| member(node, Status::Up)).collect();
        let after = Arc::new(picture(&self.fixture.me, members, &[]));
        let before = core::mem::replace(&mut self.fixture.view, Arc::clone(&after));
        let lost = core::slice::from_ref(lost);
        self.act(|region, shared| region.on_view_changed(shared, &before, &after, lost));
    }

    /// The older ones are on their way out in this picture, so that `c` may coordinate.
    fn c_comes_next(&mut self) {
        let me = self.fixture.me.clone();
        let statuses = [
            (a(), Status::Leaving),
            (me.clone(), Status::Leaving),
            (c(), Status::Up),
        ];
        let members = statuses.iter().map(|(node, status)| member(node, *status));
        self.fixture.view = Arc::new(picture(&me, members, &[]));
    }

    fn view(&mut self, members: &[(UniqueAddress, Status)]) -> Vec<Effect> {
        let members = members.iter().map(|(node, status)| member(node, *status));
        let after = Arc::new(picture(&self.fixture.me, members, &[]));
        let before = core::mem::replace(&mut self.fixture.view, Arc::clone(&after));
        self.act(|region, shared| region.on_view_changed(shared, &before, &after, &[]))
    }
}

fn pending(text: &str, ask: Option<AskTicket>, hops: u8) -> PendingMessage {
    PendingMessage {
        envelope: envelope(text, ask, hops),
        deadline: None,
        from: (hops > 0).then(c),
        is_admitted: false,
    }
}

fn envelope(text: &str, ask: Option<AskTicket>, hops: u8) -> EntityEnvelope {
    EntityEnvelope {
        kind: KindId::of("files"),
        shard: SHARD,
        entity: EntityId::from("e"),
        payload: text.as_bytes().into(),
        ask,
        hops,
    }
}

fn says(to: UniqueAddress, body: ShardingBody) -> Effect {
    let kind = KindId::of("files");
    Effect::Send {
        to: SendTarget::Node(to),
        message: Message::Sharding(ShardingMsg::Kind(crate::message::ShardingMessage { kind, body })),
    }
}

fn hands_back(to: UniqueAddress, envelope: EntityEnvelope) -> Effect {
    Effect::Send {
        to: SendTarget::Node(to),
        message: Message::Sharding(ShardingMsg::HandBack(envelope)),
    }
}

fn marks(number: u64) -> ShardMark {
    let (kind, shard) = (KindId::of("files"), SHARD);
    ShardMark { kind, shard, number }
}

fn sends_mark(to: UniqueAddress, number: u64) -> Effect {
    Effect::Send {
        to: SendTarget::Node(to),
        message: Message::Sharding(ShardingMsg::Mark(marks(number))),
    }
}

fn acknowledges(to: UniqueAddress, number: u64) -> Effect {
    Effect::Send {
        to: SendTarget::Node(to),
        message: Message::Sharding(ShardingMsg::MarkAck(marks(number))),
    }
}

fn sends(to: UniqueAddress, envelope: EntityEnvelope) -> Effect {
    Effect::Send {
        to: SendTarget::Node(to),
        message: Message::Sharding(ShardingMsg::Entity(envelope)),
    }
}

/// The same of a message that has waited.
fn offers(to: UniqueAddress, envelope: EntityEnvelope) -> Effect {
    Effect::Offer {
        to: SendTarget::Node(to),
        message: Message::Sharding(ShardingMsg::Entity(envelope)),
    }
}

fn event(event: ShardingEvent) -> Effect {
    let kind = KindId::of("files");
    Effect::Notify(Event::Sharding { kind, event })
}

fn rejected(peer: UniqueAddress, rejection: Rejection) -> Effect {
    Effect::Notify(Event::Rejected { peer, rejection })
}

fn settings(shards: u32, hosts: bool) -> KindSettings {
    KindSettings::new("files", shards, hosts)
}

fn fields(shards: u32) -> KindFields {
    KindFields::of(&settings(shards, true))
}

fn register(draining: bool) -> ShardingBody {
    ShardingBody::Register {
        fields: fields(8),
        hosted: vec![],
        draining,
        part: ListPart::WHOLE,
    }
}

fn homes(node: UniqueAddress) -> Vec<(UniqueAddress, Vec<ShardId>)> {
    vec![(node, vec![SHARD])]
}

const fn slot(index: u32) -> Slot {
    Slot { index, generation: 0 }
}

fn delivers(slot: Slot, text: &str) -> Effect {
    Effect::Host(
        Requester::Sharding,
        HostOrder::Deliver {
            slot,
            payload: text.as_bytes().into(),
            reply_to: None,
            deadline: None,
            chain: AskChain::default(),
        },
    )
}

#[test]
fn s_124_a_leaving_oldest_and_its_successor_both_hear_of_a_region() {
    let mut rig = Rig::new(true);
    let effects = rig.view(&[
        (a(), Status::Leaving),
        (node("b", 2), Status::Leaving),
        (c(), Status::Up),
    ]);
    let body = ShardingBody::Register {
        fields: fields(8),
        hosted: vec![],
        draining: false,
        part: ListPart::WHOLE,
    };
    assert_eq!(effects, vec![says(a(), body.clone()), says(c(), body)]);
    assert_eq!(
        rig.fixture.outbox.loopback.len(),
        1,
        "and itself, the next by age"
    );
}

#[test]
fn a_down_oldest_hears_nothing_and_the_next_one_does() {
    let mut rig = Rig::registered(true);
    let effects = rig.view(&[
        (a(), Status::Down),
        (node("b", 2), Status::Leaving),
        (c(), Status::Up),
    ]);
    assert_eq!(effects, vec![says(c(), register(false))]);
    assert_eq!(rig.region.contact.registered, None);
}

#[test]
fn a_shard_that_stops_is_claimed_under_a_new_term_which_hears_of_its_end() {
    let mut rig = Rig::hosting();
    rig.route("1");
    let told = rig.act(|region, shared| region.on_hand_off(shared, &a(), term(), (SHARD, false)));
    assert_eq!(
        told,
        vec![Effect::Host(
            Requester::Sharding,
            HostOrder::Stop { slot: slot(0) }
        )]
    );
    let next = Term {
        up_number: UpNumber::new(3),
        node: c(),
    };
    rig.c_comes_next();
    let said = rig.act(|region, shared| region.on_region_query(shared, &c(), next.clone()));
    let claim = ShardingBody::Register {
        fields: fields(8),
        hosted: vec![SHARD],
        draining: false,
        part: ListPart::WHOLE,
    };
    let tokens = vec![(SHARD, TOKEN)];
    let tokens = ShardingBody::ShardTokens { tokens };
    assert_eq!(
        said,
        vec![says(c(), tokens), says(c(), claim)],
        "it may still run entities"
    );
    rig.act(|region, shared| region.on_register_ack(shared, &c(), next.clone()));
    let entity = EntityId::from("e");
    let ended = rig.act(|region, shared| region.on_entity_stopped(shared, SHARD, &entity));
    let stopped = ShardingBody::ShardStopped {
        term: next,
        shard: SHARD,
    };
    assert!(ended.contains(&says(c(), stopped)), "{ended:?}");
}

#[test]
fn each_registration_of_several_messages_has_a_number_of_its_own_and_a_whole_one_has_none() {
    let mut config = Config::lan(ClusterName::new("test").unwrap());
    config.limits.control_frame_bytes_max = 1_024;
    let mut rig = Rig::with_config(true, config);
    let parts = |effects: Vec<Effect>| {
        let part = |effect| match effect {
            Effect::Send {
                message:
                    Message::Sharding(ShardingMsg::Kind(crate::message::ShardingMessage {
                        body: ShardingBody::Register { part, .. },
                        ..
                    })),
                ..
            } => Some((part.list, part.index, part.count)),
            _ => None,
        };
        effects.into_iter().filter_map(part).collect::<Vec<_>>()
    };
    let mut register = || parts(rig.act(|region, shared| region.send_register(shared.cx, &a())));
    assert_eq!(register(), [(0, 0, 1)]);
    rig.region.kind.settings.shards = 800;
    for id in (0..800).map(ShardId) {
        let shard = crate::sharding::shard::Shard::new(id, &PassivationSettings::off(), None);
        rig.region.shards.begin(id, shard);
    }
    let mut register = || parts(rig.act(|region, shared| region.send_register(shared.cx, &a())));
    assert_eq!(register(), [(1, 0, 2), (1, 1, 2)]);
    assert_eq!(register(), [(2, 0, 2), (2, 1, 2)]);
}

#[test]
fn registration_is_repeated_faster_at_first() {
    let mut rig = Rig::new(true);
    rig.act(|region, shared| region.register(shared.cx));
    let start = rig.fixture.mono();
    let mut waits = vec![];
    for _ in 0..5 {
        let far = start + Duration::from_secs(60);
        let before = rig.fixture.mono();
        assert!(rig.fixture.next_timer(far).is_some());
        waits.push(rig.fixture.mono().since(before).as_millis());
        rig.act(|region, shared| region.on_timer(shared, &RegionTimer::Retry));
    }
    assert_eq!(waits, vec![250, 500, 1000, 2000, 2000]);
}

#[test]
fn the_first_message_for_an_unknown_shard_asks_for_its_home_once() {
    let mut rig = Rig::registered(true);
    let asks = says(a(), ShardingBody::GetShardHome { shard: SHARD });
    assert_eq!(rig.route("1"), vec![asks.clone()]);
    assert_eq!(rig.route("2"), vec![]);
    assert!(rig.timer(RegionTimer::Retry));
    let again = rig.act(|region, shared| region.on_timer(shared, &RegionTimer::Retry));
    assert_eq!(again, vec![asks]);
    let flushed = rig.act(|region, shared| region.on_shard_homes(shared, &a(), term(), homes(c())));
    let both = vec![
        offers(c(), envelope("1", None, 0)),
        offers(c(), envelope("2", None, 0)),
    ];
    assert_eq!(flushed, both);
    assert!(!rig.timer(RegionTimer::Retry), "nothing is left to repeat");
    assert_eq!(rig.route("3"), vec![sends(c(), envelope("3", None, 0))]);
}

#[test]
fn s_098_the_fifth_message_does_not_fit_into_a_buffer_of_four() {
    let mut config = Config::lan(ClusterName::new("test").unwrap());
    config.sharding.buffer_messages_max = 4;
    config.sharding.buffer_waiting_max = 0;
    let mut rig = Rig::with_config(true, config);
    for text in ["1", "2", "3", "4"] {
        assert_eq!(rig.route(text), vec![]);
    }
    let full = event(ShardingEvent::BufferFull { messages: 4 });
    let dead = event(ShardingEvent::DeadLetter {
        shard: SHARD,
        reason: AskFailure::BufferFull,
    });
    assert_eq!(rig.route("5"), vec![full, dead.clone()]);
    assert_eq!(rig.route("6"), vec![dead], "the warning is given once");
    assert_eq!(rig.fixture.stats.sharding.dead_letters, 2);
    let flushed = rig.act(|region, shared| {
        region.on_shard_homes(shared, &a(), term(), homes(c()));
    });
    let mut four: Vec<Effect> = ["1", "2", "3", "4"]
        .iter()
        .map(|text| offers(c(), envelope(text, None, 0)))
        .collect();
    four.push(event(ShardingEvent::BufferHasRoom));
    assert_eq!(flushed, four);
}

#[test]
fn i_45_the_buffer_is_bounded_by_bytes_too() {
    let mut config = Config::lan(ClusterName::new("test").unwrap());
    config.sharding.buffer_bytes_max = 10;
    config.sharding.buffer_waiting_max = 0;
    let mut rig = Rig::with_config(true, config);
    assert_eq!(rig.route("12345678"), vec![], "eight bytes and an id of one");
    assert_eq!(rig.route("12").len(), 2);
    assert_eq!(rig.route(""), vec![], "one more still fits");
}

#[test]
fn a_step_flushes_256_messages_and_later_ones_keep_their_order() {
    let mut rig = Rig::registered(true);
    for text in 0..300 {
        rig.route(&alloc::format!("{text}"));
    }
    let first = rig.act(|region, shared| region.on_shard_homes(shared, &a(), term(), homes(c())));
    assert_eq!(first.len(), 256);
    assert!(rig.timer(RegionTimer::Flush));
    assert_eq!(rig.route("300"), vec![], "waits behind the rest");
    let rest = rig.act(|region, shared| region.on_timer(shared, &RegionTimer::Flush));
    let expected: Vec<Effect> = (256..=300)
        .map(|text| offers(c(), envelope(&alloc::format!("{text}"), None, 0)))
        .collect();
    assert_eq!(rest, expected);
}

#[test]
fn a_hosted_shard_starts_an_entity_with_its_first_message() {
    let mut rig = Rig::registered(true);
    rig.route("1");
    let started = rig.act(|region, shared| region.on_host_shard(shared, &a(), term(), (SHARD, TOKEN)));
    let start = Effect::Host(
        Requester::Sharding,
        HostOrder::Start {
            slot: slot(0),
            instance: HostedInstance::Entity {
                kind: KindId::of("files"),
                shard: SHARD,
                entity: EntityId::from("e"),
                token: PlacementToken {
                    token: TOKEN,
                    is_stored: false,
                },
            },
        },
    );
    let said = ShardingEvent::ShardStarted {
        shard: SHARD,
        term: term(),
    };
    let confirms = says(
        a(),
        ShardingBody::ShardStarted {
            term: term(),
            shard: SHARD,
        },
    );
    assert_eq!(
        started,
        vec![event(said), confirms, start, delivers(slot(0), "1")]
    );
    assert_eq!(rig.route("2"), vec![delivers(slot(0), "2")]);
}

#[test]
fn an_earlier_incarnation_passivates_nobody() {
    let mut rig = Rig::hosting();
    rig.route("1");
    let earlier = Slot {
        index: 0,
        generation: 9,
    };
    let entity = EntityId::from("e");
    let effects = rig.act(|region, shared| region.on_passivate(shared, SHARD, &entity, earlier));
    assert_eq!(effects, []);
    assert_eq!(rig.route("2"), [delivers(slot(0), "2")]);
}

#[test]
fn s_101_a_proxy_region_forwards_and_never_hosts() {
    let mut rig = Rig::registered(false);
    let effects = rig.act(|region, shared| region.on_host_shard(shared, &a(), term(), (SHARD, TOKEN)));
    let what = "shard for a proxy region";
    assert_eq!(effects, vec![rejected(a(), Rejection::Unexpected { what })]);
    rig.act(|region, shared| region.on_shard_homes(shared, &a(), term(), homes(c())));
    assert_eq!(rig.route("1"), vec![sends(c(), envelope("1", None, 0))]);
}

#[test]
fn s_105_a_draining_region_hosts_nothing_and_says_again_that_it_leaves() {
    let mut rig = Rig::hosting();
    rig.route("1");
    let asked = rig.act(|region, shared| region.drain(shared));
    assert_eq!(asked, vec![says(a(), ShardingBody::GracefulShutdownReq)]);
    let again = rig.act(|region, shared| region.on_host_shard(shared, &a(), term(), (ShardId(5), TOKEN)));
    assert_eq!(again, vec![says(a(), ShardingBody::GracefulShutdownReq)]);
    assert!(rig.region.shards.hosted(ShardId(5)).is_none());
}

#[test]
fn s_097_what_waits_at_the_owner_when_the_hand_off_comes_is_given_back() {
    let mut rig = Rig::hosting();
    rig.route("1");
    let ack = rig.act(|region, shared| region.on_begin_hand_off(shared, &a(), term(), (SHARD, 1)));
    let body = ShardingBody::BeginHandOffAck {
        term: term(),
        shard: SHARD,
        number: 1,
    };
    assert_eq!(ack, vec![says(a(), body)]);
    let ticket = |asker| AskTicket {
        ask: AskRef { asker, id: 9 },
        remaining_ms: 500,
        chain: AskChain::default(),
    };
    let served = rig.act(|region, shared| region.route(shared, pending("1b", None, 1)));
    assert_eq!(
        served,
        vec![delivers(slot(0), "1b")],
        "others are served until all have marked"
    );
    // What waits for an entity that is being passivated goes back.
    rig.passivate_first();
    let asked = pending("2", Some(ticket(c())), 1);
    rig.act(|region, shared| region.route(shared, asked.clone()));
    let told = pending("3", None, 1);
    rig.act(|region, shared| region.route(shared, told.clone()));
    rig.route("4");
    let stopping = rig.act(|region, shared| region.on_hand_off(shared, &a(), term(), (SHARD, false)));
    assert_eq!(
        stopping,
        vec![hands_back(c(), asked.envelope), hands_back(c(), told.envelope)]
    );
    // What this node's users sent is kept, and the coordinator hears only when the entity has stopped.
    assert_eq!(rig.route("5"), vec![]);
    let stopped = rig.act(|region, shared| region.on_entity_stopped(shared, SHARD, &EntityId::from("e")));
    let body = ShardingBody::ShardStopped {
        term: term(),
        shard: SHARD,
    };
    let home = says(a(), ShardingBody::GetShardHome { shard: SHARD });
    let gone = event(ShardingEvent::ShardStopped { shard: SHARD });
    assert_eq!(stopped, vec![gone, says(a(), body), home]);
    let flushed = rig.act(|region, shared| region.on_shard_homes(shared, &a(), term(), homes(c())));
    let both = vec![
        offers(c(), envelope("4", None, 0)),
        offers(c(), envelope("5", None, 0)),
    ];
    assert_eq!(flushed, both);
}

#[test]
fn s_142_entities_that_do_not_stop_in_a_hand_off_are_waited_for_and_the_shard_goes_on() {
    let mut rig = Rig::hosting();
    rig.route("1");
    rig.act(|region, shared| region.on_hand_off(shared, &a(), term(), (SHARD, false)));
    rig.route("2");
    let timer = RegionTimer::ShardStop(SHARD);
    let start = rig.fixture.mono();
    assert!(rig.fixture.next_timer(start + Duration::from_secs(60)).is_some());
    // Nothing is heard of its end: it may have been an earlier coordinator's.
    let asks = says(a(), ShardingBody::GetShardHome { shard: SHARD });
    for _ in 0..2 {
        let effects = rig.act(|region, shared| region.on_timer(shared, &timer));
        assert_eq!(effects, vec![asks.clone()]);
        assert!(rig.timer(timer.clone()), "again and again");
    }
    let me = rig.fixture.me.clone();
    let here = rig.act(|region, shared| region.on_shard_homes(shared, &a(), term(), homes(me)));
    let cancelled = ShardingEvent::HandOffCancelled {
        shard: SHARD,
        running: vec![EntityId::from("e")],
        more: 0,
    };
    assert_eq!(here, vec![event(cancelled)], "and nobody is told to stop twice");
    assert!(!rig.timer(timer));
    let mut other = pending("3", None, 0);
    other.envelope.entity = EntityId::from("f");
    let served = rig.act(|region, shared| region.route(shared, other));
    assert!(
        served.contains(&delivers(slot(1), "3")),
        "the others are served at once"
    );
    let again = rig.act(|region, shared| region.on_entity_stopped(shared, SHARD, &EntityId::from("e")));
    assert!(again.contains(&delivers(slot(2), "2")), "{again:?}");
}

#[test]
fn s_142_entities_of_a_shard_that_several_run_are_killed_five_seconds_before_the_hand_off_ends() {
    let mut rig = Rig::hosting();
    rig.route("1");
    rig.act(|region, shared| region.on_hand_off(shared, &a(), term(), (SHARD, false)));
    // Said first without, and then because another region was found to run it.
    rig.act(|region, shared| region.on_hand_off(shared, &a(), term(), (SHARD, true)));
    let start = rig.fixture.mono();
    let due = rig.fixture.next_timer(start + Duration::from_secs(55));
    let timer = RegionTimer::ShardStop(SHARD);
    assert_eq!(
        due,
        Some(Timer::Sharding(ShardingTimer::Region(
            KindId::of("files"),
            timer.clone()
        )))
    );
    assert_eq!(rig.fixture.mono().since(start), Duration::from_secs(55));
    let killed = rig.act(|region, shared| region.on_timer(shared, &timer));
    let late = event(ShardingEvent::ShardStopTimeout { shard: SHARD });
    let kill = Effect::Host(Requester::Sharding, HostOrder::Kill { slot: slot(0) });
    assert_eq!(killed, vec![kill.clone(), late]);
    let ended = rig.act(|region, shared| region.halt(shared));
    assert!(
        !ended.contains(&kill),
        "killed once, although the node ends before the report: {ended:?}"
    );
}

#[test]
fn s_141_a_hand_off_stops_every_entity_and_is_confirmed_after_the_last() {
    let mut rig = Rig::hosting();
    for entity in ["e", "f", "g"] {
        let mut pending = pending("1", None, 0);
        pending.envelope.entity = EntityId::from(entity);
        rig.act(|region, shared| region.route(shared, pending));
    }
    let stops = rig.act(|region, shared| region.on_hand_off(shared, &a(), term(), (SHARD, false)));
    let stop = |index| Effect::Host(Requester::Sharding, HostOrder::Stop { slot: slot(index) });
    assert_eq!(stops, [stop(0), stop(1), stop(2)], "and nothing is said yet");
    let theirs = pending("2", None, 1);
    let back = rig.act(|region, shared| region.route(shared, theirs.clone()));
    assert_eq!(
        back,
        [hands_back(c(), theirs.envelope)],
        "what comes goes to the next home"
    );
    let mut ended = |entity: &str| {
        rig.act(|region, shared| region.on_entity_stopped(shared, SHARD, &EntityId::from(entity)))
    };
    assert_eq!((ended("f"), ended("e")), (vec![], vec![]));
    let (term, shard) = (term(), SHARD);
    let stopped = says(a(), ShardingBody::ShardStopped { term, shard });
    assert!(ended("g").contains(&stopped));
}

#[test]
fn a_home_that_is_known_when_a_shard_has_stopped_here_is_used_at_once() {
    let mut rig = Rig::hosting();
    rig.route("1");
    rig.act(|region, shared| region.on_hand_off(shared, &a(), term(), (SHARD, false)));
    rig.act(|region, shared| region.on_shard_homes(shared, &a(), term(), homes(c())));
    rig.act(|region, shared| region.on_entity_stopped(shared, SHARD, &EntityId::from("e")));
    assert_eq!(rig.route("2"), [sends(c(), envelope("2", None, 0))]);
}

#[test]
fn a_stopping_shard_starts_again_only_when_nothing_of_it_runs() {
    let mut rig = Rig::hosting();
    rig.route("1");
    rig.act(|region, shared| region.on_hand_off(shared, &a(), term(), (SHARD, true)));
    assert_eq!(
        rig.act(|region, shared| region.on_host_shard(shared, &a(), term(), (SHARD, TOKEN))),
        vec![],
        "not confirmed yet"
    );
    assert_eq!(rig.route("2"), vec![], "kept for the next incarnation");
    let again = rig.act(|region, shared| region.on_entity_stopped(shared, SHARD, &EntityId::from("e")));
    let confirms = says(
        a(),
        ShardingBody::ShardStarted {
            term: term(),
            shard: SHARD,
        },
    );
    assert!(again.contains(&confirms));
    assert!(
        again.contains(&delivers(slot(1), "2")),
        "in a slot of its own: {again:?}"
    );
}

#[test]
fn b_59_a_lower_term_and_a_stranger_are_refused() {
    let mut rig = Rig::registered(true);
    let younger = Term {
        up_number: UpNumber::new(3),
        node: c(),
    };
    rig.c_comes_next();
    let query = rig.act(|region, shared| region.on_region_query(shared, &c(), younger.clone()));
    assert_eq!(query, vec![says(c(), register(false))]);
    assert_eq!(
        rig.region.contact.registered, None,
        "the older coordinator is not ours any more"
    );
    let stale = rig.act(|region, shared| region.on_host_shard(shared, &a(), term(), (SHARD, TOKEN)));
    assert_eq!(
        stale,
        vec![rejected(a(), Rejection::Sharding(ShardingRejection::StaleTerm))]
    );
    let forged = rig.act(|region, shared| region.on_hand_off(shared, &a(), younger, (SHARD, false)));
    assert_eq!(
        forged,
        vec![rejected(a(), Rejection::Sharding(ShardingRejection::WrongSender))]
    );
    assert!(rig.region.runs_nothing());
}

#[test]
fn a_term_is_void_once_its_holder_is_removed() {
    let mut rig = Rig::registered(true);
    let high = Term {
        up_number: UpNumber::new(3),
        node: c(),
    };
    rig.c_comes_next();
    rig.act(|region, shared| region.on_region_query(shared, &c(), high));
    let me = rig.fixture.me.clone();
    let mut gossip = crate::membership::state::gossip::Gossip::new();
    gossip.remove(&c());
    for node in [&a(), &me] {
        gossip.upsert_member(member(node, Status::Up));
    }
    let after = Arc::new(crate::fixture::picture_of(&me, gossip));
    let before = core::mem::replace(&mut rig.fixture.view, Arc::clone(&after));
    rig.act(|region, shared| region.on_view_changed(shared, &before, &after, &[c()]));
    rig.act(|region, shared| region.on_register_ack(shared, &a(), term()));
    assert_eq!(rig.region.contact.registered, Some(term()));
}

#[test]
fn b_58_shards_beyond_the_kind_are_refused() {
    let mut rig = Rig::registered(true);
    let effects = rig.act(|region, shared| region.on_host_shard(shared, &a(), term(), (ShardId(8), TOKEN)));
    assert_eq!(
        effects,
        vec![rejected(
            a(),
            Rejection::Sharding(ShardingRejection::OutOfRange { what: "shard" })
        )]
    );
}

#[test]
fn another_kind_of_the_name_fails_everything_here_and_stops_what_runs() {
    let mut rig = Rig::hosting();
    rig.route("1");
    let effects = rig.act(|region, shared| region.on_register_refused(shared, &a(), term(), &fields(9)));
    let difference = FieldDifferences::between(&fields(8), &fields(9)).unwrap();
    let refused = event(ShardingEvent::KindRefused { difference });
    let stop = Effect::Host(Requester::Sharding, HostOrder::Stop { slot: slot(0) });
    assert_eq!(effects, vec![refused, stop]);
    let dead = ShardingEvent::DeadLetter {
        shard: SHARD,
        reason: AskFailure::KindRefused,
    };
    assert_eq!(rig.route("2"), vec![event(dead)]);
    let done = rig.act(|region, shared| region.on_entity_stopped(shared, SHARD, &EntityId::from("e")));
    assert!(
        done.contains(&says(a(), register(false))),
        "it hosts nothing: {done:?}"
    );
}

#[test]
fn a_home_elsewhere_for_a_shard_that_runs_here_stops_it_first() {
    let mut rig = Rig::hosting();
    rig.route("1");
    let effects = rig.act(|region, shared| region.on_shard_homes(shared, &a(), term(), homes(c())));
    let conflict = event(ShardingEvent::ShardConflict { shard: SHARD });
    let stop = Effect::Host(Requester::Sharding, HostOrder::Stop { slot: slot(0) });
    assert_eq!(effects, vec![conflict, stop]);
    assert_eq!(
        rig.route("2"),
        vec![says(a(), ShardingBody::GetShardHome { shard: SHARD })]
    );
}

#[test]
fn i_100_a_coordinator_is_believed_under_its_own_number_alone_and_only_where_it_may_coordinate() {
    let mut rig = Rig::registered(true);
    for up_number in [1, 2, 3, 1 << 20, (1 << 31) - 2] {
        let term = Term {
            up_number: UpNumber::new(up_number),
            node: c(),
        };
        // Also under its own number: it is younger than the oldest that is Up.
        let effects = rig.act(|region, shared| region.on_register_ack(shared, &c(), term.clone()));
        let rejection = Rejection::Sharding(ShardingRejection::WrongSender);
        let rejected = Event::Rejected { peer: c(), rejection };
        assert!(
            effects.contains(&Effect::Notify(rejected))
                || effects
                    .iter()
                    .any(|effect| matches!(effect, Effect::Notify(Event::Rejected { .. }))),
            "{effects:?}"
        );
        rig.act(|region, shared| region.on_host_shard(shared, &c(), term, (SHARD, TOKEN)));
    }
    let greater = Term {
        up_number: UpNumber::new(1 << 20),
        node: a(),
    };
    rig.act(|region, shared| region.on_register_ack(shared, &a(), greater));
    let effects = rig.act(|region, shared| region.on_host_shard(shared, &a(), term(), (SHARD, TOKEN)));
    let started = ShardingBody::ShardStarted {
        term: term(),
        shard: SHARD,
    };
    let is_started = |effect: &Effect| matches!(effect, Effect::Send { message: Message::Sharding(ShardingMsg::Kind(said)), .. } if said.body == started);
    assert!(
        effects.iter().any(is_started),
        "the one that it has goes on: {effects:?}"
    );
}
