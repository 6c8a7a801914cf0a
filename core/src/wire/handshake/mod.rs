//! The first bytes on a link: who dials whom, for which cluster, in which versions. Codes them and checks
//! them; sends nothing and remembers nothing. Only the dialer sends frames afterwards. Spec: `docs/WIRE.md`
//! 3, reliability 3a.
#![deny(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]

mod check;
mod codec;

pub use check::{Acceptor, check_ack};
pub use codec::{HandshakeDecoded, decode_answer, decode_hello, encode_answer, encode_hello};

use crate::ident::{Address, ClusterName, UniqueAddress};
use crate::message::Lane;

/// How every handshake message begins. The layout behind it never changes; what may change is negotiated in
/// it.
pub const HANDSHAKE_MAGIC: [u8; 4] = *b"Qrh1";
/// Bytes before a handshake message's body: magic, kind, a zero, length, checksum.
pub const HANDSHAKE_HEADER_BYTES: usize = 12;
/// Longest body of a handshake message: the names at their longest take 400 bytes, the rest is room for
/// extensions.
pub const HANDSHAKE_BODY_BYTES_MAX: usize = 1024;
/// Longest of the field that a consent keeps free for a proof.
pub const PROOF_BYTES_MAX: usize = 64;
/// Nothing is proved in the handshake: TLS or Noise has seen to it below, or whoever can connect is believed.
pub const AUTH_NONE: u8 = 0;
/// Feature bit: the sender accepts bulk links. Who does not see it in a peer's answer on the control link
/// dials none there.
pub const FEATURE_BULK: u64 = 1;
/// Feature bit of a [`Hello`] that opens no link and asks instead: whether the acceptor itself is opening a
/// link to the dialer with a hello of this nonce. Consent says yes.
pub const FEATURE_QUESTION: u64 = 2;
/// The features this build offers. A host that accepts no bulk links leaves [`FEATURE_BULK`] out.
pub const FEATURES: u64 = FEATURE_BULK;

/// What a link is for. Each side dials its own to a peer and writes only on those it dialed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LinkKind {
    /// Lanes Control, Gossip and Reply. Never paused.
    Control,
    /// Lane User. Paused when the receiver has no room.
    User,
    /// Lane Bulk. Dialed when there is something for it, never paused.
    Bulk,
}

impl LinkKind {
    /// All kinds, the most urgent first.
    pub const ALL: [Self; 3] = [Self::Control, Self::User, Self::Bulk];

    /// The kind of link that a lane travels on.
    #[must_use]
    pub const fn of(lane: Lane) -> Self {
        match lane {
            Lane::Control | Lane::Gossip | Lane::Reply => Self::Control,
            Lane::User => Self::User,
            Lane::Bulk => Self::Bulk,
        }
    }
}

/// The dialer's first message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// Oldest and newest frame version the dialer speaks.
    pub versions: (u8, u8),
    /// The dialer's cluster.
    pub cluster: ClusterName,
    /// The dialer.
    pub from: UniqueAddress,
    /// The address the dialer means to reach.
    pub to: Address,
    /// The incarnation it means to reach, if it knows one.
    pub expected_uid: Option<u64>,
    /// What the link is for.
    pub link: LinkKind,
    /// Counts the dialer's links to this address; every frame on the link carries it.
    pub epoch: u32,
    /// What the dialer understands.
    pub features: u64,
    /// How the dialer proves who it is in the handshake; [`AUTH_NONE`], or a method of a later version.
    pub auth_method: u8,
    /// Fresh random bytes, by which the dialer knows its hello again; in a question, those of the hello that
    /// it is about.
    pub nonce: [u8; 16],
}

/// The acceptor's consent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HelloAck {
    /// The frame version of this link.
    pub version: u8,
    /// The acceptor.
    pub from: UniqueAddress,
    /// What both sides understand.
    pub features: u64,
    /// The method in force.
    pub auth_method: u8,
    /// Fresh random bytes, for a method of a later version.
    pub nonce: [u8; 16],
}

/// The acceptor's refusal; it closes the link behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HelloReject {
    /// Why.
    pub reason: RejectReason,
    /// Oldest and newest frame version the acceptor speaks.
    pub versions: (u8, u8),
}

/// Why a link was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RejectReason {
    /// No frame version in common.
    #[error("no protocol version in common")]
    Version,
    /// Another cluster lives here.
    #[error("the peer is in another cluster")]
    WrongCluster,
    /// Another address lives here.
    #[error("the dialed address is not the acceptor's")]
    WrongAddress,
    /// Another incarnation lives here.
    #[error("another incarnation is running, {found:016x}")]
    WrongIncarnation {
        /// The acceptor's uid.
        found: u64,
    },
    /// The dialer's incarnation is quarantined.
    #[error("this incarnation is quarantined")]
    Quarantined,
    /// No room for another link.
    #[error("too many links")]
    TooManyLinks,
    /// The two sides authenticate differently.
    #[error("the two sides use different authentication methods")]
    AuthMethod,
    /// What the dialer has proved below the handshake is not believed any more.
    #[error("not authenticated")]
    Unauthenticated,
    /// The dialer says it is the acceptor.
    #[error("the dialer has the acceptor's own address and uid")]
    DuplicateUid,
    /// The acceptor claims features that the dialer did not offer.
    #[error("the acceptor accepted features that were not offered")]
    Features,
    /// The certificate does not belong to the address that its holder announces.
    #[error("the certificate does not belong to the announced address")]
    WrongIdentity,
    /// The answer to a question: the acceptor is not opening such a link.
    #[error("the acceptor is not opening this link")]
    NotOpening,
    /// The acceptor is about to stop.
    #[error("the acceptor is shutting down")]
    ShuttingDown,
    /// A reason of a later version.
    #[error("unknown reason {code}")]
    Other {
        /// Its number.
        code: u8,
    },
}

impl RejectReason {
    /// Whether this version knows it, and so what may be behind it.
    pub(super) const fn is_known(self) -> bool {
        !matches!(self, Self::Other { .. })
    }
}

/// What an acceptor says to a dialer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HelloAnswer {
    /// Go ahead.
    Ack(HelloAck),
    /// Go away.
    Reject(HelloReject),
}
