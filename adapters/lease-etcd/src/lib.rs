//! Leases of Quorate clusters in etcd: for lease-majority and singletons across machines.
//!
//! ```no_run
//! use std::sync::Arc;
//!
//! use quorate_lease_etcd::{EtcdLeases, Tls};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let authority = std::fs::read("/etc/orders/etcd-ca.pem")?;
//! let endpoints = ["https://etcd-1:2379", "https://etcd-2:2379", "https://etcd-3:2379"];
//! let leases = EtcdLeases::new(&endpoints, Tls::trusting(&authority)?)?.user("orders", "secret");
//! // quorate_tokio::builder("orders").leases(Arc::new(leases))
//! # Ok(())
//! # }
//! ```
//!
//! A lease is one key with its holder, attached to a lease of etcd's own; its token is the revision in which
//! the key was made, which no later one undercuts. etcd's version 3.4 or later is asked over its JSON
//! gateway, with every read linearizable. Time is the server's: whoever is silent for its time to live by
//! that clock loses the lease, and etcd counts it by a clock that nobody can set, so clocks of nodes and
//! servers do not matter. The node gives a lease up by its own monotonic clock, counted from before it asked,
//! and so before etcd does: etcd counts from when it was asked, in whole seconds, never fewer than two, and
//! begins again when another member leads. What breaks this is a server that is restored from a backup, or
//! emptied: it has forgotten who holds what, and its revisions go back. Whoever held a lease then loses it
//! with its next renewal, a quarter of the time to live later.
//!
//! A lease keeper blocks. The node asks it on a thread of its own; do not call it in asynchronous code.
#![forbid(unsafe_code)]

mod answer;
mod error;
mod gateway;
mod tls;

use std::fmt;
use std::io;
use std::time::Duration;

use quorate_driver::UniqueAddress;
use quorate_driver::lease::LeaseKeeper;
use serde_json::json;

use crate::answer::{FoundKey, WriteOutcome, encoded};
pub use crate::error::EtcdError;
use crate::gateway::{Gateway, TimedRequests};
pub use crate::tls::Tls;

/// How long etcd may take for a question, all its parts and endpoints together, unless
/// [`EtcdLeases::timeout`] says otherwise.
pub const TIMEOUT_DEFAULT: Duration = Duration::from_secs(5);

/// What the keys of leases begin with, unless [`EtcdLeases::prefix`] says otherwise.
pub const PREFIX_DEFAULT: &str = "quorate/leases/";

/// Endpoints of one etcd cluster: more than members that one is advised to have.
pub const ENDPOINTS_MAX: usize = 16;

/// Bytes of a prefix.
pub const PREFIX_BYTES_MAX: usize = 255;

/// How often a key that changes while it is asked for is looked at again.
const ATTEMPTS: u32 = 3;

/// Leases in etcd. Give one to a node with `ClusterBuilder::leases`. Connects with the first question.
pub struct EtcdLeases {
    gateway: Gateway,
    prefix: String,
}

impl EtcdLeases {
    /// Leases at the members of one etcd cluster, `https://etcd-1:2379` each. The one that answered last is
    /// asked first, the others in order when it does not. Does not connect yet.
    ///
    /// # Errors
    /// There is none or more than [`ENDPOINTS_MAX`]; one is not `http://host:port` without TLS or
    /// `https://host:port` with it.
    pub fn new<E: AsRef<str>>(endpoints: &[E], tls: Tls) -> io::Result<Self> {
        let gateway = Gateway::new(endpoints, tls, TIMEOUT_DEFAULT)?;
        Ok(Self {
            gateway,
            prefix: PREFIX_DEFAULT.to_owned(),
        })
    }

    /// Who asks, where etcd's authentication is enabled. The user needs to read and write keys with the
    /// prefix. Without TLS the password goes over the network as it is.
    #[must_use]
    pub fn user(mut self, name: &str, password: &str) -> Self {
        self.gateway.set_user(name, password);
        self
    }

    /// What the keys begin with (default [`PREFIX_DEFAULT`]). Clusters that share an etcd take one each, or
    /// name their leases apart.
    ///
    /// # Errors
    /// It is empty or longer than [`PREFIX_BYTES_MAX`].
    pub fn prefix(mut self, prefix: &str) -> io::Result<Self> {
        if !(1..=PREFIX_BYTES_MAX).contains(&prefix.len()) {
            let message = format!("a prefix has 1 to {PREFIX_BYTES_MAX} bytes, not {}", prefix.len());
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        prefix.clone_into(&mut self.prefix);
        Ok(self)
    }

    /// How long etcd may take for a question (default 5 s, from 10 ms to an hour), all endpoints together:
    /// each gets its share of what is left. Keep it well below a quarter of the leases' time to live, or a
    /// cluster that is slow once costs the lease.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.gateway.set_timeout(timeout);
        self
    }

    fn lease(&self, name: &str) -> EtcdLease<'_> {
        EtcdLease {
            question: self.gateway.question(),
            key: encoded(&format!("{}{name}", self.prefix)),
        }
    }
}

impl fmt::Debug for EtcdLeases {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EtcdLeases")
            .field("gateway", &self.gateway)
            .field("prefix", &self.prefix)
            .finish()
    }
}

impl LeaseKeeper for EtcdLeases {
    fn acquire(&self, name: &str, owner: &UniqueAddress, time_to_live: Duration) -> io::Result<Option<u64>> {
        let (lease, owner) = (self.lease(name), owner.to_string());
        // Before anything is written: a refusal costs etcd one read.
        let found = lease.read()?;
        if found.as_ref().is_some_and(|held| held.owner != owner) {
            return Ok(None);
        }
        let id = lease.grant(time_to_live)?;
        let outcome = lease.take(found, &owner, id);
        if !matches!(outcome, Ok(Some(_))) {
            // What came of an attempt without an answer goes with it. If it stays, it expires by itself.
            let _ = lease.revoke(id);
        }
        Ok(outcome?)
    }

    fn renew(&self, name: &str, owner: &UniqueAddress, token: u64) -> io::Result<bool> {
        let (lease, owner) = (self.lease(name), owner.to_string());
        let is_ours = |held: &FoundKey| held.owner == owner && held.created == token;
        let Some(held) = lease.read()?.filter(is_ours) else {
            return Ok(false);
        };
        if !lease.keep_alive(held.lease)? {
            return Ok(false);
        }
        // Between the two the key may have gone, by somebody's hand, and be another's by now.
        let still = lease.read()?.filter(is_ours);
        Ok(still.is_some_and(|still| still.lease == held.lease))
    }

    fn release(&self, name: &str, owner: &UniqueAddress) -> io::Result<()> {
        let (lease, owner) = (self.lease(name), owner.to_string());
        if let Some(id) = lease.delete(&owner)? {
            // Nothing is attached to it any more; if it stays, it expires by itself.
            let _ = lease.revoke(id);
        }
        Ok(())
    }
}

/// One lease, for the length of one question.
struct EtcdLease<'a> {
    question: TimedRequests<'a>,
    /// As etcd's JSON has it.
    key: String,
}

impl EtcdLease<'_> {
    /// Who has it.
    fn read(&self) -> Result<Option<FoundKey>, EtcdError> {
        let answer = self.question.ask("/v3/kv/range", &json!({ "key": self.key }))?;
        answer::first_of(&answer, "kvs")
    }

    /// A lease of etcd's own, to which the key is to be attached.
    fn grant(&self, time_to_live: Duration) -> Result<i64, EtcdError> {
        // Never shorter than what the node counts by.
        let seconds = time_to_live.as_secs() + u64::from(time_to_live.subsec_nanos() > 0);
        let wanted = seconds.max(1);
        let answer = self
            .question
            .ask("/v3/lease/grant", &json!({ "TTL": wanted.to_string() }))?;
        if answer::number(&answer, "TTL")? < i64::try_from(wanted).unwrap_or(i64::MAX) {
            return Err(EtcdError::BadAnswer("a lease is shorter than what was asked for"));
        }
        answer::number(&answer, "ID")
    }

    /// Writes the owner into the key if it is nobody's, or its own already. `None`: it is somebody else's.
    fn take(&self, mut found: Option<FoundKey>, owner: &str, lease: i64) -> Result<Option<u64>, EtcdError> {
        for _ in 0..ATTEMPTS {
            let now = match self.write(found.as_ref(), owner, lease)? {
                // A key that is there keeps the revision in which it was made.
                WriteOutcome::In { revision } => {
                    return Ok(Some(found.map_or(revision, |held| held.created)));
                }
                WriteOutcome::Changed(now) => now,
            };
            match &now {
                Some(held) if held.owner != owner => return Ok(None),
                // It was written, and the answer was lost on its way.
                Some(held) if held.lease == lease => return Ok(Some(held.created)),
                Some(_) | None => found = now,
            }
        }
        Ok(None)
    }

    /// Writes the key if it is still as it was found.
    fn write(&self, found: Option<&FoundKey>, owner: &str, lease: i64) -> Result<WriteOutcome, EtcdError> {
        let revision = found.map_or(0, |held| held.modified).to_string();
        let question = json!({
            "compare": [{ "key": self.key, "target": "MOD", "result": "EQUAL", "mod_revision": revision }],
            "success": [{ "request_put": { "key": self.key, "value": encoded(owner), "lease": lease.to_string() } }],
            "failure": [{ "request_range": { "key": self.key } }],
        });
        WriteOutcome::read(&self.question.ask("/v3/kv/txn", &question)?)
    }

    /// Deletes the key if it is this owner's; etcd's own lease to which it was attached.
    fn delete(&self, owner: &str) -> Result<Option<i64>, EtcdError> {
        let question = json!({
            "compare": [{ "key": self.key, "target": "VALUE", "result": "EQUAL", "value": encoded(owner) }],
            "success": [{ "request_delete_range": { "key": self.key, "prev_kv": true } }],
            "failure": [],
        });
        let answer = self.question.ask("/v3/kv/txn", &question)?;
        let deleted = answer::part(&answer, "response_delete_range");
        let deleted = deleted.map(|part| answer::first_of(part, "prev_kvs"));
        Ok(deleted.transpose()?.flatten().map(|held| held.lease))
    }

    /// Whether etcd's own lease lives, for its whole time from now.
    fn keep_alive(&self, lease: i64) -> Result<bool, EtcdError> {
        let answer = self
            .question
            .ask("/v3/lease/keepalive", &json!({ "ID": lease.to_string() }))?;
        let result = answer.get("result");
        let result = result.ok_or(EtcdError::BadAnswer("a renewal without a result"))?;
        Ok(answer::number(result, "TTL")? > 0)
    }

    fn revoke(&self, lease: i64) -> Result<(), EtcdError> {
        let answer = self
            .question
            .ask("/v3/lease/revoke", &json!({ "ID": lease.to_string() }));
        answer.map(drop)
    }
}

/// The README's example compiles.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
