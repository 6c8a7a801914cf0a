//! One coordinator, one call, and everything it asks for. It is on node `a` (1), the oldest; `b` (2), `c` (3)
//! are other members. What it says to its own node's region goes through the loopback queue.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::time::Duration;

use super::*;
use crate::config::{Config, KindConfig};
use crate::effect::Effect;
use crate::event::{Event, ShardingEvent};
use crate::fixture::{Fixture, member, node, picture_of};
use crate::handoff::Barrier;
use crate::ident::ClusterName;
use crate::input::{KindSettings, SendTarget};
use crate::membership::state::gossip::Gossip;
use crate::membership::state::member::{Status, UpNumber};
use crate::message::Message;
use crate::oldest::Oldest;
use crate::reject::{Rejection, ShardingRejection};
use crate::sharding::coordinator::record::PlacedHome;
use crate::sharding::state::fields::KindFields;
use crate::sharding::state::ids::KindId;
use crate::sharding::state::wish::WishObstacle;
use crate::timer::Timer;
use crate::token::Token;

mod asking;
mod conflicts;
mod durable;
mod load;
mod parts;
mod reach;
mod remembered;
mod tokens;
mod wishes;

const S: ShardId = ShardId(4);
const MARGIN: Duration = Duration::from_secs(20);

fn a() -> UniqueAddress {
    node("a", 1)
}

/// A placement there without a token.
fn at(node: &UniqueAddress) -> PlacedHome {
    PlacedHome {
        node: node.clone(),
        token: Token::NONE,
    }
}

fn b() -> UniqueAddress {
    node("b", 2)
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

struct Rig {
    fixture: Fixture,
    coordinator: Coordinator,
    removed: Vec<UniqueAddress>,
    /// Who has said that nothing runs there.
    gone: Vec<UniqueAddress>,
    /// With which tokens the last call had other nodes host shards. What is compared is without them.
    given: Vec<(ShardId, Token)>,
}

impl Rig {
    fn on(me: UniqueAddress, shards: u32) -> Self {
        Self::storing(me, shards, StoreMode::Memory)
    }

    fn storing(me: UniqueAddress, shards: u32, mode: StoreMode) -> Self {
        Self::configured(me, (shards, mode), |_| ())
    }

    fn configured(
        me: UniqueAddress,
        (shards, mode): (u32, StoreMode),
        change: impl FnOnce(&mut Config),
    ) -> Self {
        let mut config = Config::lan(ClusterName::new("test").unwrap());
        config.downing.down_removal_margin = Some(MARGIN);
        config.sharding.snapshot_after = 3;
        change(&mut config);
        let settings = KindSettings {
            store_mode: Some(mode),
            // What the kind says counts, not what the node does: every test of a setting shows it.
            config: Box::new(KindConfig::taken_from(&mut config.sharding)),
            ..KindSettings::new("files", shards, true)
        };
        let kind = RegisteredKind::new(
            KindId::of("files"),
            settings,
            &config.sharding,
            &config.downing.strategy,
        );
        Self {
            fixture: Fixture::with_config(me, config),
            coordinator: Coordinator::new(kind),
            removed: Vec::new(),
            gone: Vec::new(),
            given: Vec::new(),
        }
    }

    /// Recovered, with empty regions on all three nodes.
    fn active() -> Self {
        let mut rig = Self::on(a(), 6000);
        rig.view(&[(a(), Status::Up), (b(), Status::Up), (c(), Status::Up)]);
        for node in [a(), b(), c()] {
            rig.register(&node, &[]);
        }
        assert!(rig.coordinator.is_active());
        rig
    }

    fn act(&mut self, call: impl FnOnce(&mut Coordinator, &mut Cx<'_>)) -> Vec<Effect> {
        call(&mut self.coordinator, &mut self.fixture.cx());
        self.coordinator.check_invariants().unwrap();
        let mut effects = self.fixture.effects();
        self.given.clear();
        for effect in &mut effects {
            if let Effect::Send {
                message: Message::Sharding(ShardingMsg::Kind(message)),
                ..
            } = effect
                && let ShardingBody::HostShard { shard, token, .. } = &mut message.body
            {
                self.given.push((*shard, core::mem::take(token)));
            }
        }
        effects
    }

    fn view(&mut self, members: &[(UniqueAddress, Status)]) -> Vec<Effect> {
        self.view_with(members, &[])
    }

    fn view_with(
        &mut self,
        members: &[(UniqueAddress, Status)],
        unreachable: &[UniqueAddress],
    ) -> Vec<Effect> {
        let mut gossip = Gossip::new();
        for node in &self.removed {
            gossip.remove(node);
        }
        for (node, status) in members {
            gossip.upsert_member(member(node, *status));
        }
        let mut gossip = gossip.with_gone(Arc::new(self.gone.iter().cloned().collect()));
        let me = self.fixture.me.clone();
        for subject in unreachable {
            gossip.reachability_mut().unreachable(&me, subject);
        }
        self.fixture.see(picture_of(&me, gossip));
        self.act(|coordinator, cx| coordinator.on_view_changed(cx))
    }

    fn register(&mut self, from: &UniqueAddress, hosted: &[ShardId]) -> Vec<Effect> {
        let said = RegionRegistration {
            fields: KindFields::of(&self.coordinator.kind.settings),
            hosted: hosted.to_vec(),
            draining: false,
        };
        self.act(|coordinator, cx| coordinator.on_register(cx, from, said))
    }

    /// A region registers, and says with which tokens it was given its shards.
    fn claims(&mut self, from: &UniqueAddress, hosted: &[(ShardId, Token)]) -> Vec<Effect> {
        let tokens = hosted.to_vec();
        self.act(|coordinator, cx| coordinator.on_shard_tokens(cx, from, tokens));
        let shards: Vec<ShardId> = hosted.iter().map(|(shard, _)| *shard).collect();
        self.register(from, &shards)
    }

    fn asks_home(&mut self, from: &UniqueAddress, shard: ShardId) -> Vec<Effect> {
        self.act(|coordinator, cx| coordinator.on_get_shard_home(cx, from, shard))
    }

    fn acks(&mut self, from: &UniqueAddress) -> Vec<Effect> {
        let number = self.coordinator.last_hand_off;
        self.act(|coordinator, cx| coordinator.on_begin_hand_off_ack(cx, from, &term(), (S, number)))
    }

    fn started(&mut self, from: &UniqueAddress, shard: ShardId) -> Vec<Effect> {
        self.act(|coordinator, cx| coordinator.on_shard_started(cx, from, &term(), shard))
    }

    fn stopped(&mut self, from: &UniqueAddress) -> Vec<Effect> {
        self.act(|coordinator, cx| coordinator.on_shard_stopped(cx, from, &term(), S))
    }

    /// Begins to move shard `S` away from `b`, which hosts it.
    fn moving() -> Self {
        let mut rig = Self::active();
        rig.coordinator.set_home(S, at(&b()));
        rig.act(|coordinator, cx| coordinator.on_graceful_shutdown(cx, &b()));
        rig
    }

    fn fire(&mut self, after: Duration) -> Vec<Effect> {
        let until = self.fixture.mono() + after;
        let mut effects = Vec::new();
        while let Some(timer) = self.fixture.next_timer(until) {
            effects.extend(match timer {
                Timer::Oldest(timer) => {
                    Oldest.on_timer(&mut self.fixture.cx(), &timer);
                    self.act(|coordinator, cx| coordinator.consider_takeover(cx))
                }
                Timer::Sharding(ShardingTimer::Coordinator(_, timer)) => {
                    self.act(|coordinator, cx| coordinator.on_timer(cx, &timer))
                }
                other => panic!("{other:?}"),
            });
        }
        effects
    }

    fn phase(&self) -> Option<CoordinatorPhase> {
        self.coordinator.state().map(|state| state.phase)
    }
}

#[test]
fn shards_that_are_to_stop_go_on_while_the_host_is_paused() {
    let mut rig = Rig::active();
    rig.coordinator.set_home(S, at(&b()));
    rig.act(|coordinator, cx| {
        coordinator.on_paused();
        coordinator.stop_waiters.entry(S).or_default().insert(c());
        coordinator.stop_some(cx);
    });
    assert!(rig.coordinator.hand_offs.is_empty());
    rig.coordinator.paused = false;
    rig.act(|coordinator, cx| coordinator.stop_some(cx));
    assert!(rig.coordinator.hand_offs.contains_key(&S));
}

#[test]
fn a_hand_off_that_nobody_can_end_is_named() {
    let mut rig = Rig::moving();
    let whole = rig.coordinator.hand_offs.get(&S).unwrap().clone();
    let hand_off = |rig: &mut Rig, change: fn(&mut hand_off::HandOff)| {
        let mut other = whole.clone();
        change(&mut other);
        rig.coordinator.hand_offs.insert(S, other);
        rig.coordinator.check_invariants()
    };
    assert_eq!(hand_off(&mut rig, |_| ()), Ok(()));
    let named = |what: &str| Err(alloc::format!("coordinator: shard 4 moves and {what}"));
    let ended = hand_off(&mut rig, |it| it.owners.clear());
    assert_eq!(ended, named("nobody has to stop it"));
    let ended = hand_off(&mut rig, |it| {
        it.barrier = Barrier::new(1, [], crate::time::Instant::ZERO)
    });
    assert_eq!(ended, named("waits for nobody"));
}

fn says(to: UniqueAddress, body: ShardingBody) -> Effect {
    let kind = KindId::of("files");
    Effect::Send {
        to: SendTarget::Node(to),
        message: Message::Sharding(ShardingMsg::Kind(ShardingMessage { kind, body })),
    }
}

fn event(event: ShardingEvent) -> Effect {
    let kind = KindId::of("files");
    Effect::Notify(Event::Sharding { kind, event })
}

fn home(shard: ShardId, node: UniqueAddress) -> ShardingBody {
    ShardingBody::ShardHomes {
        term: term(),
        homes: vec![(node, vec![shard])],
    }
}

fn host(shard: ShardId) -> ShardingBody {
    ShardingBody::HostShard {
        term: term(),
        shard,
        token: Token::NONE,
    }
}

fn begin() -> ShardingBody {
    ShardingBody::BeginHandOff {
        term: term(),
        shard: S,
        number: 1,
    }
}

fn allocated(shard: ShardId, home: UniqueAddress) -> Effect {
    event(ShardingEvent::ShardAllocated { shard, home })
}

#[test]
fn s_081_an_unknown_shard_goes_to_the_region_with_the_fewest() {
    let mut rig = Rig::active();
    rig.coordinator.set_home(ShardId(0), at(&a()));
    let effects = rig.asks_home(&c(), S);
    assert_eq!(effects, vec![allocated(S, b()), says(b(), host(S))]);
    assert_eq!(rig.asks_home(&a(), S), vec![], "it may not have begun there");
    assert_eq!(
        rig.started(&b(), S),
        vec![says(c(), home(S, b()))],
        "and its own node's region"
    );
    assert_eq!(
        rig.asks_home(&c(), S),
        vec![says(c(), home(S, b()))],
        "known from now on"
    );
    let stranger = node("d", 4);
    assert_eq!(rig.asks_home(&stranger, S), vec![], "it has to register first");
}

#[test]
fn a_new_coordinator_allocates_nothing_before_every_member_has_registered() {
    let mut rig = Rig::on(a(), 64);
    rig.view(&[(a(), Status::Up), (b(), Status::Up), (c(), Status::Up)]);
    assert_eq!(rig.phase(), Some(CoordinatorPhase::Recovering));
    rig.register(&a(), &[]);
    let ack = ShardingBody::RegisterAck { term: term() };
    assert_eq!(
        rig.register(&b(), &[S]),
        vec![says(b(), ack.clone()), says(b(), home(S, b()))]
    );
    assert_eq!(
        rig.asks_home(&b(), S),
        vec![says(b(), home(S, b()))],
        "known homes are told"
    );
    assert_eq!(
        rig.asks_home(&b(), ShardId(5)),
        vec![],
        "unknown ones are not given"
    );
    let query = ShardingBody::RegionQuery { term: term() };
    assert_eq!(
        rig.fire(Duration::from_secs(2)),
        vec![says(c(), query)],
        "who is silent is asked again"
    );
    let effects = rig.register(&c(), &[ShardId(9)]);
    let recovered = ShardingEvent::CoordinatorRecovered {
        term: term(),
        shards: 2,
    };
    assert_eq!(rig.phase(), Some(CoordinatorPhase::Active));
    assert!(effects.contains(&event(recovered)) && effects.contains(&allocated(ShardId(5), a())));
}

#[test]
fn a_member_without_a_region_is_enough_and_one_that_is_down_is_not() {
    let mut rig = Rig::on(a(), 64);
    rig.view(&[(a(), Status::Up), (b(), Status::Up), (c(), Status::Down)]);
    rig.register(&a(), &[]);
    rig.act(|coordinator, cx| coordinator.on_no_region(cx, &b(), &term()));
    assert_eq!(rig.phase(), Some(CoordinatorPhase::Recovering));
    rig.removed.push(c());
    rig.view(&[(a(), Status::Up), (b(), Status::Up)]);
    assert_eq!(
        rig.phase(),
        Some(CoordinatorPhase::Recovering),
        "it may still run, for a margin"
    );
    rig.fire(MARGIN - Duration::from_millis(1));
    assert_eq!(rig.phase(), Some(CoordinatorPhase::Recovering));
    rig.fire(Duration::from_millis(1));
    assert_eq!(rig.phase(), Some(CoordinatorPhase::Active));
}

#[test]
fn a_successor_waits_until_older_members_are_removed_and_for_the_margin_after_it() {
    let mut rig = Rig::on(b(), 64);
    rig.view(&[(a(), Status::Up), (b(), Status::Up)]);
    rig.view(&[(a(), Status::Down), (b(), Status::Up)]);
    assert_eq!(rig.phase(), None, "Down is not removed");
    rig.removed.push(a());
    rig.view(&[(b(), Status::Up)]);
    assert_eq!(rig.phase(), Some(CoordinatorPhase::Waiting));
    assert_eq!(
        rig.register(&b(), &[]),
        vec![],
        "it listens to nobody before it starts"
    );
    rig.fire(MARGIN - Duration::from_millis(1));
    assert_eq!(rig.phase(), Some(CoordinatorPhase::Waiting));
    rig.fire(Duration::from_millis(1));
    assert_eq!(rig.phase(), Some(CoordinatorPhase::Recovering));
}

#[test]
fn an_exit_needs_no_margin_only_if_the_member_said_that_nothing_runs_there() {
    for (unreachable, gone, expected) in [
        (vec![], vec![a()], CoordinatorPhase::Recovering),
        (vec![a()], vec![a()], CoordinatorPhase::Recovering),
        (vec![], vec![], CoordinatorPhase::Waiting),
        (vec![a()], vec![], CoordinatorPhase::Waiting),
    ] {
        let mut rig = Rig::on(b(), 64);
        rig.view(&[(a(), Status::Up), (b(), Status::Up)]);
        rig.gone = gone.clone();
        rig.view_with(&[(a(), Status::Exiting), (b(), Status::Up)], &unreachable);
        rig.removed.push(a());
        rig.view(&[(b(), Status::Up)]);
        assert_eq!(rig.phase(), Some(expected));
        // Whoever hears of it only after the removal, or joins after it, decides alike.
        let mut late = Rig::on(b(), 64);
        late.view(&[(a(), Status::Up), (b(), Status::Up)]);
        let mut new = Rig::on(b(), 64);
        for rig in [&mut late, &mut new] {
            rig.removed.push(a());
            rig.gone.clone_from(&gone);
            rig.view(&[(b(), Status::Up)]);
            assert_eq!(rig.phase(), Some(expected));
        }
    }
}

#[test]
fn a_node_that_joined_after_a_removal_waits_the_margin_once() {
    let mut rig = Rig::on(b(), 64);
    rig.removed.push(a());
    rig.view(&[(b(), Status::Up)]);
    assert_eq!(rig.phase(), Some(CoordinatorPhase::Waiting));
    rig.fire(MARGIN);
    assert_eq!(rig.phase(), Some(CoordinatorPhase::Recovering));
    let mut first = Rig::on(a(), 64);
    first.view(&[(a(), Status::Up)]);
    assert_eq!(
        first.phase(),
        Some(CoordinatorPhase::Recovering),
        "nobody was ever removed"
    );
}

#[test]
fn two_claims_to_one_shard_stop_it_on_both_before_it_gets_a_home() {
    let mut rig = Rig::on(a(), 64);
    rig.view(&[(a(), Status::Up), (b(), Status::Up), (c(), Status::Up)]);
    rig.register(&a(), &[]);
    rig.register(&b(), &[S]);
    let effects = rig.register(&c(), &[S]);
    assert!(effects.contains(&event(ShardingEvent::ShardConflict { shard: S })));
    assert_eq!(
        rig.asks_home(&b(), S),
        vec![],
        "not told while it is on two nodes"
    );
    for node in [a(), b(), c()] {
        rig.acks(&node);
    }
    assert_eq!(rig.stopped(&b()), vec![], "one still runs");
    let last = rig.stopped(&c());
    assert!(last.contains(&allocated(S, a())), "{last:?}");
}

#[test]
fn s_088_a_question_during_a_hand_off_is_answered_with_the_new_home() {
    let mut rig = Rig::moving();
    assert_eq!(rig.asks_home(&c(), S), vec![]);
    rig.acks(&a());
    rig.acks(&c());
    let hand_off = ShardingBody::HandOff {
        term: term(),
        shard: S,
        by_force: false,
    };
    assert_eq!(
        rig.acks(&b()),
        vec![says(b(), hand_off)],
        "only when everybody has forgotten"
    );
    assert_eq!(rig.stopped(&b()), vec![allocated(S, a())]);
    assert_eq!(rig.started(&a(), S), vec![says(c(), home(S, a()))]);
}

#[test]
fn a_hand_off_tells_every_region_and_says_again_what_was_not_answered() {
    let mut rig = Rig::active();
    rig.coordinator.set_home(S, at(&b()));
    let effects = rig.act(|coordinator, cx| coordinator.on_graceful_shutdown(cx, &b()));
    assert_eq!(effects, vec![says(b(), begin()), says(c(), begin())]);
    rig.acks(&b());
    rig.acks(&a());
    assert_eq!(rig.fire(Duration::from_secs(2)), vec![says(c(), begin())]);
    assert_eq!(
        rig.stopped(&b()),
        vec![],
        "it was not told to stop yet: an earlier attempt's answer"
    );
    assert_eq!(rig.coordinator.places.home(S), Some(&b()));
}

#[test]
fn p_1_a_region_that_dies_before_it_acknowledges_does_not_block_a_hand_off() {
    let mut rig = Rig::moving();
    rig.acks(&a());
    rig.acks(&b());
    let effects = rig.view(&[(a(), Status::Up), (b(), Status::Up), (c(), Status::Down)]);
    let hand_off = ShardingBody::HandOff {
        term: term(),
        shard: S,
        by_force: false,
    };
    assert_eq!(effects, vec![says(b(), hand_off)]);
}

#[test]
fn a_sender_that_is_unreachable_is_not_waited_for_and_an_owner_is() {
    let all = [(a(), Status::Up), (b(), Status::Up), (c(), Status::Up)];
    let stop = |by_force| ShardingBody::HandOff {
        term: term(),
        shard: S,
        by_force,
    };
    let mut rig = Rig::moving();
    rig.acks(&a());
    rig.view_with(&all, &[b(), c()]);
    let effects = rig.act(|coordinator, cx| coordinator.on_reachability_changed(cx));
    assert_eq!(
        effects,
        vec![],
        "what the owner said of an earlier hand-off comes before its word"
    );
    assert_eq!(rig.acks(&b()), vec![says(b(), stop(false))]);
    // One that begins meanwhile does not wait for them at all.
    let mut rig = Rig::active();
    rig.coordinator.set_home(S, at(&b()));
    rig.view_with(&all, &[c()]);
    let effects = rig.act(|coordinator, cx| coordinator.on_graceful_shutdown(cx, &b()));
    assert_eq!(effects, vec![says(b(), begin())]);
    assert_eq!(rig.acks(&b()), vec![]);
    assert_eq!(rig.acks(&a()), vec![says(b(), stop(false))]);
}

#[test]
fn s_095_a_hand_off_that_takes_too_long_leaves_the_shard_where_it_is() {
    let mut rig = Rig::moving();
    rig.asks_home(&c(), S);
    for node in [a(), b(), c()] {
        rig.acks(&node);
    }
    let effects = rig.fire(Duration::from_secs(60));
    let timeout = event(ShardingEvent::HandOffTimeout {
        shard: S,
        unmarked: vec![],
        running: vec![b()],
    });
    let tail: Vec<Effect> = effects.into_iter().skip_while(|e| *e != timeout).collect();
    assert_eq!(
        tail,
        vec![timeout, says(b(), host(S))],
        "it takes the shard back, stopped or not"
    );
    let shards = &rig.coordinator.regions[&b()];
    assert!(!shards.draining, "it may be asked to stop again");
    assert_eq!(rig.started(&b(), S), vec![says(c(), home(S, b()))]);
    let effects = rig.stopped(&b());
    assert_eq!(
        effects,
        vec![says(b(), host(S))],
        "too late: the home has been told to others"
    );
    assert_eq!(rig.asks_home(&c(), S), vec![], "until it runs there again");
    assert_eq!(rig.started(&b(), S), vec![says(c(), home(S, b()))]);
}

#[test]
fn a_shard_whose_hand_off_was_cancelled_is_served_before_it_is_moved_for_balance_again() {
    let mut rig = Rig::active();
    for shard in 0..8 {
        rig.coordinator.set_home(ShardId(shard), at(&b()));
    }
    let moving = |rig: &Rig| rig.coordinator.hand_offs.keys().copied().collect::<Vec<_>>();
    rig.fire(rig.coordinator.kind.config.rebalance_interval);
    let first = moving(&rig);
    assert!(!first.is_empty());
    // Nobody marks: after a minute all are cancelled, and rest for another.
    rig.fire(Duration::from_secs(65));
    assert_eq!(rig.fixture.stats.sharding.hand_offs_timed_out, first.len() as u64);
    rig.fire(Duration::from_secs(40));
    assert!(moving(&rig).iter().all(|shard| !first.contains(shard)));
    rig.fire(Duration::from_secs(30));
    assert!(moving(&rig).iter().any(|shard| first.contains(shard)));
}

#[test]
fn an_acknowledgement_of_a_hand_off_that_was_cancelled_does_not_count_for_the_next() {
    let mut rig = Rig::moving();
    rig.fire(Duration::from_secs(60));
    rig.started(&b(), S);
    rig.act(|coordinator, cx| coordinator.on_graceful_shutdown(cx, &b()));
    rig.acks(&a());
    rig.acks(&b());
    let late = |coordinator: &mut Coordinator, cx: &mut Cx<'_>| {
        coordinator.on_begin_hand_off_ack(cx, &c(), &term(), (S, 1));
    };
    assert_eq!(rig.act(late), vec![], "it may have used the home since then");
    let hand_off = ShardingBody::HandOff {
        term: term(),
        shard: S,
        by_force: false,
    };
    assert_eq!(rig.acks(&c()), vec![says(b(), hand_off)]);
}

#[test]
fn nothing_moves_before_every_member_has_said_whether_it_has_the_kind() {
    let mut rig = Rig::active();
    rig.coordinator.set_home(S, at(&b()));
    let proxy = node("p", 9);
    rig.coordinator.unheard.insert(proxy.clone());
    let drain = |coordinator: &mut Coordinator, cx: &mut Cx<'_>| coordinator.on_graceful_shutdown(cx, &b());
    assert_eq!(rig.act(drain), vec![], "it may use the home of an earlier term");
    let effects = rig.act(|coordinator, cx| coordinator.heard(cx, &proxy));
    assert!(effects.contains(&says(b(), begin())), "{effects:?}");
}

#[test]
fn nothing_moves_for_balance_before_every_member_has_said_whether_it_has_the_kind() {
    let mut rig = Rig::active();
    for shard in 0..9 {
        rig.coordinator.set_home(ShardId(shard), at(&b()));
    }
    let proxy = node("p", 9);
    rig.coordinator.unheard.insert(proxy.clone());
    rig.fire(Duration::from_secs(30));
    assert!(
        rig.coordinator.hand_offs.is_empty(),
        "it may use the homes of an earlier term"
    );
    rig.act(|coordinator, cx| coordinator.heard(cx, &proxy));
    rig.fire(Duration::from_secs(10));
    assert_eq!(rig.coordinator.hand_offs.len(), 1);
}

#[test]
fn a_hand_off_that_takes_too_long_names_who_has_not_marked() {
    let mut rig = Rig::moving();
    rig.acks(&a());
    rig.acks(&b());
    let timeout = event(ShardingEvent::HandOffTimeout {
        shard: S,
        unmarked: vec![c()],
        running: vec![],
    });
    let effects = rig.fire(Duration::from_secs(60));
    assert!(effects.contains(&timeout), "{effects:?}");
}

#[test]
fn s_090_a_shard_that_is_not_confirmed_is_ordered_again_from_the_same_region() {
    let mut rig = Rig::active();
    rig.coordinator.set_home(ShardId(0), at(&a()));
    rig.asks_home(&c(), S);
    let again = rig.fire(Duration::from_secs(10));
    assert_eq!(again, vec![says(b(), host(S))]);
    rig.act(|coordinator, cx| coordinator.on_shard_started(cx, &b(), &term(), S));
    assert_eq!(rig.fire(Duration::from_secs(30)), vec![]);
}

#[test]
fn s_091_the_shards_of_a_lost_region_move_after_its_removal_and_the_margin() {
    let mut rig = Rig::active();
    rig.coordinator.set_home(S, at(&b()));
    rig.view_with(
        &[(a(), Status::Up), (b(), Status::Down), (c(), Status::Up)],
        &[b()],
    );
    assert_eq!(
        rig.asks_home(&c(), S),
        vec![],
        "a home on a lost node is not given out"
    );
    rig.removed.push(b());
    assert_eq!(rig.view(&[(a(), Status::Up), (c(), Status::Up)]), vec![]);
    assert_eq!(rig.fire(MARGIN - Duration::from_millis(1)), vec![]);
    assert_eq!(rig.fire(Duration::from_millis(1)), vec![allocated(S, a())]);
    assert_eq!(rig.started(&a(), S), vec![says(c(), home(S, a()))]);
}

#[test]
fn s_092_a_region_that_stopped_in_good_order_needs_no_margin() {
    let mut rig = Rig::active();
    rig.coordinator.set_home(S, at(&b()));
    let effects = rig.act(|coordinator, cx| coordinator.on_region_stopped(cx, &b()));
    assert_eq!(effects, vec![allocated(S, a())]);
    assert!(!rig.coordinator.regions.contains_key(&b()));
}

#[test]
fn s_118_a_region_whose_member_is_gone_gets_no_shard_and_may_not_register() {
    let mut rig = Rig::active();
    rig.view(&[(a(), Status::Down), (b(), Status::Up), (c(), Status::Up)]);
    assert_eq!(rig.phase(), None, "a node that is down coordinates nothing");
    let mut rig = Rig::active();
    rig.view(&[(a(), Status::Up), (b(), Status::Down), (c(), Status::Leaving)]);
    assert_eq!(rig.register(&b(), &[S]), vec![]);
    assert_eq!(rig.asks_home(&c(), S), vec![allocated(S, a())]);
}

#[test]
fn s_087_nothing_is_allocated_before_enough_regions_have_registered() {
    let change = |config: &mut Config| config.membership.min_nr_of_members = 2;
    let mut rig = Rig::configured(a(), (64, StoreMode::Memory), change);
    rig.view(&[(a(), Status::Up)]);
    rig.register(&a(), &[]);
    assert!(rig.coordinator.is_active(), "every member of the role has spoken");
    assert_eq!(rig.asks_home(&a(), S), vec![]);
    rig.fire(Duration::from_secs(30));
    assert_eq!(rig.coordinator.places.homes().count(), 0);
    rig.view(&[(a(), Status::Up), (b(), Status::Up)]);
    let effects = rig.register(&b(), &[]);
    assert!(
        effects.contains(&allocated(S, a())),
        "nobody has to ask again: {effects:?}"
    );
    // Once is enough, in this term.
    rig.act(|coordinator, cx| coordinator.on_region_stopped(cx, &b()));
    assert_eq!(rig.asks_home(&a(), ShardId(5)), vec![allocated(ShardId(5), a())]);
    // The next coordinator of a cluster in which nothing runs waits as well.
    let mut rig = Rig::configured(a(), (64, StoreMode::Memory), change);
    rig.view(&[(a(), Status::Up)]);
    rig.register(&a(), &[]);
    rig.asks_home(&a(), ShardId(6));
    assert_eq!(rig.coordinator.places.home(ShardId(6)), None);
}

#[test]
fn s_087_a_coordinator_that_follows_another_does_not_wait_for_the_dead() {
    let change = |config: &mut Config| config.membership.min_nr_of_members = 2;
    let mut rig = Rig::configured(a(), (64, StoreMode::Memory), change);
    rig.view(&[(a(), Status::Up)]);
    rig.register(&a(), &[S]);
    assert!(rig.coordinator.is_active());
    let other = ShardId(6);
    assert_eq!(rig.asks_home(&a(), other), vec![allocated(other, a())]);
}

#[test]
fn s_087_the_number_is_that_of_the_role() {
    let role = crate::ident::Role::new("worker").unwrap();
    for (needed, given) in [(1, true), (2, false)] {
        let mut rig = Rig::configured(a(), (64, StoreMode::Memory), |config| {
            config.membership.min_nr_of_members = 9;
            let roles = &mut config.membership.min_nr_of_members_per_role;
            roles.insert(role.clone(), needed);
        });
        rig.coordinator.kind.settings.role = Some(role.clone());
        rig.coordinator.regions.entry(a()).or_default();
        rig.coordinator.regions.entry(b()).or_default().proxy = true;
        rig.coordinator.regions.entry(c()).or_default().lost = true;
        assert_eq!(rig.coordinator.sees_enough(&rig.fixture.cx()), given, "{needed}");
    }
}

#[test]
fn s_087_allocation_goes_on_when_a_region_leaves() {
    let mut rig = Rig::active();
    rig.act(|coordinator, cx| coordinator.on_region_stopped(cx, &b()));
    rig.view_with(
        &[(a(), Status::Up), (b(), Status::Exiting), (c(), Status::Up)],
        &[],
    );
    rig.removed.push(b());
    rig.view(&[(a(), Status::Up), (c(), Status::Up)]);
    assert_eq!(rig.phase(), Some(CoordinatorPhase::Active));
    assert!(rig.asks_home(&c(), S).contains(&allocated(S, a())));
}

#[test]
fn s_125_registration_tells_at_most_ten_times_five_hundred_homes() {
    let count = |effects: &[Effect]| {
        let pairs = |effect: &Effect| match effect {
            Effect::Send {
                message:
                    Message::Sharding(ShardingMsg::Kind(ShardingMessage {
                        body: ShardingBody::ShardHomes { homes, .. },
                        ..
                    })),
                ..
            } => Some(homes.iter().map(|(_, shards)| shards.len()).sum::<usize>()),
            _ => None,
        };
        effects.iter().filter_map(pairs).collect::<Vec<usize>>()
    };
    let mut rig = Rig::active();
    for shard in 0..1200 {
        let to = if shard < 700 { b() } else { c() };
        rig.coordinator.set_home(ShardId(shard), at(&to));
    }
    let told = rig.register(&c(), &[]);
    assert_eq!(count(&told), vec![500, 500, 200]);
    for shard in 1200..6000 {
        rig.coordinator.set_home(ShardId(shard), at(&b()));
    }
    assert_eq!(count(&rig.register(&c(), &[])), vec![500; 10]);
    // What is being moved has no home that anybody should be told.
    let mut rig = Rig::active();
    for shard in 0..1200 {
        let to = if shard < 4 { b() } else { c() };
        rig.coordinator.set_home(ShardId(shard), at(&to));
    }
    rig.act(|coordinator, cx| coordinator.on_graceful_shutdown(cx, &b()));
    assert_eq!(rig.coordinator.hand_offs.len(), 4);
    let told = rig.register(&c(), &[]);
    assert_eq!(count(&told), vec![500, 500, 196]);
}

#[test]
fn homes_fill_a_frame_and_pass_none() {
    let mut rig = Rig::configured(a(), (6000, StoreMode::Memory), |config| {
        config.limits.control_frame_bytes_max = 1_024;
    });
    rig.view(&[(a(), Status::Up), (b(), Status::Up), (c(), Status::Up)]);
    for node in [a(), b(), c()] {
        rig.register(&node, &[]);
    }
    for shard in 0..600 {
        rig.coordinator.set_home(ShardId(shard), at(&b()));
    }
    let told = rig
        .register(&c(), &[])
        .into_iter()
        .filter_map(|effect| match effect {
            Effect::Send { message, .. } => {
                let mut frame = Vec::new();
                crate::wire::encode_message(&message, 1, &rig.fixture.config.limits, &mut frame).unwrap();
                Some(frame.len() - crate::wire::HEADER_BYTES)
            }
            _ => None,
        });
    let told: Vec<usize> = told.collect();
    let is_full = |bytes: &&usize| (960..=1_024).contains(*bytes);
    assert_eq!(told.iter().filter(is_full).count(), 1, "{told:?}");
}

#[test]
fn another_kind_of_the_name_is_refused_and_does_not_block_recovery() {
    let mut rig = Rig::on(a(), 64);
    let settings = rig.coordinator.kind.settings.clone();
    let other = KindFields {
        shards: 65,
        ..KindFields::of(&settings)
    };
    rig.view(&[(a(), Status::Up), (b(), Status::Up)]);
    rig.register(&a(), &[]);
    let mut said = |hosted: &[ShardId]| {
        let said = RegionRegistration {
            fields: other.clone(),
            hosted: hosted.to_vec(),
            draining: false,
        };
        let effects = rig.act(|coordinator, cx| coordinator.on_register(cx, &b(), said));
        (effects, rig.phase())
    };
    let body = ShardingBody::RegisterRefused {
        term: term(),
        fields: KindFields::of(&settings),
    };
    let (effects, phase) = said(&[ShardId(1)]);
    assert_eq!(effects, vec![says(b(), body)]);
    assert_eq!(
        phase,
        Some(CoordinatorPhase::Recovering),
        "it still runs entities that may live here too"
    );
    assert_eq!(said(&[]).1, Some(CoordinatorPhase::Active));
}

#[test]
fn i_46_a_rebalance_round_waits_for_the_last_one_and_for_good_times() {
    let mut rig = Rig::active();
    for shard in 0..9 {
        rig.coordinator.set_home(ShardId(shard), at(&b()));
    }
    rig.view_with(&[(a(), Status::Up), (b(), Status::Up), (c(), Status::Up)], &[c()]);
    assert_eq!(
        rig.fire(Duration::from_secs(10)),
        vec![],
        "not while somebody is unreachable"
    );
    rig.view(&[(a(), Status::Up), (b(), Status::Up), (c(), Status::Up)]);
    rig.fire(Duration::from_secs(10));
    assert_eq!(
        rig.coordinator.hand_offs.len(),
        1,
        "a tenth of nine shards is none, and one may always move"
    );
    rig.fire(Duration::from_secs(20));
    assert_eq!(rig.coordinator.hand_offs.len(), 1);
}

#[test]
fn b_58_a_region_may_not_claim_or_ask_for_shards_that_do_not_exist() {
    let mut rig = Rig::active();
    let refused = |peer| {
        let rejection = Rejection::Sharding(ShardingRejection::OutOfRange { what: "shard" });
        vec![Effect::Notify(Event::Rejected { peer, rejection })]
    };
    assert_eq!(rig.register(&b(), &[ShardId(6000)]), refused(b()));
    assert_eq!(rig.asks_home(&b(), ShardId(6000)), refused(b()));
}

#[test]
fn allocation_goes_on_in_later_steps() {
    let mut rig = Rig::active();
    for shard in 0..1000 {
        rig.coordinator.set_home(ShardId(shard), at(&b()));
    }
    rig.act(|coordinator, cx| coordinator.on_region_stopped(cx, &b()));
    assert_eq!(rig.coordinator.places.homes().count(), 256);
    rig.fire(Duration::from_micros(10));
    assert_eq!(rig.coordinator.places.homes().count(), 1000);
}
