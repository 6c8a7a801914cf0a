//! The bugs planted under `mutants/` can still be planted: what a patch takes away stands in the file that it
//! names. Whether each is caught is for `mutants/*/run.sh`, which takes much longer.

use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn patches(below: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(below).expect("readable folder") {
        let path = entry.expect("readable entry").path();
        if path.is_dir() {
            patches(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "patch") {
            found.push(path);
        }
    }
}

/// One place of a patch: the file, and the lines that have to be there.
struct Hunk {
    file: String,
    lines: Vec<String>,
}

fn hunks(patch: &str) -> Vec<Hunk> {
    let mut found: Vec<Hunk> = Vec::new();
    let mut file = String::new();
    for line in patch.lines() {
        if let Some(name) = line.strip_prefix("--- a/") {
            file = name.to_owned();
        } else if line.starts_with("@@ ") {
            let lines = Vec::new();
            found.push(Hunk {
                file: file.clone(),
                lines,
            });
        } else if line.starts_with("diff --git ") {
            file.clear();
        } else if let Some(hunk) = found.last_mut().filter(|_| !file.is_empty()) {
            match line.split_at_checked(1) {
                Some((" " | "-", rest)) => hunk.lines.push(rest.to_owned()),
                // An empty line that lost its blank.
                None => hunk.lines.push(String::new()),
                Some(_) => {}
            }
        }
    }
    found
}

#[test]
fn every_planted_bug_can_still_be_planted() {
    let mut paths = Vec::new();
    patches(&root().join("tests/mutants"), &mut paths);
    assert!(paths.len() > 40, "only {} planted bugs found", paths.len());
    let mut stale = Vec::new();
    for path in paths {
        let patch = fs::read_to_string(&path).expect("readable patch");
        let hunks = hunks(&patch);
        assert!(!hunks.is_empty(), "{} changes nothing", path.display());
        for hunk in hunks {
            let source = fs::read_to_string(root().join(&hunk.file)).unwrap_or_default();
            let lines: Vec<&str> = source.lines().collect();
            if !lines.windows(hunk.lines.len()).any(|window| window == hunk.lines) {
                stale.push(format!("{}: not in {}", path.display(), hunk.file));
            }
        }
    }
    assert!(stale.is_empty(), "make these anew:\n{}", stale.join("\n"));
}
