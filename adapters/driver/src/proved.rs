//! What the peer of a link has proved to the transport: that a certificate is its own, or that it has a key.
//! Plain values; what they are worth is `authentication`'s to say. Spec: reliability 3a.

use std::fmt;
use std::sync::Arc;

use quorate_core::admission::PeerProof;
#[cfg(feature = "tls")]
use rustls::client::verify_server_name;
#[cfg(feature = "tls")]
use rustls::pki_types::{CertificateDer, ServerName};
#[cfg(feature = "tls")]
use rustls::server::ParsedCertificate;

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
    pub(crate) fn as_proof(&self) -> PeerProof<'_> {
        match self {
            Self::Nothing => PeerProof::Nothing,
            Self::Certificate(certificate) => PeerProof::Certificate {
                der: certificate.der(),
                intermediates: certificate.intermediates(),
            },
            Self::Key(key) => PeerProof::Key { name: &key.0 },
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

/// The certificate that a peer has proved to be its own, signed by an authority that this node trusts. Cheap
/// to clone.
#[derive(Clone, PartialEq, Eq)]
pub struct PeerCertificate {
    der: Arc<[u8]>,
    /// Those between it and the authority.
    intermediates: Arc<[Vec<u8>]>,
}

impl PeerCertificate {
    /// From its DER form, once the transport has verified it.
    #[must_use]
    pub fn new(der: &[u8]) -> Self {
        Self::with_intermediates(der, [])
    }

    /// The same with the certificates that the peer has sent along: without those between it and the
    /// authority it cannot be checked again later.
    #[must_use]
    pub fn with_intermediates<'a>(der: &[u8], others: impl IntoIterator<Item = &'a [u8]>) -> Self {
        Self {
            der: Arc::from(der),
            intermediates: others.into_iter().map(<[u8]>::to_vec).collect(),
        }
    }

    /// The certificates that came along.
    pub(crate) fn intermediates(&self) -> &[Vec<u8>] {
        &self.intermediates
    }

    /// The certificate, for a policy that looks into it.
    #[must_use]
    pub fn der(&self) -> &[u8] {
        &self.der
    }

    /// Whether it carries this host (a DNS name or an IP address) as a subject alternative name.
    #[must_use]
    pub fn names_host(&self, host: &str) -> bool {
        #[cfg(feature = "tls")]
        {
            names_host(&self.der, host)
        }
        #[cfg(not(feature = "tls"))]
        {
            let _ = host;
            false
        }
    }
}

impl fmt::Debug for PeerCertificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PeerCertificate")
            .field("bytes", &self.der.len())
            .finish_non_exhaustive()
    }
}

#[cfg(feature = "tls")]
/// Whether a certificate carries this host as a subject alternative name.
fn names_host(certificate: &[u8], host: &str) -> bool {
    let Ok(name) = ServerName::try_from(host) else {
        return false;
    };
    ParsedCertificate::try_from(&CertificateDer::from(certificate))
        .is_ok_and(|certificate| verify_server_name(&certificate, &name).is_ok())
}
