//! What nodes and the oldest member say about kinds and singletons, as bytes. Unstable as all of sharding.
//! Spec: sharding 10.11, `docs/WIRE.md` 4.7.

use super::declare::{Form, List, Maybe, Text, by_hand, choice, codes, record, text_as};
use crate::bytes::WireError;
use crate::ident::Role;
use crate::sharding::protocol::registry::{
    Announced, Fields, REGISTRATIONS_PER_NODE_MAX, RegistrationId, RegistryMsg, Verdict,
};
use crate::sharding::state::fields::{
    EXTRACTOR_BYTES_MAX, KIND_NAME_BYTES_MAX, Keeping, KindFields, StoreMode,
};
use crate::sharding::state::ids::{KindId, Term};
use crate::sharding::state::remember::RememberStore;
use crate::singleton::state::SingletonId;
use crate::singleton::state::fields::{Hosting, SINGLETON_NAME_BYTES_MAX, SingletonFields};

/// A role, or an empty text.
struct AnyRole;

/// A verdict, and about what.
struct Judged;

text_as! {
    AnyRole: Option<Role>, "text", |role| role.as_ref().map_or("", Role::as_str), |text| match text {
        "" => Some(None),
        role => Role::from_wire(role).ok().map(Some),
    };
}

by_hand! {
    Judged: (RegistrationId, Verdict), "judged", 10, <(RegistrationId, Verdict) as Form<_>>::put, |reader, what| {
        match <(RegistrationId, Verdict) as Form<_>>::read(reader, what)? {
            (RegistrationId::Kind(_), Verdict::Refused { standing: Fields::Singleton(_) })
            | (RegistrationId::Singleton(_), Verdict::Refused { standing: Fields::Kind(_) }) => Err(WireError::Malformed { what }),
            judged => Ok(judged),
        }
    };
}

choice! {
    RegistryMsg as "registry message" {
        1 Announce { round: u32, all: List<u16, Announced, REGISTRATIONS_PER_NODE_MAX> },
        2 Verdicts { term: Term, round: u32, verdicts: List<u16, Judged, REGISTRATIONS_PER_NODE_MAX> },
        3 Query { term: Term },
    }
}

record! { Announced as "announced" { fields: Fields, accepted: Maybe<u64>, running: bool } }

choice! {
    Fields as "registration" {
        1 Kind(kind: KindFields),
        2 Singleton(singleton: SingletonFields),
    }
}

choice! {
    RegistrationId as "registration id" {
        1 Kind(kind: KindId),
        2 Singleton(singleton: SingletonId),
    }
}

choice! {
    Verdict as "verdict" {
        1 Accepted { number: u64 },
        2 Refused { standing: Fields },
        3 TooMany,
    }
}

record! {
    KindFields as "fields" {
        name: Text<KIND_NAME_BYTES_MAX, 1>,
        role: AnyRole,
        shards: u32,
        extractor: Text<EXTRACTOR_BYTES_MAX, 1>,
        keeping: Maybe<Keeping>,
    } if KindFields::is_legal
}

record! {
    Keeping as "keeping" { lease: bool, store: StoreMode, remember_entities: Maybe<RememberStore> }
}

codes! { StoreMode as "store mode" { 0 Memory, 1 DistributedData, 2 Events } else Other }

codes! { RememberStore as "remember store" { 1 Data, 2 Events } }

record! {
    SingletonFields as "singleton fields" {
        name: Text<SINGLETON_NAME_BYTES_MAX, 1>,
        role: AnyRole,
        hosting: Maybe<Hosting>,
    } if SingletonFields::is_legal
}

record! { Hosting as "hosting" { lease: bool, durable: bool } }
