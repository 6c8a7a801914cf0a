//! A few nodes' sharding without membership: the test says who is a member, messages arrive at once and in
//! order, entities echo. After each step every node's rules are checked, and that no shard is on two nodes.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::string::ToString;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

use crate::config::Config;
use crate::effect::HostedInstance;
use crate::effect::{Answer, Effect, HostOrder, ShardingAnswer};
use crate::event::{Event, ShardingEvent};
use crate::fixture::{Fixture, member, node, picture_of};
use crate::ident::{ClusterName, Role, Roles, UniqueAddress};
use crate::input::{DropReason, HostReport, KindSettings, SendTarget, ShardingCommand, Token};
use crate::membership::state::gossip::Gossip;
use crate::membership::state::member::{Member, Status};
use crate::message::{Message, ShardingMsg};
use crate::messaging::AskWait;
use crate::oldest::Oldest;
use crate::ordered::{OrderedMap, OrderedSet};
use crate::owner::Requester;
use crate::reject::Rejection;
use crate::sharding::Sharding;
use crate::sharding::state::chain::AskChain;
use crate::sharding::state::errors::AskFailure;
use crate::sharding::state::ids::{AskRef, EntityId, KindId, Payload, ShardId, Slot};
use crate::time::Instant;
use crate::timer::Timer;
use crate::view::MembershipPhase;

/// The kind under test: 12 shards, on members with the role `worker`.
pub(super) const SHARDS: u32 = 12;

pub(super) fn kind() -> KindId {
    KindId::of("files")
}

pub(super) fn settings(hosts: bool) -> KindSettings {
    KindSettings {
        role: Some(Role::new("worker").unwrap()),
        ..KindSettings::new("files", SHARDS, hosts)
    }
}

/// An entity of a shard.
pub(super) fn entity_in(shard: u32) -> EntityId {
    nth_entity_in(shard, 0)
}

/// One of the entities of a shard.
pub(super) fn nth_entity_in(shard: u32, nth: usize) -> EntityId {
    (0_u32..)
        .map(|n| EntityId::from(n.to_string().as_str()))
        .filter(|id| ShardId::of(id, SHARDS) == ShardId(shard))
        .nth(nth)
        .unwrap()
}

pub(super) fn config() -> Config {
    let mut config = Config::lan(ClusterName::new("test").unwrap());
    config.downing.down_removal_margin = Some(super::MARGIN);
    config.sharding.rebalance_relative_limit = 1.0;
    config
}

pub(super) struct Peer {
    pub(super) fixture: Fixture,
    pub(super) sharding: Sharding,
    pub(super) handled: Vec<(EntityId, Payload)>,
    pub(super) answers: OrderedMap<Token, Result<Payload, AskFailure>>,
    /// Answers to registrations.
    pub(super) registered: Vec<Answer>,
    pub(super) events: Vec<ShardingEvent>,
    pub(super) rejected: Vec<Rejection>,
    pub(super) drained: bool,
    /// Callers who wait to hear that their message was taken, and what others heard.
    pub(super) telling: OrderedSet<Token>,
    pub(super) taken: OrderedMap<Token, Answer>,
    /// Ends that were watched, by token.
    pub(super) terminated: Vec<(Token, Answer)>,
    /// Ignores Stop, obeys Kill.
    pub(super) stubborn: bool,
    /// Entities with mailboxes, of which the test says when they are read; without, they handle at once.
    pub(super) mailboxes: Option<OrderedMap<Slot, Mailbox>>,
    /// What was in mailboxes of entities that were killed.
    pub(super) killed: Vec<Payload>,
    pub(super) alive: bool,
    pub(super) running: OrderedMap<Slot, EntityId>,
}

/// What an entity has not handled yet.
#[derive(Debug)]
pub(super) struct Mailbox {
    pub(super) entity: EntityId,
    letters: VecDeque<(Payload, Option<AskRef>)>,
    is_stopping: bool,
    /// Its handler waits for the answer to this ask.
    waits: Option<Token>,
}

pub(super) struct World {
    pub(super) peers: Vec<Peer>,
    members: OrderedMap<usize, Member>,
    removed: OrderedSet<UniqueAddress>,
    /// Who was drained when it was removed, and so had said that nothing runs there.
    gone: OrderedSet<UniqueAddress>,
    suspected: OrderedSet<usize>,
    pub(super) wire: VecDeque<(usize, usize, Message)>,
    /// What is said stays in `wire`: the test says when it arrives.
    pub(super) holds: bool,
    /// Messages from the first to the second are lost.
    pub(super) cut: OrderedSet<(usize, usize)>,
    /// Kinds of messages that are lost, as a predicate.
    pub(super) lose: fn(&Message) -> bool,
    /// How many messages the queue from the first to the second still takes, where it is bounded.
    pub(super) room: OrderedMap<(usize, usize), usize>,
    /// Queues that had no room for something that was offered.
    refusing: OrderedSet<(usize, usize)>,
    /// Hosts tell late what found no room: when the test says so, which has to tell all of it before there is
    /// room.
    pub(super) tells_late: bool,
    /// What they have still to tell, in order: to whom, and for whom it was.
    pub(super) news: VecDeque<(usize, UniqueAddress, ShardingMsg)>,
    /// One in so many messages between nodes is lost, if any.
    pub(super) lose_one_in: Option<u64>,
    lottery: u64,
    now: Instant,
    tokens: Token,
}

impl World {
    /// `workers` nodes with the role, then `others` without; nobody is a member, everybody has the kind.
    pub(super) fn new(workers: usize, others: usize) -> Self {
        Self::with_config(workers, others, &config())
    }

    /// As [`World::new`]; these nodes do not have the kind (yet).
    pub(super) fn without_kind_on(lacking: &[usize], workers: usize, others: usize) -> Self {
        Self::build(workers + others, |at| at < workers, &config(), lacking)
    }

    pub(super) fn with_config(workers: usize, others: usize, config: &Config) -> Self {
        Self::build(workers + others, |at| at < workers, config, &[])
    }

    /// `workers` nodes with the role, then `others` without; nobody is a member or has the kind.
    pub(super) fn bare(workers: usize, others: usize, config: &Config) -> Self {
        let nodes = workers + others;
        Self::build(nodes, |at| at < workers, config, &(0..nodes).collect::<Vec<_>>())
    }

    /// A node's user registers the kind.
    pub(super) fn register(&mut self, at: usize, hosts: bool) {
        self.register_as(at, settings(hosts));
    }

    /// A node's user registers a kind of its own.
    pub(super) fn register_as(&mut self, at: usize, settings: KindSettings) {
        self.with(at, |peer| {
            let command = ShardingCommand::RegisterKind(Box::new(settings));
            peer.sharding.on_command(&mut peer.fixture.cx(), 0, command);
        });
    }

    /// A node without the role and a younger one with it; neither has the kind.
    pub(super) fn worker_second() -> Self {
        Self::build(2, |at| at == 1, &config(), &[0, 1])
    }

    fn build(nodes: usize, is_worker: impl Fn(usize) -> bool, config: &Config, lacking: &[usize]) -> Self {
        let peers = (0..nodes).map(|at| {
            let mut config = config.clone();
            if is_worker(at) {
                config.roles = alloc::vec![Role::new("worker").unwrap()];
            }
            let fixture = Fixture::with_config(address(at), config);
            Peer {
                fixture,
                sharding: Sharding::new(),
                handled: Vec::new(),
                answers: OrderedMap::new(),
                registered: Vec::new(),
                events: Vec::new(),
                rejected: Vec::new(),
                drained: false,
                telling: OrderedSet::new(),
                taken: OrderedMap::new(),
                terminated: Vec::new(),
                stubborn: false,
                mailboxes: None,
                killed: Vec::new(),
                alive: true,
                running: OrderedMap::new(),
            }
        });
        let peers: Vec<Peer> = peers.collect();
        let now = peers[0].fixture.mono();
        let mut world = Self {
            peers,
            members: OrderedMap::new(),
            removed: OrderedSet::new(),
            gone: OrderedSet::new(),
            suspected: OrderedSet::new(),
            wire: VecDeque::new(),
            holds: false,
            cut: OrderedSet::new(),
            lose: |_| false,
            room: OrderedMap::new(),
            refusing: OrderedSet::new(),
            tells_late: false,
            news: VecDeque::new(),
            lose_one_in: None,
            lottery: 1,
            now,
            tokens: 0,
        };
        for at in (0..nodes).filter(|at| !lacking.contains(at)) {
            world.register(at, is_worker(at));
        }
        world
    }

    /// All nodes up, the first being the oldest, and the coordinator recovered.
    pub(super) fn formed(workers: usize, others: usize) -> Self {
        let mut world = Self::new(workers, others);
        world.all_up();
        world
    }

    pub(super) fn all_up(&mut self) {
        for at in 0..self.peers.len() {
            self.members.insert(at, self.member_of(at, Status::Up));
        }
        self.publish();
    }

    /// Gives members their status, in one step.
    pub(super) fn set(&mut self, changes: &[(usize, Status)]) {
        for (at, status) in changes {
            self.members.insert(*at, self.member_of(*at, *status));
        }
        self.publish();
    }

    /// Removes members.
    pub(super) fn remove(&mut self, gone: &[usize]) {
        for at in gone {
            let was = self.members.remove(at);
            if self.peers[*at].drained && was.is_some_and(|member| member.status == Status::Exiting) {
                self.gone.insert(address(*at));
            }
            self.suspected.remove(at);
            self.removed.insert(address(*at));
        }
        self.publish();
    }

    /// Whom the first worker that is not suspected finds unreachable.
    pub(super) fn suspect(&mut self, silent: &[usize]) {
        self.suspected = silent.iter().copied().collect();
        self.publish();
    }

    /// Ends nodes without a word.
    pub(super) fn crash(&mut self, dead: &[usize]) {
        for at in dead {
            self.peers[*at].alive = false;
        }
        self.wire
            .retain(|(from, to, _)| !dead.contains(from) && !dead.contains(to));
    }

    /// A crashed node as the rest sees it in the end: unreachable, down, removed.
    pub(super) fn crash_and_remove(&mut self, dead: &[usize]) {
        self.crash(dead);
        self.suspect(dead);
        let down: Vec<(usize, Status)> = dead.iter().map(|at| (*at, Status::Down)).collect();
        self.set(&down);
        self.remove(dead);
    }

    /// Asks this node to hand everything over.
    pub(super) fn drain(&mut self, at: usize) {
        self.with(at, |peer| {
            peer.sharding.on_drain_requested(&mut peer.fixture.cx())
        });
    }

    pub(super) fn tell(&mut self, at: usize, entity: &EntityId, text: &str) {
        let payload = Payload::from(text.as_bytes());
        self.with(at, |peer| {
            peer.sharding
                .tell(&mut peer.fixture.cx(), kind(), entity.clone(), payload);
        });
    }

    /// As [`World::tell`], of a caller who waits to hear that the message was taken.
    pub(super) fn tell_in_time(&mut self, at: usize, entity: &EntityId, text: &str) -> Token {
        self.tokens += 1;
        let token = self.tokens;
        let (to, payload) = ((kind(), entity.clone()), Payload::from(text.as_bytes()));
        self.peers[at].telling.insert(token);
        self.with(at, |peer| {
            let cx = &mut peer.fixture.cx();
            peer.sharding.tell_and_wait(cx, token, to, payload);
        });
        token
    }

    pub(super) fn ask(&mut self, at: usize, entity: &EntityId, timeout: Duration) -> Token {
        self.tokens += 1;
        let token = self.tokens;
        self.with(at, |peer| {
            let cx = &mut peer.fixture.cx();
            let payload = Payload::from(b"?".as_slice());
            let to = (kind(), entity.clone());
            peer.sharding.ask(cx, token, to, payload, wait(timeout));
        });
        token
    }

    /// The handler of an entity asks another one, and waits.
    pub(super) fn ask_from(
        &mut self,
        (at, slot): (usize, Slot),
        entity: EntityId,
        text: &str,
        timeout: Duration,
    ) -> Token {
        self.tokens += 1;
        let token = self.tokens;
        let (to, payload) = ((kind(), entity), Payload::from(text.as_bytes()));
        let boxes = self.peers[at].mailboxes.as_mut();
        boxes.unwrap().get_mut(&slot).unwrap().waits = Some(token);
        self.with(at, |peer| {
            let cx = &mut peer.fixture.cx();
            peer.sharding.ask(cx, token, to, payload, wait(timeout));
        });
        token
    }

    /// Lets a node hear a message out of the blue.
    pub(super) fn deliver(&mut self, from: usize, to: usize, message: Message) {
        self.wire.push_back((from, to, message));
        self.deliver_all();
    }

    /// Lets a node hear one message, and nobody another.
    pub(super) fn hear(&mut self, from: usize, to: usize, message: Message) {
        if self.peers[to].alive {
            self.with(to, |peer| receive(peer, &address(from), message));
        }
    }

    /// Lets virtual time pass.
    pub(super) fn run_for(&mut self, time: Duration) {
        let end = self.now + time;
        loop {
            let live = self.peers.iter().filter(|peer| peer.alive);
            let next = live.filter_map(|peer| peer.fixture.timers.next().map(|(at, _)| at));
            let at = next.min().filter(|at| *at <= end);
            self.now = at.unwrap_or(end).max(self.now);
            for index in 0..self.peers.len() {
                let now = self.now;
                self.peers[index].fixture.now.mono = now;
                while let Some(timer) = self.peers[index].fixture.timers.pop_due(now) {
                    if self.peers[index].alive {
                        self.fire(index, timer);
                    }
                }
            }
            if at.is_none() {
                return;
            }
        }
    }

    /// Virtual time.
    pub(super) const fn now(&self) -> Instant {
        self.now
    }

    /// Where each shard runs, one entry per live host.
    pub(super) fn hosts(&self) -> OrderedMap<ShardId, Vec<usize>> {
        let mut hosts: OrderedMap<ShardId, Vec<usize>> = OrderedMap::new();
        for (at, peer) in self.peers.iter().enumerate().filter(|(_, peer)| peer.alive) {
            let machines = peer.sharding.kinds.get(&kind());
            for shard in machines.into_iter().flat_map(|kind| kind.region.hosted()) {
                hosts.entry(shard).or_default().push(at);
            }
        }
        hosts
    }

    /// Which node that is.
    pub(super) fn peer_of(&self, node: &UniqueAddress) -> usize {
        let found = self.peers.iter().position(|peer| peer.fixture.me == *node);
        found.expect("one of these nodes")
    }

    /// How many shards each node hosts.
    pub(super) fn counts(&self) -> Vec<usize> {
        let count = |peer: &Peer| {
            let region = peer.sharding.region(kind());
            region.map_or(0, |region| region.hosted.len())
        };
        self.peers
            .iter()
            .map(|peer| if peer.alive { count(peer) } else { 0 })
            .collect()
    }

    /// Tells every shard's entity something from one node.
    pub(super) fn touch_all(&mut self, from: usize) {
        for shard in 0..SHARDS {
            self.tell(from, &entity_in(shard), "touch");
        }
    }

    pub(super) fn handled(&self) -> usize {
        self.peers.iter().map(|peer| peer.handled.len()).sum()
    }

    pub(super) fn said(&self, at: usize, what: impl Fn(&ShardingEvent) -> bool) -> usize {
        self.peers[at].events.iter().filter(|event| what(event)).count()
    }

    pub(super) fn with(&mut self, at: usize, act: impl FnOnce(&mut Peer)) {
        act(&mut self.peers[at]);
        if self.holds {
            // Nobody else has anything to say.
            self.collect(at);
            self.check_homes();
        } else {
            self.deliver_all();
        }
    }

    fn member_of(&self, at: usize, status: Status) -> Member {
        let mut member = member(&address(at), status);
        let roles = self.peers[at].fixture.config.node_roles();
        member.roles = Roles::from_wire(roles.as_slice().to_vec()).unwrap();
        member
    }

    fn publish(&mut self) {
        for at in 0..self.peers.len() {
            self.publish_to(at);
        }
        self.deliver_all();
    }

    fn publish_to(&mut self, at: usize) {
        if !self.peers[at].alive {
            return;
        }
        let mut gossip = Gossip::new();
        for node in &self.removed {
            gossip.remove(node);
        }
        for member in self.members.values() {
            gossip.upsert_member(member.clone());
        }
        let observer = self.members.keys().find(|at| !self.suspected.contains(at));
        for subject in &self.suspected {
            let observer = address(*observer.unwrap());
            gossip
                .reachability_mut()
                .unreachable(&observer, &address(*subject));
        }
        let me = address(at);
        let gossip = gossip.with_gone(Arc::new(self.gone.clone()));
        let mut view = picture_of(&me, gossip);
        if self.removed.contains(&me) {
            view.phase = MembershipPhase::Halted;
        }
        let peer = &mut self.peers[at];
        let (before, after) = peer.fixture.see(view);
        peer.sharding
            .on_view_changed(&mut peer.fixture.cx(), &before, &after);
    }

    fn fire(&mut self, at: usize, timer: Timer) {
        self.with(at, |peer| {
            let sharding = &mut peer.sharding;
            match timer {
                Timer::Sharding(timer) => sharding.on_timer(&mut peer.fixture.cx(), timer),
                Timer::Oldest(timer) => {
                    Oldest.on_timer(&mut peer.fixture.cx(), &timer);
                    sharding.on_margin_over(&mut peer.fixture.cx());
                }
                Timer::Membership(_)
                | Timer::Detector(_)
                | Timer::Downing(_)
                | Timer::Ddata(_)
                | Timer::Singleton(_)
                | Timer::Path(_)
                | Timer::Journal(_)
                | Timer::Kv(_)
                | Timer::Load(_) => {
                    unreachable!()
                }
            }
        });
    }

    fn deliver_all(&mut self) {
        loop {
            for at in 0..self.peers.len() {
                self.collect(at);
            }
            let next = if self.holds { None } else { self.wire.pop_front() };
            let Some((from, to, message)) = next else {
                break;
            };
            let lost = self.cut.contains(&(from, to)) || (self.lose)(&message) || self.is_unlucky(&message);
            if self.peers[to].alive && !lost {
                receive(&mut self.peers[to], &address(from), message);
            }
        }
        self.check_homes();
    }

    fn check_homes(&self) {
        for (shard, hosts) in self.hosts() {
            assert!(hosts.len() < 2, "{shard:?} is on {hosts:?}");
        }
    }

    /// Drawn of a fixed sequence. Only what is repeated until it is heard is lost so.
    fn is_unlucky(&mut self, message: &Message) -> bool {
        let (Some(one_in), Message::Sharding(ShardingMsg::Watch(_))) = (self.lose_one_in, message) else {
            return false;
        };
        self.lottery = self
            .lottery
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.lottery >> 33).is_multiple_of(one_in)
    }

    fn collect(&mut self, at: usize) {
        let me = address(at);
        let mut unchecked = true;
        loop {
            let peer = &mut self.peers[at];
            peer.drained |= peer
                .fixture
                .heard()
                .iter()
                .any(|s| matches!(s, crate::signal::Signal::Drained(_)));
            if let Some(message) = peer.fixture.outbox.loopback.pop_front() {
                receive(peer, &me, message);
                unchecked = true;
                continue;
            }
            if core::mem::take(&mut unchecked) {
                peer.sharding.check_invariants(&me).unwrap();
            }
            let effects = peer.fixture.effects();
            if effects.is_empty() {
                return;
            }
            let mut came_back = Vec::new();
            for effect in effects {
                let is_offer = matches!(effect, Effect::Offer { .. });
                match effect {
                    Effect::Send {
                        to: SendTarget::Node(to),
                        message,
                    }
                    | Effect::Offer {
                        to: SendTarget::Node(to),
                        message,
                    } => {
                        let link = (at, self.peer_of(&to));
                        if !self.peers[at].alive {
                        } else if self.takes(link, &message, is_offer) {
                            self.wire.push_back((link.0, link.1, message));
                        } else {
                            came_back.push((to, message, is_offer));
                        }
                    }
                    other => {
                        unchecked |= matches!(other, Effect::Host(..));
                        self.peers[at].take(other);
                    }
                }
            }
            unchecked |= !came_back.is_empty();
            for (to, message, is_offer) in came_back {
                let reason = if is_offer {
                    DropReason::NoRoom
                } else {
                    DropReason::QueueFull
                };
                let Message::Sharding(msg) = message else {
                    panic!("{message:?}")
                };
                if is_offer && self.tells_late {
                    self.news.push_back((at, to, msg));
                    continue;
                }
                let peer = &mut self.peers[at];
                let cx = &mut peer.fixture.cx();
                peer.sharding.on_dropped(cx, &SendTarget::Node(to), msg, reason);
            }
        }
    }

    /// Whether a queue takes a message: like those of links, and only messages to entities need room. No mark
    /// is taken before what found none.
    fn takes(&mut self, link: (usize, usize), message: &Message, is_offer: bool) -> bool {
        if matches!(message, Message::Sharding(ShardingMsg::Mark(_))) {
            return !self.refusing.contains(&link);
        }
        if !matches!(message, Message::Sharding(ShardingMsg::Entity(_))) {
            return true;
        }
        let is_full = match self.room.get_mut(&link) {
            Some(0) => true,
            Some(room) => {
                *room -= 1;
                false
            }
            None => false,
        };
        let bars = is_full || self.refusing.contains(&link);
        if bars && is_offer {
            self.refusing.insert(link);
        }
        !bars
    }

    /// A node hears the next thing that its host has still to tell.
    pub(super) fn tell_news(&mut self, at: usize) {
        let next = self.news.iter().position(|(of, ..)| *of == at);
        let (_, to, msg) = self.news.remove(next.unwrap()).unwrap();
        if self.peers[at].alive {
            self.with(at, |peer| {
                let cx = &mut peer.fixture.cx();
                peer.sharding
                    .on_dropped(cx, &SendTarget::Node(to), msg, DropReason::NoRoom);
            });
        }
    }

    /// A queue has room again, without a bound.
    pub(super) fn make_room(&mut self, link: (usize, usize)) {
        self.room.remove(&link);
        if self.refusing.remove(&link) && self.peers[link.0].alive {
            let to = address(link.1);
            self.with(link.0, |peer| {
                peer.sharding.on_room(&mut peer.fixture.cx(), to.address());
            });
        }
    }
}

impl Peer {
    fn take(&mut self, effect: Effect) {
        match effect {
            Effect::Notify(Event::Sharding { event, .. }) => self.events.push(event),
            Effect::Notify(Event::Rejected { rejection, .. }) => self.rejected.push(rejection),
            Effect::Reply {
                token,
                answer: answer @ Answer::Sharding(ShardingAnswer::Terminated(_)),
            } => self.terminated.push((token, answer)),
            Effect::Reply {
                token,
                answer: Answer::Asked(result),
            } => {
                let twice = self.answers.insert(token, result);
                assert_eq!(twice, None, "ask {token} is answered twice");
            }
            Effect::Reply { token, answer } if self.telling.remove(&token) => {
                self.taken.insert(token, answer);
            }
            Effect::Reply { answer, .. } => self.registered.push(answer),
            Effect::Host(Requester::Sharding, order) => self.obey(order),
            other => panic!("{other:?}"),
        }
    }

    /// Entities that have something to do.
    pub(super) fn busy(&self) -> Vec<Slot> {
        let boxes = self.mailboxes.iter().flatten();
        let busy = boxes.filter(|(_, mailbox)| {
            let is_free = mailbox
                .waits
                .is_none_or(|token| self.answers.contains_key(&token));
            is_free && (mailbox.is_stopping || !mailbox.letters.is_empty())
        });
        busy.map(|(slot, _)| *slot).collect()
    }

    /// Entities whose handlers wait for an answer that has not come.
    pub(super) fn waiting(&self) -> usize {
        let waits = self
            .mailboxes
            .iter()
            .flatten()
            .filter_map(|(_, mailbox)| mailbox.waits);
        waits.filter(|token| !self.answers.contains_key(token)).count()
    }

    /// An entity handles one message and answers it, or stops if there is none and it was told to. What it
    /// has handled.
    pub(super) fn turn(&mut self, slot: Slot) -> Option<Payload> {
        let mailbox = self.mailboxes.as_mut().and_then(|boxes| boxes.get_mut(&slot))?;
        mailbox.waits = None;
        let Some((payload, reply_to)) = mailbox.letters.pop_front() else {
            if mailbox.is_stopping {
                self.end(slot);
            }
            return None;
        };
        self.handled.push((mailbox.entity.clone(), payload.clone()));
        if let Some(ask) = reply_to {
            let result = Ok(payload.clone());
            let report = HostReport::Answered { ask, result };
            self.sharding.on_report(&mut self.fixture.cx(), report);
        }
        Some(payload)
    }

    fn end(&mut self, slot: Slot) {
        let boxes = self.mailboxes.as_mut();
        if let Some(mailbox) = boxes.and_then(|boxes| boxes.remove(&slot)) {
            self.killed
                .extend(mailbox.letters.into_iter().map(|(payload, _)| payload));
            let report = HostReport::Stopped { slot };
            self.sharding.on_report(&mut self.fixture.cx(), report);
        }
    }

    fn put_into(&mut self, order: HostOrder) {
        let boxes = self.mailboxes.get_or_insert_default();
        match order {
            HostOrder::Start { slot, instance } => {
                let entity = entity_of(instance);
                let (letters, is_stopping) = (VecDeque::new(), false);
                let mailbox = Mailbox {
                    entity,
                    letters,
                    is_stopping,
                    waits: None,
                };
                assert!(boxes.insert(slot, mailbox).is_none(), "started twice");
            }
            HostOrder::Deliver {
                slot,
                payload,
                reply_to,
                ..
            } => {
                let mailbox = boxes.get_mut(&slot).unwrap();
                assert!(
                    !mailbox.is_stopping,
                    "delivered to an entity that was told to stop"
                );
                mailbox.letters.push_back((payload, reply_to));
            }
            HostOrder::Stop { slot } | HostOrder::StopWithState { slot } => {
                let was = core::mem::replace(&mut boxes.get_mut(&slot).unwrap().is_stopping, true);
                assert!(!was, "told to stop twice");
            }
            HostOrder::Kill { slot } if self.alive => self.end(slot),
            HostOrder::Kill { .. } => {}
        }
    }

    fn obey(&mut self, order: HostOrder) {
        if self.mailboxes.is_some() {
            return self.put_into(order);
        }
        let mut report = None;
        match order {
            HostOrder::Start { slot, instance } => {
                let entity = entity_of(instance);
                assert_eq!(self.running.insert(slot, entity), None, "started twice");
            }
            HostOrder::Deliver {
                slot,
                payload,
                reply_to,
                ..
            } => {
                let entity = self.running[&slot].clone();
                if let Some(ask) = reply_to {
                    report = Some(HostReport::Answered {
                        ask,
                        result: Ok(payload.clone()),
                    });
                }
                self.handled.push((entity, payload));
            }
            HostOrder::Stop { .. } | HostOrder::StopWithState { .. } if self.stubborn => {}
            HostOrder::Stop { slot } | HostOrder::StopWithState { slot } | HostOrder::Kill { slot } => {
                if self.running.remove(&slot).is_some() {
                    report = Some(HostReport::Stopped { slot });
                }
            }
        }
        if let Some(report) = report.filter(|_| self.alive) {
            self.sharding.on_report(&mut self.fixture.cx(), report);
        }
    }
}

pub(super) fn address(at: usize) -> UniqueAddress {
    let host = alloc::format!("n{at:02}");
    node(&host, at as u64 + 1)
}

fn receive(peer: &mut Peer, from: &UniqueAddress, message: Message) {
    let (cx, sharding) = (&mut peer.fixture.cx(), &mut peer.sharding);
    match message {
        Message::Sharding(msg) => sharding.on_message(cx, from, msg),
        other => panic!("{other:?}"),
    }
}

/// How an ask waits that nobody's handler has made.
fn wait(timeout: Duration) -> AskWait {
    let chain = AskChain::default();
    AskWait { timeout, chain }
}

fn entity_of(instance: HostedInstance) -> EntityId {
    match instance {
        HostedInstance::Entity { entity, .. } => entity,
        HostedInstance::Singleton { .. } | HostedInstance::Path { .. } => panic!("{instance:?}"),
    }
}
