//! The regular files below a directory, and the names they have as entities. Follows no symbolic link, leaves
//! nothing hidden out, keeps names that are no UTF-8.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

/// One file as an entity.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Found {
    /// Its path relative to the root, as bytes: the entity's id.
    pub id: Vec<u8>,
    /// Its size when it was found.
    pub bytes: u64,
}

/// The files below a root, sorted by id.
#[derive(Debug)]
pub struct Files {
    /// What the ids are relative to.
    pub root: PathBuf,
    /// The files.
    pub found: Vec<Found>,
    /// Directories and entries that could not be read: their path and why. Nothing below them is in `found`.
    pub skipped: Vec<(PathBuf, io::Error)>,
}

impl Files {
    /// All regular files below `path`; `path` itself if it is one.
    ///
    /// # Errors
    /// `path` does not exist or cannot be read.
    pub fn below(path: &Path) -> io::Result<Self> {
        let path = path.canonicalize()?;
        if path.is_dir() {
            fs::read_dir(&path)?;
            return Ok(Self::of(path.clone(), vec![path]));
        }
        let mut files = Self {
            root: path.clone(),
            found: Vec::new(),
            skipped: Vec::new(),
        };
        if let (true, Some(name), Some(parent)) = (path.is_file(), path.file_name(), path.parent()) {
            let bytes = path.metadata()?.len();
            files
                .found
                .extend(id_of(Path::new(name)).map(|id| Found { id, bytes }));
            files.root = parent.to_path_buf();
        }
        Ok(files)
    }

    /// All regular files below the directories, which are below `root`.
    #[must_use]
    pub fn of(root: PathBuf, directories: Vec<PathBuf>) -> Self {
        let mut files = Self {
            root,
            found: Vec::new(),
            skipped: Vec::new(),
        };
        let mut open = directories;
        while let Some(directory) = open.pop() {
            match fs::read_dir(&directory) {
                Err(error) => files.skipped.push((directory, error)),
                Ok(entries) => {
                    for entry in entries {
                        files.visit(&directory, entry, &mut open);
                    }
                }
            }
        }
        files.found.sort_unstable();
        files
    }

    fn visit(&mut self, directory: &Path, entry: io::Result<fs::DirEntry>, open: &mut Vec<PathBuf>) {
        let entry = match entry {
            Ok(entry) => entry,
            Err(error) => return self.skipped.push((directory.to_path_buf(), error)),
        };
        let path = entry.path();
        match entry.file_type() {
            Err(error) => self.skipped.push((path, error)),
            Ok(kind) if kind.is_dir() => open.push(path),
            Ok(kind) if kind.is_file() => match path.strip_prefix(&self.root).ok().and_then(id_of) {
                // A size that cannot be had only makes the first deadline shorter.
                Some(id) => self.found.push(Found {
                    id,
                    bytes: entry.metadata().map_or(0, |m| m.len()),
                }),
                None => self
                    .skipped
                    .push((path, io::Error::other("the name cannot be an entity's id"))),
            },
            Ok(_) => {}
        }
    }

    /// Where a file is.
    #[must_use]
    pub fn path_of(&self, found: &Found) -> Option<PathBuf> {
        resolve(&self.root, &found.id)
    }
}

/// The path of the file with this id below `root`; nothing if the id would lead out of it.
#[must_use]
pub fn resolve(root: &Path, id: &[u8]) -> Option<PathBuf> {
    let relative = PathBuf::from(os_string(id)?);
    let stays_inside = relative
        .components()
        .all(|part| matches!(part, Component::Normal(_)));
    (stays_inside && !id.is_empty()).then(|| root.join(relative))
}

#[cfg(unix)]
fn id_of(relative: &Path) -> Option<Vec<u8>> {
    use std::os::unix::ffi::OsStrExt;
    Some(relative.as_os_str().as_bytes().to_vec())
}

#[cfg(unix)]
fn os_string(id: &[u8]) -> Option<OsString> {
    use std::os::unix::ffi::OsStringExt;
    // The system would cut the name at a zero byte or refuse it.
    (!id.contains(&0)).then(|| OsString::from_vec(id.to_vec()))
}

#[cfg(not(unix))]
fn id_of(relative: &Path) -> Option<Vec<u8>> {
    relative.to_str().map(|text| text.as_bytes().to_vec())
}

#[cfg(not(unix))]
fn os_string(id: &[u8]) -> Option<OsString> {
    std::str::from_utf8(id).ok().map(OsString::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_do_not_lead_out_of_the_root() {
        let root = Path::new("/data");
        assert_eq!(resolve(root, b"a/b.txt"), Some(PathBuf::from("/data/a/b.txt")));
        for id in [&b""[..], b"/etc/passwd", b"../secret", b"a/../../secret", b"a\0b"] {
            assert_eq!(resolve(root, id), None, "{}", id.escape_ascii());
        }
    }

    #[cfg(unix)]
    #[test]
    fn hidden_files_and_odd_names_are_found_and_links_are_not() {
        use std::os::unix::ffi::OsStrExt;
        let root = std::env::temp_dir().join(format!("quorate-files-{}", std::process::id()));
        fs::create_dir_all(root.join(".hidden/deep")).unwrap();
        fs::write(root.join(".dot"), "x").unwrap();
        fs::write(root.join(".hidden/deep/file"), "xy").unwrap();
        fs::write(root.join(std::ffi::OsStr::from_bytes(b"odd-\xff\n")), "").unwrap();
        std::os::unix::fs::symlink(root.join(".dot"), root.join("link")).unwrap();
        std::os::unix::fs::symlink(&root, root.join("loop")).unwrap();
        let files = Files::below(&root).unwrap();
        let one = Files::below(&root.join(".dot")).unwrap();
        fs::remove_dir_all(&root).unwrap();
        let ids: Vec<&[u8]> = files.found.iter().map(|found| &found.id[..]).collect();
        assert_eq!(ids, [&b".dot"[..], b".hidden/deep/file", b"odd-\xff\n"]);
        assert_eq!(files.found[1].bytes, 2);
        assert!(files.skipped.is_empty());
        assert_eq!((one.found.len(), &one.found[0].id[..]), (1, &b".dot"[..]));
    }
}
