//! Why the demo has no result, and the exit code that says so.

use std::process::ExitCode;

use crate::trust::NoCertificates;

/// Why there is no result.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The caller or the machine has to change something.
    Usage(String),
    /// The cluster did not do its work.
    Run(String),
    /// The user interrupted.
    Interrupted,
}

impl Failure {
    /// The demo's own certificates cannot be made.
    pub(crate) fn certificates(error: NoCertificates) -> Self {
        Self::Usage(format!("no certificates: {error}"))
    }

    /// Says why, in one line, and how to end.
    pub(crate) fn report(self) -> ExitCode {
        match self {
            Self::Usage(message) => {
                eprintln!("demo: {}", one_line(&message));
                ExitCode::from(2)
            }
            Self::Run(message) => {
                eprintln!("demo: {}", one_line(&message));
                ExitCode::FAILURE
            }
            Self::Interrupted => {
                eprintln!("demo: interrupted; every node process is gone");
                ExitCode::from(130)
            }
        }
    }
}

fn one_line(message: &str) -> String {
    message.lines().collect::<Vec<_>>().join(" ")
}
