//! Why etcd could not be asked. Never holds a password, a token or more of an answer than a line.

use std::io;

/// Characters of what a server says that are kept.
const MESSAGE_CHARS_MAX: usize = 200;

/// gRPC's numbers of what is to be tried at another member: given up, too late, no leader.
const ELSEWHERE: [u32; 3] = [1, 4, 14];
const NOT_PERMITTED: u32 = 7;
const UNKNOWN_CALLER: u32 = 16;

/// Why a question has no answer. The errors of [`crate::EtcdLeases`] hold one: `error.get_ref()` and
/// `downcast_ref`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EtcdError {
    /// A member cannot be reached, is not who it should be by its certificate, or said nothing in its share
    /// of the time; so did all that were asked before it.
    #[error("{endpoint}: {reason}")]
    Unreachable {
        /// The last one that was asked.
        endpoint: String,
        /// What happened.
        reason: String,
    },
    /// A member answers in another way than etcd's JSON gateway: another program, a version before 3.4, or a
    /// gateway that is disabled.
    #[error("{endpoint} answered {status}, which is not etcd's JSON gateway")]
    NotEtcd {
        /// Who answered so.
        endpoint: String,
        /// The status of HTTP.
        status: u16,
    },
    /// etcd refuses.
    #[error("etcd refused the request ({code}): {message}")]
    Refused {
        /// gRPC's number for it.
        code: u32,
        /// In etcd's words, 200 characters at most.
        message: String,
    },
    /// An answer that cannot be right.
    #[error("etcd's answer cannot be used: {0}")]
    BadAnswer(&'static str),
    /// The time was over.
    #[error("etcd did not answer in time")]
    TooLate,
}

impl EtcdError {
    pub(crate) fn unreachable(endpoint: &str, reason: &impl ToString) -> Self {
        Self::Unreachable {
            endpoint: endpoint.to_owned(),
            reason: line(&reason.to_string()),
        }
    }

    pub(crate) fn refused(code: u32, message: &str) -> Self {
        let message = line(message);
        Self::Refused { code, message }
    }

    /// Whether another member may say something else.
    pub(crate) fn is_elsewhere(&self) -> bool {
        match self {
            Self::Unreachable { .. } | Self::NotEtcd { .. } | Self::BadAnswer(_) => true,
            Self::Refused { code, .. } => ELSEWHERE.contains(code),
            Self::TooLate => false,
        }
    }

    /// Whether etcd does not know who asks any more: its tokens live for minutes, and are void once their
    /// user changes.
    pub(crate) const fn wants_a_fresh_token(&self) -> bool {
        match self {
            Self::Refused { code, .. } => *code == UNKNOWN_CALLER,
            Self::Unreachable { .. } | Self::NotEtcd { .. } | Self::BadAnswer(_) | Self::TooLate => false,
        }
    }
}

impl From<EtcdError> for io::Error {
    fn from(error: EtcdError) -> Self {
        let kind = match &error {
            EtcdError::Unreachable { .. } => io::ErrorKind::NotConnected,
            EtcdError::NotEtcd { .. } | EtcdError::BadAnswer(_) => io::ErrorKind::InvalidData,
            EtcdError::Refused { code, .. } if [NOT_PERMITTED, UNKNOWN_CALLER].contains(code) => {
                io::ErrorKind::PermissionDenied
            }
            EtcdError::Refused { .. } => io::ErrorKind::Other,
            EtcdError::TooLate => io::ErrorKind::TimedOut,
        };
        Self::new(kind, error)
    }
}

/// What fits into a line of the log.
fn line(text: &str) -> String {
    let printed = |letter: char| if letter.is_control() { ' ' } else { letter };
    text.chars().take(MESSAGE_CHARS_MAX).map(printed).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_server_says_is_one_short_line() {
        let long = "a\nb".repeat(1_000);
        let EtcdError::Refused { message, .. } = EtcdError::refused(3, &long) else {
            panic!("a refusal");
        };
        assert_eq!(message.chars().count(), MESSAGE_CHARS_MAX);
        assert!(message.starts_with("a ba b"));
    }

    #[test]
    fn another_member_is_asked_only_about_what_it_may_see_otherwise() {
        assert!(EtcdError::refused(14, "etcdserver: no leader").is_elsewhere());
        assert!(EtcdError::unreachable("http://a:1", &"refused").is_elsewhere());
        assert!(!EtcdError::refused(7, "permission denied").is_elsewhere());
        assert!(!EtcdError::TooLate.is_elsewhere());
    }

    #[test]
    fn an_error_is_found_within_the_one_of_the_trait() {
        let error = io::Error::from(EtcdError::refused(7, "permission denied"));
        assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
        let found = error.get_ref().and_then(|error| error.downcast_ref());
        assert_eq!(found, Some(&EtcdError::refused(7, "permission denied")));
    }
}
