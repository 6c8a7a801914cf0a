//! One node process: puts the words of the files it is given, queries those it has put all the time, looks up
//! what it is told. `fleet` says what its lines mean.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_channel::{Receiver, Sender};
use quorate_demo::hosts::Host;
use quorate_driver::kv::{CallError, Kv, KvContext, KvPutError};
use quorate_driver::spi::{Adapter, Runtime};
use quorate_driver::{Config, Security, StartError};

use super::fleet::{entry_line, unhex};
use super::words::{FileSet, Index};
use super::{COPIES, RANGES};
use crate::node::{Clients, Hosted, PAUSE_ACCEPTED, TIMEOUT, Up, serve, start};
use crate::program::{NodeOptions, node_process, say};

/// Words that are put, or looked up, at the same time.
const AT_A_TIME: u64 = 32;
/// Between two queries of a node.
const PAUSE: Duration = Duration::from_millis(10);
/// After so many words, and after those of a part, the node says that they are put.
const SAY_EVERY: u64 = 256;

/// Runs until the parent ends, or the node does.
pub(super) fn run<H: Host>(options: NodeOptions) -> ExitCode {
    node_process::<H, _, _>(|security, orders| node::<H>(options, security, orders))
}

async fn node<H: Host>(
    options: NodeOptions,
    security: Security,
    orders: Receiver<String>,
) -> Result<(), StartError> {
    let up = start::<H>(&options, security, |builder| {
        Ok(builder.config(|config: &mut Config| {
            config.failure_detector.acceptable_heartbeat_pause = PAUSE_ACCEPTED;
        }))
    });
    let up = up.await?;
    let union = |mut one: FileSet, other: FileSet| {
        one.extend(other);
        one
    };
    let bucket = up.cluster.kv("words").copies(COPIES).ranges(RANGES).memory();
    let (to_look_up, to_be_found) = async_channel::unbounded();
    let node = Arc::new(Node {
        words: bucket.merge("union", union).open().await?,
        clients: Clients::default(),
        known: Mutex::default(),
        queries: AtomicU64::new(0),
        unsaid: AtomicU64::new(0),
        to_look_up,
    });
    node.look_up(&up.runtime, to_be_found);
    let (asking, clock) = (Arc::clone(&node), up.runtime.clone());
    up.runtime.spawn(async move { asking.query(&clock).await });
    serve(&node, &up, &orders).await;
    Ok(())
}

struct Node {
    words: Kv<FileSet>,
    clients: Clients,
    /// What this process has put, and was told that it is there.
    known: Mutex<Vec<(String, FileSet)>>,
    queries: AtomicU64,
    /// Words that are put, and the parent has not heard of.
    unsaid: AtomicU64,
    /// Words that the parent asks for: all of them at once.
    to_look_up: Sender<String>,
}

impl Node {
    /// Puts the words of some files, and says when all are there.
    fn take<R: Runtime>(self: &Arc<Self>, runtime: &R, part: &str, files: Vec<(u32, PathBuf)>) {
        let (sender, entries) = async_channel::unbounded();
        // Reading blocks.
        std::thread::spawn(move || {
            let index = Index::of(files.iter().map(|(number, path)| (*number, path.as_path())));
            for entry in index.entries {
                // Fails only while the process ends.
                let _ = sender.try_send(entry);
            }
        });
        let (node, clock) = (Arc::clone(self), runtime.clone());
        let (putter, part) = (Arc::clone(self), part.to_owned());
        let done = move || {
            putter.say_put();
            say(format_args!("done {part}"));
        };
        self.at_a_time(runtime, entries, done, move |(word, files)| {
            let (node, clock) = (Arc::clone(&node), clock.clone());
            async move { node.put(word, files, &clock).await }
        });
    }

    /// Looks up the words that come, and says what they hold.
    fn look_up<R: Runtime>(self: &Arc<Self>, runtime: &R, words: Receiver<String>) {
        let (node, clock) = (Arc::clone(self), runtime.clone());
        self.at_a_time(
            runtime,
            words,
            || {},
            move |word: String| {
                let (node, clock) = (Arc::clone(&node), clock.clone());
                async move {
                    let get = || async { node.words.get(&word).timeout(TIMEOUT).await };
                    let found = node.clients.until_answered(&clock, get).await;
                    let files = found.into_value().unwrap_or_default();
                    say(format_args!("{}", entry_line(&word, &files)));
                }
            },
        );
    }

    /// Does some work for each item, so much at a time, and this behind the last.
    fn at_a_time<R: Runtime, T: Send + 'static, F>(
        &self,
        runtime: &R,
        items: Receiver<T>,
        done: impl Fn() + Clone + Send + 'static,
        work: impl Fn(T) -> F + Clone + Send + Sync + 'static,
    ) where
        F: Future<Output = ()> + Send + 'static,
    {
        let at_work = Arc::new(AtomicU64::new(AT_A_TIME));
        for _ in 0..AT_A_TIME {
            let (items, at_work) = (items.clone(), Arc::clone(&at_work));
            let (done, work) = (done.clone(), work.clone());
            runtime.spawn(async move {
                while let Ok(item) = items.recv().await {
                    work(item).await;
                }
                if at_work.fetch_sub(1, Ordering::SeqCst) == 1 {
                    done();
                }
            });
        }
    }

    /// Adds the files to those of a word, until it is so.
    async fn put(&self, word: String, files: FileSet, runtime: &impl Runtime) {
        let put = || self.put_once(&word, &files);
        self.clients.until_answered(runtime, put).await;
        self.clients.has_acknowledged();
        if self.unsaid.fetch_add(1, Ordering::SeqCst) + 1 >= SAY_EVERY {
            self.say_put();
        }
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.push((word, files));
    }

    fn say_put(&self) {
        let put = self.unsaid.swap(0, Ordering::SeqCst);
        if put > 0 {
            say(format_args!("put {put}"));
        }
    }

    /// As a sibling of what others put: whoever reads the word merges them. Only where there is no room for
    /// one more are they replaced by one value.
    async fn put_once(&self, word: &str, files: &FileSet) -> Result<(), KvPutError> {
        let beside = self.words.put(word, files, &KvContext::default());
        match beside.timeout(TIMEOUT).await {
            Err(KvPutError::Failed(CallError::Put(_))) => {}
            put => return put,
        }
        let found = self.words.get(word).timeout(TIMEOUT).await;
        let found = found.map_err(|_| KvPutError::Stopped)?;
        let context = found.context.clone();
        let mut all = found.into_value().unwrap_or_default();
        all.extend(files);
        self.words.put(word, &all, &context).timeout(TIMEOUT).await
    }

    /// Asks for one word after the other that this process has put, for ever.
    async fn query(&self, runtime: &impl Runtime) {
        for count in 0_usize.. {
            let _turn = self.clients.next(runtime, PAUSE).await;
            let Some((word, files)) = self.word(count) else {
                continue;
            };
            let answer = self.words.get(&word).await;
            self.queries.fetch_add(1, Ordering::SeqCst);
            match answer.map(|found| found.into_value().unwrap_or_default()) {
                Ok(found) if found.is_superset(&files) => {}
                Ok(_) => say(format_args!("stale {word}")),
                Err(error) => say(format_args!("failed {word}: {error}")),
            }
        }
    }

    /// Some word, each time another one.
    fn word(&self, count: usize) -> Option<(String, FileSet)> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let at = count.wrapping_mul(7_919).checked_rem(known.len())?;
        known.get(at).cloned()
    }
}

impl Hosted for Node {
    fn clients(&self) -> &Clients {
        &self.clients
    }

    /// Words that were put, puts and gets that were made again, queries, ranges whose owner this node is.
    async fn shown<A: Adapter>(&self, up: &Up<A>) -> Option<String> {
        let (put, repeated) = self.clients.counts();
        let queries = self.queries.load(Ordering::SeqCst);
        let counters = up.cluster.stats().await.ok()?.core.kv;
        let owned = counters.ranges_taken - counters.ranges_given;
        Some(format!("{put} {repeated} {queries} {owned}"))
    }

    async fn obey<A: Adapter>(self: &Arc<Self>, up: &Up<A>, order: &str, rest: &str) -> bool {
        match order {
            "take" => {
                let mut words = rest.split(' ');
                let part = words.next().unwrap_or_default();
                self.take(&up.runtime, part, words.filter_map(file).collect());
            }
            "read" => {
                let word = |hex: &str| String::from_utf8(unhex(hex)?).ok();
                for word in rest.split(' ').filter_map(word) {
                    // Fails only while the process ends.
                    let _ = self.to_look_up.try_send(word);
                }
            }
            _ => return false,
        }
        true
    }
}

/// A number and a path.
#[cfg(unix)]
fn file(word: &str) -> Option<(u32, PathBuf)> {
    use std::os::unix::ffi::OsStringExt;
    let (number, path) = word.split_once(':')?;
    let path = std::ffi::OsString::from_vec(unhex(path)?);
    Some((number.parse().ok()?, path.into()))
}

#[cfg(not(unix))]
fn file(word: &str) -> Option<(u32, PathBuf)> {
    let (number, path) = word.split_once(':')?;
    let path = String::from_utf8(unhex(path)?).ok()?;
    Some((number.parse().ok()?, path.into()))
}
