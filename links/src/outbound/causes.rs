//! What came of the last dial to each peer, for the event that says that no seed was of help. Decides
//! nothing. Spec: `README.md`.

use alloc::string::ToString;
use quorate_core::event::{Event, JoinFailure, MembershipEvent, SeedCause};
use quorate_core::wire::handshake::RejectReason;

use super::Outbound;
use crate::base::LinksBase;
use crate::first_bytes::{is_noise, is_tls_alert};
use crate::order::LinkId;
use quorate_core::wire::handshake::LinkKind;

/// What an acceptor asks for that begins so, if that is not plaintext.
pub(super) fn other_method(heard: &[u8]) -> Option<&'static str> {
    if is_tls_alert(heard) {
        Some("it asks for TLS, and this node speaks plaintext")
    } else if is_noise(heard) {
        Some("it asks for a pre-shared key, and this node speaks plaintext")
    } else {
        None
    }
}

/// What a refusal says.
pub(super) fn cause_of_refusal(reason: RejectReason) -> SeedCause {
    match reason {
        RejectReason::WrongCluster => SeedCause::OtherCluster,
        RejectReason::AuthMethod | RejectReason::Unauthenticated | RejectReason::WrongIdentity => {
            SeedCause::Security(reason.to_string())
        }
        RejectReason::Version
        | RejectReason::WrongAddress
        | RejectReason::WrongIncarnation { .. }
        | RejectReason::Quarantined
        | RejectReason::TooManyLinks
        | RejectReason::DuplicateUid
        | RejectReason::Features
        | RejectReason::NotOpening
        | RejectReason::ShuttingDown
        | RejectReason::Other { .. } => SeedCause::Other(reason.to_string()),
        // What a later version refuses.
        _ => SeedCause::Other(reason.to_string()),
    }
}

impl Outbound {
    /// Notes what came of the dial of a control link: joining needs no other.
    pub(super) fn note(&mut self, link: LinkId, cause: SeedCause) {
        if let Some((address, LinkKind::Control)) = self.links.get(&link)
            && let Some(peer) = self.peers.get_mut(address)
        {
            peer.last_failure = Some(cause);
        }
    }

    /// The system could not open a link, or one end did not believe the other.
    pub(crate) fn dial_failed(&mut self, base: &mut LinksBase, link: LinkId, cause: SeedCause) {
        if let SeedCause::Security(why) = &cause {
            return self.unproved(base, link, why, false);
        }
        self.note(link, cause.clone());
        self.failed(base, link, &cause);
    }

    /// The same event with what this node's dials have shown.
    pub(crate) fn explain(&self, mut event: Event) -> Event {
        if let Event::Membership(MembershipEvent::JoinFailed {
            reason: JoinFailure::NoSeedAnswered { seeds, .. },
        }) = &mut event
        {
            for failure in seeds {
                let known = self
                    .peers
                    .get(&failure.seed)
                    .and_then(|peer| peer.last_failure.clone());
                if let (SeedCause::NoAnswer, Some(cause)) = (&failure.cause, known) {
                    failure.cause = cause;
                }
            }
        }
        event
    }
}
