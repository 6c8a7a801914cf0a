//! What the peer of a link has proved, and whether that still holds: name, roots and validity of a certificate, or a key that is
//! still listed. Asked when a link is as old as links may become and could not be renewed; a renewal that fails proves
//! nothing by itself, for whoever is on the way can make it fail. Spec: reliability 3a (rotation), ADR 9.

use std::fmt;
use std::time::Duration;

use quorate_core::ident::Address;
use quorate_core::wire::handshake::Proof;

use crate::psk::{Prover, Transcript};
use crate::security::Authentication;
use crate::transport::PeerCertificate;

/// The shortest time until the next look: what a certificate's end is known to.
const LOOK_MIN: Duration = Duration::from_secs(1);

/// See the module.
#[derive(Clone, Default)]
pub(crate) enum Proved {
    #[default]
    Nothing,
    /// With this certificate, and its key.
    Certificate(PeerCertificate),
    /// That it has the key with which this was made.
    Key { transcript: Transcript, proof: Proof },
}

impl Proved {
    pub(crate) const fn certificate(&self) -> Option<&PeerCertificate> {
        match self {
            Self::Certificate(certificate) => Some(certificate),
            Self::Nothing | Self::Key { .. } => None,
        }
    }
}

impl From<Option<PeerCertificate>> for Proved {
    fn from(certificate: Option<PeerCertificate>) -> Self {
        certificate.map_or(Self::Nothing, Self::Certificate)
    }
}

impl fmt::Debug for Proved {
    /// A proof never reaches a log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Nothing => "Nothing",
            Self::Certificate(_) => "Certificate",
            Self::Key { .. } => "Key",
        })
    }
}

impl Authentication {
    /// Whether what a peer proved would be believed at this time (milliseconds of the wall clock), with the keys, roots and names
    /// of now.
    fn believes(&self, proved: &Proved, peer: Prover, address: &Address, unix_ms: u64) -> Result<(), String> {
        match (self, proved) {
            (Self::Psk(psk), Proved::Key { transcript, proof }) => {
                match psk.is_listed(peer, transcript, proof) {
                    true => Ok(()),
                    false => Err("its key is not listed any more".to_owned()),
                }
            }
            #[cfg(feature = "tls")]
            (Self::Certificates(mtls), Proved::Certificate(certificate)) => {
                if !self.covers(Some(certificate), address) {
                    return Err("its certificate does not name its host".to_owned());
                }
                mtls.believes(certificate, peer, unix_ms)
            }
            (_, _) => {
                let _ = (address, unix_ms);
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
