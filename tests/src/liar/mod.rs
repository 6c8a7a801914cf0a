//! A member that lies about numbers: legal messages of every kind that members say to each other, whose
//! terms, tokens, counters, sequence numbers, versions, stamps, ids and sizes are drawn at random, at their
//! ends, and near those that were heard. What they say of members, statuses, reachability and tombstones is
//! what an honest node would say; Leave, Down and Removed are left out, because members trust each other with
//! them. Used by the simulator's fault `liar` and by a real process; sends nothing itself. Spec: reliability
//! 1a (F-30), I-100.
//!
//! One file per machine: its kinds, which of them a message is (a new message does not compile before
//! somebody has said), the table of its numbers, and what is said.

pub mod ddata;
pub mod entities;
pub mod journal;
pub mod kv;
pub mod load;
pub mod membership;
mod numbers;
pub mod paths;
pub mod regions;
pub mod registry;
pub mod singleton;
pub mod survey;
mod values;

use std::sync::Arc;

use quorate_core::ident::{Role, UniqueAddress};
use quorate_core::journal::state::StoreId;
use quorate_core::membership::gossip::Gossip;
use quorate_core::membership::member::UpNumber;
use quorate_core::message::{Message, ShardingMsg};
use quorate_core::sharding::chain::AskChain;
use quorate_core::sharding::fields::KindFields;
use quorate_core::sharding::ids::{EntityId, KindId, ShardId, Term};
use quorate_core::singleton::state::SingletonId;
use quorate_core::token::Token;

use crate::sim::Chance;

pub use numbers::{Heard, Number, table};

/// Bytes of the largest payload that it says: a lie is about numbers, not about bytes.
pub const PAYLOAD_BYTES_MAX: usize = 4_096;

/// Elements of the longest list that it says, for the same reason.
const LIST_MAX: u64 = 8;

/// What a member knows, and what it can speak of.
#[derive(Clone, Debug)]
pub struct Known {
    /// Who lies.
    pub me: UniqueAddress,
    /// Its roles.
    pub roles: Vec<Role>,
    /// The state that an honest node would send, with the table of paths.
    pub gossip: Arc<Gossip>,
    /// Entity kinds, as they are.
    pub kinds: Vec<KindFields>,
    /// Entities of these kinds.
    pub entities: Vec<EntityId>,
    /// Singletons.
    pub singletons: Vec<Arc<str>>,
    /// Keys of data of which it says no value, because others count on those.
    pub keys: Vec<String>,
    /// Quorum logs.
    pub logs: Vec<Arc<str>>,
    /// Stores that may vote.
    pub stores: Vec<StoreId>,
}

/// A kind of message, as fine as there are things to say.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Of membership and of the failure detector.
    Membership(membership::Kind),
    /// Between regions and coordinators.
    Region(regions::Kind),
    /// About entities, and asks of them.
    Entity(entities::Kind),
    /// About kinds.
    Registry(registry::Kind),
    /// For people to read.
    Survey(survey::Kind),
    /// Of replicated data.
    Ddata(ddata::Kind),
    /// Of singletons.
    Singleton(singleton::Kind),
    /// Of quorum logs.
    Journal(journal::Kind),
    /// Of load.
    Load(load::Kind),
    /// Of paths.
    Path(paths::Kind),
    /// Of buckets.
    Kv(kv::Kind),
}

impl Kind {
    /// Everything that it says.
    #[must_use]
    pub fn all() -> Vec<Self> {
        let membership = membership::Kind::ALL.into_iter().map(Self::Membership);
        let regions = regions::Kind::ALL.into_iter().map(Self::Region);
        let entities = entities::Kind::ALL.into_iter().map(Self::Entity);
        let registry = registry::Kind::ALL.into_iter().map(Self::Registry);
        let survey = survey::Kind::ALL.into_iter().map(Self::Survey);
        let ddata = ddata::Kind::ALL.into_iter().map(Self::Ddata);
        let singleton = singleton::Kind::ALL.into_iter().map(Self::Singleton);
        let journal = journal::Kind::ALL.into_iter().map(Self::Journal);
        let load = load::Kind::ALL.into_iter().map(Self::Load);
        let paths = paths::Kind::ALL.into_iter().map(Self::Path);
        let kv = kv::Kind::ALL.into_iter().map(Self::Kv);
        let first = membership.chain(regions).chain(entities).chain(registry);
        first
            .chain(survey)
            .chain(ddata)
            .chain(singleton)
            .chain(journal)
            .chain(load)
            .chain(paths)
            .chain(kv)
            .collect()
    }

    /// What a message is; `None` for what it never says.
    #[must_use]
    pub fn of(message: &Message) -> Option<Self> {
        match message {
            Message::Membership(msg) => membership::Kind::of(msg).map(Self::Membership),
            Message::Detector(msg) => Some(Self::Membership(membership::Kind::of_detector(msg))),
            Message::Sharding(msg) => Some(match msg {
                ShardingMsg::Kind(message) => Self::Region(regions::Kind::of(&message.body)),
                ShardingMsg::Registry(msg) => Self::Registry(registry::Kind::of(msg)),
                ShardingMsg::Survey(msg) => Self::Survey(survey::Kind::of(msg)),
                ShardingMsg::Entity(_) => Self::Entity(entities::Kind::Entity),
                ShardingMsg::AskReply(_) => Self::Entity(entities::Kind::AskReply),
                ShardingMsg::HandBack(_) => Self::Entity(entities::Kind::HandBack),
                ShardingMsg::Mark(_) => Self::Entity(entities::Kind::Mark),
                ShardingMsg::MarkAck(_) => Self::Entity(entities::Kind::MarkAck),
                ShardingMsg::Watch(msg) => Self::Entity(entities::Kind::of_watch(msg)),
                ShardingMsg::Start(_) => Self::Entity(entities::Kind::Start),
                ShardingMsg::Started(_) => Self::Entity(entities::Kind::Started),
            }),
            Message::Ddata(msg) => Some(Self::Ddata(ddata::Kind::of(&msg.body))),
            Message::Singleton(msg) => Some(Self::Singleton(singleton::Kind::of(msg))),
            Message::Journal(msg) => Some(Self::Journal(journal::Kind::of(msg))),
            Message::Path(msg) => Some(Self::Path(paths::Kind::of(msg))),
            Message::Load(msg) => Some(Self::Load(load::Kind::of(msg))),
            Message::Kv(msg) => Some(Self::Kv(kv::Kind::of(msg))),
        }
    }
}

/// A lie about to be told to one member.
#[derive(Debug)]
pub struct Lie<'a> {
    known: &'a Known,
    heard: &'a Heard,
    to: &'a UniqueAddress,
    chance: &'a mut Chance,
}

/// What is said to a member: a message of this kind, as a member may send it.
pub fn lie(kind: Kind, to: &UniqueAddress, known: &Known, heard: &Heard, chance: &mut Chance) -> Message {
    let mut lie = Lie {
        known,
        heard,
        to,
        chance,
    };
    match kind {
        Kind::Membership(kind) => membership::say(kind, &mut lie),
        Kind::Region(kind) => regions::say(kind, &mut lie),
        Kind::Entity(kind) => entities::say(kind, &mut lie),
        Kind::Registry(kind) => registry::say(kind, &mut lie),
        Kind::Survey(kind) => survey::say(kind, &mut lie),
        Kind::Ddata(kind) => ddata::say(kind, &mut lie),
        Kind::Singleton(kind) => singleton::say(kind, &mut lie),
        Kind::Journal(kind) => journal::say(kind, &mut lie),
        Kind::Load(kind) => load::say(kind, &mut lie),
        Kind::Path(kind) => paths::say(kind, &mut lie),
        Kind::Kv(kind) => kv::say(kind, &mut lie),
    }
}

impl Lie<'_> {
    fn number(&mut self, number: Number) -> u64 {
        self.heard.draw(number, self.chance)
    }

    fn number_u32(&mut self, number: Number) -> u32 {
        u32::try_from(self.number(number)).unwrap_or(u32::MAX)
    }

    fn number_u16(&mut self, number: Number) -> u16 {
        u16::try_from(self.number(number)).unwrap_or(u16::MAX)
    }

    fn flag(&mut self) -> bool {
        self.chance.per_mille(500)
    }

    fn one<T: Clone>(&mut self, of: &[T]) -> Option<T> {
        of.get(self.chance.index(of.len())).cloned()
    }

    /// A list of a few things.
    fn few<T>(&mut self, mut make: impl FnMut(&mut Self) -> T) -> Vec<T> {
        (0..self.chance.below(LIST_MAX)).map(|_| make(self)).collect()
    }

    /// A member; mostly one that is meant, or the liar.
    fn node(&mut self) -> UniqueAddress {
        match self.chance.below(4) {
            0 => self.known.me.clone(),
            1 => self.to.clone(),
            _ => {
                let members = self.known.gossip.members();
                let member = members.get(self.chance.index(members.len()));
                member.map_or_else(|| self.known.me.clone(), |member| member.node.clone())
            }
        }
    }

    fn term(&mut self) -> Term {
        let up_number = UpNumber::new(self.number_u32(numbers::UP_NUMBER));
        let node = self.node();
        Term { up_number, node }
    }

    fn token(&mut self) -> Token {
        Token::new(
            self.number(numbers::TOKEN_TERM),
            self.number(numbers::TOKEN_COUNT),
        )
    }

    fn fields(&mut self) -> Option<KindFields> {
        let kinds = &self.known.kinds;
        kinds.get(self.chance.index(kinds.len())).cloned()
    }

    fn kind(&mut self) -> KindId {
        match self.fields() {
            Some(fields) if !self.chance.per_mille(100) => KindId::of(&fields.name),
            _ => KindId::from_raw(self.number(numbers::HASH)),
        }
    }

    fn shard(&mut self) -> ShardId {
        ShardId(self.number_u32(numbers::SHARD))
    }

    fn shards(&mut self) -> Vec<ShardId> {
        let mut shards = self.few(Self::shard);
        shards.sort_unstable();
        shards.dedup();
        shards
    }

    fn entity(&mut self) -> EntityId {
        let entities = &self.known.entities;
        match entities.get(self.chance.index(entities.len())) {
            Some(entity) if self.flag() => entity.clone(),
            _ => EntityId::from(format!("lie-{}", self.chance.below(64)).as_str()),
        }
    }

    fn singleton(&mut self) -> SingletonId {
        match self.one(&self.known.singletons) {
            Some(name) if !self.chance.per_mille(100) => SingletonId::of(&name),
            _ => SingletonId::from_raw(self.number(numbers::HASH)),
        }
    }

    fn chain(&mut self) -> AskChain {
        let names = self.few(|lie| lie.number(numbers::HASH));
        match names[..] {
            [name] if name % 4 == 0 => AskChain::of_a_clock(),
            _ => AskChain::of(&names),
        }
    }

    /// Bytes of a drawn number.
    fn bytes(&mut self) -> Vec<u8> {
        let size = usize::try_from(self.number(numbers::SIZE)).unwrap_or(0);
        vec![0xA5; size]
    }
}
