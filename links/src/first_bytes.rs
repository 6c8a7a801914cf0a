//! How the protocols begin that may meet at one port by mistake, so that both ends can say which it was.
//! Decides nothing else. Spec: `docs/WIRE.md` 3.4, B-04.

use quorate_core::wire::handshake::HANDSHAKE_MAGIC;

/// How both ends of a link with a pre-shared key begin.
pub const NOISE: [u8; 4] = *b"Qrn1";

/// What an acceptor with a pre-shared key says to one who has none of its keys, or speaks something else;
/// then it closes.
pub const NOISE_REFUSAL: [u8; 4] = *b"Qrn0";

/// What a plaintext node says to a TLS client: the fatal alert `unexpected_message`, in the form of the
/// oldest TLS. No TLS of this project says it, and every TLS client understands it.
pub const PLAINTEXT_TO_TLS: [u8; 7] = [21, 3, 1, 0, 2, 2, 10];

const TLS_GREETING: [u8; 2] = [22, 3];

/// What a node that asks for TLS says to one that does not speak it.
const TLS_ALERT: [u8; 2] = [21, 3];

/// Whether these bytes begin as those do, as far as either goes.
#[must_use]
pub fn agree(bytes: &[u8], words: &[u8]) -> bool {
    bytes.iter().zip(words).all(|(byte, word)| byte == word)
}

/// Whether a node with a pre-shared key begins so, or refuses so.
#[must_use]
pub fn is_noise(bytes: &[u8]) -> bool {
    bytes.len() > 2 && (agree(bytes, &NOISE) || agree(bytes, &NOISE_REFUSAL))
}

/// Whether a node that speaks plaintext begins so.
#[must_use]
pub fn is_plaintext(bytes: &[u8]) -> bool {
    bytes.starts_with(&HANDSHAKE_MAGIC)
}

/// Whether a dialer that speaks TLS begins so.
#[must_use]
pub fn is_tls(bytes: &[u8]) -> bool {
    bytes.starts_with(&TLS_GREETING)
}

/// Whether an acceptor that asks for TLS refuses so.
#[must_use]
pub fn is_tls_alert(bytes: &[u8]) -> bool {
    bytes.starts_with(&TLS_ALERT)
}

/// Whether a node may begin so, of whatever method, as far as there are bytes.
#[must_use]
pub fn may_be_node(bytes: &[u8]) -> bool {
    [&NOISE[..], &HANDSHAKE_MAGIC, &TLS_GREETING]
        .iter()
        .any(|words| agree(bytes, words))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_protocols_of_nodes_are_told_apart_by_their_first_bytes() {
        for (bytes, noise, tls, alert) in [
            (&b"Qrn1"[..], true, false, false),
            (b"Qrn0", true, false, false),
            (b"Qrn", true, false, false),
            (b"Qr", false, false, false),
            (b"Qrh1", false, false, false),
            (&[22, 3, 1, 2], false, true, false),
            (&[21, 3, 3, 0], false, false, true),
            (b"", false, false, false),
        ] {
            let told = (is_noise(bytes), is_tls(bytes), is_tls_alert(bytes));
            assert_eq!(told, (noise, tls, alert), "{bytes:?}");
        }
    }
    #[test]
    fn what_may_still_become_a_nodes_first_words_is_read_on() {
        for (bytes, may_be) in [
            (&b""[..], true),
            (b"Q", true),
            (b"Qrn1", true),
            (&HANDSHAKE_MAGIC, true),
            (&HANDSHAKE_MAGIC[..1], true),
            (&[22, 3, 1], true),
            (b"GET ", false),
            (&[22, 4], false),
        ] {
            assert_eq!(may_be_node(bytes), may_be, "{bytes:?}");
        }
    }
}
