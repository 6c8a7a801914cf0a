//! The smallest host: one node, a clock that is a number, nobody to talk to. It forms a cluster of one, hosts an entity, asks
//! it, leaves. All that a host does is here, except for links; `docs/embedding.md` goes on with them.
//! `cargo run -p quorate-core --example smallest_host`

use std::sync::Arc;
use std::time::Duration;

use quorate_core::config::Config;
use quorate_core::effect::{Answer, Effect, EntityOrder, HaltReason, Output, ShardingAnswer};
use quorate_core::ident::{Address, ClusterName, UniqueAddress};
use quorate_core::input::{Command, EntityReport, Input, KindSettings, MembershipCommand, ShardingCommand};
use quorate_core::node::Node;
use quorate_core::sharding::ids::{EntityId, KindId};
use quorate_core::time::{Instant, Now};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;

/// What the entity said, and how the node ended.
pub(crate) fn run() -> Result<(Vec<u8>, HaltReason), Box<dyn std::error::Error>> {
    // A clock and chance: here a number and a constant, so that every run is the same.
    let mut now = Now::default();
    let rng = ChaCha8Rng::seed_from_u64(1);
    let me = UniqueAddress::new(Address::new("alone", 1)?, 1);
    let config = Config::lan(ClusterName::new("smallest")?).validate()?;
    let mut node = Node::new(config, me.clone(), rng, now);

    // Inputs: what this program wants, and when.
    let echo = KindSettings {
        name: Arc::from("echo"),
        shards: 1,
        role: None,
        hosts: true,
    };
    let ask = Command::Sharding(ShardingCommand::Ask {
        kind: KindId::of("echo"),
        entity: EntityId::from("one"),
        payload: b"hello".as_slice().into(),
        timeout: Duration::from_secs(10),
    });
    let mut wanted = [
        Command::Sharding(ShardingCommand::RegisterKind(echo)),
        Command::Membership(MembershipCommand::Join(me.address().clone())),
        ask,
        Command::Membership(MembershipCommand::Leave),
    ]
    .into_iter();
    let mut said = Vec::new();

    for token in 1.. {
        let Some(command) = wanted.next() else { break };
        node.handle(now, Input::Command { token, command });
        let mut is_answered = false;
        while !is_answered {
            match node.poll() {
                // Effects: done at once and in their order. What comes of them is the next input.
                Output::Effect(Effect::Reply { token: of, answer }) => {
                    is_answered = of == token;
                    if let Answer::Sharding(ShardingAnswer::Asked(Ok(payload))) = answer {
                        said = payload.into_vec();
                    }
                }
                Output::Effect(Effect::Entity(EntityOrder::Deliver {
                    payload,
                    reply_to: Some(ask),
                    ..
                })) => {
                    let result = Ok(payload);
                    node.handle(now, Input::Entity(EntityReport::Answered { ask, result }));
                }
                Output::Effect(_) => {}
                // Timers: sleep until then, and say so. This clock is a number, so it jumps.
                Output::Sleep(wake) => {
                    now.mono = wake.map_or(Instant::MAX, |wake| wake.at);
                    node.handle(now, Input::Tick);
                }
            }
        }
    }

    // The end: after `Halt` the node says nothing more.
    loop {
        match node.poll() {
            Output::Effect(Effect::Halt(reason)) => return Ok((said, reason)),
            Output::Effect(Effect::Entity(EntityOrder::Stop { slot } | EntityOrder::Kill { slot })) => {
                node.handle(now, Input::Entity(EntityReport::Stopped { slot }));
            }
            Output::Effect(_) => {}
            Output::Sleep(wake) => {
                now.mono = wake.ok_or("asleep for ever")?.at;
                node.handle(now, Input::Tick);
            }
        }
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (said, end) = run()?;
    println!("{}, {end:?}", String::from_utf8_lossy(&said));
    Ok(())
}
