//! The first bytes of a link with a pre-shared key: `Noise_NNpsk0_25519_ChaChaPoly_SHA256` as a machine of
//! bytes. Decides whether a dialer has one of the keys, and which; moves no bytes. A refusal is said in the
//! clear, and is nobody's word. Spec: `docs/WIRE.md` 3.4, ADR 11.

use std::io;

use snow::params::NoiseParams;
use snow::{Builder, HandshakeState, StatelessTransportState};

use super::{NoiseKey, Psk};
use crate::proved::PeerKey;
use crate::transport::Unproved;
use quorate_links::first_bytes::NOISE;

const PATTERN: &str = "Noise_NNpsk0_25519_ChaChaPoly_SHA256";

/// A handshake message without a payload, behind the magic: a public key and a tag.
pub(super) const HANDSHAKE_BYTES: usize = 32 + TAG_BYTES;

/// What encryption adds to a record.
pub(super) const TAG_BYTES: usize = 16;

/// What was agreed upon.
pub(super) struct NoiseSession {
    pub(super) noise: StatelessTransportState,
    /// The key that the peer has.
    pub(super) key: PeerKey,
}

/// A dialer that has spoken and waits for the answer.
pub(super) struct NoiseDialer {
    state: HandshakeState,
    key: PeerKey,
}

fn broken(error: snow::Error) -> io::Error {
    io::Error::other(error)
}

fn builder(key: &NoiseKey) -> Result<Builder<'_>, snow::Error> {
    let params: NoiseParams = PATTERN.parse()?;
    Builder::new(params).psk(0, &key.secret)?.prologue(&NOISE)
}

/// One handshake message with no payload, behind the magic.
fn speak(state: &mut HandshakeState) -> io::Result<Vec<u8>> {
    let mut bytes = NOISE.to_vec();
    bytes.resize(NOISE.len() + HANDSHAKE_BYTES, 0);
    let room = bytes.get_mut(NOISE.len()..).unwrap_or_default();
    state.write_message(&[], room).map_err(broken)?;
    Ok(bytes)
}

impl NoiseDialer {
    /// With this node's first key; what to say.
    pub(super) fn new(psk: &Psk) -> io::Result<(Self, Vec<u8>)> {
        let keys = psk.keys();
        let key = keys
            .first()
            .ok_or_else(|| Unproved::error("no pre-shared key was given"))?;
        Self::with(key, builder(key).map_err(broken)?)
    }

    fn with(key: &NoiseKey, builder: Builder<'_>) -> io::Result<(Self, Vec<u8>)> {
        let mut state = builder.build_initiator().map_err(broken)?;
        let said = speak(&mut state)?;
        let key = key.name.clone();
        Ok((Self { state, key }, said))
    }

    /// The acceptor's answer, behind the magic: it has the key, or somebody has changed a byte.
    pub(super) fn hear(mut self, answer: &[u8; HANDSHAKE_BYTES]) -> io::Result<NoiseSession> {
        let refused = |_| Unproved::error("what answers there does not have this node's key");
        self.state.read_message(answer, &mut []).map_err(refused)?;
        let noise = self.state.into_stateless_transport_mode().map_err(broken)?;
        let key = self.key;
        Ok(NoiseSession { noise, key })
    }
}

/// What a dialer said behind the magic, tried with one key after the other; what to answer. Who has no key
/// costs four tries at most and no public-key operation.
pub(super) fn accept(psk: &Psk, said: &[u8; HANDSHAKE_BYTES]) -> io::Result<(NoiseSession, Vec<u8>)> {
    for key in psk.keys().iter() {
        if let Some(done) = accept_with(key, builder(key).map_err(broken)?, said)? {
            return Ok(done);
        }
    }
    Err(Unproved::error("it has none of this node's keys"))
}

fn accept_with(
    key: &NoiseKey,
    builder: Builder<'_>,
    said: &[u8; HANDSHAKE_BYTES],
) -> io::Result<Option<(NoiseSession, Vec<u8>)>> {
    let mut state = builder.build_responder().map_err(broken)?;
    if state.read_message(said, &mut []).is_err() {
        return Ok(None);
    }
    let answer = speak(&mut state)?;
    let noise = state.into_stateless_transport_mode().map_err(broken)?;
    let key = key.name.clone();
    Ok(Some((NoiseSession { noise, key }, answer)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    fn part(said: &[u8]) -> &[u8; HANDSHAKE_BYTES] {
        said.last_chunk().unwrap()
    }

    /// The values of `docs/WIRE.md` 3.4, made by another implementation (Python's hmac and cryptography).
    #[test]
    fn the_golden_session_of_the_wire_is_ours() {
        let key = NoiseKey::derive(b"0123456789abcdef");
        assert_eq!(hex(&*key.secret), GOLDEN[0]);
        let fixed = |private| {
            builder(&key)
                .unwrap()
                .fixed_ephemeral_key_for_testing_only(private)
        };
        let (dialer, hello) = NoiseDialer::with(&key, fixed(&[1; 32])).unwrap();
        assert_eq!(hex(&hello), GOLDEN[1]);
        let (acceptor, answer) = accept_with(&key, fixed(&[2; 32]), part(&hello)).unwrap().unwrap();
        assert_eq!(hex(&answer), GOLDEN[2]);
        let dialer = dialer.hear(part(&answer)).unwrap();
        let mut record = [0; 5 + TAG_BYTES];
        dialer.noise.write_message(0, b"hello", &mut record).unwrap();
        assert_eq!(hex(&record), GOLDEN[3]);
        let mut plain = [0; 5 + TAG_BYTES];
        assert_eq!(acceptor.noise.read_message(0, &record, &mut plain), Ok(5));
        assert!(plain.starts_with(b"hello"));
    }

    const GOLDEN: [&str; 4] = [
        "006b4bef0511d6fb64e84ac4f410f2475a720adf65aeddd627380ca146cb446a",
        "51726e31a4e09292b651c278b9772c569f5fa9bb13d906b46ab68c9df9dc2b4409f8a2098457c72b8dc888f2974ef8a23501c0d0",
        "51726e31ce8d3ad1ccb633ec7b70c17814a5c76ecd029685050d344745ba05870e587d59a5149fbafe46cd425efd4a167d614835",
        "42f44fdfedea342011bb9d7b85e9082155bb3d2c36",
    ];
}
