//! Log lines on standard error, for programs whose standard output is their result.

use std::io;

use tracing_subscriber::EnvFilter;

/// Logs what `RUST_LOG` asks for; nothing without it.
pub fn from_environment() {
    if std::env::var_os(EnvFilter::DEFAULT_ENV).is_some() {
        at_least("off");
    }
}

/// Logs what `RUST_LOG` asks for, else what `directives` do.
pub fn at_least(directives: &str) {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(directives));
    // Fails only if the program has a subscriber already, which then logs.
    let _ = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(io::stderr)
        .try_init();
}
