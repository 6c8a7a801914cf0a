//! The seam between links and whatever proves who is at their ends. TLS, Noise or nothing: that lies below
//! the handshake and belongs to the host; here only its result is asked. No cryptography, no keys. Spec:
//! reliability 3a.

use alloc::string::String;
use alloc::sync::Arc;
use core::any::Any;
use core::fmt;
use core::time::Duration;

use quorate_core::admission::PeerProof;
use quorate_core::ident::Address;
use quorate_core::wire::handshake::RejectReason;

/// Shortest time between two looks at a link that is older than it should be, and between two tries to renew
/// it: what a certificate's end is known to.
pub(crate) const LOOK_MIN: Duration = Duration::from_secs(1);

/// What the peer of a link has proved: a certificate, a key. Links carry it and never look inside; who made
/// it can. Cheap to clone.
#[derive(Clone)]
pub struct PeerIdentity(Arc<dyn Any + Send + Sync>);

impl PeerIdentity {
    /// Around a host's own type.
    #[must_use]
    pub fn new<T: Any + Send + Sync>(proved: T) -> Self {
        Self(Arc::new(proved))
    }

    /// What is inside, if it is a `T`.
    #[must_use]
    pub fn get<T: Any>(&self) -> Option<&T> {
        self.0.downcast_ref()
    }
}

impl fmt::Debug for PeerIdentity {
    /// What proves something never reaches a log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Identity")
    }
}

/// An end of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkEnd {
    /// Who opened it.
    Dialer,
    /// Who was dialed.
    Acceptor,
}

/// What a node asks its peers to prove.
pub trait LinkAuthentication: Send {
    /// Whether what a peer has proved, if it has proved anything, is enough for the address it announces, or
    /// was dialed at.
    ///
    /// # Errors
    /// Why not, as the peer is told.
    fn covers(&self, identity: Option<&PeerIdentity>, address: &Address) -> Result<(), RejectReason>;

    /// Whether what peers prove names the host that they announce. Without that, a second link in a peer's
    /// name takes the place of the first only after that peer, asked at its address, has called it its own.
    fn binds_addresses(&self) -> bool {
        false
    }

    /// Whether it would be believed at this time (milliseconds of the wall clock), with the keys, roots and
    /// names of now.
    ///
    /// # Errors
    /// Why not, for the log.
    fn believes(
        &self,
        identity: Option<&PeerIdentity>,
        peer: LinkEnd,
        address: &Address,
        unix_ms: u64,
    ) -> Result<(), String>;

    /// The same for the node's admission policy. Nothing by default.
    fn proof<'a>(&self, identity: Option<&'a PeerIdentity>) -> PeerProof<'a> {
        let _ = identity;
        PeerProof::Nothing
    }

    /// How long what it has proved holds, at most `pause`, and at least a second: when to look again. What
    /// ends before, a certificate for instance, is looked at again when it ends.
    ///
    /// # Errors
    /// It does not hold now.
    fn holds_for(
        &self,
        identity: Option<&PeerIdentity>,
        peer: LinkEnd,
        address: &Address,
        unix_ms: u64,
        pause: Duration,
    ) -> Result<Duration, String> {
        self.believes(identity, peer, address, unix_ms)?;
        let mut pause = pause.max(LOOK_MIN);
        let holds_after = |pause: Duration| {
            let millis = u64::try_from(pause.as_millis()).unwrap_or(u64::MAX);
            let then = unix_ms.saturating_add(millis);
            self.believes(identity, peer, address, then).is_ok()
        };
        while pause > LOOK_MIN && !holds_after(pause) {
            pause = LOOK_MIN.max(pause / 2);
        }
        Ok(pause)
    }
}

/// No authentication: whoever reaches the node is believed. For loopback, tests and networks whose every host
/// is trusted.
#[derive(Clone, Copy, Debug, Default)]
pub struct Plaintext;

impl LinkAuthentication for Plaintext {
    fn covers(&self, _: Option<&PeerIdentity>, _: &Address) -> Result<(), RejectReason> {
        Ok(())
    }

    fn believes(&self, _: Option<&PeerIdentity>, _: LinkEnd, _: &Address, _: u64) -> Result<(), String> {
        Err("it has proved nothing that could be checked again".into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is believed until then.
    struct Until(u64);

    impl LinkAuthentication for Until {
        fn covers(&self, _: Option<&PeerIdentity>, _: &Address) -> Result<(), RejectReason> {
            Ok(())
        }

        fn believes(
            &self,
            _: Option<&PeerIdentity>,
            _: LinkEnd,
            _: &Address,
            unix_ms: u64,
        ) -> Result<(), String> {
            if unix_ms < self.0 {
                Ok(())
            } else {
                Err("over".into())
            }
        }
    }

    #[test]
    fn what_ends_before_the_next_look_is_looked_at_again_before_it_ends() {
        let address = Address::new("h", 1).unwrap();
        let holds = |until: u64, pause: u64| {
            let pause = Duration::from_secs(pause);
            Until(until).holds_for(None, LinkEnd::Dialer, &address, 1_000, pause)
        };
        assert_eq!(holds(100_000, 60), Ok(Duration::from_secs(60)));
        assert_eq!(holds(12_000, 60), Ok(Duration::from_millis(7_500)));
        assert_eq!(holds(1_001, 60), Ok(LOOK_MIN), "it is over within a second");
        assert_eq!(holds(100_000, 0), Ok(LOOK_MIN));
        assert_eq!(holds(1_000, 60), Err("over".into()));
    }
}
