//! What nodes and the oldest member say about kinds, singletons and buckets, as bytes. Unstable as all of
//! sharding. Spec: sharding 10.11, `docs/WIRE.md` 4.7.

use super::declare::{Form, List, Maybe, Text, by_hand, choice, codes, record, text_as};
use crate::bytes::WireError;
use crate::ident::Role;
use crate::kv::state::bucket::BucketName;
use crate::kv::state::settings::{BucketFields, BucketSettings};
use crate::sharding::protocol::registry::{
    Announcement, REGISTRATIONS_PER_NODE_MAX, RegistrationFields, RegistrationId, RegistrationVerdict,
    RegistryMsg,
};
use crate::sharding::state::fields::{
    EXTRACTOR_BYTES_MAX, KIND_NAME_BYTES_MAX, KindFields, KindKeeping, StoreMode,
};
use crate::sharding::state::ids::{KindId, Term};
use crate::sharding::state::remember::RememberStore;
use crate::singleton::state::SingletonId;
use crate::singleton::state::fields::{SINGLETON_NAME_BYTES_MAX, SingletonFields, SingletonHosting};

/// A role, or an empty text.
struct AnyRole;

/// A verdict, and about what.
struct JudgedVerdict;

text_as! {
    AnyRole: Option<Role>, "text", |role| role.as_ref().map_or("", Role::as_str), |text| match text {
        "" => Some(None),
        role => Role::from_wire(role).ok().map(Some),
    };
}

by_hand! {
    JudgedVerdict: (RegistrationId, RegistrationVerdict), "judged", 4, <(RegistrationId, RegistrationVerdict) as Form<_>>::put, |reader, what| {
        let judged = <(RegistrationId, RegistrationVerdict) as Form<_>>::read(reader, what)?;
        if is_about_one_sort(&judged) { Ok(judged) } else { Err(WireError::Malformed { what }) }
    };
}

choice! {
    RegistryMsg as "registry message" {
        1 Announce { round: u32, all: List<u16, Announcement, REGISTRATIONS_PER_NODE_MAX> },
        2 Verdicts { term: Term, round: u32, verdicts: List<u16, JudgedVerdict, REGISTRATIONS_PER_NODE_MAX> },
        3 Query { term: Term },
    }
}

record! { Announcement as "announced" { fields: RegistrationFields, accepted: Maybe<u64>, running: bool } }

choice! {
    RegistrationFields as "registration" {
        1 Kind(kind: KindFields),
        2 Singleton(singleton: SingletonFields),
        3 Bucket(bucket: BucketFields),
    }
}

choice! {
    RegistrationId as "registration id" {
        1 Kind(kind: KindId),
        2 Singleton(singleton: SingletonId),
        3 Bucket(bucket: BucketName),
    }
}

choice! {
    RegistrationVerdict as "verdict" {
        1 Accepted { number: u64 },
        2 Refused { standing: RegistrationFields },
        3 TooMany,
    }
}

record! {
    KindFields as "fields" {
        name: Text<KIND_NAME_BYTES_MAX, 1>,
        role: AnyRole,
        shards: u32,
        extractor: Text<EXTRACTOR_BYTES_MAX, 1>,
        keeping: Maybe<KindKeeping>,
    } if KindFields::is_legal
}

record! {
    KindKeeping as "keeping" { lease: bool, store: StoreMode, remember_entities: Maybe<RememberStore> }
}

codes! { StoreMode as "store mode" { 0 Memory, 1 DistributedData, 2 Events } else Other }

codes! { RememberStore as "remember store" { 1 Data, 2 Events } }

record! {
    SingletonFields as "singleton fields" {
        name: Text<SINGLETON_NAME_BYTES_MAX, 1>,
        role: AnyRole,
        hosting: Maybe<SingletonHosting>,
    } if SingletonFields::is_legal
}

record! { BucketFields as "bucket fields" { name: BucketName, settings: BucketSettings } }

/// What stands is of the sort of what was announced.
fn is_about_one_sort((id, verdict): &(RegistrationId, RegistrationVerdict)) -> bool {
    match (id, verdict) {
        (_, RegistrationVerdict::Accepted { .. } | RegistrationVerdict::TooMany) => true,
        (RegistrationId::Kind(_), RegistrationVerdict::Refused { standing }) => {
            matches!(standing, RegistrationFields::Kind(_))
        }
        (RegistrationId::Singleton(_), RegistrationVerdict::Refused { standing }) => {
            matches!(standing, RegistrationFields::Singleton(_))
        }
        (RegistrationId::Bucket(_), RegistrationVerdict::Refused { standing }) => {
            matches!(standing, RegistrationFields::Bucket(_))
        }
    }
}

record! { SingletonHosting as "hosting" { lease: bool, durable: bool } }
