//! How a program that judges itself ends: what it says of its run, and the folder that goes with it unless
//! the user named one.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::program::{Options, Program};

/// What a run has come to.
pub(crate) trait Judged {
    /// What is wrong, if anything is.
    fn fault(&self) -> Option<String>;

    /// All of it, as one line.
    fn json(&self) -> String;
}

/// Says what a run has come to; the exit code is 0 only if nothing is wrong.
pub(crate) fn finish<P: Program>(options: &Options, outcome: Result<impl Judged, String>) -> ExitCode {
    let fault = match outcome {
        Ok(verdict) => {
            if options.json {
                println!("{}", verdict.json());
            }
            verdict.fault()
        }
        Err(message) => Some(message),
    };
    match fault {
        None => ExitCode::SUCCESS,
        Some(fault) => {
            eprintln!("{}: {fault}", P::NAME);
            ExitCode::FAILURE
        }
    }
}

/// Where a run keeps its files; gone with the value unless the user named it.
pub(crate) struct Folder {
    path: PathBuf,
    stays: bool,
}

impl Folder {
    pub(crate) fn of<P: Program>(options: &Options) -> Result<Self, String> {
        let temporary = || std::env::temp_dir().join(format!("quorate-{}-{}", P::NAME, std::process::id()));
        let path = options.store.clone().unwrap_or_else(temporary);
        std::fs::create_dir_all(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        let stays = options.store.is_some();
        Ok(Self { path, stays })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// A further run will find it.
    pub(crate) fn stays(&self) -> bool {
        self.stays
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if !self.stays {
            // What is left behind is in the system's folder for that.
            let _ = std::fs::remove_dir_all(&self.path);
        }
    }
}
