//! What the user's policy of admission is asked with and answers, and the policy itself as a value of the
//! configuration. Types only; what a message asks and which senders are accepted is decided in `admission`.
//! Spec: membership 2.1, reliability 3a (join policy, admin).

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt::{self, Debug, Formatter};

use crate::ident::{Roles, UniqueAddress};
use crate::membership::state::app_version::AppVersion;

/// What a sender is to this node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SenderStanding {
    /// A member.
    Member,
    /// It was one, and was removed.
    Former,
    /// Neither: a joiner, a member of whom this node has not heard, or nobody.
    Stranger {
        /// This node has asked it to take it in.
        was_asked: bool,
    },
}

/// What the peer of a link has proved to the host, which has checked it. Nothing where the host checks
/// nothing.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub enum PeerProof<'a> {
    /// Nothing: whoever reaches the port gets so far.
    #[default]
    Nothing,
    /// That it has a pre-shared key that is listed.
    Key {
        /// What the key is called among the host's; not the key.
        name: &'a [u8],
    },
    /// That a certificate of a trusted authority is its own. The names in it are the host's to read.
    Certificate {
        /// The certificate.
        der: &'a [u8],
        /// Those between it and the authority.
        intermediates: &'a [Vec<u8>],
    },
}

impl Debug for PeerProof<'_> {
    /// A weak key could be found out by trying what gives its name.
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Nothing => "Nothing",
            Self::Key { .. } => "Key",
            Self::Certificate { .. } => "Certificate",
        })
    }
}

/// What a peer asks that changes who is a member. Nobody asks for a removal from elsewhere: that is this
/// node's own program's to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PeerAsk<'a> {
    /// To be taken in.
    Join {
        /// The roles it says it has.
        roles: &'a Roles,
        /// The version of the application that it says it runs.
        app_version: &'a AppVersion,
    },
    /// That a member leaves in good order.
    Leave(&'a UniqueAddress),
    /// That a member goes at once, as if it had crashed.
    Down(&'a UniqueAddress),
}

impl PeerAsk<'_> {
    /// In one word, for the audit line.
    #[must_use]
    pub const fn what(&self) -> &'static str {
        match self {
            Self::Join { .. } => "join",
            Self::Leave(_) => "leave",
            Self::Down(_) => "down",
        }
    }
}

/// A peer that asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PeerRequest<'a> {
    /// The incarnation. How much is proved of it is the host's.
    pub by: &'a UniqueAddress,
    /// What its link has proved.
    pub proof: PeerProof<'a>,
    /// What it asks.
    pub ask: PeerAsk<'a>,
}

impl<'a> PeerRequest<'a> {
    /// A request, for a host that asks its policy itself, and for tests of a policy.
    #[must_use]
    pub const fn new(by: &'a UniqueAddress, proof: PeerProof<'a>, ask: PeerAsk<'a>) -> Self {
        Self { by, proof, ask }
    }

    /// Whom it is about.
    #[must_use]
    pub const fn whom(&self) -> &'a UniqueAddress {
        match self.ask {
            PeerAsk::Join { .. } => self.by,
            PeerAsk::Leave(node) | PeerAsk::Down(node) => node,
        }
    }
}

/// Why a policy says no: words for the audit line. The peer hears only that it does.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Denied(pub String);

/// Who may change who is a member, from elsewhere. Like a strategy it is a pure function, called on the
/// node's loop: it answers at once, by nothing but the request.
pub trait AdmissionPolicy: Debug + Send + Sync {
    /// Whether a peer may have what it asks.
    ///
    /// # Errors
    /// [`Denied`] says why not.
    fn allows(&self, request: &PeerRequest<'_>) -> Result<(), Denied>;
}

/// Lets everybody who gets a link: the default.
#[derive(Clone, Copy, Debug, Default)]
pub struct AdmitEverybody;

impl AdmissionPolicy for AdmitEverybody {
    fn allows(&self, _: &PeerRequest<'_>) -> Result<(), Denied> {
        Ok(())
    }
}

/// A policy, shared by all clones of a configuration.
#[derive(Clone, Debug)]
pub struct Admission(pub Arc<dyn AdmissionPolicy>);

impl Default for Admission {
    fn default() -> Self {
        Self(Arc::new(AdmitEverybody))
    }
}
