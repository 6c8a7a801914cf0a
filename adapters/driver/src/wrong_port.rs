//! What a node that speaks plaintext and one that speaks TLS say to each other, so that both can name the mistake: somebody has
//! to set one of them right. Decides nothing. Spec: `docs/WIRE.md` 3.

/// How a TLS record begins that opens a session.
const CLIENT_HELLO: [u8; 2] = [0x16, 0x03];

/// How a TLS record begins that carries an alert: what a node that asks for TLS says to one that does not speak it.
const ALERT: [u8; 2] = [0x15, 0x03];

/// What a plaintext node says to a TLS client: the fatal alert `unexpected_message`, in the form of the oldest TLS. No TLS of
/// this project says it, and every TLS client understands it.
pub(crate) const PLAINTEXT_HERE: [u8; 7] = [0x15, 0x03, 0x01, 0x00, 0x02, 0x02, 0x0a];

/// What a dialer that speaks plaintext hears of an acceptor that asks for TLS.
pub(crate) const PLAINTEXT_TO_TLS: &str = "it asks for TLS, and this node speaks plaintext";

/// What a dialer that speaks TLS hears of an acceptor that does not.
#[cfg(feature = "tls")]
pub(crate) const TLS_TO_PLAINTEXT: &str = "it speaks plaintext, and this node asks for TLS";

/// Whether a dialer's first bytes say that it speaks TLS.
pub(crate) fn is_tls_client(heard: &[u8]) -> bool {
    heard.starts_with(&CLIENT_HELLO)
}

/// Whether an acceptor's first bytes say that it asks for TLS.
pub(crate) fn is_tls_server(heard: &[u8]) -> bool {
    heard.starts_with(&ALERT)
}
