//! How a bucket is described and opened. The core checks it, and compares it with what other nodes say;
//! nothing is decided here. Spec: sharding 10.11.

use std::fmt;
use std::sync::Arc;

use quorate_core::ident::Role;
use quorate_core::input::{Command, KvCommand};
use quorate_core::kv::state::bucket::BucketName;
use quorate_core::kv::state::level::Level;
use quorate_core::kv::state::settings::BucketSettings;

use super::bucket::Merge;
use super::handle::Kv;
use crate::error::ClusterError;
use crate::shared::Shared;

/// Describes a bucket. See [`Cluster::kv`](crate::Cluster::kv).
///
/// The whole cluster has one description of a bucket: every node that opens it says the same, and one that
/// differs is refused.
#[must_use = "nothing happens before it is opened"]
pub struct KvBuilder<V> {
    shared: Arc<Shared>,
    name: String,
    role: Option<String>,
    settings: BucketSettings,
    merge: Option<Merge<V>>,
}

impl<V> KvBuilder<V> {
    pub(crate) fn new(shared: Arc<Shared>, name: &str) -> Self {
        Self {
            shared,
            name: name.to_owned(),
            role: None,
            settings: BucketSettings::default(),
            merge: None,
        }
    }

    /// N: how many nodes keep a copy of each value (default 3, 1 to 9). With fewer nodes than that no range
    /// is given to owners, and calls fail.
    pub const fn copies(mut self, copies: u8) -> Self {
        self.settings.copies = copies;
        self
    }

    /// The least R, and that of calls that name none (default [`Level::Quorum`]). A get below it guarantees
    /// nothing.
    pub const fn reads(mut self, level: Level) -> Self {
        self.settings.read_least = level;
        self
    }

    /// The least W, and that of calls that name none (default [`Level::Quorum`]). A put below it guarantees
    /// nothing. Every get sees every put before it if R and W are more than N together.
    pub const fn writes(mut self, level: Level) -> Self {
        self.settings.write_least = level;
        self
    }

    /// In how many parts its keys are spread and moved (default 256, 1 to 4,096).
    pub const fn ranges(mut self, ranges: u16) -> Self {
        self.settings.ranges = ranges;
        self
    }

    /// Owners keep it in memory: what all owners of a range held is lost if they end together, and a node
    /// that starts anew owns nothing. Otherwise they keep it in their stores
    /// ([`ClusterBuilder::store`](crate::ClusterBuilder::store)), and answer a put once it is there.
    pub const fn memory(mut self) -> Self {
        self.settings.is_durable = false;
        self
    }

    /// While an owner cannot be reached, a node that owns nothing of the range stands in for it: it counts
    /// for W and R, and gives the owner what it kept once that is there again. Puts and gets succeed where
    /// they else failed, and **no get is sure to see the puts before it**, whatever R and W are.
    /// Conditional puts count owners alone; the bucket keeps no logs of durable entities.
    pub const fn sloppy_quorum(mut self) -> Self {
        self.settings.is_sloppy = true;
        self
    }

    /// Only members with this role own ranges (default: all do). Nodes without it call all the same.
    pub fn role(mut self, role: impl Into<String>) -> Self {
        self.role = Some(role.into());
        self
    }

    /// What makes one value of siblings: a get gives at most one then. It runs in the task that called the
    /// get. The name stands for the function where nodes compare the bucket's settings: choose another when
    /// its result changes. Its result must depend neither on the order of the siblings nor on how often one
    /// is there.
    pub fn merge(mut self, name: impl AsRef<str>, merge: impl Fn(V, V) -> V + Send + Sync + 'static) -> Self {
        self.settings.merge = Some(Arc::from(name.as_ref()));
        self.merge = Some(Arc::new(merge));
        self
    }

    /// Opens the bucket on this node, which can call it from then on and, if it has the role, owns ranges of
    /// it. Completes when the oldest member of the role has accepted the settings, and waits for one; a
    /// bucket stays open as long as the node runs. Opening it again gives another handle. Ranges get owners
    /// once as many members of the role as there are copies have opened it.
    ///
    /// # Errors
    /// [`ClusterError::Bucket`] for a name that is empty or too long, [`ClusterError::Name`] if the role is
    /// not legal, [`ClusterError::Refused`] with a [`KvCommandError`](super::KvCommandError) if the settings
    /// are not legal, differ from those of the bucket here or in the cluster, the bucket is durable on a node
    /// that has no store, or the node has too many buckets; [`ClusterError::Stopped`].
    ///
    /// # Cancel safety
    /// Dropping it may or may not open.
    pub async fn open(self) -> Result<Kv<V>, ClusterError> {
        let bucket = BucketName::new(&self.name)?;
        let settings = self.settings()?;
        let command = KvCommand::Open {
            bucket: bucket.clone(),
            settings: settings.clone(),
        };
        self.shared.core(Command::Kv(command)).await?;
        Ok(Kv::new(self.shared, bucket, &settings, self.merge))
    }

    fn settings(&self) -> Result<BucketSettings, ClusterError> {
        let named = |role: &String| {
            Role::new(role).map_err(|error| ClusterError::Name {
                value: role.clone(),
                error,
            })
        };
        let role = self.role.as_ref().map(named).transpose()?;
        Ok(BucketSettings {
            role,
            ..self.settings.clone()
        })
    }
}

impl<V> fmt::Debug for KvBuilder<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KvBuilder")
            .field("name", &self.name)
            .field("role", &self.role)
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}
