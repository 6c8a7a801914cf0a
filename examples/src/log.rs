//! Log lines on standard error, for programs whose standard output is their result.

use std::io;

use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

/// What says which lines are wanted: `debug`, or `warn,quorate_core=trace`.
const VARIABLE: &str = "RUST_LOG";

/// Logs what `RUST_LOG` asks for; nothing without it.
pub fn from_environment() {
    if std::env::var_os(VARIABLE).is_some() {
        at_least("off");
    }
}

/// Logs what `RUST_LOG` asks for, else what `directives` do.
pub fn at_least(directives: &str) {
    let asked_for = std::env::var(VARIABLE).ok();
    let filter: Option<Targets> = asked_for.and_then(|text| text.parse().ok());
    let filter = filter.unwrap_or_else(|| directives.parse().unwrap_or_default());
    let lines = tracing_subscriber::fmt::layer().with_writer(io::stderr);
    // Fails only if the program has a subscriber already, which then logs.
    let _ = tracing_subscriber::registry().with(filter).with(lines).try_init();
}
