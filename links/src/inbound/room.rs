//! Links that wait for room in the budget of inbound bytes: who is next, and what happens when room is made.
//! A link that waits is not read, so it costs what it already holds; the others do not notice. Spec:
//! reliability 3b, I-91.

use super::{InLink, Inbound};
use crate::base::LinksBase;
use crate::inbuf::{FrameRoom, Gathers};
use crate::order::LinkId;
use quorate_core::wire::handshake::LinkKind;

/// Control links first, user links last: only they may hold what they get for long.
const KINDS: [LinkKind; LinkKind::ALL.len()] = [LinkKind::Control, LinkKind::Bulk, LinkKind::User];

const fn position(kind: LinkKind) -> usize {
    match kind {
        LinkKind::Control => 0,
        LinkKind::User => 1,
        LinkKind::Bulk => 2,
    }
}

impl Inbound {
    /// A link that has completed its handshake, and where it gets its room.
    pub(crate) fn reading(&mut self, link: LinkId) -> Option<(&mut InLink, FrameRoom<'_>)> {
        let held = self.links.get_mut(&link)?;
        let kind = held.opened.as_ref()?.kind;
        let room = FrameRoom {
            budget: &mut self.budget,
            kind,
            others_wait: !self.waiting[position(kind)].is_empty(),
            gathers: Gathers::All,
        };
        Some((held, room))
    }

    pub(crate) fn give_back(&mut self, bytes: usize) {
        self.budget.give_back(bytes);
        self.room_made = true;
    }

    /// Bytes that all links hold.
    pub(crate) const fn bytes_held(&self) -> usize {
        self.budget.drawn()
    }

    /// Lets a link wait if the frame that it began found no room.
    pub(crate) fn wait_for_room(&mut self, base: &mut LinksBase, link: LinkId) {
        let Some(held) = self.links.get(&link) else {
            return;
        };
        let Some(opened) = held.opened.as_ref().filter(|_| held.bytes.waits_for_room()) else {
            return;
        };
        let waiting = &mut self.waiting[position(opened.kind)];
        if !waiting.contains(&link) {
            waiting.push_back(link);
            base.stats.inbound_waits += 1;
        }
    }

    /// Whether there may be room now for somebody who waits.
    pub(crate) fn has_room_for_waiting(&self) -> bool {
        self.room_made && self.waiting.iter().any(|waiting| !waiting.is_empty())
    }

    /// The next link that has got the room it waited for.
    pub(crate) fn next_with_room(&mut self) -> Option<(LinkId, LinkKind)> {
        for kind in KINDS {
            let waiting = &mut self.waiting[position(kind)];
            while let Some(link) = waiting.front().copied() {
                let Some(held) = self.links.get_mut(&link) else {
                    waiting.pop_front();
                    continue;
                };
                if !held.bytes.get_room(&mut self.budget, kind) {
                    break;
                }
                waiting.pop_front();
                return Some((link, kind));
            }
        }
        self.room_made = false;
        None
    }
}
