//! What is between redb and the disk: notes what of a commit has reached the disk, and lets a file grow only
//! by bytes that are really there. Decides nothing. Spec: reliability I-81, I-82.

use std::fmt;
use std::io;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use redb::{BackendError, StorageBackend};

/// Bytes that are written at once where a whole file is.
const CHUNK_BYTES: usize = 1 << 20;

/// Length of redb's magic number.
const MAGIC_BYTES: usize = 9;

/// What has happened since a commit began.
#[derive(Debug, Default)]
pub(crate) struct CommitFlags {
    sync_begun: AtomicBool,
    sync_failed: AtomicBool,
    was_full: AtomicBool,
}

impl CommitFlags {
    pub(crate) fn begin(&self) {
        for flag in [&self.sync_begun, &self.sync_failed, &self.was_full] {
            flag.store(false, Ordering::SeqCst);
        }
    }

    /// From then on all of the commit may be on the disk.
    pub(crate) fn sync_begun(&self) -> bool {
        self.sync_begun.load(Ordering::SeqCst)
    }

    pub(crate) fn sync_failed(&self) -> bool {
        self.sync_failed.load(Ordering::SeqCst)
    }

    pub(crate) fn was_full(&self) -> bool {
        self.was_full.load(Ordering::SeqCst)
    }

    fn note<T>(&self, result: io::Result<T>) -> io::Result<T> {
        if result
            .as_ref()
            .is_err_and(|error| error.kind() == io::ErrorKind::StorageFull)
        {
            self.was_full.store(true, Ordering::SeqCst);
        }
        result
    }
}

/// See the module.
pub(crate) struct WatchedBackend {
    inner: Box<dyn StorageBackend>,
    flags: Arc<CommitFlags>,
}

impl WatchedBackend {
    pub(crate) fn new(inner: Box<dyn StorageBackend>, flags: &Arc<CommitFlags>) -> Self {
        Self {
            inner,
            flags: Arc::clone(flags),
        }
    }

    /// Zeros from the old end to the new one: a hole has no room of its own, and would turn up as a full disk
    /// in the middle of a commit.
    fn fill(&self, from: u64, to: u64) -> io::Result<()> {
        let zeros = vec![0; CHUNK_BYTES];
        let mut at = from;
        while at < to {
            let len = usize::try_from(to - at).unwrap_or(CHUNK_BYTES).min(CHUNK_BYTES);
            self.inner.write(at, &zeros[..len])?;
            at += len as u64;
        }
        Ok(())
    }
}

/// Writes all that is there again, and syncs it.
pub(crate) fn rewrite(backend: &dyn StorageBackend) -> io::Result<()> {
    let len = backend.len()?;
    let mut chunk = vec![0; CHUNK_BYTES];
    let mut at = 0;
    while at < len {
        let part = usize::try_from(len - at).unwrap_or(CHUNK_BYTES).min(CHUNK_BYTES);
        backend.read(at, &mut chunk[..part])?;
        backend.write(at, &chunk[..part])?;
        at += part as u64;
    }
    backend.sync_data()
}

/// Empties a file whose making was cut short: redb writes its magic number last, so nothing was ever
/// acknowledged in it. Must not be called for a store that was used before: there it is damage.
pub(crate) fn clear_if_unfinished(backend: &dyn StorageBackend) -> io::Result<()> {
    let mut magic = [0; MAGIC_BYTES];
    let len = backend.len()?;
    if len > 0 && len < MAGIC_BYTES as u64 {
        return backend.set_len(0);
    }
    if len > 0 {
        backend.read(0, &mut magic)?;
        if magic == [0; MAGIC_BYTES] {
            return backend.set_len(0);
        }
    }
    Ok(())
}

impl fmt::Debug for WatchedBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watched")
            .field("inner", &self.inner)
            .finish_non_exhaustive()
    }
}

impl StorageBackend for WatchedBackend {
    fn len(&self) -> Result<u64, io::Error> {
        self.inner.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> Result<(), io::Error> {
        self.inner.read(offset, out)
    }

    fn set_len(&self, len: u64) -> Result<(), io::Error> {
        let before = self.inner.len()?;
        let grown = self.inner.set_len(len).and_then(|()| self.fill(before, len));
        if grown.is_err() && len > before {
            // As it was: half of a longer file is of no use.
            drop(self.inner.set_len(before));
        }
        self.flags.note(grown)
    }

    fn sync_data(&self) -> Result<(), io::Error> {
        self.flags.sync_begun.store(true, Ordering::SeqCst);
        let synced = self.inner.sync_data();
        if synced.is_err() {
            self.flags.sync_failed.store(true, Ordering::SeqCst);
        }
        self.flags.note(synced)
    }

    fn write(&self, offset: u64, data: &[u8]) -> Result<(), io::Error> {
        self.flags.note(self.inner.write(offset, data))
    }

    fn close(&self) -> Result<(), io::Error> {
        self.inner.close()
    }

    fn try_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.inner.try_lock_range(start, end)
    }

    fn try_lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.inner.try_lock_shared_range(start, end)
    }

    fn lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.inner.lock_range(start, end)
    }

    fn lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.inner.lock_shared_range(start, end)
    }

    fn unlock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.inner.unlock_range(start, end)
    }

    fn query_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.inner.query_lock_range(start, end)
    }
}
