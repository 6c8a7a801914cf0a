//! Keys that all nodes of a cluster share, and the proofs made with them. Decides whether a proof is right; sends nothing. A
//! key never reaches a log, is compared in constant time and is zeroed when nobody needs it. Spec: `docs/WIRE.md` 3.4,
//! reliability 3a.

use std::fmt;
use std::sync::{Arc, Mutex};

use hmac::{Hmac, KeyInit, Mac};
use quorate_core::wire::handshake::Proof;
use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

use crate::sync::lock;

/// Shortest key, in bytes. Who listens to one handshake can try keys at home, as many as there are: 128 bits are too many.
pub const PSK_BYTES_MIN: usize = 16;

/// Longest key, in bytes: a file that somebody took for a key has more.
pub const PSK_BYTES_MAX: usize = 1_024;

/// Most keys at a time: the old one, the new one, and two that somebody forgot.
pub const PSK_KEYS_MAX: usize = 4;

/// A pre-shared key, or several while one takes the place of another. Clones share them, so that [`Psk::replace`] on one
/// reaches the running node.
///
/// **A link is authenticated, not protected**: both ends prove when it opens that they have a key, and what follows is neither
/// encrypted nor signed. Who can change packets on the way can change messages; who can read them reads all. A key does not
/// tell nodes apart either: whoever has it can be any member. For more there is [`crate::Security`]'s mutual TLS.
///
/// To change the key while the cluster runs, tell all nodes `[old, new]`, then all nodes `[new, old]`, then all `[new]`: the
/// first one is the one a node proves itself with, and all of them are accepted.
#[derive(Clone)]
pub struct Psk {
    keys: Arc<Mutex<Arc<[Key]>>>,
}

type Key = Zeroizing<Vec<u8>>;

/// What both ends of a handshake have seen: what the dialer said and what the acceptor answered.
pub(crate) type Transcript = [u8; 32];

/// Whose proof it is: so that one cannot be sent back as the other's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Prover {
    Dialer,
    Acceptor,
}

/// Why keys cannot be used. Says nothing about what is in them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PskError {
    /// No key at all.
    #[error("there is no key")]
    NoKey,
    /// More keys than [`PSK_KEYS_MAX`].
    #[error("{count} keys are too many: at most {PSK_KEYS_MAX}")]
    TooManyKeys {
        /// How many there were.
        count: usize,
    },
    /// A key is empty, too short to be a secret, or longer than any key.
    #[error(
        "key {number} has {bytes} bytes: a key has {PSK_BYTES_MIN} to {PSK_BYTES_MAX}, from a generator of random numbers"
    )]
    Length {
        /// Which one, from 1.
        number: usize,
        /// Its length.
        bytes: usize,
    },
}

impl Psk {
    /// One key: 16 to 1,024 bytes **from a generator of random numbers** (32 are customary), the same on every node. A
    /// passphrase that a person can remember can be found out by trying.
    ///
    /// # Errors
    /// [`PskError::Length`].
    pub fn new(key: impl AsRef<[u8]>) -> Result<Self, PskError> {
        Self::with_keys([key])
    }

    /// Several keys: this node proves itself with the first, and believes peers that have any of them.
    ///
    /// # Errors
    /// [`PskError`] if there is none, if there are more than [`PSK_KEYS_MAX`], or if one has the wrong length.
    pub fn with_keys(keys: impl IntoIterator<Item = impl AsRef<[u8]>>) -> Result<Self, PskError> {
        Ok(Self {
            keys: Arc::new(Mutex::new(checked(keys)?)),
        })
    }

    /// Uses these keys for every link that is opened from now on. Links that are open stay open until they are older than
    /// their time.
    ///
    /// # Errors
    /// Those of [`Self::with_keys`]; the keys in use then stay in use.
    pub fn replace(&self, keys: impl IntoIterator<Item = impl AsRef<[u8]>>) -> Result<(), PskError> {
        let fresh = checked(keys)?;
        *lock(&self.keys) = fresh;
        Ok(())
    }

    fn keys(&self) -> Arc<[Key]> {
        Arc::clone(&lock(&self.keys))
    }

    /// The dialer's proof: made with the first key.
    pub(crate) fn prove(&self, transcript: &Transcript) -> Proof {
        let keys = self.keys();
        keys.first()
            .map(|key| proof(key, Prover::Dialer, transcript))
            .unwrap_or_default()
    }

    /// Whether a dialer has one of the keys; gives back the acceptor's proof, made with the same one: a dialer that is being
    /// given another key knows only that one.
    pub(crate) fn answer(&self, transcript: &Transcript, claimed: &[u8]) -> Option<Proof> {
        let keys = self.keys();
        let key = keys
            .iter()
            .find(|key| is_proof(key, Prover::Dialer, transcript, claimed))?;
        Some(proof(key, Prover::Acceptor, transcript))
    }

    /// Whether a proof that was right is right with the keys of now.
    pub(crate) fn is_listed(&self, prover: Prover, transcript: &Transcript, claimed: &[u8]) -> bool {
        let keys = self.keys();
        keys.iter().any(|key| is_proof(key, prover, transcript, claimed))
    }

    /// Whether an acceptor has one of the keys.
    pub(crate) fn is_acceptor(&self, transcript: &Transcript, claimed: &[u8]) -> bool {
        self.is_listed(Prover::Acceptor, transcript, claimed)
    }
}

impl fmt::Debug for Psk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Psk")
            .field("keys", &self.keys().len())
            .finish_non_exhaustive()
    }
}

fn checked(keys: impl IntoIterator<Item = impl AsRef<[u8]>>) -> Result<Arc<[Key]>, PskError> {
    let mut checked = Vec::new();
    for (number, key) in (1..).zip(keys) {
        let key = key.as_ref();
        let bytes = key.len();
        if !(PSK_BYTES_MIN..=PSK_BYTES_MAX).contains(&bytes) {
            return Err(PskError::Length { number, bytes });
        }
        checked.push(Zeroizing::new(key.to_vec()));
    }
    match checked.len() {
        0 => Err(PskError::NoKey),
        1..=PSK_KEYS_MAX => Ok(checked.into()),
        count => Err(PskError::TooManyKeys { count }),
    }
}

/// What was said, bound to its lengths: the dialer's hello and the acceptor's challenge, byte for byte as they were sent. So
/// a proof is for these two nonces, uids and addresses, this cluster, version, link and epoch, and for nothing else.
pub(crate) fn transcript(hello: &[u8], challenge: &[u8]) -> Transcript {
    let mut hash = Sha256::new();
    for said in [hello, challenge] {
        hash.update((said.len() as u64).to_le_bytes());
        hash.update(said);
    }
    hash.finalize().into()
}

fn mac(key: &Key, prover: Prover, transcript: &Transcript) -> Option<Hmac<Sha256>> {
    let label: &[u8] = match prover {
        Prover::Dialer => b"quorate psk 1 dialer",
        Prover::Acceptor => b"quorate psk 1 acceptor",
    };
    // Takes a key of any length.
    let mut mac = Hmac::<Sha256>::new_from_slice(key).ok()?;
    mac.update(label);
    mac.update(transcript);
    Some(mac)
}

fn proof(key: &Key, prover: Prover, transcript: &Transcript) -> Proof {
    let tag = mac(key, prover, transcript).map(|mac| mac.finalize().into_bytes());
    tag.and_then(|tag| Proof::from_slice(&tag).ok())
        .unwrap_or_default()
}

/// Compares all bytes, however many are right, and refuses any other length.
fn is_proof(key: &Key, prover: Prover, transcript: &Transcript, claimed: &[u8]) -> bool {
    mac(key, prover, transcript).is_some_and(|mac| mac.verify_slice(claimed).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: &[u8] = b"0123456789abcdef";
    const NEW: &[u8] = b"fedcba9876543210-and-more";

    fn psk(keys: &[&[u8]]) -> Psk {
        Psk::with_keys(keys).unwrap()
    }

    #[test]
    fn keys_of_the_wrong_length_or_number_are_refused_when_they_are_given() {
        let length = |number, bytes| Err(PskError::Length { number, bytes });
        assert_eq!(Psk::new("").map(drop), length(1, 0));
        assert_eq!(Psk::new("short").map(drop), length(1, 5));
        assert_eq!(Psk::new([7; 1_025]).map(drop), length(1, 1_025));
        assert_eq!(Psk::with_keys([OLD, b"x"]).map(drop), length(2, 1));
        let none: [&[u8]; 0] = [];
        assert_eq!(Psk::with_keys(none).map(drop), Err(PskError::NoKey));
        assert_eq!(
            Psk::with_keys([OLD; 5]).map(drop),
            Err(PskError::TooManyKeys { count: 5 })
        );
        let kept = psk(&[OLD]);
        assert!(kept.replace([""]).is_err());
        assert!(kept.answer(&[1; 32], &psk(&[OLD]).prove(&[1; 32])).is_some());
    }

    #[test]
    fn only_the_same_key_the_same_transcript_and_all_bytes_are_a_proof() {
        let (acceptor, said) = (psk(&[OLD]), transcript(b"hello", b"challenge"));
        let proof = psk(&[OLD]).prove(&said);
        assert_eq!(proof.len(), 32);
        let answer = acceptor.answer(&said, &proof).unwrap();
        assert!(psk(&[OLD]).is_acceptor(&said, &answer));
        assert!(
            acceptor.answer(&said, &psk(&[NEW]).prove(&said)).is_none(),
            "another key"
        );
        assert!(acceptor.answer(&said, &[]).is_none(), "empty");
        assert!(acceptor.answer(&said, &proof[..31]).is_none(), "truncated");
        let mut longer = proof.to_vec();
        longer.push(0);
        assert!(acceptor.answer(&said, &longer).is_none(), "longer");
        assert!(acceptor.answer(&said, &answer).is_none(), "the acceptor's own");
        assert!(!acceptor.is_acceptor(&said, &proof), "the dialer's own");
        for other in [
            transcript(b"hell", b"ochallenge"),
            transcript(b"hello", b"Challenge"),
        ] {
            assert!(acceptor.answer(&other, &proof).is_none(), "another transcript");
        }
        for bit in 0..256 {
            let mut flipped = proof.to_vec();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(acceptor.answer(&said, &flipped).is_none(), "bit {bit}");
        }
    }

    #[test]
    fn every_step_of_a_change_of_keys_lets_every_neighbour_in() {
        let steps: [&[&[u8]]; 5] = [&[OLD], &[OLD, NEW], &[NEW, OLD], &[NEW, OLD], &[NEW]];
        let said = transcript(b"a", b"b");
        for pair in steps.windows(2) {
            for (dialer, acceptor) in [(pair[0], pair[1]), (pair[1], pair[0])] {
                let (dialer, acceptor) = (psk(dialer), psk(acceptor));
                let answer = acceptor.answer(&said, &dialer.prove(&said)).unwrap();
                assert!(dialer.is_acceptor(&said, &answer));
            }
        }
        let running = psk(&[OLD]);
        running.clone().replace([NEW]).unwrap();
        assert!(running.answer(&said, &psk(&[OLD]).prove(&said)).is_none());
    }

    /// The values of `docs/WIRE.md` 3.4, made by another implementation (Python's hmac and hashlib).
    #[test]
    fn the_golden_proofs_of_the_wire_are_ours() {
        let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let said = transcript(b"hello", b"challenge");
        assert_eq!(
            hex(&said),
            "7cc3d602bfed3dd82237d36f86ea0f20ae0c97559766d23ffcd1fbbfb9114ca8"
        );
        let proof = psk(&[OLD]).prove(&said);
        assert_eq!(
            hex(&proof),
            "0ee46605bded42709a0c501fb5b6735d3ef83b80284fe7602198e501c61a615f"
        );
        let answer = psk(&[OLD]).answer(&said, &proof).unwrap();
        assert_eq!(
            hex(&answer),
            "03f0d59a34fa2fa9a09f6ad5aeda73a19239a1a2ebc6f293df20fc1fd4361b72"
        );
    }

    #[test]
    fn a_key_is_never_shown() {
        let shown = format!(
            "{:?} {:?}",
            psk(&[OLD, NEW]),
            PskError::Length { number: 1, bytes: 2 }
        );
        assert!(!shown.contains("0123") && !shown.contains("48, 49"), "{shown}");
        assert_eq!(format!("{:?}", psk(&[OLD])), "Psk { keys: 1, .. }");
    }
}
