//! What a user says of a kind when it is registered. Types only. Spec: sharding 1.0, 10.11.

use alloc::boxed::Box;
use alloc::sync::Arc;

use crate::config::KindConfig;
use crate::ident::Role;
use crate::sharding::state::allocation::AllocationSettings;
use crate::sharding::state::extractor::ShardExtractor;
use crate::sharding::state::fields::StoreMode;
use crate::sharding::state::passivation::PassivationSettings;
use crate::sharding::state::remember::RememberStore;

/// An entity kind on this node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KindSettings {
    /// The kind's name, 1 to 255 bytes.
    pub name: Arc<str>,
    /// How many shards it has, 1 to [`crate::sharding::state::ids::SHARDS_MAX`]; the same on every node.
    pub shards: u32,
    /// Members with this role host it and run its coordinator; all members if `None`. The same on every node.
    pub role: Option<Role>,
    /// Whether this node hosts entities (it must have the role) or only reaches them (a proxy region).
    pub hosts: bool,
    /// How an entity finds its shard; the same on every node.
    pub extractor: ShardExtractor,
    /// When this node's region takes entities out of memory; `None`: as the configuration says
    /// (`sharding.passivation`).
    pub passivation: Option<PassivationSettings>,
    /// Where it is kept which entities there are, so that they are started again without a message; `None`:
    /// nowhere. The same on every node that hosts. Nobody of such a kind is passivated but who asks for it,
    /// and then it is forgotten.
    pub remember_entities: Option<RememberStore>,
    /// How shards are spread if this node coordinates the kind; `None`: as the configuration says
    /// (`sharding.rebalance_…`).
    pub allocation: Option<AllocationSettings>,
    /// Where the coordinator keeps which shard lives where; the same on every node of the role, proxies
    /// included. `None`: as the configuration says (`sharding.state_store_mode`).
    pub store_mode: Option<StoreMode>,
    /// Whether a shard runs only while its node holds the lease `<cluster>-shard-<kind>-<shard>`. The same on
    /// every node that hosts it; the host has to have a lease keeper.
    pub lease: bool,
    /// Time limits, buffers and pauses of this kind on this node; what is `None` there is as the
    /// configuration says (`sharding.…`).
    pub config: Box<KindConfig>,
}

impl KindSettings {
    /// A kind that all members host if `hosts` says so, with the configuration's strategies. The name has 1
    /// to 255 bytes, and there are 1 to [`crate::sharding::state::ids::SHARDS_MAX`] shards; both are checked
    /// when the kind is registered.
    #[must_use]
    pub fn new(name: impl Into<Arc<str>>, shards: u32, hosts: bool) -> Self {
        Self {
            name: name.into(),
            shards,
            role: None,
            hosts,
            extractor: ShardExtractor::default(),
            passivation: None,
            remember_entities: None,
            allocation: None,
            store_mode: None,
            lease: false,
            config: Box::default(),
        }
    }
}
