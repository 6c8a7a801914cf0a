//! How a program's processes know each other: not at all, or by certificates of an authority that is made for one run. Keys go
//! to child processes through a pipe, never through a file, an argument or the environment.

use quorate_driver::{Credentials, DevCa, Mtls, Security, TlsError};

/// The name in every certificate.
const PEER_NAME: &str = "demo.cluster.internal";

/// Who vouches for the processes of one run.
#[derive(Debug)]
pub enum Authority {
    /// Nobody: the links are plain.
    Nobody,
    /// An authority that ends with this process.
    Development(Box<DevCa>),
}

impl Authority {
    /// What links need that have certificates, or none.
    ///
    /// # Errors
    /// The authority cannot be made.
    pub fn new(has_certificates: bool) -> Result<Self, TlsError> {
        if has_certificates {
            return Ok(Self::Development(Box::new(DevCa::new(PEER_NAME)?)));
        }
        Ok(Self::Nobody)
    }

    /// The security of this process.
    ///
    /// # Errors
    /// No certificate can be made.
    pub fn own(&self) -> Result<Security, TlsError> {
        match self {
            Self::Nobody => Ok(Security::insecure_plaintext()),
            Self::Development(ca) => Ok(Security::mtls(ca.mtls()?)),
        }
    }

    /// What to tell a child process about its security: nothing, or its certificate, its key and the authority.
    ///
    /// # Errors
    /// No certificate can be made.
    pub fn introduction(&self) -> Result<Vec<u8>, TlsError> {
        let mut told = Vec::new();
        if let Self::Development(ca) = self {
            for part in ca.issue_pem()? {
                told.extend_from_slice(&(part.len() as u64).to_le_bytes());
                told.extend_from_slice(part.as_bytes());
            }
        }
        Ok(told)
    }
}

/// A child process' security, from its [`Authority::introduction`].
///
/// # Errors
/// It is not one.
pub fn introduced(told: &[u8]) -> Result<Security, TlsError> {
    if told.is_empty() {
        return Ok(Security::insecure_plaintext());
    }
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
    use quorate_driver::Method;

    #[test]
    fn a_node_process_reads_its_certificates_back_and_nothing_less() {
        let authority = Authority::Development(Box::new(DevCa::new(PEER_NAME).unwrap()));
        let told = authority.introduction().unwrap();
        assert_eq!(introduced(&told).unwrap().method(), Method::Mtls);
        assert!(introduced(&told[..told.len() - 1]).is_err());
        assert!(introduced(&told[..7]).is_err());
        assert!(Authority::Nobody.introduction().unwrap().is_empty());
        assert_eq!(introduced(&[]).unwrap().method(), Method::InsecurePlaintext);
    }
}
