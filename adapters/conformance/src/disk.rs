//! A disk that is as bad as disks are: what was not synced is lost in a crash, in any order and torn; it
//! fills up, fails to sync once and then pretends that all is well, stalls, and turns bits over. For the
//! tests of stores that write to something like a file. Spec: reliability F-02, F-20, F-22, F-23, I-80 to
//! I-83.

use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use rand_chacha::ChaCha8Rng;
use rand_core::{Rng, SeedableRng};

/// What a disk writes whole or not at all.
const SECTOR_BYTES: usize = 512;

/// See the module. A clone is the same disk.
#[derive(Clone)]
pub struct FaultyDisk(Arc<Mutex<DiskState>>);

struct DiskState {
    /// What is there after a crash, at least.
    durable: Vec<u8>,
    /// What is read: the system's cache.
    cached: Vec<u8>,
    /// What was written since it was last synced.
    pending: Vec<PendingWrite>,
    chance: ChaCha8Rng,
    capacity: usize,
    /// Writes, changes of length and syncs until the power fails.
    steps_left: u64,
    steps: u64,
    syncs: u64,
    failing_syncs: u64,
    sync_delay: Duration,
}

enum PendingWrite {
    Write { offset: usize, bytes: Vec<u8> },
    Length(usize),
}

impl FaultyDisk {
    /// A panic elsewhere leaves it usable.
    fn state(&self) -> MutexGuard<'_, DiskState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An empty disk. Its seed decides what a crash leaves.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self::holding(Vec::new(), seed)
    }

    fn holding(bytes: Vec<u8>, seed: u64) -> Self {
        Self(Arc::new(Mutex::new(DiskState {
            cached: bytes.clone(),
            durable: bytes,
            pending: Vec::new(),
            chance: ChaCha8Rng::seed_from_u64(seed),
            capacity: usize::MAX,
            steps_left: u64::MAX,
            steps: 0,
            syncs: 0,
            failing_syncs: 0,
            sync_delay: Duration::ZERO,
        })))
    }

    /// The length of what is on it.
    ///
    /// # Errors
    /// The power is off.
    pub fn size(&self) -> io::Result<u64> {
        let state = self.state();
        state.is_powered()?;
        Ok(state.cached.len() as u64)
    }

    /// Reads all of `out`.
    ///
    /// # Errors
    /// The power is off, or there is not so much.
    pub fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let state = self.state();
        state.is_powered()?;
        let from = usize::try_from(offset).map_err(io::Error::other)?;
        let bytes = state.cached.get(from..from.saturating_add(out.len()));
        out.copy_from_slice(bytes.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    /// Writes. Beyond the end the disk grows.
    ///
    /// # Errors
    /// The power is off, or there is no room.
    pub fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let mut state = self.state();
        state.step()?;
        let offset = usize::try_from(offset).map_err(io::Error::other)?;
        let end = offset.saturating_add(bytes.len());
        let len = end.max(state.cached.len());
        state.grow(len)?;
        state.cached[offset..end].copy_from_slice(bytes);
        let bytes = bytes.to_vec();
        state.pending.push(PendingWrite::Write { offset, bytes });
        Ok(())
    }

    /// Cuts off or adds zeros.
    ///
    /// # Errors
    /// The power is off, or there is no room.
    pub fn set_len(&self, len: u64) -> io::Result<()> {
        let mut state = self.state();
        state.step()?;
        let len = usize::try_from(len).map_err(io::Error::other)?;
        state.grow(len)
    }

    /// Makes everything durable that was written before.
    ///
    /// # Errors
    /// The power is off, or the sync failed: then what was written is read as before, and is never made
    /// durable unless it is written again.
    pub fn sync(&self) -> io::Result<()> {
        let delay = self.state().sync_delay;
        thread::sleep(delay);
        let mut state = self.state();
        state.step()?;
        state.syncs += 1;
        if state.failing_syncs > 0 {
            state.failing_syncs -= 1;
            state.scatter();
            return Err(io::Error::other("the disk did not take it (EIO)"));
        }
        for pending in std::mem::take(&mut state.pending) {
            pending.apply(&mut state.durable, usize::MAX);
        }
        Ok(())
    }

    /// So many bytes fit on it from now on.
    pub fn set_capacity(&self, bytes: usize) {
        self.state().capacity = bytes;
    }

    /// So many syncs fail from now on.
    pub fn fail_syncs(&self, count: u64) {
        self.state().failing_syncs = count;
    }

    /// Every sync takes so long from now on.
    pub fn delay_syncs(&self, delay: Duration) {
        self.state().sync_delay = delay;
    }

    /// After so many more writes, changes of length and syncs the power fails.
    pub fn fail_power_after(&self, steps: u64) {
        self.state().steps_left = steps;
    }

    /// Whether the power has not failed yet.
    #[must_use]
    pub fn has_power(&self) -> bool {
        self.state().is_powered().is_ok()
    }

    /// Writes, changes of length and syncs so far.
    #[must_use]
    pub fn steps(&self) -> u64 {
        self.state().steps
    }

    /// Syncs so far, those that failed included.
    #[must_use]
    pub fn syncs(&self) -> u64 {
        self.state().syncs
    }

    /// Turns one bit over, on the disk and in the cache.
    pub fn flip_bit(&self, at: u64) {
        let mut state = self.state();
        let place = usize::try_from(at / 8).unwrap_or(usize::MAX);
        let bit = 1 << (at % 8);
        for bytes in [true, false] {
            let bytes = if bytes {
                &mut state.cached
            } else {
                &mut state.durable
            };
            if let Some(byte) = bytes.get_mut(place) {
                *byte ^= bit;
            }
        }
    }

    /// The disk as it is found after the power failed: of what was not synced anything may be there, whole,
    /// torn or not.
    #[must_use]
    pub fn after_power_failure(&self) -> Self {
        let mut state = self.state();
        state.scatter();
        let seed = state.chance.next_u64();
        Self::holding(state.durable.clone(), seed)
    }
}

impl DiskState {
    fn is_powered(&self) -> io::Result<()> {
        if self.steps_left == 0 {
            return Err(io::Error::other("the power is off"));
        }
        Ok(())
    }

    fn step(&mut self) -> io::Result<()> {
        self.is_powered()?;
        self.steps += 1;
        self.steps_left -= 1;
        self.is_powered()
    }

    fn grow(&mut self, len: usize) -> io::Result<()> {
        if len > self.capacity && len > self.cached.len() {
            return Err(io::Error::new(io::ErrorKind::StorageFull, "no room (ENOSPC)"));
        }
        if len != self.cached.len() {
            self.cached.resize(len, 0);
            self.pending.push(PendingWrite::Length(len));
        }
        Ok(())
    }

    /// What was not synced reaches the disk: sometimes all of it, else in part, each write wholly, up to a
    /// sector of it, or not.
    fn scatter(&mut self) {
        let all = self.chance.next_u64().is_multiple_of(4);
        for pending in std::mem::take(&mut self.pending) {
            let sectors = match &pending {
                PendingWrite::Write { bytes, .. } => bytes.len().div_ceil(SECTOR_BYTES) as u64,
                PendingWrite::Length(_) => 0,
            };
            match self.chance.next_u64() % 4 {
                _ if all => pending.apply(&mut self.durable, usize::MAX),
                0 => {}
                1 => {
                    let whole = self.chance.next_u64() % (sectors + 1);
                    let most = usize::try_from(whole).unwrap_or(0) * SECTOR_BYTES;
                    pending.apply(&mut self.durable, most);
                }
                _ => pending.apply(&mut self.durable, usize::MAX),
            }
        }
    }
}

impl PendingWrite {
    /// At most so many bytes of a write.
    fn apply(self, to: &mut Vec<u8>, most: usize) {
        match self {
            Self::Length(len) => to.resize(len, 0),
            Self::Write { offset, mut bytes } => {
                bytes.truncate(most);
                let end = offset + bytes.len();
                if to.len() < end {
                    to.resize(end, 0);
                }
                to[offset..end].copy_from_slice(&bytes);
            }
        }
    }
}

impl fmt::Debug for FaultyDisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state();
        f.debug_struct("FaultyDisk")
            .field("bytes", &state.cached.len())
            .field("unsynced", &state.pending.len())
            .finish_non_exhaustive()
    }
}
