//! What is said to other nodes about watches: numbered, repeated until it is heard, heard once and in order.
//! A peer that answers and then reads nothing past a bound is quarantined. Knows nothing of what is said.
//! Spec: sharding 1.17.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use crate::ident::UniqueAddress;
use crate::message::ShardingMsg;
use crate::ordered::{OrderedMap, OrderedSet};
use crate::reject::Rejection;
use crate::sharding::Cx;
use crate::sharding::protocol::watch::{STATEMENTS_MAX, WatchMsg, WatchStatement};
use crate::time::Instant;
use crate::timer::ShardingTimer;

/// Statements that may wait for one peer to hear them: minutes of ends at thousands per second, a few
/// megabytes. Akka keeps as many system messages.
pub(super) const UNHEARD_MAX: usize = 20_000;

/// Statements under way to one peer at once, so that what is repeated is little.
const WINDOW: usize = 1_024;

/// Bytes of one message, if it has more than one statement: a small part of a control frame.
const BATCH_BYTES: usize = 32 << 10;

#[derive(Clone, Debug, Default)]
struct WatchPeer {
    /// The number of the last statement for it.
    said: u64,
    /// Those that it has not heard, the oldest at the front.
    unheard: VecDeque<WatchStatement>,
    /// How many of those are under way.
    under_way: usize,
    /// The number of its last statement that was heard here.
    heard: u64,
    /// It has heard something: it knows what this is about.
    answers: bool,
    quarantined: bool,
}

/// All peers with which this node speaks about watches.
#[derive(Clone, Debug, Default)]
pub(super) struct WatchPeers {
    peers: OrderedMap<UniqueAddress, WatchPeer>,
    /// Those to whom something is to be said.
    due: OrderedSet<UniqueAddress>,
}

/// At most.
fn bytes_of(statement: &WatchStatement) -> usize {
    let id = match statement {
        WatchStatement::Watch { entity, .. } => entity.as_bytes().len(),
        WatchStatement::Unwatch { .. }
        | WatchStatement::Watching { .. }
        | WatchStatement::Moved { .. }
        | WatchStatement::Ended { .. }
        | WatchStatement::Full { .. } => 0,
    };
    id + 32
}

/// One timer looks at everything about watches, so that it is due when the first of them is.
pub(super) fn wake_by(cx: &mut Cx<'_>, at: Instant) {
    if cx.due(ShardingTimer::Watch).is_none_or(|due| due > at) {
        cx.wake(ShardingTimer::Watch, at);
    }
}

impl WatchPeers {
    /// Notes a statement; it leaves with the end of this step.
    pub(super) fn say(&mut self, cx: &mut Cx<'_>, to: &UniqueAddress, statement: WatchStatement) {
        let peer = self.peers.entry(to.clone()).or_default();
        if peer.unheard.len() >= UNHEARD_MAX {
            cx.counters().watch_statements_dropped += 1;
            if peer.answers && !core::mem::replace(&mut peer.quarantined, true) {
                cx.counters().watch_peers_quarantined += 1;
                cx.say_quarantine(to.clone());
            }
            return;
        }
        peer.said += 1;
        peer.unheard.push_back(statement);
        self.due.insert(to.clone());
    }

    /// What is new of what a peer says.
    pub(super) fn hear(
        &mut self,
        cx: &mut Cx<'_>,
        from: &UniqueAddress,
        first: u64,
        statements: Vec<WatchStatement>,
    ) -> Vec<WatchStatement> {
        let peer = self.peers.entry(from.clone()).or_default();
        let next = peer.heard + 1;
        let new: Vec<WatchStatement> = match next.checked_sub(first) {
            Some(old) => {
                let old = usize::try_from(old).unwrap_or(usize::MAX);
                cx.counters().watch_statements_repeated += old.min(statements.len()) as u64;
                statements.into_iter().skip(old).collect()
            }
            // Something before it was lost: all of it comes again.
            None => Vec::new(),
        };
        peer.heard += new.len() as u64;
        let up_to = peer.heard;
        cx.send(from, ShardingMsg::Watch(WatchMsg::Heard { up_to }));
        new
    }

    /// A peer has heard what was said.
    pub(super) fn on_heard(&mut self, cx: &mut Cx<'_>, from: &UniqueAddress, up_to: u64) {
        let Some(peer) = self.peers.get_mut(from).filter(|peer| up_to <= peer.said) else {
            let what = "answer to what was not said";
            return cx.reject(from, Rejection::Unexpected { what });
        };
        peer.answers = true;
        let before = peer.said - peer.unheard.len() as u64;
        let fresh = usize::try_from(up_to.saturating_sub(before)).unwrap_or(usize::MAX);
        let fresh = fresh.min(peer.unheard.len());
        peer.unheard.drain(..fresh);
        peer.under_way = peer.under_way.saturating_sub(fresh);
        if !peer.unheard.is_empty() {
            self.due.insert(from.clone());
        }
    }

    /// Says what is new, in as few messages as it takes.
    pub(super) fn transmit(&mut self, cx: &mut Cx<'_>) {
        if self.due.is_empty() {
            return; // Asked after each step of a kind; what is under way has its timer.
        }
        for node in core::mem::take(&mut self.due) {
            let Some(peer) = self.peers.get_mut(&node) else {
                continue;
            };
            while peer.under_way < peer.unheard.len().min(WINDOW) {
                let mut room = BATCH_BYTES;
                let mut fits = |statement: &&WatchStatement| {
                    let is_first = room == BATCH_BYTES;
                    let fits = room.checked_sub(bytes_of(statement));
                    room = fits.unwrap_or_default();
                    fits.is_some() || is_first
                };
                let waiting = peer.unheard.iter().skip(peer.under_way).take(STATEMENTS_MAX);
                let statements: Vec<_> = waiting.take_while(|next| fits(next)).cloned().collect();
                let first = peer.said - (peer.unheard.len() - peer.under_way) as u64 + 1;
                peer.under_way += statements.len();
                cx.send(&node, ShardingMsg::Watch(WatchMsg::Say { first, statements }));
            }
        }
        if !self.all_heard() {
            let at = cx.mono() + cx.config().sharding.watch_resend_interval;
            wake_by(cx, at);
        }
    }

    /// Says again what has not been heard.
    pub(super) fn repeat(&mut self) {
        for (node, peer) in &mut self.peers {
            if !peer.unheard.is_empty() {
                peer.under_way = 0;
                self.due.insert(node.clone());
            }
        }
    }

    /// Whether nothing waits to be heard.
    pub(super) fn all_heard(&self) -> bool {
        self.peers.values().all(|peer| peer.unheard.is_empty())
    }

    /// An incarnation is no member any more: it is spoken to no more.
    pub(super) fn forget(&mut self, node: &UniqueAddress) {
        self.peers.remove(node);
        self.due.remove(node);
    }

    /// What must hold between the calls.
    pub(super) fn is_sound(&self) -> bool {
        let sound = |peer: &WatchPeer| {
            peer.unheard.len() <= UNHEARD_MAX
                && peer.under_way <= peer.unheard.len()
                && peer.unheard.len() as u64 <= peer.said
        };
        self.due.is_empty() && self.peers.values().all(sound)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{Fixture, node};
    use crate::signal::Signal;

    fn quarantined(fixture: &mut Fixture) -> usize {
        let heard = fixture.heard();
        heard
            .iter()
            .filter(|said| matches!(said, Signal::Quarantine(_)))
            .count()
    }

    /// A peer for which one statement more waits than may, after so many were heard.
    fn overrun(answers: u64) -> usize {
        let (mut fixture, mut peers) = (Fixture::new(node("a", 1)), WatchPeers::default());
        let peer = node("b", 2);
        for id in 0..answers {
            peers.say(&mut fixture.cx(), &peer, WatchStatement::Moved { id });
        }
        peers.transmit(&mut fixture.cx());
        peers.on_heard(&mut fixture.cx(), &peer, answers);
        for id in 0..UNHEARD_MAX as u64 {
            peers.say(&mut fixture.cx(), &peer, WatchStatement::Moved { id });
        }
        assert_eq!(quarantined(&mut fixture), 0, "as many as may");
        for id in 0..3 {
            peers.say(&mut fixture.cx(), &peer, WatchStatement::Moved { id });
        }
        peers.transmit(&mut fixture.cx());
        assert!(peers.is_sound());
        let sent = fixture.effects().len();
        assert!(
            sent <= WINDOW / STATEMENTS_MAX + 2,
            "{sent} messages are under way"
        );
        quarantined(&mut fixture)
    }

    #[test]
    fn a_peer_that_reads_nothing_past_a_bound_is_quarantined_once() {
        assert_eq!(overrun(1), 1);
    }

    #[test]
    fn a_peer_that_never_answered_knows_nothing_of_watches_and_is_not_quarantined() {
        assert_eq!(overrun(0), 0);
    }

    #[test]
    fn ids_of_a_thousand_bytes_go_in_messages_that_fit() {
        use crate::effect::Effect;
        use crate::message::Message;
        use crate::sharding::state::ids::{EntityId, KindId};
        let (mut fixture, mut peers) = (Fixture::new(node("a", 1)), WatchPeers::default());
        for id in 0..64 {
            let watch = WatchStatement::Watch {
                id,
                kind: KindId::of("files"),
                entity: EntityId::new(&[b'x'; 1_024]),
                known: false,
            };
            peers.say(&mut fixture.cx(), &node("b", 2), watch);
        }
        peers.transmit(&mut fixture.cx());
        let mut total = 0;
        for effect in fixture.effects() {
            let Effect::Send { message, .. } = effect else {
                panic!("{effect:?}");
            };
            let Message::Sharding(ShardingMsg::Watch(WatchMsg::Say { first, statements })) = message else {
                panic!("{message:?}");
            };
            assert_eq!(first, total + 1);
            assert!(statements.len() <= 32, "{}", statements.len());
            total += statements.len() as u64;
        }
        assert_eq!(total, 64);
    }

    #[test]
    fn b_48_what_was_not_said_cannot_have_been_heard_and_a_statement_far_ahead_changes_nothing() {
        let (mut fixture, mut peers) = (Fixture::new(node("a", 1)), WatchPeers::default());
        let peer = node("b", 2);
        peers.say(&mut fixture.cx(), &peer, WatchStatement::Moved { id: 1 });
        peers.transmit(&mut fixture.cx());
        for up_to in [2, u64::MAX] {
            peers.on_heard(&mut fixture.cx(), &peer, up_to);
            assert!(!peers.all_heard());
        }
        let said = Vec::from([WatchStatement::Moved { id: 1 }]);
        for first in [2, u64::MAX] {
            assert!(
                peers
                    .hear(&mut fixture.cx(), &peer, first, said.clone())
                    .is_empty()
            );
        }
        assert_eq!(
            peers.hear(&mut fixture.cx(), &peer, 1, said).len(),
            1,
            "its first is heard"
        );
        peers.on_heard(&mut fixture.cx(), &peer, 1);
        assert!(peers.all_heard() && peers.is_sound());
    }
}
