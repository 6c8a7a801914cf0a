//! How a program's processes know each other: not at all, or by certificates of an authority that is made for
//! one run. Keys go to child processes through a pipe, never through a file, an argument or the environment.

use std::fmt;

use quorate_driver::Security;
#[cfg(feature = "tls")]
use quorate_driver::security::{Credentials, DevCa, Mtls, TlsError};

/// The name in every certificate.
#[cfg(feature = "tls")]
const PEER_NAME: &str = "demo.cluster.internal";

/// Why a process cannot have or use certificates.
#[derive(Debug)]
pub struct NoCertificates(String);

impl fmt::Display for NoCertificates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for NoCertificates {}

#[cfg(feature = "tls")]
impl From<TlsError> for NoCertificates {
    fn from(error: TlsError) -> Self {
        Self(error.to_string())
    }
}

/// What this program answers to whoever wants certificates of it.
#[cfg(not(feature = "tls"))]
fn left_out<T>() -> Result<T, NoCertificates> {
    Err(NoCertificates(
        "this program is built without the feature `tls`".to_owned(),
    ))
}

/// Who vouches for the processes of one run.
#[derive(Debug)]
pub enum Authority {
    /// Nobody: the links are plain.
    Nobody,
    /// An authority that ends with this process.
    #[cfg(feature = "tls")]
    Development(Box<DevCa>),
}

impl Authority {
    /// What links need that have certificates, or none.
    ///
    /// # Errors
    /// The authority cannot be made.
    pub fn new(has_certificates: bool) -> Result<Self, NoCertificates> {
        if !has_certificates {
            return Ok(Self::Nobody);
        }
        #[cfg(feature = "tls")]
        return Ok(Self::Development(Box::new(DevCa::new(PEER_NAME)?)));
        #[cfg(not(feature = "tls"))]
        left_out()
    }

    /// The security of this process.
    ///
    /// # Errors
    /// No certificate can be made.
    pub fn own(&self) -> Result<Security, NoCertificates> {
        match self {
            Self::Nobody => Ok(Security::insecure_plaintext()),
            #[cfg(feature = "tls")]
            Self::Development(ca) => Ok(Security::mtls(ca.mtls()?)),
        }
    }

    /// What to tell a child process about its security: nothing, or its certificate, its key and the
    /// authority.
    ///
    /// # Errors
    /// No certificate can be made.
    pub fn introduction(&self) -> Result<Vec<u8>, NoCertificates> {
        match self {
            Self::Nobody => Ok(Vec::new()),
            #[cfg(feature = "tls")]
            Self::Development(ca) => {
                let mut told = Vec::new();
                for part in ca.issue_pem()? {
                    told.extend_from_slice(&(part.len() as u64).to_le_bytes());
                    told.extend_from_slice(part.as_bytes());
                }
                Ok(told)
            }
        }
    }
}

/// A child process' security, from its [`Authority::introduction`].
///
/// # Errors
/// It is not one.
pub fn introduced(told: &[u8]) -> Result<Security, NoCertificates> {
    if told.is_empty() {
        return Ok(Security::insecure_plaintext());
    }
    #[cfg(feature = "tls")]
    return with_certificates(told);
    #[cfg(not(feature = "tls"))]
    left_out()
}

#[cfg(feature = "tls")]
fn with_certificates(told: &[u8]) -> Result<Security, NoCertificates> {
    let mut rest = told;
    let mut part = || -> Option<&[u8]> {
        let (len, behind) = rest.split_first_chunk()?;
        let (part, behind) = behind.split_at_checked(usize::try_from(u64::from_le_bytes(*len)).ok()?)?;
        rest = behind;
        Some(part)
    };
    // A part that is missing is no PEM, which is what the error will say.
    let (chain, key, roots) = (part(), part(), part());
    let or_empty = Option::unwrap_or_default;
    let credentials = Credentials::from_pem(or_empty(chain), or_empty(key), or_empty(roots))?;
    Ok(Security::mtls(Mtls::new(PEER_NAME, credentials)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_driver::security::Method;

    #[test]
    fn without_certificates_nothing_is_told_and_links_are_plain() {
        assert!(Authority::Nobody.introduction().unwrap().is_empty());
        assert_eq!(introduced(&[]).unwrap().method(), Method::InsecurePlaintext);
        assert!(introduced(&[1]).is_err());
    }

    #[cfg(feature = "tls")]
    #[test]
    fn a_node_process_reads_its_certificates_back_and_nothing_less() {
        let authority = Authority::Development(Box::new(DevCa::new(PEER_NAME).unwrap()));
        let told = authority.introduction().unwrap();
        assert_eq!(introduced(&told).unwrap().method(), Method::Mtls);
        assert!(introduced(&told[..told.len() - 1]).is_err());
        assert!(introduced(&told[..7]).is_err());
    }
}
