//! The program of the example: two nodes on tokio and the host over mio form a cluster over TCP, ask each
//! other's entities, lose all links of the host, go on, and the host leaves. Every stage has a deadline; none
//! sleeps.

use std::time::{Duration, Instant};

use quorate_core::config::Config;
use quorate_core::effect::{Answer, HaltReason};
use quorate_core::ident::{Address, ClusterName};
use quorate_core::input::MessageCommand;
use quorate_core::input::Recipient;
use quorate_core::input::{Command, KindSettings, MembershipCommand, ShardingCommand};
use quorate_core::membership::member::Status;
use quorate_core::sharding::chain::AskChain;
use quorate_core::sharding::ids::{EntityId, KindId};
use quorate_links::LinkLimits;
use quorate_tokio::{Cluster, EntityContext, Kind, Region, Security};
use tokio::runtime::Runtime;

use super::host::Host;
use super::{Failure, entities};

const CLUSTER: &str = "mio";
const KIND: &str = "greeter";
const SHARDS: u32 = 12;
/// How long any stage may take.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long the host sleeps at most, so that this program, on the same thread, gets its turn.
const TURN: Duration = Duration::from_millis(20);
/// Entities that are asked: enough for every node to have some.
const ENTITIES: u32 = 30;

type Greeters = Region<String, String>;

/// What was seen.
pub struct Outcome {
    /// Answers to the node on tokio.
    pub asked_by_tokio: Vec<String>,
    /// Answers to the host over mio.
    pub asked_by_mio: Vec<String>,
    /// Answers to both after all links of the host were cut.
    pub asked_after_cut: Vec<String>,
    /// Links that the host dialed before the cut, and after it.
    pub dials: u64,
    /// See `dials`.
    pub dials_after_cut: u64,
    /// How the host ended.
    pub end: HaltReason,
    /// Members that the first node saw after that.
    pub left_behind: usize,
}

/// Turns the host's loop until it is so.
pub fn until<T>(
    host: &mut Host,
    what: &str,
    mut done: impl FnMut(&mut Host) -> Option<T>,
) -> Result<T, Failure> {
    let started = Instant::now();
    loop {
        if let Some(found) = done(host) {
            return Ok(found);
        }
        if started.elapsed() > PATIENCE {
            return Err(format!("waited {PATIENCE:?} for {what}: {:?}", host.view()).into());
        }
        host.turn(TURN)?;
    }
}

/// Whether there are so many members, all Up.
pub fn are_up(host: &Host, count: usize) -> bool {
    let members = host.view().members();
    members.len() == count && members.iter().all(|member| member.status == Status::Up)
}

/// A node on tokio that hosts greeters, as soon as it is Up. Without a seed it forms the cluster.
pub async fn on_tokio(bind: &str, seed: Option<Address>) -> Result<(Cluster, Greeters), Failure> {
    let builder = quorate_tokio::builder(CLUSTER).bind(bind).fast_profile();
    let node = builder.security(Security::insecure_plaintext()).start().await?;
    let seed = seed.unwrap_or_else(|| node.address().address().clone());
    node.join([seed]).await?;
    node.up().await?;
    let kind = Kind::<String, String>::new(KIND).shards(SHARDS);
    let greet =
        async |context: EntityContext, who: String| format!("{} on tokio greets {who}", context.id_text());
    let region = node.entities(kind).start_fn(greet).await?;
    Ok((node, region))
}

/// A host that joins `seed` and hosts greeters as soon as it is a member.
pub fn on_mio(seed: Address) -> Result<Host, Failure> {
    on_mio_with(Config::fast(ClusterName::new(CLUSTER)?), seed)
}

/// The same, with settings of its own.
pub fn on_mio_with(config: Config, seed: Address) -> Result<Host, Failure> {
    let mut host = Host::bind(config, LinkLimits::default())?;
    host.command(Command::Sharding(ShardingCommand::RegisterKind(Box::new(
        KindSettings::new(KIND, SHARDS, true),
    ))));
    host.command(Command::Membership(MembershipCommand::JoinSeeds(vec![seed])));
    Ok(host)
}

/// Runs it.
pub fn run() -> Result<Outcome, Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()?;
    let (first, region) = runtime.block_on(on_tokio("127.0.0.1:0", None))?;
    let seed = first.address().address().clone();
    let (second, _) = runtime.block_on(on_tokio("127.0.0.1:0", Some(seed.clone())))?;
    let mut host = on_mio(seed)?;
    until(&mut host, "three members to be Up", |host| {
        are_up(host, 3).then_some(())
    })?;

    let asked_by_tokio = ask_from_tokio(&runtime, &region, &mut host)?;
    let (asked_by_mio, dials) = ask_until_linked(&mut host, 0)?;
    host.cut_links();
    let before = host.dials();
    let (mut asked_after_cut, dials_after_cut) = ask_until_linked(&mut host, before)?;
    asked_after_cut.extend(ask_from_tokio(&runtime, &region, &mut host)?);

    host.command(Command::Membership(MembershipCommand::Leave));
    let end = until(&mut host, "its end", |host| host.halted())?;
    host.finish(PATIENCE)?;
    runtime.block_on(async {
        let mut events = first.events();
        while first.members().len() > 2 {
            events.next().await.ok_or("the first node has ended")?;
        }
        let left_behind = first.members().len();
        second.leave().await?;
        first.leave().await?;
        Ok(Outcome {
            asked_by_tokio,
            asked_by_mio,
            asked_after_cut,
            dials,
            dials_after_cut,
            end,
            left_behind,
        })
    })
}

/// The tokio side asks, again until shards have moved to the host; the host answers in its turns.
pub fn ask_from_tokio(runtime: &Runtime, region: &Greeters, host: &mut Host) -> Result<Vec<String>, Failure> {
    let region = region.clone();
    let asking = runtime.spawn(async move {
        let mut lines = Vec::new();
        let started = Instant::now();
        while !lines.iter().any(|line: &String| line.contains("on mio")) {
            lines.clear();
            if started.elapsed() > PATIENCE {
                break;
            }
            tokio::task::yield_now().await;
            for number in 0..ENTITIES {
                let entity = region.entity(format!("greeter-{number}"));
                // A shard on the move, or a link that was cut: the next round asks again.
                lines.extend(entity.ask("you".to_owned()).await.ok());
            }
        }
        lines
    });
    until(host, "answers to the tokio side", |_| {
        asking.is_finished().then_some(())
    })?;
    Ok(runtime.block_on(asking)?)
}

/// The host asks every entity, again until it has dialed two links to each of both others: the one for
/// messages when an entity is there, the one for control with the next heartbeat. What the last asks were
/// answered, and how often it has dialed since `before`.
fn ask_until_linked(host: &mut Host, before: u64) -> Result<(Vec<String>, u64), Failure> {
    let started = Instant::now();
    loop {
        let lines = ask_from_mio(host)?;
        let dialed = host.dials() - before;
        if dialed >= 4 {
            return Ok((lines, dialed));
        }
        if started.elapsed() > PATIENCE {
            return Err(format!("only {dialed} links to both others after {PATIENCE:?}").into());
        }
    }
}

/// The host asks every entity once.
pub fn ask_from_mio(host: &mut Host) -> Result<Vec<String>, Failure> {
    let mut lines = Vec::new();
    for number in 0..ENTITIES {
        let token = host.command(Command::Message(MessageCommand::Ask {
            to: Recipient::Entity(
                KindId::of(KIND),
                EntityId::from(format!("greeter-{number}").as_str()),
            ),
            payload: postcard::to_allocvec("you")?.into(),
            timeout: Duration::from_secs(10),
            chain: AskChain::default(),
        }));
        let answer = until(host, "an answer", |host| host.answer(token))?;
        let Answer::Asked(Ok(payload)) = answer else {
            return Err(format!("an ask ended with {answer:?}").into());
        };
        lines.push(entities::read_answer(&payload)?);
    }
    Ok(lines)
}
