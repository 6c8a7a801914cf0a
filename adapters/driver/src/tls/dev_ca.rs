//! A certificate authority that lives as long as the program: so that a demonstration or a test has
//! certificates without files. Not for a cluster that anybody depends on: nobody guards the key, and nothing
//! revokes. Spec: reliability 3a.

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose,
};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};

use super::credentials::{Credentials, TlsError};
use super::mtls::Mtls;

/// A throw-away certificate authority for tests and demos.
#[derive(Debug)]
pub struct DevCa {
    peer_name: String,
    issuer: CertifiedIssuer<'static, KeyPair>,
}

impl DevCa {
    /// A fresh authority whose certificates all carry `peer_name`.
    ///
    /// # Errors
    /// [`TlsError`] if the name is no DNS name or no key can be made.
    pub fn new(peer_name: impl Into<String>) -> Result<Self, TlsError> {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        params
            .distinguished_name
            .push(DnType::CommonName, "quorate development authority");
        let key = KeyPair::generate().map_err(rejected)?;
        Ok(Self {
            peer_name: peer_name.into(),
            issuer: CertifiedIssuer::self_signed(params, key).map_err(rejected)?,
        })
    }

    /// One node's security, with a certificate and a key of its own. What nodes of one program need.
    ///
    /// # Errors
    /// Those of [`Mtls::new`].
    pub fn mtls(&self) -> Result<Mtls, TlsError> {
        Mtls::new(self.peer_name.clone(), self.issue()?)
    }

    /// A certificate for one node, and its key.
    ///
    /// # Errors
    /// [`TlsError`] if no key can be made.
    pub fn issue(&self) -> Result<Credentials, TlsError> {
        self.issue_for(&self.peer_name)
    }

    /// A certificate for a node at these hosts (DNS names or IP addresses), under the cluster's name. The
    /// other methods issue certificates for the loopback hosts.
    ///
    /// # Errors
    /// [`TlsError`] if a host is neither, or no key can be made.
    pub fn issue_at(
        &self,
        hosts: impl IntoIterator<Item = impl Into<String>>,
    ) -> Result<Credentials, TlsError> {
        let names = std::iter::once(self.peer_name.clone()).chain(hosts.into_iter().map(Into::into));
        self.credentials(names.collect())
    }

    /// A certificate under another name than the cluster's: what another service of the same authority would
    /// show.
    ///
    /// # Errors
    /// [`TlsError`] if the name is no DNS name or no key can be made.
    pub fn issue_for(&self, name: &str) -> Result<Credentials, TlsError> {
        self.credentials(on_loopback(name))
    }

    fn credentials(&self, names: Vec<String>) -> Result<Credentials, TlsError> {
        let (certificate, key) = self.issue_raw(names)?;
        Ok(self.with_root(&certificate, &key))
    }

    fn with_root(&self, certificate: &rcgen::Certificate, key: &KeyPair) -> Credentials {
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        Credentials::new(
            vec![certificate.der().clone()],
            key,
            vec![self.issuer.der().clone()],
        )
    }

    /// The same as PEM, for a node in another process: certificate, key, root.
    ///
    /// # Errors
    /// [`TlsError`] if no key can be made.
    pub fn issue_pem(&self) -> Result<[String; 3], TlsError> {
        let (certificate, key) = self.issue_raw(on_loopback(&self.peer_name))?;
        Ok([certificate.pem(), key.serialize_pem(), self.issuer.pem()])
    }

    /// A certificate that a test wants to be wrong.
    #[cfg(any(test, feature = "testing"))]
    #[doc(hidden)]
    pub fn issue_changed(
        &self,
        change: impl FnOnce(&mut CertificateParams),
    ) -> Result<Credentials, TlsError> {
        let (certificate, key) = self.sign(on_loopback(&self.peer_name), change)?;
        Ok(self.with_root(&certificate, &key))
    }

    /// Its own certificate.
    #[cfg(any(test, feature = "testing"))]
    #[doc(hidden)]
    #[must_use]
    pub fn root(&self) -> rustls::pki_types::CertificateDer<'static> {
        self.issuer.der().clone()
    }

    fn issue_raw(&self, names: Vec<String>) -> Result<(rcgen::Certificate, KeyPair), TlsError> {
        self.sign(names, |_| {})
    }

    fn sign(
        &self,
        names: Vec<String>,
        change: impl FnOnce(&mut CertificateParams),
    ) -> Result<(rcgen::Certificate, KeyPair), TlsError> {
        let mut params = CertificateParams::new(names).map_err(rejected)?;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![
            ExtendedKeyUsagePurpose::ServerAuth,
            ExtendedKeyUsagePurpose::ClientAuth,
        ];
        change(&mut params);
        let key = KeyPair::generate().map_err(rejected)?;
        let certificate = params.signed_by(&key, &self.issuer).map_err(rejected)?;
        Ok((certificate, key))
    }
}

/// The cluster's name, and the hosts of nodes on one machine.
fn on_loopback(name: &str) -> Vec<String> {
    [name, "localhost", "127.0.0.1", "::1"].map(str::to_owned).into()
}

fn rejected(error: rcgen::Error) -> TlsError {
    TlsError::Rejected(error.to_string())
}
