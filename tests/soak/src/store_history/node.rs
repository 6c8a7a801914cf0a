//! One node process: opens the bucket, and makes the calls that its parent names, each with a token that the
//! answer has. `plan` says what the lines mean.

use std::fmt::Write as _;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use async_channel::Receiver;
use quorate_demo::hosts::Host;
use quorate_driver::kv::{Kv, KvContext, KvVersion};
use quorate_driver::spi::{Adapter, Runtime};
use quorate_driver::{Security, StartError};

use super::plan::bytes_of;
use crate::node::{Clients, Hosted, Up, serve, start};
use crate::program::{NodeOptions, node_process, say};

/// How long a call waits.
const TIMEOUT: Duration = Duration::from_secs(2);
/// Nobody who is cut off or stands still for some seconds is to be downed.
const DOWNED_AFTER: Duration = Duration::from_secs(60);

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
        Ok(builder.config(|config| config.downing.stable_after = Some(DOWNED_AFTER)))
    });
    let up = up.await?;
    let bucket = up.cluster.kv::<u64>("history").memory();
    let node = Arc::new(Node {
        bucket: bucket.open().await?,
        clients: Clients::default(),
    });
    serve(&node, &up, &orders).await;
    Ok(())
}

struct Node {
    bucket: Kv<u64>,
    clients: Clients,
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut word, byte| {
        // Writing to a string cannot fail.
        let _ = write!(word, "{byte:02x}");
        word
    })
}

fn version(version: Option<KvVersion>) -> String {
    version.map_or_else(|| "-".to_owned(), |version| hex(&version.to_bytes()))
}

fn named(word: &str) -> Option<KvVersion> {
    let bytes = bytes_of(word).filter(|_| word != "-")?;
    bytes.try_into().ok().map(KvVersion::from_bytes)
}

const fn fate(is_open: bool) -> &'static str {
    if is_open { "unknown" } else { "nothing" }
}

impl Node {
    async fn get(&self, token: &str, key: &str) {
        match self.bucket.get(key).timeout(TIMEOUT).await {
            Ok(found) => {
                let values: Vec<String> = found.values.iter().map(u64::to_string).collect();
                let (context, version) = (hex(&found.context.to_bytes()), version(found.version));
                say(format_args!(
                    "found {token} {context} {version} {}",
                    values.join(",")
                ));
            }
            Err(_) => say(format_args!("nothing {token}")),
        }
    }

    async fn put(&self, token: &str, key: &str, value: &str, context: &str) {
        let context = bytes_of(context).and_then(|bytes| KvContext::from_bytes(&bytes).ok());
        let context = context.unwrap_or_default();
        let call = match value.parse() {
            Ok(number) => self.bucket.put(key, &number, &context),
            Err(_) => self.bucket.delete(key, &context),
        };
        match call.timeout(TIMEOUT).await {
            Ok(()) => say(format_args!("written {token}")),
            Err(error) => say(format_args!("{} {token}", fate(error.may_have_been_handled()))),
        }
    }

    async fn put_if(&self, token: &str, key: &str, value: &str, expected: &str) {
        use quorate_driver::kv::KvPutIfError::Conflict;
        let expected = named(expected);
        let call = match value.parse() {
            Ok(number) => self.bucket.put_if(key, expected, &number),
            Err(_) => self.bucket.delete_if(key, expected),
        };
        match call.timeout(TIMEOUT).await {
            Ok(decided) => say(format_args!("decided {token} {}", version(Some(decided)))),
            Err(Conflict { present }) => say(format_args!("conflict {token} {}", version(present))),
            Err(error) => say(format_args!("{} {token}", fate(error.may_have_been_handled()))),
        }
    }
}

impl Hosted for Node {
    fn clients(&self) -> &Clients {
        &self.clients
    }

    /// Ranges owned; moves ended, begun, undone.
    async fn shown<A: Adapter>(&self, up: &Up<A>) -> Option<String> {
        let counted = up.cluster.stats().await.ok()?.core.kv;
        let owned = counted.ranges_taken.saturating_sub(counted.ranges_given);
        let (ended, begun, undone) = (counted.moves_ended, counted.moves_begun, counted.moves_undone);
        Some(format!("{owned} {ended} {begun} {undone}"))
    }

    async fn obey<A: Adapter>(self: &Arc<Self>, up: &Up<A>, order: &str, rest: &str) -> bool {
        let words: Vec<String> = rest.split(' ').map(str::to_owned).collect();
        let (node, order) = (Arc::clone(self), order.to_owned());
        let is_known = matches!((&*order, words.len()), ("get", 2) | ("put" | "put_if", 3 | 4));
        if is_known {
            up.runtime.spawn(async move {
                let word = |at: usize| words.get(at).map_or("", String::as_str);
                match &*order {
                    "get" => node.get(word(0), word(1)).await,
                    "put" => node.put(word(0), word(1), word(2), word(3)).await,
                    _ => node.put_if(word(0), word(1), word(2), word(3)).await,
                }
            });
        }
        is_known
    }
}
