//! The deadlines of links, in one ordered set. A host keeps one deadline: the earlier of theirs and the
//! node's.

use quorate_core::ident::Address;
use quorate_core::ordered::OrderedSet;
use quorate_core::time::Instant;

use crate::order::LinkId;
use quorate_core::wire::handshake::LinkKind;

/// What is due.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum LinkDue {
    /// An accepted link's handshake, or the rest of its frame, has not come.
    Inbound(LinkId),
    /// A dial or its handshake takes too long, or the pause before the next one is over.
    PeerLink(Address, LinkKind),
    /// An open link is old enough to be replaced, or that takes too long.
    Renewal(Address, LinkKind),
    /// An accepted link was not renewed in time.
    Expiry(LinkId),
    /// A peer was asked about a link and has not answered.
    Question(LinkId),
    /// A stranger had its time to ask to join.
    Stranger(LinkId),
    /// Look for idle links of strangers.
    Sweep,
}

/// Deadlines. Who arms one removes it.
#[derive(Debug, Default)]
pub(crate) struct LinkTimers(OrderedSet<(Instant, LinkDue)>);

impl LinkTimers {
    pub(crate) fn arm(&mut self, at: Instant, due: LinkDue) {
        self.0.insert((at, due));
    }

    pub(crate) fn disarm(&mut self, at: Instant, due: LinkDue) {
        self.0.remove(&(at, due));
    }

    pub(crate) fn next(&self) -> Option<Instant> {
        self.0.first().map(|(at, _)| *at)
    }

    /// Takes out one that is due.
    pub(crate) fn pop(&mut self, now: Instant) -> Option<LinkDue> {
        if self.next()? > now {
            return None;
        }
        self.0.pop_first().map(|(_, due)| due)
    }
}
