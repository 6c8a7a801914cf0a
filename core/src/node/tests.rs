//! What the facade adds up over its machines.

use core::time::Duration;

use rand_chacha::ChaCha8Rng;
use rand_core::SeedableRng;

use super::*;
use crate::config::Config;
use crate::fixture;
use crate::ident::ClusterName;
use crate::input::KindSettings;
use crate::sharding::state::ids::{EntityId, KindId, Payload};

const KINDS: [&str; 2] = ["cart", "order"];

/// A node outside of any cluster, with two kinds: what is told to their entities waits.
fn node_with_room_for(messages: usize, bytes: usize) -> Node<ChaCha8Rng> {
    let mut config = Config::lan(ClusterName::new("test").unwrap());
    config.sharding.buffer_messages_max = messages;
    config.sharding.buffer_bytes_max = bytes;
    let (me, rng) = (fixture::node("a", 1), ChaCha8Rng::seed_from_u64(1));
    let mut node = Node::new(config.validate().unwrap(), me, rng, Now::default());
    for (token, name) in (1..).zip(KINDS) {
        let command = Command::Sharding(ShardingCommand::RegisterKind(KindSettings {
            name: name.into(),
            shards: 8,
            role: None,
            hosts: true,
        }));
        node.handle(Now::default(), Input::Command { token, command });
    }
    node
}

fn tell(node: &mut Node<ChaCha8Rng>, kind: &str, bytes: usize) {
    let tell = Input::Tell {
        kind: KindId::of(kind),
        entity: EntityId::new(b"e"),
        payload: Payload::from(std::vec![7; bytes]),
    };
    node.handle(Now::default(), tell);
}

#[test]
fn i_45_what_is_buffered_is_the_sum_of_what_each_machine_buffers() {
    let mut node = node_with_room_for(100, 1_000);
    assert_eq!(node.buffered(), Buffered::NOTHING);
    for kind in KINDS {
        tell(&mut node, kind, 9);
    }
    let shares = node.machines.buffered();
    let all = Buffered {
        messages: 2,
        bytes: 20,
    };
    let expected = [
        ("membership", Buffered::NOTHING),
        ("detector", Buffered::NOTHING),
        ("resolver", Buffered::NOTHING),
        ("sharding", all),
        ("ddata", Buffered::NOTHING),
    ];
    assert_eq!((shares, node.buffered()), (expected, all));
}

#[test]
fn i_45_two_kinds_that_are_half_full_each_stop_the_reading_of_user_links() {
    let mut node = node_with_room_for(8, 1_000);
    for kind in [KINDS[0], KINDS[1], KINDS[0], KINDS[1], KINDS[0]] {
        tell(&mut node, kind, 1);
    }
    assert!(node.has_capacity(), "5 of 8");
    tell(&mut node, KINDS[1], 1);
    assert!(!node.has_capacity(), "6 of 8");
    let mut node = node_with_room_for(100, 40);
    tell(&mut node, KINDS[0], 14);
    tell(&mut node, KINDS[1], 13);
    assert!(node.has_capacity(), "29 bytes of 40, with an id of one each");
    tell(&mut node, KINDS[1], 1);
    assert!(!node.has_capacity(), "31 bytes of 40");
    assert_eq!(node.check_invariants(), Ok(()));
    let later = Now {
        mono: Instant::ZERO + Duration::from_secs(1),
        unix_ms: 1_000,
    };
    node.handle(later, Input::Tick);
    assert!(!node.has_capacity(), "they still wait");
}
