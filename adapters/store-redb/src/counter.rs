//! The number of a store's last life, in a file beside it: how a store notices that its disk went back in
//! time. Written after the store has counted the life itself, so it is never ahead of a store that is what it
//! was. Spec: reliability F-04, I-84.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use quorate_driver::store::StoreIdentity;

/// The file.
#[derive(Debug)]
pub(crate) struct CounterFile {
    path: PathBuf,
}

/// What the counter says about a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CounterVerdict {
    /// It is where it was left, or there is nothing to compare with.
    Good,
    /// It was further once, or it is not there, or it is another one.
    WentBack {
        /// The last life that is known of.
        boot: u64,
    },
}

impl CounterFile {
    pub(crate) fn new(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
        }
    }

    /// Whether a life was ever noted.
    pub(crate) fn exists(&self) -> bool {
        self.path.exists()
    }

    /// Compares a store with its last known life.
    ///
    /// # Errors
    /// The file cannot be read, or is no counter.
    pub(crate) fn judge(&self, found: Option<StoreIdentity>) -> io::Result<CounterVerdict> {
        let text = match fs::read_to_string(&self.path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(CounterVerdict::Good),
            Err(error) => return Err(error),
        };
        let known = parse(&text).ok_or_else(|| {
            let what = format!("{} is no boot counter", self.path.display());
            io::Error::new(io::ErrorKind::InvalidData, what)
        })?;
        let is_good = found.is_some_and(|found| found.id == known.id && found.boot >= known.boot);
        Ok(if is_good {
            CounterVerdict::Good
        } else {
            CounterVerdict::WentBack { boot: known.boot }
        })
    }

    /// Notes a life, durably: a new file takes the place of the old one.
    ///
    /// # Errors
    /// What the system says.
    pub(crate) fn write(&self, identity: StoreIdentity) -> io::Result<()> {
        let mut new = self.path.as_os_str().to_owned();
        new.push(".new");
        let new = PathBuf::from(new);
        let mut file = File::create(&new)?;
        writeln!(file, "store {:032x}\nboot {}", identity.id, identity.boot)?;
        file.sync_all()?;
        fs::rename(&new, &self.path)?;
        sync_folder(&self.path)
    }
}

fn parse(text: &str) -> Option<StoreIdentity> {
    let mut lines = text.lines();
    let id = lines.next()?.strip_prefix("store ")?;
    let boot = lines.next()?.strip_prefix("boot ")?;
    Some(StoreIdentity {
        id: u128::from_str_radix(id, 16).ok()?,
        boot: boot.parse().ok()?,
    })
}

/// Moves a file away under a name that says why, for an operator to look at. It may not be there.
pub(crate) fn put_aside(path: &Path, boot: u64) -> io::Result<()> {
    let aside = |attempt: u32| {
        let mut name = path.as_os_str().to_owned();
        name.push(match attempt {
            0 => format!(".rolled-back-{boot}"),
            more => format!(".rolled-back-{boot}-{more}"),
        });
        PathBuf::from(name)
    };
    // What was put aside before stays.
    let free = (0..u32::MAX).map(aside).find(|name| !name.exists());
    let Some(free) = free else {
        return Err(io::Error::other("too many files were put aside"));
    };
    match fs::rename(path, free) {
        Ok(()) => sync_folder(path),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

/// Makes a name durable. Only Unix lets a program do so.
fn sync_folder(of: &Path) -> io::Result<()> {
    let folder = of.parent().filter(|folder| !folder.as_os_str().is_empty());
    if cfg!(unix) {
        File::open(folder.unwrap_or(Path::new(".")))?.sync_all()?;
    }
    Ok(())
}
