//! What members and the oldest one say about kinds, singletons and buckets. Spec: sharding 10.11,
//! `docs/WIRE.md` 4.7.

use quorate_core::kv::state::settings::{BucketFields, BucketSettings};
use quorate_core::message::{Message, ShardingMsg};
use quorate_core::sharding::ids::KindId;
use quorate_core::sharding::protocol::registry::{
    Announcement, RegistrationFields, RegistrationId, RegistrationVerdict, RegistryMsg,
};
use quorate_core::singleton::state::SingletonId;
use quorate_core::singleton::state::fields::{SingletonFields, SingletonHosting};

use super::numbers::{ACCEPTANCE, ROUND};
use super::{Lie, kv, regions};

/// See [`super::Kind`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[expect(missing_docs, reason = "the names of the messages")]
pub enum Kind {
    Announce,
    Verdicts,
    Query,
}

impl Kind {
    pub(super) const ALL: [Self; 3] = [Self::Announce, Self::Verdicts, Self::Query];

    pub(super) const fn of(msg: &RegistryMsg) -> Self {
        match msg {
            RegistryMsg::Announce { .. } => Self::Announce,
            RegistryMsg::Verdicts { .. } => Self::Verdicts,
            RegistryMsg::Query { .. } => Self::Query,
        }
    }
}

pub(super) fn say(kind: Kind, lie: &mut Lie<'_>) -> Message {
    let msg = match kind {
        Kind::Announce => RegistryMsg::Announce {
            round: lie.number_u32(ROUND),
            all: vec![announced(lie)],
        },
        Kind::Verdicts => {
            let verdict = verdict(lie);
            RegistryMsg::Verdicts {
                term: lie.term(),
                round: lie.number_u32(ROUND),
                verdicts: vec![verdict],
            }
        }
        Kind::Query => RegistryMsg::Query { term: lie.term() },
    };
    ShardingMsg::Registry(msg).into()
}

fn announced(lie: &mut Lie<'_>) -> Announcement {
    let accepted = lie.flag().then(|| lie.number(ACCEPTANCE));
    Announcement {
        fields: fields(lie),
        accepted,
        running: lie.flag(),
    }
}

/// Those of a kind, a singleton or a bucket, as they are or otherwise.
fn fields(lie: &mut Lie<'_>) -> RegistrationFields {
    if lie.flag() {
        return RegistrationFields::Kind(regions::fields(lie));
    }
    if lie.flag() {
        return RegistrationFields::Bucket(BucketFields {
            name: kv::bucket(lie),
            settings: BucketSettings::default(),
        });
    }
    let name = lie.one(&lie.known.singletons);
    let hosting = SingletonHosting {
        lease: lie.flag(),
        durable: lie.flag(),
    };
    RegistrationFields::Singleton(SingletonFields {
        name: name.unwrap_or_else(|| "lies".into()),
        role: None,
        hosting: lie.flag().then_some(hosting),
    })
}

/// Whose fields these are.
fn id(fields: &RegistrationFields) -> RegistrationId {
    match fields {
        RegistrationFields::Kind(fields) => RegistrationId::Kind(KindId::of(&fields.name)),
        RegistrationFields::Singleton(fields) => RegistrationId::Singleton(SingletonId::of(&fields.name)),
        RegistrationFields::Bucket(fields) => RegistrationId::Bucket(fields.name.clone()),
    }
}

/// Of a kind, a singleton or a bucket.
fn any_id(lie: &mut Lie<'_>) -> RegistrationId {
    if lie.flag() {
        return RegistrationId::Kind(lie.kind());
    }
    if lie.flag() {
        return RegistrationId::Bucket(kv::bucket(lie));
    }
    RegistrationId::Singleton(lie.singleton())
}

fn verdict(lie: &mut Lie<'_>) -> (RegistrationId, RegistrationVerdict) {
    match lie.chance.below(3) {
        0 => {
            let number = lie.number(ACCEPTANCE);
            (any_id(lie), RegistrationVerdict::Accepted { number })
        }
        1 => {
            let standing = fields(lie);
            (id(&standing), RegistrationVerdict::Refused { standing })
        }
        _ => (any_id(lie), RegistrationVerdict::TooMany),
    }
}
