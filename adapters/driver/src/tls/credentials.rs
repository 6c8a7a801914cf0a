//! What one node shows to others and whom it believes: certificate chain, private key, roots. Reads PEM;
//! checks only that it is PEM. The key never reaches a log: its `Debug` leaves it out.

use std::path::Path;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// A node's certificate chain and private key, and the authorities whose certificates it accepts.
#[derive(Debug)]
pub struct Credentials {
    pub(super) chain: Vec<CertificateDer<'static>>,
    pub(super) key: PrivateKeyDer<'static>,
    pub(super) roots: Vec<CertificateDer<'static>>,
}

impl Credentials {
    /// From parts that are decoded already: the node's own certificate comes first in `chain`. Several roots
    /// are what a change of the authority needs: give every node both before the first node gets a
    /// certificate of the new one.
    #[must_use]
    pub const fn new(
        chain: Vec<CertificateDer<'static>>,
        key: PrivateKeyDer<'static>,
        roots: Vec<CertificateDer<'static>>,
    ) -> Self {
        Self { chain, key, roots }
    }

    /// The node's own certificate.
    #[cfg(test)]
    pub(crate) fn own(&self) -> &[u8] {
        &self.chain[0]
    }

    /// Also accepts peers of another authority.
    #[cfg(any(test, feature = "testing"))]
    #[doc(hidden)]
    pub fn trust(&mut self, root: CertificateDer<'static>) {
        self.roots.push(root);
    }

    /// From PEM: the chain with the node's own certificate first, its private key (PKCS #8, PKCS #1 or SEC
    /// 1), the authorities' certificates.
    ///
    /// # Errors
    /// [`TlsError::Pem`] says which of the three cannot be read.
    pub fn from_pem(chain: &[u8], key: &[u8], roots: &[u8]) -> Result<Self, TlsError> {
        Ok(Self {
            chain: certificates("certificate chain", chain)?,
            key: PrivateKeyDer::from_pem_slice(key).map_err(bad("private key"))?,
            roots: certificates("roots", roots)?,
        })
    }

    /// Like [`Self::from_pem`], from three files.
    ///
    /// # Errors
    /// [`TlsError::Read`] for a file that cannot be read, else those of `from_pem`.
    pub fn from_pem_files(
        chain: impl AsRef<Path>,
        key: impl AsRef<Path>,
        roots: impl AsRef<Path>,
    ) -> Result<Self, TlsError> {
        let read = |path: &Path| {
            std::fs::read(path).map_err(|error| TlsError::Read {
                path: path.display().to_string(),
                error,
            })
        };
        Self::from_pem(
            &read(chain.as_ref())?,
            &read(key.as_ref())?,
            &read(roots.as_ref())?,
        )
    }
}

fn certificates(what: &'static str, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let all: Vec<_> = CertificateDer::pem_slice_iter(pem)
        .collect::<Result<_, _>>()
        .map_err(bad(what))?;
    if all.is_empty() {
        return Err(TlsError::Pem {
            what,
            problem: "there is no certificate in it".to_owned(),
        });
    }
    Ok(all)
}

fn bad(what: &'static str) -> impl Fn(rustls::pki_types::pem::Error) -> TlsError {
    move |error| TlsError::Pem {
        what,
        problem: error.to_string(),
    }
}

/// Why certificates cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// A file cannot be read.
    #[error("{path}: {error}")]
    Read {
        /// The file.
        path: String,
        /// What the system said.
        error: std::io::Error,
    },
    /// Something is not the PEM it should be.
    #[error("{what}: {problem}")]
    Pem {
        /// Which part.
        what: &'static str,
        /// What is wrong.
        problem: String,
    },
    /// The name every peer has to carry is no DNS name or IP address.
    #[error("`{0}` is not a name that a certificate can carry: use a DNS name")]
    PeerName(String),
    /// The roots are unusable, or the key does not belong to the certificate.
    #[error("{0}")]
    Rejected(String),
}
