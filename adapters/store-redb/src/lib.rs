//! What a Quorate node keeps, in a [redb](https://docs.rs/redb) file: embedded, pure Rust, one file per node.
//!
//! ```no_run
//! use quorate_store_redb::Redb;
//!
//! # fn main() -> std::io::Result<()> {
//! let store = Redb::open("/var/lib/orders/node.redb")?;
//! // quorate_tokio::builder("orders").store(store)
//! # Ok(())
//! # }
//! ```
//!
//! # What it guarantees
//! - What was acknowledged survives kill -9 and a power failure at any moment: a group of orders is one
//!   commit and one fsync.
//! - After a write or fsync that failed it acknowledges nothing until it was opened and verified again. All
//!   of the file is written anew before that, because a system that could not write a page may show it as
//!   written.
//! - Every record carries a checksum of its own beside redb's; one that is damaged is never given out.
//! - A full disk refuses writes and goes on reading. The file grows by bytes that are really there, so that a
//!   commit does not find out half-way that it has no room.
//! - A file belongs to one process at a time; a second one is told so.
//!
//! # What it does not
//! A file orders the lives of **one node**: it says nothing about an owner on another machine (that is what
//! `quorate-store-postgres` is for), and nothing once it is lost. Beside the file `PATH.boot` keeps the
//! number of the last life: a file that is older than that, because it was restored from a backup or is gone,
//! counts as data loss (I-84). It is put aside as `PATH.rolled-back-N`, and the node begins with an empty
//! store of another id. A file **and** its boot counter that go back in time together, as with a snapshot of
//! the whole disk, are noticed only by peers that compare `StoreIdentity`; put the counter onto another disk
//! with [`Redb::open_with_counter`] where that matters. A copy made and put back within one life is not
//! noticed.
//!
//! # Cost
//! One fsync per group of orders. Opening reads the whole file to verify it.
#![forbid(unsafe_code)]

mod backend;
mod counter;
mod engine;

use std::fmt;
use std::fs::OpenOptions;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use quorate_driver::store::{Outcome, Space, StoreIdentity, StoreOrder};
use quorate_driver::store::{Store, StoreFault};
use redb::StorageBackend;
use redb::backends::FileBackend;

use backend::CommitFlags;
use counter::{CounterFile, CounterVerdict};
use engine::RedbEngine;

/// Where the bytes are.
type Place = Arc<dyn Fn() -> io::Result<Box<dyn StorageBackend>> + Send + Sync>;

/// A store in a redb file. Give it to a node with `ClusterBuilder::store`.
pub struct Redb {
    place: Place,
    file: Option<(PathBuf, CounterFile)>,
    flags: Arc<CommitFlags>,
    engine: Option<RedbEngine>,
    /// Opened already, and the node has not asked yet.
    fresh: Option<StoreIdentity>,
    /// What was written last may be in a cache and nowhere else.
    is_suspect: bool,
}

impl Redb {
    /// Opens the store in this file, or makes a new one. Folders that do not exist are made. The boot counter
    /// is beside it.
    ///
    /// Blocks while it reads the file to verify it; call it before the node runs, or where blocking is
    /// allowed.
    ///
    /// # Errors
    /// The file is in use by another process or another node, is no store, or is damaged; or what the system
    /// says.
    pub fn open(path: impl AsRef<Path>) -> io::Result<Self> {
        let path = path.as_ref();
        let mut counter = path.as_os_str().to_owned();
        counter.push(".boot");
        Self::open_with_counter(path, PathBuf::from(counter))
    }

    /// The same with the boot counter in a file of its own, on another disk for instance, so that this disk
    /// cannot go back in time without being noticed.
    ///
    /// # Errors
    /// As [`Redb::open`].
    pub fn open_with_counter(path: impl AsRef<Path>, counter: impl AsRef<Path>) -> io::Result<Self> {
        let path = path.as_ref().to_owned();
        for file in [&path, counter.as_ref()] {
            if let Some(folder) = file.parent().filter(|folder| !folder.as_os_str().is_empty()) {
                std::fs::create_dir_all(folder)?;
            }
        }
        let file = path.clone();
        let place: Place = Arc::new(move || {
            let mut options = OpenOptions::new();
            let file = options
                .read(true)
                .write(true)
                .create(true)
                .truncate(false)
                .open(&path)?;
            let backend = FileBackend::new(file).map_err(io::Error::other)?;
            Ok(Box::new(backend))
        });
        let mut store = Self {
            place,
            file: Some((file, CounterFile::new(counter.as_ref()))),
            flags: Arc::default(),
            engine: None,
            fresh: None,
            is_suspect: false,
        };
        let identity = store.start().map_err(|fault| match fault {
            StoreFault::Full(error) | StoreFault::Unavailable(error) | StoreFault::Failed(error) => error,
        })?;
        store.fresh = Some(identity);
        Ok(store)
    }

    /// A store in whatever `place` opens, each time it is called: storage of your own, or a disk that fails
    /// for tests. Nothing is opened yet, and there is no boot counter beside the store's own.
    #[must_use]
    pub fn on(place: impl Fn() -> io::Result<Box<dyn StorageBackend>> + Send + Sync + 'static) -> Self {
        Self {
            place: Arc::new(place),
            file: None,
            flags: Arc::default(),
            engine: None,
            fresh: None,
            is_suspect: false,
        }
    }

    /// Opens, verifies, and counts one more life.
    fn start(&mut self) -> Result<StoreIdentity, StoreFault> {
        // Two of one file are one too many.
        self.engine = None;
        let mut engine = self.reach().map_err(StoreFault::Unavailable)?;
        let mut put_aside = false;
        if let Some((path, counter)) = &self.file {
            let known = engine.identity().map_err(StoreFault::Unavailable)?;
            match counter.judge(known).map_err(StoreFault::Unavailable)? {
                CounterVerdict::Good => {}
                CounterVerdict::WentBack { boot } => {
                    tracing::error!(
                        target: "cluster::store", event = "store_rolled_back", path = %path.display(), found = ?known,
                        last_boot = boot, "the file is older than its last life, or gone: begins with an empty store"
                    );
                    drop(engine);
                    counter::put_aside(path, boot).map_err(StoreFault::Unavailable)?;
                    engine = self.reach().map_err(StoreFault::Unavailable)?;
                    put_aside = true;
                }
            }
        }
        let identity = engine.boot().map_err(|error| self.fault(error))?;
        if let Some((_, counter)) = &self.file {
            counter.write(identity).map_err(StoreFault::Unavailable)?;
        }
        debug_assert!(!put_aside || identity.boot == 1, "an empty store begins");
        self.engine = Some(engine);
        Ok(identity)
    }

    /// The engine over what is on the disk. After a failure all of it is written again first: what could not
    /// be made durable then may be read from a cache now, and would be taken for durable.
    fn reach(&mut self) -> io::Result<RedbEngine> {
        let backend = (self.place)()?;
        if self.is_suspect {
            backend::rewrite(&*backend)?;
            self.is_suspect = false;
        }
        let was_used = self.file.as_ref().is_some_and(|(_, counter)| counter.exists());
        if !was_used {
            backend::clear_if_unfinished(&*backend)?;
        }
        RedbEngine::open(backend, &self.flags)
    }

    /// What an error of a commit means.
    fn fault(&mut self, error: io::Error) -> StoreFault {
        self.engine = None;
        let synced = self.flags.sync_begun();
        self.is_suspect |= self.flags.sync_failed();
        if synced {
            return StoreFault::Failed(error);
        }
        if error.kind() != io::ErrorKind::StorageFull && !self.flags.was_full() {
            return StoreFault::Unavailable(error);
        }
        // Not a byte of it counts. The same life goes on, so that what is there can be read.
        match self.reach() {
            Ok(engine) => {
                self.engine = Some(engine);
                StoreFault::Full(error)
            }
            Err(closed) => StoreFault::Unavailable(closed),
        }
    }
}

impl fmt::Debug for Redb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Redb")
            .field("path", &self.file.as_ref().map(|(path, _)| path))
            .field("is_open", &self.engine.is_some())
            .finish_non_exhaustive()
    }
}

impl Store for Redb {
    fn open(&mut self) -> Result<StoreIdentity, StoreFault> {
        match self.fresh.take() {
            Some(identity) => Ok(identity),
            None => self.start(),
        }
    }

    fn commit(&mut self, orders: &[(Space, &StoreOrder)]) -> Result<Vec<Outcome>, StoreFault> {
        let Some(engine) = &self.engine else {
            return Err(StoreFault::Unavailable(io::Error::other("the store is closed")));
        };
        self.flags.begin();
        let done = if orders.iter().all(|(_, order)| order.is_read()) {
            engine.read(orders)
        } else {
            engine.write(orders)
        };
        done.map_err(|error| self.fault(error))
    }
}

/// The README's example compiles.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
