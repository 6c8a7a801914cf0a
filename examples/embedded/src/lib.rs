//! A host for the core on a board without an operating system: interrupts push what the serial lines bring
//! into a lock-free queue of fixed size, the main loop pops it and feeds the node. The steps and rules are
//! those of `docs/embedding.md`.
//!
//! * [`interrupts`]: all that runs in interrupt handlers: push or count, tick. Never waits, never allocates.
//! * [`mod@line`]: packets on a serial line: where one begins after bytes were lost, and what may wait to be
//!   sent.
//! * [`board`]: the main loop. Its links are those of `quorate-links`.
//!
//! `no_std`, no unsafe code. It builds for `thumbv7em-none-eabihf` (`.ci/run`), and `tests/boards.rs` runs
//! the very same source on the machine you build on, two boards beside each other, with bytes for a wire and
//! numbers for a clock.
//!
//! # Memory
//!
//! The interrupts' side is static: the queue and two counters. The main loop is not: the core keeps members,
//! timers, shards and messages in `alloc` collections, so **a firmware needs a global allocator**. What
//! bounds the heap is the configuration: [`small`] has settings for a few boards, `tests/boards.rs` measures
//! what a board holds with them. Allocations come and go with messages, so take an allocator that merges free
//! blocks. An allocation that fails ends the program: leave room.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod board;
pub mod interrupts;
mod lamps;
pub mod line;

use core::time::Duration;

use quorate_core::config::Config;
use quorate_core::ident::ClusterName;
use quorate_links::LinkLimits;

/// Settings for up to eight boards on slow lines: small limits, no compression (deflate takes 255 KiB of heap
/// whenever it compresses), a short memory of heartbeats. All nodes of the cluster need the same limits of
/// frames and members.
#[must_use]
pub fn small(cluster: ClusterName) -> Config {
    let mut config = Config::lan(cluster);
    config.failure_detector.max_sample_size = 20;
    config.sharding.buffer_messages_max = 32;
    config.sharding.buffer_bytes_max = 4 << 10;
    config.sharding.open_asks_max = 32;
    config.limits.control_frame_bytes_max = line::FRAME_BYTES_MAX;
    config.limits.gossip_frame_bytes_max = line::FRAME_BYTES_MAX;
    config.limits.user_frame_bytes_max = line::FRAME_BYTES_MAX;
    config.limits.bulk_frame_bytes_max = line::FRAME_BYTES_MAX;
    config.ddata.value_bytes_max = line::FRAME_BYTES_MAX / 4;
    config.ddata.bytes_max = 8 << 10;
    config.ddata.keys_max = 32;
    config.ddata.subscribers_max = 8;
    config.ddata.open_operations_max = 8;
    config.limits.compress_from_bytes = usize::MAX;
    config.limits.members_max = 8;
    config.limits.tombstones_max = 8;
    config.limits.entity_id_bytes_max = 32;
    config
}

/// Limits of the links of a board: few messages wait for a line.
#[must_use]
pub fn link_limits() -> LinkLimits {
    LinkLimits {
        // A hello that got lost is said again after so long.
        handshake_timeout: Duration::from_secs(2),
        gossip_queue_messages_max: 1,
        control_queue_messages_max: 100,
        reply_queue_messages_max: 32,
        reply_queue_bytes_max: 4 << 10,
        user_queue_messages_max: 32,
        user_queue_bytes_max: 4 << 10,
        ..LinkLimits::default()
    }
}
