//! What links ask of the node they serve, and how frames reach it. [`Node`] is one; a host that has more
//! to say about them, what a link has proved for instance, puts its own in front of it.

use alloc::string::String;

use quorate_core::admission::Proof;
use quorate_core::ident::UniqueAddress;
use quorate_core::input::Input;
use quorate_core::message::Lane;
use quorate_core::node::Node;
use quorate_core::time::Now;
use quorate_core::view::View;
use rand_core::Rng;

use crate::authentication::Identity;

/// A frame of a peer whose handshake is complete, on its newest link of the kind, in its order, whole.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Received<'a> {
    /// Who sent it.
    pub from: &'a UniqueAddress,
    /// What its sender has proved, if the host has said so.
    pub identity: Option<&'a Identity>,
    /// Its lane.
    pub lane: Lane,
    /// Which message it is.
    pub kind: u16,
    /// The message, encoded.
    pub body: &'a [u8],
}

impl<'a> Received<'a> {
    /// For [`Node::handle`]. `proof` is what the host reads from [`Self::identity`] for the node's admission policy;
    /// [`Proof::Nothing`] where there is none.
    #[must_use]
    pub const fn input(&self, proof: Proof<'a>) -> Input<'a> {
        Input::Frame {
            from: self.from,
            proof,
            lane: self.lane,
            kind: self.kind,
            body: self.body,
        }
    }
}

/// The node that links serve.
pub trait Recipient {
    /// The cluster as it sees it.
    fn view(&self) -> &View;

    /// See [`Node::hears`].
    fn hears(&self, from: &UniqueAddress, kind: u16) -> bool;

    /// Takes a frame. What the node wants because of it is polled once this has returned.
    fn receive(&mut self, now: Now, frame: &Received<'_>);

    /// Which picture [`Self::view`] is: links look for new members when it has changed.
    fn revision(&self) -> u64 {
        self.view().revision()
    }

    /// Whether a node is a member.
    fn is_member(&self, node: &UniqueAddress) -> bool {
        self.view().member(node).is_some()
    }

    /// Whether a peer would be let in if it came now: asked when its link has become too old and could not be renewed.
    ///
    /// # Errors
    /// Why not, for the log.
    fn admits(&self, peer: &UniqueAddress, identity: Option<&Identity>) -> Result<(), String> {
        let _ = identity;
        match self.is_member(peer) {
            true => Ok(()),
            false => Err("it is no member".into()),
        }
    }
}

impl<R: Rng> Recipient for Node<R> {
    fn view(&self) -> &View {
        Self::view(self)
    }

    fn hears(&self, from: &UniqueAddress, kind: u16) -> bool {
        Self::hears(self, from, kind)
    }

    fn receive(&mut self, now: Now, frame: &Received<'_>) {
        self.handle(now, frame.input(Proof::Nothing));
    }
}
