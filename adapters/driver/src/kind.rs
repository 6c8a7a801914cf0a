//! The name of a kind of entities and what all nodes must agree on about it.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use quorate_core::ident::Role;
use quorate_core::input::KindSettings;

use crate::error::ClusterError;

/// Shards of a kind unless [`Kind::shards`] says otherwise: ten or more per node up to a dozen nodes.
pub const SHARDS_DEFAULT: u32 = 128;

/// A kind of entities: its name, the type of its messages `M` and of their answers `R`. Name, shards and role must be the
/// same on every node; both types must have the same postcard form everywhere.
pub struct Kind<M, R> {
    name: Arc<str>,
    shards: u32,
    role: Option<String>,
    types: PhantomData<fn(M) -> R>,
}

impl<M, R> Kind<M, R> {
    /// A kind of [`SHARDS_DEFAULT`] shards, hosted by all members. The name has 1 to 255 bytes.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: Arc::from(name.into()),
            shards: SHARDS_DEFAULT,
            role: None,
            types: PhantomData,
        }
    }

    /// How many shards the kind has: 1 to 65,536 (default [`SHARDS_DEFAULT`]). A shard is what moves between nodes: ten
    /// times the largest number of nodes is a good choice. It cannot be changed while the cluster runs. Mirrors
    /// `number-of-shards`.
    #[must_use]
    pub const fn shards(mut self, shards: u32) -> Self {
        self.shards = shards;
        self
    }

    /// Only members with this role host the kind (default: all). Mirrors `role`.
    #[must_use]
    pub fn role(mut self, role: impl Into<String>) -> Self {
        self.role = Some(role.into());
        self
    }

    /// The name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn settings(&self, hosts: bool) -> Result<KindSettings, ClusterError> {
        let role = match &self.role {
            None => None,
            Some(role) => Some(Role::new(role).map_err(|error| ClusterError::Name {
                value: role.clone(),
                error,
            })?),
        };
        Ok(KindSettings {
            name: Arc::clone(&self.name),
            shards: self.shards,
            role,
            hosts,
        })
    }
}

impl<M, R> Clone for Kind<M, R> {
    fn clone(&self) -> Self {
        Self {
            name: Arc::clone(&self.name),
            shards: self.shards,
            role: self.role.clone(),
            types: PhantomData,
        }
    }
}

impl<M, R> fmt::Debug for Kind<M, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kind")
            .field("name", &self.name)
            .field("shards", &self.shards)
            .field("role", &self.role)
            .finish_non_exhaustive()
    }
}
