//! Mutual TLS for any transport whose links are streams: who may take part, and the bytes of a session. Decides which
//! certificates are accepted; opens no socket and reads no clock but rustls' own check of validity. TLS 1.3 only, no early
//! data, no resumption: every link proves its certificates afresh. Spec: reliability 3a.

mod credentials;
#[cfg(feature = "dev-certs")]
mod dev_ca;
mod mtls;
mod stream;
#[cfg(test)]
#[cfg(feature = "dev-certs")]
mod tests;
mod verifier;

use rustls::client::verify_server_name;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::server::ParsedCertificate;

pub use credentials::{Credentials, TlsError};
#[cfg(feature = "dev-certs")]
pub use dev_ca::DevCa;
pub use mtls::Mtls;
pub(crate) use stream::{TlsReader, TlsWriter, accept, connect};

/// Whether a certificate carries this host as a subject alternative name.
pub(crate) fn names_host(certificate: &[u8], host: &str) -> bool {
    let Ok(name) = ServerName::try_from(host) else {
        return false;
    };
    ParsedCertificate::try_from(&CertificateDer::from(certificate))
        .is_ok_and(|certificate| verify_server_name(&certificate, &name).is_ok())
}
