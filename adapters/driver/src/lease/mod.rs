//! Leases: who keeps them. The core orders and is told (`quorate_core::lease`); a [`LeaseKeeper`] is asked by
//! a thread of its own, never by the loop. Decides nothing about members. Spec: membership 3.6, reliability
//! I-26.

mod clerk;
mod file;
mod memory;
mod orders;

use std::fmt::Debug;
use std::io;
use std::time::Duration;

pub(crate) use clerk::Leases;
pub use file::FileLeases;
pub use memory::MemoryLeases;

use quorate_core::ident::UniqueAddress;

/// Grants leases: exclusive, named, outside the cluster. Given to a node with
/// [`crate::ClusterBuilder::leases`].
///
/// A keeper may block: a thread of the node's own asks it. It is also asked to renew each lease that is held,
/// four times in its time to live; the node gives a lease up by itself once it could not be renewed for that
/// long, so a keeper must not grant it to somebody else earlier. The tests in `conformance` (feature
/// `conformance`) say what else it must do.
///
/// An error means that the keeper cannot be asked. It counts as a refusal when a lease is wanted, and is
/// tried again when one is renewed or given back.
pub trait LeaseKeeper: Debug + Send + Sync + 'static {
    /// Gets hold of `name` for exactly this incarnation. `Some(token)`: `owner` holds it for `time_to_live`
    /// from now. The token is larger than any before, except that whoever holds the lease already gets the
    /// same one again. `None`: somebody else holds it.
    ///
    /// # Errors
    /// The keeper cannot be asked.
    fn acquire(&self, name: &str, owner: &UniqueAddress, time_to_live: Duration) -> io::Result<Option<u64>>;

    /// The owner is alive: it holds the lease for its time to live from now. `false`: it does not hold it
    /// with this token any more, because it has expired or somebody else got it.
    ///
    /// # Errors
    /// The keeper cannot be asked.
    fn renew(&self, name: &str, owner: &UniqueAddress, token: u64) -> io::Result<bool>;

    /// Gives the lease back. Done as well if `owner` does not hold it.
    ///
    /// # Errors
    /// The keeper cannot be asked.
    fn release(&self, name: &str, owner: &UniqueAddress) -> io::Result<()>;
}
