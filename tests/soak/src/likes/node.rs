//! One node process: likes posts and follows fans on its own, and tells its parent about each update.
//! `ledger` says what its lines mean.

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hasher};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_channel::Receiver;
use quorate_core::ddata::crdt::{DataValue as CoreData, GCounter, OrSet};
use quorate_core::ddata::state::key::Pattern;
use quorate_core::wire;
use quorate_demo::hosts::Host;
use quorate_driver::data::{Counter, Data, DataKind, DataReadError, DataWriteError, Read, Set, Write};
use quorate_driver::spi::{Adapter, Runtime};
use quorate_driver::{Security, StartError};
use quorate_store_redb::Redb;

use crate::node::{Clients, Hosted, Up, serve, start};
use crate::program::{NodeOptions, node_process, say};
use crate::stores::EndsIfFull;

/// Posts that are liked and followed.
pub(super) const POSTS: usize = 4;
/// Writers of one node.
const WRITERS: u64 = 2;
/// Between two updates of one writer.
const PAUSE: Duration = Duration::from_millis(20);
/// Followers that one writer keeps; past it every other update removes its oldest.
const FANS_KEPT: usize = 100;
/// How long a write waits for a majority.
const TIMEOUT: Duration = Duration::from_secs(3);

/// The bytes of a value beside the value: equal replicas have equal bytes.
struct RawCounter;
struct RawSet;

fn bytes(data: &CoreData) -> Result<Vec<u8>, DataReadError> {
    let mut out = Vec::new();
    wire::encode_data(data, &mut out).map_err(|_| DataReadError::Decode)?;
    Ok(out)
}

impl DataKind for RawCounter {
    type Value = (u128, Vec<u8>);

    fn empty() -> CoreData {
        CoreData::GCounter(GCounter::new())
    }

    fn value(data: &CoreData) -> Result<Self::Value, DataReadError> {
        let CoreData::GCounter(counter) = data else {
            return Err(DataReadError::WrongType);
        };
        Ok((counter.value(), bytes(data)?))
    }
}

impl DataKind for RawSet {
    type Value = (usize, Vec<u8>);

    fn empty() -> CoreData {
        CoreData::OrSet(OrSet::new())
    }

    fn value(data: &CoreData) -> Result<Self::Value, DataReadError> {
        let CoreData::OrSet(set) = data else {
            return Err(DataReadError::WrongType);
        };
        Ok((set.iter().count(), bytes(data)?))
    }
}

fn likes_of(post: usize) -> String {
    format!("likes/{post}")
}

fn fans_of(post: usize) -> String {
    format!("fans/{post}")
}

/// Runs until the parent ends, or the node does.
pub(super) fn run<H: Host>(options: NodeOptions) -> ExitCode {
    node_process::<H, _, _>(|security, orders| node::<H>(options, security, orders))
}

async fn node<H: Host>(
    options: NodeOptions,
    security: Security,
    orders: Receiver<String>,
) -> Result<(), StartError> {
    let keeps = options.store.is_some();
    let up = start::<H>(&options, security, |builder| {
        let builder = builder.config(move |config| {
            // Nobody who stands still or is cut off for some seconds is to be downed.
            config.downing.stable_after = Some(Duration::from_secs(60));
            config.ddata.gossip_interval = Duration::from_millis(500);
            if keeps {
                config.ddata.durable_keys = ["likes/*", "fans/*"]
                    .iter()
                    .filter_map(|pattern| Pattern::parse(pattern).ok())
                    .collect();
            }
        });
        Ok(match &options.store {
            Some(path) => builder.store(EndsIfFull(Redb::open(path)?)),
            None => builder,
        })
    });
    let up = up.await?;
    let node = Arc::new(Node {
        data: up.cluster.data(),
        name: format!("n{}-{}", options.index, options.life),
        clients: Clients::default(),
        updates: AtomicU64::new(0),
    });
    for writer in 0..WRITERS {
        let (node, clock) = (Arc::clone(&node), up.runtime.clone());
        up.runtime.spawn(async move { node.write(writer, &clock).await });
    }
    serve(&node, &up, &orders).await;
    Ok(())
}

struct Node {
    data: Data,
    name: String,
    clients: Clients,
    updates: AtomicU64,
}

/// What an update does, as the ledger writes it.
enum Update {
    Like(usize),
    Follow(usize, String),
    Leave(usize, String),
}

impl std::fmt::Display for Update {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Like(post) => write!(f, "like {post}"),
            Self::Follow(post, fan) => write!(f, "follow {post} {fan}"),
            Self::Leave(post, fan) => write!(f, "leave {post} {fan}"),
        }
    }
}

impl Node {
    fn likes(&self, post: usize) -> Counter {
        self.data.counter(likes_of(post))
    }

    fn fans(&self, post: usize) -> Set<String> {
        self.data.set(fans_of(post))
    }

    /// One writer: an update, a pause, for ever.
    async fn write(&self, writer: u64, runtime: &impl Runtime) {
        let mut fans: VecDeque<(usize, String)> = VecDeque::new();
        for count in 1_u64.. {
            let _turn = self.clients.next(runtime, PAUSE).await;
            // Any spread will do, as long as every post and every kind of update has its turn.
            let post = (count.wrapping_mul(7) + writer) as usize % POSTS;
            let update = match count % 4 {
                0 if fans.len() > FANS_KEPT || count.is_multiple_of(12) && !fans.is_empty() => {
                    let (post, fan) = fans.pop_front().unwrap_or_default();
                    Update::Leave(post, fan)
                }
                0 | 2 => Update::Follow(post, format!("{}-{writer}-{count}", self.name)),
                _ => Update::Like(post),
            };
            if let (true, Update::Follow(post, fan)) = (self.update(&update).await, &update) {
                fans.push_back((*post, fan.clone()));
            }
        }
    }

    /// Makes an update and tells what became of it. Says whether it was acknowledged.
    async fn update(&self, update: &Update) -> bool {
        self.updates.fetch_add(1, Ordering::SeqCst);
        say(format_args!("begin {update}"));
        let write = match update {
            Update::Like(post) => self.likes(*post).increment(1, Write::Majority),
            Update::Follow(post, fan) => self.fans(*post).add(fan, Write::Majority),
            Update::Leave(post, fan) => self.fans(*post).remove(fan, Write::Majority),
        };
        let result = write.timeout(TIMEOUT).await;
        let is_done = result.is_ok();
        match result {
            Ok(()) => {
                self.clients.has_acknowledged();
                say(format_args!("done {update}"));
            }
            Err(error) if DataWriteError::may_have_been_handled(&error) => say(format_args!("open {update}")),
            Err(_) => say(format_args!("void {update}")),
        }
        is_done
    }

    /// All likes, all followers, and a digest of the bytes of both.
    async fn held(&self) -> (u128, usize, u64) {
        let (mut likes, mut fans) = (0_u128, 0);
        let mut digest = DefaultHasher::new();
        for post in 0..POSTS {
            if let Ok((value, bytes)) = self.data.of::<RawCounter>(likes_of(post)).read(Read::Local).await {
                likes += value;
                digest.write(&bytes);
            }
            if let Ok((count, bytes)) = self.data.of::<RawSet>(fans_of(post)).read(Read::Local).await {
                fans += count;
                digest.write(&bytes);
            }
        }
        (likes, fans, digest.finish())
    }

    /// Every value, then `end`.
    async fn dump(&self) {
        for post in 0..POSTS {
            if let Ok(likes) = self.likes(post).read(Read::Local).await {
                say(format_args!("likes {post} {likes}"));
            }
            for fan in self.fans(post).read(Read::Local).await.unwrap_or_default() {
                say(format_args!("fan {post} {fan}"));
            }
        }
        say(format_args!("end"));
    }
}

impl Hosted for Node {
    fn clients(&self) -> &Clients {
        &self.clients
    }

    /// Updates, acknowledged, likes, followers, digest.
    async fn shown<A: Adapter>(&self, _: &Up<A>) -> Option<String> {
        let (likes, fans, digest) = self.held().await;
        let (updates, (acknowledged, _)) = (self.updates.load(Ordering::SeqCst), self.clients.counts());
        Some(format!("{updates} {acknowledged} {likes} {fans} {digest:016x}"))
    }

    async fn obey<A: Adapter>(self: &Arc<Self>, _: &Up<A>, order: &str, _: &str) -> bool {
        match order {
            "state" => say(format_args!("state {:016x}", self.held().await.2)),
            "dump" => self.dump().await,
            _ => return false,
        }
        true
    }
}
