//! The smallest host: one node, a clock that is a number, nobody to talk to. It forms a cluster of one, hosts
//! an entity, asks it, leaves. All that a host does is here, except for links; `docs/embedding.md` goes on
//! with them. `cargo run -p quorate-core --example smallest_host`

use std::collections::VecDeque;
use std::time::Duration;

use quorate_core::config::Config;
use quorate_core::effect::{Answer, Effect, HaltReason, HostOrder, Output};
use quorate_core::ident::{Address, ClusterName, UniqueAddress};
use quorate_core::input::MessageCommand;
use quorate_core::input::Recipient;
use quorate_core::input::{Command, HostReport, Input, KindSettings, MembershipCommand, ShardingCommand};
use quorate_core::node::Node;
use quorate_core::sharding::chain::AskChain;
use quorate_core::sharding::ids::{EntityId, KindId};
use quorate_core::time::Now;
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
    let echo = KindSettings::new("echo", 1, true);
    let ask = Command::Message(MessageCommand::Ask {
        to: Recipient::Entity(KindId::of("echo"), EntityId::from("one")),
        payload: b"hello".as_slice().into(),
        timeout: Duration::from_secs(10),
        chain: AskChain::default(),
    });
    let wanted = [
        Command::Sharding(ShardingCommand::RegisterKind(Box::new(echo))),
        Command::Membership(MembershipCommand::Join(me.address().clone())),
        ask,
        Command::Membership(MembershipCommand::Leave),
    ];
    let mut wanted = (1..).zip(wanted);
    let mut next = || {
        wanted
            .next()
            .map(|(token, command)| Input::Command { token, command })
    };
    // What waits to be told to the node, one input at a time. What effects cause goes here too, never
    // straight back.
    let mut inputs: VecDeque<Input<'static>> = next().into_iter().collect();
    let mut said = Vec::new();
    loop {
        match node.poll() {
            // Effects: all of them, in their order.
            Output::Effect(effect) => match effect {
                Effect::Reply { answer, .. } => {
                    if let Answer::Asked(Ok(payload)) = answer {
                        said = payload.into_vec();
                    }
                    inputs.extend(next());
                }
                Effect::Host(
                    owner,
                    HostOrder::Deliver {
                        payload, reply_to, ..
                    },
                ) => {
                    let answered = |ask| HostReport::Answered {
                        ask,
                        result: Ok(payload),
                    };
                    inputs.extend(reply_to.map(|ask| Input::Host(owner, answered(ask))));
                }
                Effect::Host(
                    owner,
                    HostOrder::Stop { slot } | HostOrder::StopWithState { slot } | HostOrder::Kill { slot },
                ) => {
                    inputs.push_back(Input::Host(owner, HostReport::Stopped { slot }));
                }
                // The end: after it the node says nothing more.
                Effect::Halt(reason) => return Ok((said, reason)),
                // Nobody to talk to, nobody to tell, and nothing that lasts.
                Effect::Host(_, HostOrder::Start { .. })
                | Effect::Send { .. }
                | Effect::Offer { .. }
                | Effect::Notify(_)
                | Effect::Lease(..)
                | Effect::Store(..)
                | Effect::Allocate(_)
                | Effect::Quarantine(_) => {}
            },
            // Then the next input. Without one: sleep until then, and say so. This clock is a number, so it
            // jumps.
            Output::Sleep(wake) => {
                let input = match inputs.pop_front() {
                    Some(input) => input,
                    None => {
                        now.mono = wake.ok_or("asleep for ever")?.at;
                        Input::Tick
                    }
                };
                node.handle(now, input);
            }
        }
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (said, end) = run()?;
    println!("{}, {end:?}", String::from_utf8_lossy(&said));
    Ok(())
}
