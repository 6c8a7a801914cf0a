//! What users and operators hear about: facts, each with what is needed to act on it. One arm per machine.

use core::convert::Infallible;

pub use crate::ddata::protocol::{DataChange, Event as DdataEvent};
pub use crate::detector::protocol::Event as DetectorEvent;
pub use crate::downing::protocol::{DowningReport, DowningWait, Event as DowningEvent};
use crate::ident::UniqueAddress;
pub use crate::journal::protocol::Event as JournalEvent;
pub use crate::kv::protocol::Event as KvEvent;
pub use crate::kv::protocol::watching::WatchNews;
use crate::kv::state::bucket::BucketName;
pub use crate::membership::protocol::{
    Audit, Event as MembershipEvent, JoinFailure, SeedCause, SeedFailure, ShutdownProgress,
};
pub use crate::paths::protocol::Event as PathEvent;
use crate::paths::state::name::PathId;
use crate::reject::Rejection;
pub use crate::sharding::protocol::Event as ShardingEvent;
use crate::sharding::state::ids::KindId;
pub use crate::singleton::protocol::Event as SingletonEvent;
use crate::singleton::state::SingletonId;

pub mod telling;

/// A fact. Its `Display` is one line for people.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Event {
    /// Membership.
    Membership(MembershipEvent),
    /// The failure detector.
    Detector(DetectorEvent),
    /// Downing.
    Downing(DowningEvent),
    /// Sharding.
    Sharding {
        /// The entity kind: `KindId::of` its name.
        kind: KindId,
        /// What happened.
        event: ShardingEvent,
    },
    /// Distributed data.
    Ddata(DdataEvent),
    /// A singleton.
    Singleton {
        /// Which: `SingletonId::of` its name.
        singleton: SingletonId,
        /// What happened.
        event: SingletonEvent,
    },
    /// Quorum logs.
    Journal(JournalEvent),
    /// A path.
    Path {
        /// Which: `PathId::of` its name.
        path: PathId,
        /// What happened.
        event: PathEvent,
    },
    /// A bucket of the keyed store.
    Kv {
        /// Which.
        bucket: BucketName,
        /// What happened.
        event: KvEvent,
    },
    /// A peer did something wrong; nothing was changed by it.
    Rejected {
        /// The peer, if the link had one.
        peer: UniqueAddress,
        /// What was wrong.
        rejection: Rejection,
    },
}

impl From<Infallible> for Event {
    /// Of a machine that tells users nothing.
    fn from(never: Infallible) -> Self {
        match never {}
    }
}

impl From<MembershipEvent> for Event {
    fn from(event: MembershipEvent) -> Self {
        Self::Membership(event)
    }
}

impl From<DetectorEvent> for Event {
    fn from(event: DetectorEvent) -> Self {
        Self::Detector(event)
    }
}

impl From<DowningEvent> for Event {
    fn from(event: DowningEvent) -> Self {
        Self::Downing(event)
    }
}

impl From<DdataEvent> for Event {
    fn from(event: DdataEvent) -> Self {
        Self::Ddata(event)
    }
}

impl From<JournalEvent> for Event {
    fn from(event: JournalEvent) -> Self {
        Self::Journal(event)
    }
}

impl From<(SingletonId, SingletonEvent)> for Event {
    fn from((singleton, event): (SingletonId, SingletonEvent)) -> Self {
        Self::Singleton { singleton, event }
    }
}

impl From<(PathId, PathEvent)> for Event {
    fn from((path, event): (PathId, PathEvent)) -> Self {
        Self::Path { path, event }
    }
}

impl From<(BucketName, KvEvent)> for Event {
    fn from((bucket, event): (BucketName, KvEvent)) -> Self {
        Self::Kv { bucket, event }
    }
}

impl From<(KindId, ShardingEvent)> for Event {
    fn from((kind, event): (KindId, ShardingEvent)) -> Self {
        Self::Sharding { kind, event }
    }
}
