//! What the peer of a link has proved, and whether that still holds: name, roots and validity of a certificate, or a key that is
//! still listed. Asked when a link is as old as links may become and could not be renewed; a renewal that fails proves
//! nothing by itself, for whoever is on the way can make it fail. Spec: reliability 3a (rotation), ADR 9.

use std::fmt;
use std::time::Duration;

use quorate_core::ident::Address;

use crate::security::Authentication;
use crate::transport::PeerCertificate;

/// The shortest time until the next look: what a certificate's end is known to.
const LOOK_MIN: Duration = Duration::from_secs(1);

/// What the peer of a link has proved to the transport.
#[derive(Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Proved {
    /// Nothing: whoever reaches the port gets so far.
    #[default]
    Nothing,
    /// That this certificate is its own.
    Certificate(PeerCertificate),
    /// That it has this pre-shared key.
    Key(PeerKey),
}

/// The name of a pre-shared key that a peer has. Not the key, and nothing that would let anybody in.
#[derive(Clone, PartialEq, Eq)]
pub struct PeerKey([u8; 32]);

/// Which end of a link proved something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Prover {
    Dialer,
    Acceptor,
}

impl PeerKey {
    #[cfg(feature = "psk")]
    pub(crate) const fn named(name: [u8; 32]) -> Self {
        Self(name)
    }
}

impl Proved {
    /// The certificate, if that is what it is.
    #[must_use]
    pub const fn certificate(&self) -> Option<&PeerCertificate> {
        match self {
            Self::Certificate(certificate) => Some(certificate),
            Self::Nothing | Self::Key(_) => None,
        }
    }
}

impl fmt::Debug for PeerKey {
    /// A weak key could be found out by trying what gives this name.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PeerKey").finish_non_exhaustive()
    }
}

impl fmt::Debug for Proved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Nothing => "Nothing",
            Self::Certificate(_) => "Certificate",
            Self::Key(_) => "Key",
        })
    }
}

impl Authentication {
    /// Whether what a peer proved would be believed at this time (milliseconds of the wall clock), with the keys, roots and names
    /// of now.
    fn believes(&self, proved: &Proved, peer: Prover, address: &Address, unix_ms: u64) -> Result<(), String> {
        match (self, proved) {
            #[cfg(feature = "psk")]
            (Self::Psk(psk), Proved::Key(key)) => match psk.lists(key) {
                true => Ok(()),
                false => Err("its key is not listed any more".to_owned()),
            },
            #[cfg(feature = "tls")]
            (Self::Certificates(mtls), Proved::Certificate(certificate)) => {
                if self.covers(proved, address).is_err() {
                    return Err("its certificate does not name its host".to_owned());
                }
                mtls.believes(certificate, peer, unix_ms)
            }
            (_, _) => {
                let _ = (peer, address, unix_ms);
                Err("it has proved nothing that could be checked again".to_owned())
            }
        }
    }

    /// How long a link may go on before the next look, at most `pause`; or why it may not. A certificate that ends before is
    /// looked at again when it ends.
    pub(crate) fn keep_for(
        &self,
        proved: &Proved,
        peer: Prover,
        address: &Address,
        unix_ms: u64,
        pause: Duration,
    ) -> Result<Duration, String> {
        self.believes(proved, peer, address, unix_ms)?;
        let mut pause = pause.max(LOOK_MIN);
        let holds_after = |pause: Duration| {
            let millis = u64::try_from(pause.as_millis()).unwrap_or(u64::MAX);
            let then = unix_ms.saturating_add(millis);
            self.believes(proved, peer, address, then).is_ok()
        };
        while pause > LOOK_MIN && !holds_after(pause) {
            pause = LOOK_MIN.max(pause / 2);
        }
        Ok(pause)
    }
}
