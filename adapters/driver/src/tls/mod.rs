//! Mutual TLS for any transport whose links are streams: who may take part, and the bytes of a session.
//! Decides which certificates are accepted; opens no socket and reads no clock but rustls' own check of
//! validity. TLS 1.3 only, no early data, no resumption: every link proves its certificates afresh. Spec:
//! reliability 3a.

mod credentials;
#[cfg(feature = "dev-certs")]
mod dev_ca;
mod mtls;
mod stream;
#[cfg(test)]
#[cfg(feature = "dev-certs")]
mod tests;
mod verifier;

pub use credentials::{Credentials, TlsError};
#[cfg(feature = "dev-certs")]
pub use dev_ca::DevCa;
pub use mtls::Mtls;
pub(crate) use stream::{TlsReader, TlsWriter, accept, connect};
