//! Leases in files, for processes of one machine. Never holds a lock while it works, so that a holder that is
//! stopped at any instruction blocks nobody for longer than its time to live. Spec: membership 3.6,
//! reliability I-26.
//!
//! Every grant is a file of its own, `<name>.<token>`: it comes to be by a hard link, which one process alone
//! can make, and the highest token is the lease. Renewing replaces the file by one with a younger heartbeat.
//! Whoever created or renewed a file looks again whether its token is still the highest: it may have been
//! stopped in between.

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use quorate_core::ident::UniqueAddress;

use super::LeaseKeeper;

/// How often a look is repeated when files come and go under it.
const LOOKS_MAX: usize = 16;

/// What stands for nobody in a file.
const NOBODY: &str = "-";

/// A lease keeper in a directory that all processes share. The directory is on a local file system of one
/// machine, and the machine's clock is not set forward by more than a time to live while leases are held;
/// setting it back makes a lease last longer. Several keepers, in any processes, may use the same directory.
pub struct FileLeases {
    directory: PathBuf,
    now: Box<dyn Fn() -> Duration + Send + Sync>,
}

/// What is in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
struct LeaseFile {
    /// Nobody after a release.
    owner: Option<String>,
    time_to_live: Duration,
    heartbeat: Duration,
}

impl FileLeases {
    /// Keeps leases in `directory`, which is created if it does not exist.
    ///
    /// # Errors
    /// The directory cannot be created.
    pub fn new(directory: impl Into<PathBuf>) -> io::Result<Self> {
        let now = || {
            let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
            since.unwrap_or(Duration::ZERO)
        };
        Self::with_clock(directory, now)
    }

    /// Like [`Self::new`], with another clock that all processes share.
    ///
    /// # Errors
    /// The directory cannot be created.
    pub fn with_clock(
        directory: impl Into<PathBuf>,
        now: impl Fn() -> Duration + Send + Sync + 'static,
    ) -> io::Result<Self> {
        let directory = directory.into();
        fs::create_dir_all(&directory)?;
        Ok(Self {
            directory,
            now: Box::new(now),
        })
    }

    fn path(&self, name: &str, token: u64) -> PathBuf {
        self.directory.join(format!("{}.{token}", file_name(name)))
    }

    /// All tokens of a lease, the lease's own last.
    fn tokens(&self, name: &str) -> io::Result<Vec<u64>> {
        let name = file_name(name);
        let mut tokens = Vec::new();
        for entry in fs::read_dir(&self.directory)? {
            let entry = entry?.file_name();
            let token = entry.to_str().and_then(|entry| {
                let (lease, token) = entry.rsplit_once('.')?;
                (lease == name).then(|| token.parse::<u64>().ok())?
            });
            tokens.extend(token);
        }
        tokens.sort_unstable();
        Ok(tokens)
    }

    /// The lease as it stands.
    fn latest(&self, name: &str) -> io::Result<Option<(u64, LeaseFile)>> {
        for _ in 0..LOOKS_MAX {
            let Some(token) = self.tokens(name)?.pop() else {
                return Ok(None);
            };
            match fs::read_to_string(self.path(name, token)) {
                Ok(text) => return Ok(Some((token, LeaseFile::parse(&text)?))),
                // A higher one has come, and this one was cleared away.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Err(io::Error::other("the lease changes hands all the time"))
    }

    fn is_latest(&self, name: &str, token: u64) -> io::Result<bool> {
        Ok(self.tokens(name)?.last() == Some(&token))
    }

    /// Writes a file of its own that [`fs::hard_link`] or [`fs::rename`] can put in place at once.
    fn write(&self, name: &str, record: &LeaseFile) -> io::Result<PathBuf> {
        static WRITTEN: AtomicU64 = AtomicU64::new(0);
        let number = WRITTEN.fetch_add(1, Ordering::Relaxed);
        let file = format!("{}.{}-{number}.new", file_name(name), process::id());
        let path = self.directory.join(file);
        fs::write(&path, record.to_string())?;
        Ok(path)
    }

    /// Makes `token` the lease, unless somebody else was faster.
    fn create(&self, name: &str, token: u64, record: &LeaseFile) -> io::Result<bool> {
        let new = self.write(name, record)?;
        let linked = fs::hard_link(&new, self.path(name, token));
        fs::remove_file(&new)?;
        match linked {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(false),
            Err(error) => return Err(error),
        }
        if !self.is_latest(name, token)? {
            remove(&self.path(name, token))?;
            return Ok(false);
        }
        for older in self.tokens(name)?.into_iter().filter(|older| *older < token) {
            remove(&self.path(name, older))?;
        }
        Ok(true)
    }

    fn replace(&self, name: &str, token: u64, record: &LeaseFile) -> io::Result<()> {
        let new = self.write(name, record)?;
        fs::rename(new, self.path(name, token))
    }
}

impl fmt::Debug for FileLeases {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("FileLeases");
        out.field("directory", &self.directory).finish_non_exhaustive()
    }
}

impl LeaseKeeper for FileLeases {
    fn acquire(&self, name: &str, owner: &UniqueAddress, time_to_live: Duration) -> io::Result<Option<u64>> {
        let now = (self.now)();
        let me = owner.to_string();
        let latest = self.latest(name)?;
        if let Some((token, record)) = &latest
            && record.is_held(now)
        {
            let is_mine = record.owner.as_deref() == Some(&*me) && self.renew(name, owner, *token)?;
            return Ok(is_mine.then_some(*token));
        }
        let record = LeaseFile {
            owner: Some(me),
            time_to_live,
            heartbeat: now,
        };
        let token = latest.map_or(1, |(token, _)| token + 1);
        Ok(self.create(name, token, &record)?.then_some(token))
    }

    fn renew(&self, name: &str, owner: &UniqueAddress, token: u64) -> io::Result<bool> {
        let now = (self.now)();
        let Some((latest, record)) = self.latest(name)? else {
            return Ok(false);
        };
        let me = owner.to_string();
        if latest != token || record.owner.as_deref() != Some(&*me) || !record.is_held(now) {
            return Ok(false);
        }
        let renewed = LeaseFile {
            heartbeat: now,
            ..record.clone()
        };
        self.replace(name, token, &renewed)?;
        // Whoever looked before this was in place may take the lease from its old end on.
        Ok(record.is_held((self.now)()) && self.is_latest(name, token)?)
    }

    fn release(&self, name: &str, owner: &UniqueAddress) -> io::Result<()> {
        let me = owner.to_string();
        match self.latest(name)? {
            Some((token, record)) if record.owner.as_deref() == Some(&*me) => {
                let released = LeaseFile {
                    owner: None,
                    ..record
                };
                // The file stays: the next token is counted from it.
                self.replace(name, token, &released)
            }
            Some(_) | None => Ok(()),
        }
    }
}

impl LeaseFile {
    fn is_held(&self, now: Duration) -> bool {
        self.owner.is_some() && now < self.heartbeat + self.time_to_live
    }

    fn parse(text: &str) -> io::Result<Self> {
        let broken = || io::Error::new(io::ErrorKind::InvalidData, "not a lease of this version");
        let mut words = text.split_whitespace();
        let mut word = |key: &str| {
            let is_key = words.next() == Some(key);
            words.next().filter(|_| is_key)
        };
        let owner = word("owner").ok_or_else(broken)?;
        let mut millis = |key: &str| {
            let value = word(key).and_then(|value| value.parse().ok());
            value.map(Duration::from_millis).ok_or_else(broken)
        };
        Ok(Self {
            owner: (owner != NOBODY).then(|| owner.to_owned()),
            time_to_live: millis("time_to_live_ms")?,
            heartbeat: millis("heartbeat_ms")?,
        })
    }
}

impl fmt::Display for LeaseFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let owner = self.owner.as_deref().unwrap_or(NOBODY);
        let lives = self.time_to_live.as_millis();
        // Rounded up: nobody may have it before its holder knows that it is lost.
        let beat = self.heartbeat.as_micros().div_ceil(1_000);
        writeln!(f, "owner {owner}\ntime_to_live_ms {lives}\nheartbeat_ms {beat}")
    }
}

/// The lease's name as a file may have it.
fn file_name(name: &str) -> String {
    let mut out = String::new();
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_') {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02x}"));
        }
    }
    out
}

/// Removes a file that may be gone already.
fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}
