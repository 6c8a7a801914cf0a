//! What the peer of a link has proved to the transport: that a certificate is its own, or that it has a key. Plain values; what they
//! are worth is `authentication`'s to say. Spec: reliability 3a.

use std::fmt;

use quorate_core::admission::Proof;

use crate::transport::PeerCertificate;

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

impl PeerKey {
    #[cfg(feature = "psk")]
    pub(crate) const fn named(name: [u8; 32]) -> Self {
        Self(name)
    }
}

impl Proved {
    /// The same for the node's admission policy.
    pub(crate) fn as_proof(&self) -> Proof<'_> {
        match self {
            Self::Nothing => Proof::Nothing,
            Self::Certificate(certificate) => Proof::Certificate {
                der: certificate.der(),
                intermediates: certificate.intermediates(),
            },
            Self::Key(key) => Proof::Key { name: &key.0 },
        }
    }

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
