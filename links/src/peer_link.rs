//! The link to one peer for one kind of link: where it stands in its life, what waits for it, what is being
//! written. Holds values and small rules; the moves from one state to the next are `outbound`'s. Spec:
//! `ARCHITECTURE.md`.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::time::Duration;

use quorate_core::ident::UniqueAddress;
use quorate_core::input::SendTarget;
use quorate_core::message::Message;
use quorate_core::time::Instant;
use quorate_core::wire::handshake::Hello;

use crate::authentication::PeerIdentity;
use crate::limits::{BUFFER_BYTES_KEPT_MAX, DIAL_BACKOFF_MAX, DIAL_BACKOFF_MIN, SLOW_PEER_PATIENCE};
use crate::order::LinkId;
use crate::queue::LinkQueues;
use crate::settings::LinkLimits;

/// Where a link stands.
#[derive(Debug, Default)]
pub(crate) enum ConnectionState {
    /// Nobody wanted anything yet.
    #[default]
    Idle,
    /// The last link failed; the next dial comes then.
    Backoff { until: Instant },
    /// A link is being opened.
    Dialing {
        link: LinkId,
        hello: Box<Hello>,
        deadline: Instant,
    },
    /// It is open and the peer has not answered the handshake.
    Greeting {
        link: LinkId,
        hello: Box<Hello>,
        deadline: Instant,
        heard: Vec<u8>,
        /// What the transport has seen of it.
        identity: Option<PeerIdentity>,
    },
    /// It carries frames.
    Open {
        link: LinkId,
        peer: UniqueAddress,
        epoch: u32,
    },
}

impl ConnectionState {
    pub(crate) const fn link(&self) -> Option<LinkId> {
        match self {
            Self::Idle | Self::Backoff { .. } => None,
            Self::Dialing { link, .. } | Self::Greeting { link, .. } | Self::Open { link, .. } => Some(*link),
        }
    }

    pub(crate) const fn deadline(&self) -> Option<Instant> {
        match self {
            Self::Idle | Self::Open { .. } => None,
            Self::Backoff { until } => Some(*until),
            Self::Dialing { deadline, .. } | Self::Greeting { deadline, .. } => Some(*deadline),
        }
    }

    pub(crate) const fn peer(&self) -> Option<&UniqueAddress> {
        match self {
            Self::Open { peer, .. } => Some(peer),
            Self::Idle | Self::Backoff { .. } | Self::Dialing { .. } | Self::Greeting { .. } => None,
        }
    }
}

/// How an open link is replaced before it is too old.
#[derive(Debug, Default)]
pub(crate) enum Renewal {
    /// Links may grow as old as they like, or there is none.
    #[default]
    None,
    /// A successor is opened then.
    Due { at: Instant },
    /// The successor is being dialed or greeted; the link goes on meanwhile.
    Opening(ConnectionState),
    /// The successor has taken the link's place, and is silent until the link has been read to its end.
    Draining { link: LinkId, deadline: Instant },
}

impl Renewal {
    /// The other link beside the one in use.
    pub(crate) const fn link(&self) -> Option<LinkId> {
        match self {
            Self::None | Self::Due { .. } => None,
            Self::Opening(state) => state.link(),
            Self::Draining { link, .. } => Some(*link),
        }
    }

    pub(crate) const fn deadline(&self) -> Option<Instant> {
        match self {
            Self::None => None,
            Self::Due { at } => Some(*at),
            Self::Opening(state) => state.deadline(),
            Self::Draining { deadline, .. } => Some(*deadline),
        }
    }
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct PeerLink {
    pub(crate) state: ConnectionState,
    pub(crate) renewal: Renewal,
    /// When the open link has to be renewed at the latest.
    pub(crate) expires: Option<Instant>,
    /// What the peer proved when it opened.
    pub(crate) proved: Option<PeerIdentity>,
    /// It lives on past its age.
    pub(crate) kept: bool,
    /// The peer itself has refused to renew it.
    pub(crate) refused: bool,
    /// Handshakes that have opened this link, the renewals included.
    pub(crate) handshakes: u64,
    pub(crate) queues: LinkQueues,
    /// Dials in a row that failed.
    pub(crate) failures: u32,
    /// Frames that are encoded and not handed over.
    pub(crate) out: Vec<u8>,
    /// The other buffer, while it is not being written.
    spare: Vec<u8>,
    pub(crate) writing: bool,
    /// It is in the list of links to flush.
    pub(crate) dirty: bool,
    /// When the peer last took something, or had its first chance to.
    pub(crate) progress_at: Instant,
}

impl PeerLink {
    /// The state of this link: the one in use, or its successor's.
    pub(crate) fn state_of(&mut self, of: LinkId) -> &mut ConnectionState {
        match &mut self.renewal {
            Renewal::Opening(state) if state.link() == Some(of) => state,
            Renewal::None | Renewal::Due { .. } | Renewal::Opening(_) | Renewal::Draining { .. } => {
                &mut self.state
            }
        }
    }

    /// Whether this link is being replaced and read to its end.
    pub(crate) fn is_draining(&self, link: LinkId) -> bool {
        matches!(self.renewal, Renewal::Draining { link: old, .. } if old == link)
    }

    /// Whether this link is a successor that is not open yet.
    pub(crate) fn is_opening(&self, link: LinkId) -> bool {
        matches!(&self.renewal, Renewal::Opening(state) if state.link() == Some(link))
    }

    /// A link opens, with what its peer has proved.
    pub(crate) fn proves(&mut self, proved: Option<PeerIdentity>, expires: Option<Instant>) {
        self.proved = proved;
        self.expires = expires;
        (self.kept, self.refused) = (false, false);
    }

    /// Whether the open link is older than links may become.
    pub(crate) fn is_too_old(&self, now: Instant) -> bool {
        self.expires.is_some_and(|at| at <= now)
    }

    /// Whether nothing may be written yet.
    pub(crate) const fn is_held(&self) -> bool {
        matches!(self.renewal, Renewal::Draining { .. })
    }

    /// Whether a message may go straight to the write buffer.
    pub(crate) fn has_room(&self, bytes_max: usize) -> bool {
        self.out.len() < bytes_max
    }

    /// Whether this node's senders should wait for this peer. One that takes nothing loses that right.
    pub(crate) fn slows_senders(&self, limits: &LinkLimits, now: Instant) -> bool {
        self.queues.is_slow(limits) && now.since(self.progress_at) < SLOW_PEER_PATIENCE
    }

    /// The encoded frames, to be written; the other buffer takes their place.
    pub(crate) fn take_out(&mut self) -> Vec<u8> {
        self.writing = true;
        core::mem::replace(&mut self.out, core::mem::take(&mut self.spare))
    }

    /// A written buffer comes back.
    pub(crate) fn written(&mut self, mut buffer: Vec<u8>, now: Instant) {
        self.writing = false;
        self.progress_at = now;
        buffer.clear();
        if buffer.capacity() <= BUFFER_BYTES_KEPT_MAX {
            self.spare = buffer;
        }
    }

    /// Forgets what was encoded for a link that is gone.
    pub(crate) fn reset_buffers(&mut self) {
        self.out.clear();
        self.writing = false;
    }

    /// The incarnation that the next link is wanted for.
    pub(crate) fn wanted_uid(&self) -> Option<u64> {
        match self.queues.front() {
            Some(SendTarget::Node(node)) => Some(node.uid()),
            Some(SendTarget::Address(_)) | None => None,
        }
    }

    /// Messages that a peer of this incarnation must not see.
    pub(crate) fn take_strays(&mut self, peer: &UniqueAddress) -> Vec<(SendTarget, Message)> {
        self.queues.remove_unless(|to| match to {
            SendTarget::Node(node) => node == peer,
            SendTarget::Address(_) => true,
        })
    }
}

/// The pause after so many failed dials, before jitter.
pub(crate) fn backoff(failures: u32) -> Duration {
    let doublings = failures.saturating_sub(1).min(16);
    DIAL_BACKOFF_MIN
        .saturating_mul(1 << doublings)
        .min(DIAL_BACKOFF_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pause_between_dials_doubles_up_to_a_second() {
        let pauses: Vec<u128> = (0..8).map(|failures| backoff(failures).as_millis()).collect();
        assert_eq!(pauses, [50, 50, 100, 200, 400, 800, 1_000, 1_000]);
        assert_eq!(backoff(u32::MAX), DIAL_BACKOFF_MAX);
    }
}
