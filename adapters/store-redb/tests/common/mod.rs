//! Directories for tests.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

/// A directory of its own for each test of each run.
pub(crate) fn directory() -> PathBuf {
    static MADE: AtomicU64 = AtomicU64::new(0);
    let number = MADE.fetch_add(1, Ordering::SeqCst);
    let name = format!("quorate-redb-{}-{number}", std::process::id());
    let path = std::env::temp_dir().join(name);
    drop(std::fs::remove_dir_all(&path));
    path
}
