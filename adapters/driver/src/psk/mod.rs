//! A secret that all nodes of a cluster share: [`Psk`], and the Noise session that each link of such a
//! cluster is. Decides which keys are taken and which is listed; a key never reaches a log and is zeroed when
//! nobody needs it. Spec: `docs/WIRE.md` 3.4, reliability 3a, ADR 11.

mod noise;
mod stream;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::{Arc, Mutex};

use ring::hmac::{HMAC_SHA256, Key as MacKey, sign};
use zeroize::Zeroizing;

pub(crate) use stream::{NoiseReader, NoiseWriter, accept, connect};

use crate::proved::PeerKey;
use crate::sync::lock;

/// The shortest key, in bytes: whoever records a handshake can try keys offline, and 128 bits are too many to
/// try.
pub const PSK_BYTES_MIN: usize = 16;

/// The longest key, in bytes.
pub const PSK_BYTES_MAX: usize = 1_024;

/// The most keys at a time: the old one, the new one, and two spare.
pub const PSK_KEYS_MAX: usize = 4;

/// What keys are derived with, so that a secret which also serves another program gives it nothing.
const SALT: &[u8] = b"quorate psk 1";

/// A pre-shared key, or several while one replaces another. Clones share them, so that [`Psk::replace`] on
/// one reaches the running node.
///
/// Every link is a session of its own, encrypted and authenticated with fresh keys (Noise, `NNpsk0`): who has
/// no key reads nothing and changes nothing, and who steals one later reads nothing of what was recorded
/// before. A key does not tell nodes apart, though: **whoever has it can be any member, and can stand between
/// any two**. For more there is [`crate::Security`]'s mutual TLS.
///
/// To change the key while the cluster runs, tell all nodes `[old, new]`, then all nodes `[new, old]`, then
/// all `[new]`: the first one is the one a node dials with, and all of them are accepted.
#[derive(Clone)]
pub struct Psk {
    keys: Arc<Mutex<Arc<[NoiseKey]>>>,
}

/// One key, as links use it.
pub(crate) struct NoiseKey {
    /// What goes into a session.
    secret: Zeroizing<[u8; 32]>,
    /// What a link remembers of it: nothing that opens a session.
    name: PeerKey,
}

impl NoiseKey {
    /// HKDF (RFC 5869) with SHA-256, in two blocks: one is the key, one its name.
    fn derive(given: &[u8]) -> Self {
        let extracted = Zeroizing::new(digest(SALT, &[given]));
        let secret = Zeroizing::new(digest(&*extracted, &[&[1]]));
        let name = digest(&*extracted, &[&*secret, &[2]]);
        Self {
            secret,
            name: PeerKey::named(name),
        }
    }
}

/// HMAC-SHA-256 of what stands in these parts.
fn digest(key: &[u8], parts: &[&[u8]]) -> [u8; 32] {
    let data = Zeroizing::new(parts.concat());
    let mut out = [0; 32];
    out.copy_from_slice(sign(&MacKey::new(HMAC_SHA256, key), &data).as_ref());
    out
}

/// Why keys cannot be used. Says nothing about what is in them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PskError {
    /// No key at all.
    #[error("no pre-shared key was given")]
    NoKey,
    /// More keys than [`PSK_KEYS_MAX`].
    #[error("{count} pre-shared keys were given, at most {PSK_KEYS_MAX} are allowed")]
    TooManyKeys {
        /// How many there were.
        count: usize,
    },
    /// A key is empty, too short to be a secret, or longer than any key.
    #[error(
        "key {number} has {bytes} bytes: a key must have {PSK_BYTES_MIN} to {PSK_BYTES_MAX} random bytes"
    )]
    Length {
        /// Which one, from 1.
        number: usize,
        /// Its length.
        bytes: usize,
    },
}

impl Psk {
    /// One key: 16 to 1,024 bytes **from a generator of random numbers** (32 are customary), the same on
    /// every node. A passphrase that a person can remember can be found out by trying.
    ///
    /// # Errors
    /// [`PskError::Length`].
    pub fn new(key: impl AsRef<[u8]>) -> Result<Self, PskError> {
        Self::with_keys([key])
    }

    /// Several keys: this node dials with the first, and accepts dialers that have any of them.
    ///
    /// # Errors
    /// [`PskError`] if there is none, if there are more than [`PSK_KEYS_MAX`], or if one has the wrong
    /// length.
    pub fn with_keys(keys: impl IntoIterator<Item = impl AsRef<[u8]>>) -> Result<Self, PskError> {
        Ok(Self {
            keys: Arc::new(Mutex::new(checked(keys)?)),
        })
    }

    /// Uses these keys for every link that is opened from now on. Links that are open stay open until they
    /// are older than their time.
    ///
    /// # Errors
    /// Those of [`Self::with_keys`]; the keys in use then stay in use.
    pub fn replace(&self, keys: impl IntoIterator<Item = impl AsRef<[u8]>>) -> Result<(), PskError> {
        let fresh = checked(keys)?;
        *lock(&self.keys) = fresh;
        Ok(())
    }

    fn keys(&self) -> Arc<[NoiseKey]> {
        Arc::clone(&lock(&self.keys))
    }

    /// The name of the key that this node dials with.
    #[cfg(test)]
    pub(crate) fn first(&self) -> PeerKey {
        self.keys().first().expect("there is always one").name.clone()
    }

    /// Whether what a peer proved to have is one of the keys of now.
    pub(crate) fn lists(&self, key: &PeerKey) -> bool {
        self.keys().iter().any(|listed| listed.name == *key)
    }
}

impl fmt::Debug for Psk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Psk")
            .field("keys", &self.keys().len())
            .finish_non_exhaustive()
    }
}

fn checked(keys: impl IntoIterator<Item = impl AsRef<[u8]>>) -> Result<Arc<[NoiseKey]>, PskError> {
    let mut checked = Vec::new();
    for (number, key) in (1..).zip(keys) {
        let key = key.as_ref();
        let bytes = key.len();
        if !(PSK_BYTES_MIN..=PSK_BYTES_MAX).contains(&bytes) {
            return Err(PskError::Length { number, bytes });
        }
        checked.push(NoiseKey::derive(key));
    }
    match checked.len() {
        0 => Err(PskError::NoKey),
        1..=PSK_KEYS_MAX => Ok(checked.into()),
        count => Err(PskError::TooManyKeys { count }),
    }
}
