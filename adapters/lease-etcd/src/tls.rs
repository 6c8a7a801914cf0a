//! How members of an etcd cluster are known, and how this side is. Certificates come as PEM.

use std::fmt;
use std::io;
use std::sync::Arc;

use ureq::tls::{Certificate, ClientCert, PemItem, PrivateKey, RootCerts, TlsConfig, TlsProvider, parse_pem};

/// Whether connections to etcd are encrypted, whom they trust, and who this side is.
#[derive(Clone)]
pub struct Tls(Option<TrustedRoots>);

#[derive(Clone)]
struct TrustedRoots {
    roots: RootCerts,
    client: Option<ClientCert>,
}

impl Tls {
    /// Encrypted, with members whose certificates were issued by one of these authorities (PEM) for the name
    /// they are reached by.
    ///
    /// # Errors
    /// There is no certificate in the text, or one cannot be read.
    pub fn trusting(authorities: &[u8]) -> io::Result<Self> {
        let roots = RootCerts::new_with_certs(&certificates(authorities)?);
        Ok(Self(Some(TrustedRoots { roots, client: None })))
    }

    /// Shows members this certificate, with those that vouch for it (PEM), and proves it by its key (PEM):
    /// what `--client-cert-auth` asks for. Without effect without TLS.
    ///
    /// # Errors
    /// There is no certificate, or no key, or one cannot be read.
    pub fn client(mut self, chain: &[u8], key: &[u8]) -> io::Result<Self> {
        let chain = certificates(chain)?;
        let key = PrivateKey::from_pem(key).map_err(|_| unreadable("a private key"))?;
        if let Some(trust) = &mut self.0 {
            trust.client = Some(ClientCert::new_with_certs(&chain, key));
        }
        Ok(self)
    }

    /// Neither encrypted nor authenticated: for a server on this machine.
    #[must_use]
    pub const fn off() -> Self {
        Self(None)
    }

    /// What endpoints begin with.
    pub(crate) const fn scheme(&self) -> &'static str {
        if self.0.is_some() { "https" } else { "http" }
    }

    pub(crate) fn settings(self) -> TlsConfig {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let settings = TlsConfig::builder()
            .provider(TlsProvider::Rustls)
            .unversioned_rustls_crypto_provider(provider);
        match self.0 {
            Some(TrustedRoots { roots, client }) => settings.root_certs(roots).client_cert(client).build(),
            // Nobody is trusted where nobody should be asked.
            None => settings.root_certs(RootCerts::new_with_certs(&[])).build(),
        }
    }
}

fn certificates(text: &[u8]) -> io::Result<Vec<Certificate<'static>>> {
    let mut found = Vec::new();
    for item in parse_pem(text) {
        // A file may hold the key as well.
        if let PemItem::Certificate(certificate) = item.map_err(|_| unreadable("a certificate"))? {
            found.push(certificate);
        }
    }
    if found.is_empty() {
        return Err(unreadable("a certificate"));
    }
    Ok(found)
}

fn unreadable(what: &str) -> io::Error {
    let message = format!("{what} is missing, or cannot be read as PEM");
    io::Error::new(io::ErrorKind::InvalidInput, message)
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Tls(on)" } else { "Tls(off)" })
    }
}
