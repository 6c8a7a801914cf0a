//! Whose a [`super::Cx`] is: what each machine sends, waits for, tells and counts. Types only.

use core::convert::Infallible;

use crate::event::{
    DdataEvent, DetectorEvent, DowningEvent, Event, JournalEvent, KvEvent, MembershipEvent, PathEvent,
    ShardingEvent, SingletonEvent,
};
use crate::kv::state::bucket::BucketName;
use crate::message::{
    DdataMsg, DetectorMsg, JournalMsg, KvMsg, LoadMsg, MembershipMsg, Message, PathMsg, ShardingMsg,
    SingletonMsg,
};
use crate::paths::state::name::PathId;
use crate::sharding::state::ids::KindId;
use crate::singleton::state::SingletonId;
use crate::stats::{
    DdataCounters, DetectorCounters, DowningCounters, JournalCounters, KvCounters, LoadCounters,
    MembershipCounters, OldestCounters, PathCounters, ShardingCounters, SingletonCounters, Stats,
};
use crate::timer::{
    DdataTimer, DetectorTimer, DowningTimer, JournalTimer, KvTimer, LoadTimer, MembershipTimer, OldestTimer,
    PathTimer, ShardingTimer, SingletonTimer, Timer,
};

/// The words of one machine, as its `protocol` states them.
pub(crate) trait MachineWords {
    /// What it says to its like on other nodes.
    type Msg: Into<Message>;
    /// What it waits for.
    type Timer: Into<Timer>;
    /// What it tells users.
    type Event: Into<Event>;
    /// What it counts.
    type Counters;

    /// Its part of the node's counters.
    fn counters(stats: &mut Stats) -> &mut Self::Counters;
}

/// Writes the words of one machine under a name that stands for it.
macro_rules! words {
    ($($(#[$doc:meta])* $name:ident: $part:ident, $msg:ty, $timer:ty, $event:ty, $counters:ty;)*) => {$(
        $(#[$doc])*
        pub(crate) enum $name {}

        impl MachineWords for $name {
            type Msg = $msg;
            type Timer = $timer;
            type Event = $event;
            type Counters = $counters;

            fn counters(stats: &mut Stats) -> &mut $counters {
                &mut stats.$part
            }
        }
    )*};
}

words! {
    /// Of membership.
    OfMembership: membership, MembershipMsg, MembershipTimer, MembershipEvent, MembershipCounters;
    /// Of the failure detector.
    OfDetector: detector, DetectorMsg, DetectorTimer, DetectorEvent, DetectorCounters;
    /// Of the split-brain resolver, which says nothing to other nodes.
    OfDowning: downing, Infallible, DowningTimer, DowningEvent, DowningCounters;
    /// Of the room of age, which says nothing to other nodes and nothing to users.
    OfOldest: oldest, Infallible, OldestTimer, Infallible, OldestCounters;
    /// Of sharding, whose events are about a kind.
    OfSharding: sharding, ShardingMsg, ShardingTimer, (KindId, ShardingEvent), ShardingCounters;
    /// Of the replicator.
    OfDdata: ddata, DdataMsg, DdataTimer, DdataEvent, DdataCounters;
    /// Of singletons, whose events are about one of them.
    OfSingleton: singleton, SingletonMsg, SingletonTimer, (SingletonId, SingletonEvent), SingletonCounters;
    /// Of quorum logs.
    OfJournal: journal, JournalMsg, JournalTimer, JournalEvent, JournalCounters;
    /// Of load, which tells users nothing.
    OfLoad: load, LoadMsg, LoadTimer, Infallible, LoadCounters;
    /// Of paths, whose events are about one of them.
    OfPaths: paths, PathMsg, PathTimer, (PathId, PathEvent), PathCounters;
    /// Of the keyed store, whose events are about a bucket.
    OfKv: kv, KvMsg, KvTimer, (BucketName, KvEvent), KvCounters;
}
