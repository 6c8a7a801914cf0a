//! Whether the connection is encrypted, and whom it trusts. Decides nothing else.

use std::fmt;
use std::io;
use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};

/// How the connection to the server is protected. Has no default: the choice has to be visible in the
/// program.
#[derive(Clone)]
pub struct Tls(pub(crate) Option<ClientConfig>);

impl Tls {
    /// Encrypted, with a server whose certificate was issued by one of these authorities (PEM) for the name
    /// it is reached by.
    ///
    /// # Errors
    /// There is no certificate in the text, or one cannot be read.
    pub fn trusting(authorities: &[u8]) -> io::Result<Self> {
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(authorities) {
            roots
                .add(certificate.map_err(io::Error::other)?)
                .map_err(io::Error::other)?;
        }
        if roots.is_empty() {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "there is no certificate in it",
            ));
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(io::Error::other)?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Self(Some(config)))
    }

    /// Encrypted as this configuration says: certificates of the client, other algorithms.
    #[must_use]
    pub const fn custom(config: ClientConfig) -> Self {
        Self(Some(config))
    }

    /// Neither encrypted nor authenticated: for a server on this machine, by a socket or over loopback.
    #[must_use]
    pub const fn off() -> Self {
        Self(None)
    }

    /// Whether it is [`Tls::off`].
    pub(crate) const fn is_off(&self) -> bool {
        self.0.is_none()
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Tls(on)" } else { "Tls(off)" })
    }
}
