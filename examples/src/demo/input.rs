//! Which files are counted. The default takes exactly the crates of this workspace's lock file, so that a
//! machine with a large Cargo cache counts as much as a fresh one.

use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use crate::files::Files;

const WORKSPACE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

/// The files below `path`, or the default ones, and what to call them. An error is the caller's to mend.
pub(crate) fn files(path: Option<&Path>) -> Result<(Files, String), String> {
    let (files, what) = match path {
        Some(path) => (below(path)?, path.display().to_string()),
        None => match crates_of_this_build() {
            Some(files) => {
                let what = format!("{} (the crates of this build)", files.root.display());
                (files, what)
            }
            None => (below(Path::new(WORKSPACE))?, "this workspace".to_owned()),
        },
    };
    if files.found.is_empty() {
        return Err(format!("no regular file below {what}"));
    }
    Ok((files, what))
}

fn below(path: &Path) -> Result<Files, String> {
    Files::below(path).map_err(|error| format!("cannot read {}: {error}", path.display()))
}

/// What Cargo unpacked of the packages in the lock file, from whichever registry.
fn crates_of_this_build() -> Option<Files> {
    let home = env::var_os("CARGO_HOME")
        .filter(|home| !home.is_empty())
        .map(PathBuf::from);
    let home = home.or_else(|| Some(env::home_dir()?.join(".cargo")))?;
    let root = home.join("registry").join("src").canonicalize().ok()?;
    let wanted = packages(&fs::read_to_string(Path::new(WORKSPACE).join("Cargo.lock")).ok()?);
    let mut directories = Vec::new();
    for registry in fs::read_dir(&root).ok()?.flatten() {
        for package in fs::read_dir(registry.path()).into_iter().flatten().flatten() {
            let is_wanted = package
                .file_name()
                .to_str()
                .is_some_and(|name| wanted.contains(name));
            if is_wanted && package.file_type().is_ok_and(|kind| kind.is_dir()) {
                directories.push(package.path());
            }
        }
    }
    let files = Files::of(root, directories);
    (!files.found.is_empty()).then_some(files)
}

/// `name-version` of every package in a lock file.
fn packages(lock_file: &str) -> BTreeSet<String> {
    let value = |line: &str, key: &str| Some(line.strip_prefix(key)?.trim_matches('"').to_owned());
    let mut packages = BTreeSet::new();
    let mut name = None;
    for line in lock_file.lines() {
        if let Some(found) = value(line, "name = ") {
            name = Some(found);
        } else if let (Some(name), Some(version)) = (&name, value(line, "version = ")) {
            packages.insert(format!("{name}-{version}"));
        }
    }
    packages
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lock_file_names_directories_of_the_cache() {
        let packages =
            packages("version = 4\n\n[[package]]\nname = \"a-b\"\nversion = \"1.2.3\"\nsource = \"x\"\n");
        assert_eq!(packages.into_iter().collect::<Vec<_>>(), ["a-b-1.2.3"]);
    }

    #[test]
    fn a_missing_path_and_an_empty_directory_are_the_callers_mistake() {
        let missing = files(Some(Path::new("/no/such/directory"))).unwrap_err();
        assert!(missing.contains("/no/such/directory"), "{missing}");
        let empty = env::temp_dir().join(format!("quorate-empty-{}", std::process::id()));
        fs::create_dir_all(empty.join("still/empty")).unwrap();
        let error = files(Some(&empty)).unwrap_err();
        fs::remove_dir_all(&empty).unwrap();
        assert!(error.starts_with("no regular file below"), "{error}");
    }
}
