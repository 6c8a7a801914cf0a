//! What the system says about a dial, in the words that users hear when no seed was of help. Decides nothing.

use std::io;

use quorate_core::event::SeedCause;

use crate::transport::Unproved;

/// See the module.
pub(super) fn cause_of(error: &io::Error) -> SeedCause {
    if let Some(why) = Unproved::of(error) {
        return SeedCause::Security(why.to_string());
    }
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "the standard library's kinds: forty of them, and everything else is told by its text"
    )]
    match error.kind() {
        io::ErrorKind::ConnectionRefused => SeedCause::Refused,
        io::ErrorKind::TimedOut => SeedCause::NoAnswer,
        io::ErrorKind::AddrNotAvailable => SeedCause::Unresolvable,
        // The standard library has no kind for names that nobody knows.
        _ if error.to_string().starts_with("failed to lookup address") => SeedCause::Unresolvable,
        _ => SeedCause::Other(error.to_string()),
    }
}
