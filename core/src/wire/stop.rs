//! What regions and coordinators say about shards that are to stop, as bytes. Unstable as all of sharding.
//! Spec: sharding 1.1, `docs/WIRE.md` 4.2.
#![deny(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]

use super::declare::{List, choice, codes};
use crate::sharding::protocol::stop::{STOP_SHARDS_MAX, StopMsg, StopRefusal};
use crate::sharding::state::ids::ShardId;

codes! { StopRefusal as "refusal" { 1 Remembers, 2 ShuttingDown } }

choice! {
    StopMsg as "stop" {
        1 Stop { shards: List<u32, ShardId, STOP_SHARDS_MAX, 1> },
        2 Stopped { shards: List<u32, ShardId, STOP_SHARDS_MAX, 1> },
        3 Refused { why: StopRefusal },
    }
}
