//! From bytes of accepted links to frames for the node: control and bulk links at once, user links in turn
//! and only while there is room. A frame that breaks the protocol ends its link. Spec: sharding 10.2,
//! reliability 3c, I-93.

use alloc::collections::VecDeque;

use quorate_core::admission;
use quorate_core::ident::UniqueAddress;
use quorate_core::input::Input;
use quorate_core::message::Lane;
use quorate_core::wire::handshake::LinkKind;
use quorate_core::wire::{DecodedFrame, Reaction, WireError};

use super::Links;
use crate::inbuf::Gathers;
use crate::limits::FRAMES_PER_LINK_TURN;
use crate::order::{LinkId, ReadChunk};
use crate::rates::RateVerdict;
use crate::recipient::LinkRecipient;

/// Whose turn it is.
#[derive(Debug, Default)]
pub(crate) struct ReadTurn {
    /// Control and bulk links that have brought something.
    pub(crate) urgent: VecDeque<LinkId>,
    /// The user link that is being read, and frames it has had.
    user: Option<(LinkId, usize)>,
    /// There was no room when a user link was looked at last.
    is_paused: bool,
}

/// What stood at the front of a link's bytes.
pub(crate) enum ReadOutcome {
    Handled,
    OldEpoch,
    /// Gossip that has waited for too long since it was read.
    Stale,
    WrongLane(UniqueAddress),
    BadChecksum,
    BeyondRate(Lane),
    TooLongBeyondRate(Lane),
    Bad(UniqueAddress, WireError),
}

impl Links {
    /// Bytes on an accepted link: a handshake's, or frames.
    pub(crate) fn received(&mut self, node: &dyn LinkRecipient, link: LinkId, chunk: ReadChunk) {
        let Some(held) = self.inbound.put(&mut self.base, link, chunk) else {
            return;
        };
        let (kind, is_member) = (held.opened.as_ref().map(|opened| opened.kind), held.member);
        if held.opened.as_ref().is_some_and(|opened| !opened.spoke) {
            self.inbound.speaks(&mut self.base, link);
        }
        match kind {
            None => self.greet(node, link),
            // Until this node has heard of who it is: what it says is for entities, or for replicas of
            // members.
            Some(LinkKind::User | LinkKind::Bulk) if !is_member => {}
            Some(LinkKind::User) => self.inbound.ready.push_back(link),
            Some(LinkKind::Control | LinkKind::Bulk) => self.turn.urgent.push_back(link),
        }
    }

    /// Hands the next frame of a control or bulk link to the node; `false` if there is none. One read
    /// buffer's worth of each, so that each has its turn. Between two of them the host polls the node.
    pub fn next_urgent_frame(&mut self, node: &mut dyn LinkRecipient) -> bool {
        while let Some(link) = self.turn.urgent.front().copied() {
            if self.frame_of(node, link) {
                return true;
            }
            self.turn.urgent.pop_front();
            self.inbound.wait_for_room(&mut self.base, link);
            self.inbound.after_reading(&mut self.base, link);
        }
        false
    }

    /// The same, and then of user links in turn, if there is room in whatever its entities' messages wait in.
    /// Without it they stay unread, and at last their senders wait. What the node itself buffers pauses no
    /// link: what does not fit there goes back to its sender.
    pub fn next_frame(&mut self, node: &mut dyn LinkRecipient, has_room: bool) -> bool {
        while !self.next_urgent_frame(node) {
            if !self.use_room() {
                return self.next_user_frame(node, has_room);
            }
        }
        true
    }

    fn next_user_frame(&mut self, node: &mut dyn LinkRecipient, has_room: bool) -> bool {
        while self.turn.user.is_some() || !self.inbound.ready.is_empty() {
            if !has_room {
                if let Some((link, _)) = self.turn.user.take() {
                    self.end_turn(link);
                }
                if !self.turn.is_paused && !self.inbound.ready.is_empty() {
                    self.base.stats.user_reads_paused += 1;
                    self.turn.is_paused = true;
                }
                return false;
            }
            self.turn.is_paused = false;
            let next = self.turn.user.take();
            let Some((link, read)) = next.or_else(|| Some((self.inbound.ready.pop_front()?, 0))) else {
                return false;
            };
            if read < FRAMES_PER_LINK_TURN && self.frame_of(node, link) {
                self.turn.user = Some((link, read + 1));
                return true;
            }
            self.end_turn(link);
        }
        false
    }

    /// A user link has had its frames for now, or has no more.
    fn end_turn(&mut self, link: LinkId) {
        self.inbound.wait_for_room(&mut self.base, link);
        self.inbound.after_reading(&mut self.base, link);
        let unread = self
            .inbound
            .get_mut(link)
            .is_some_and(|held| held.bytes.has_unread() && !held.bytes.waits_for_room());
        if unread {
            self.inbound.ready.push_back(link);
        }
    }

    /// Lets the next link go on that has got the room it waited for; whether there was one.
    fn use_room(&mut self) -> bool {
        if !self.inbound.room_made {
            return false;
        }
        let next = self.inbound.next_with_room();
        match next {
            Some((link, LinkKind::Control | LinkKind::Bulk)) => self.turn.urgent.push_back(link),
            Some((link, LinkKind::User)) => self.inbound.ready.push_back(link),
            None => {}
        }
        next.is_some()
    }

    /// Whether [`Self::next_frame`] may have something without any new input, given that there is room or
    /// not.
    #[must_use]
    pub fn has_unread(&self, has_room: bool) -> bool {
        let users = self.turn.user.is_some() || !self.inbound.ready.is_empty();
        !self.turn.urgent.is_empty() || self.inbound.has_room_for_waiting() || (users && has_room)
    }

    /// Hands the next frame of an accepted link to the node; `false` if there is none.
    fn frame_of(&mut self, node: &mut dyn LinkRecipient, link: LinkId) -> bool {
        let held_before = self.inbound.bytes_held();
        let Some((held, mut room)) = self.inbound.reading(link) else {
            return false;
        };
        let Some(opened) = &held.opened else {
            return false;
        };
        let (now, frames, limits) = (self.base.now, &self.base.config.limits, &self.base.limits);
        if !held.member {
            room.gathers = match node.hears(&opened.peer, admission::WELCOME.kind) {
                true => Gathers::Welcome,
                false => Gathers::Nothing,
            };
        }
        let waited = held.bytes.read_at().map(|read_at| now.mono.since(read_at));
        let is_stale = waited > Some(self.base.config.membership.gossip_time_to_live);
        let (asked, meter, identity) = (&mut held.asked, &mut held.meter, &held.identity);
        let authentication = &self.base.authentication;
        let found = held.bytes.next(frames, &mut room, |decoded| match decoded {
            DecodedFrame::Frame { frame, .. } if frame.epoch != opened.epoch => ReadOutcome::OldEpoch,
            DecodedFrame::Frame { frame, .. } if LinkKind::of(frame.lane) != opened.kind => {
                ReadOutcome::WrongLane(opened.peer.clone())
            }
            DecodedFrame::Frame { frame, consumed } => {
                match meter.count(frame.tag(), consumed, limits, now.mono) {
                    RateVerdict::Within => {}
                    RateVerdict::Beyond => return ReadOutcome::BeyondRate(frame.lane),
                    RateVerdict::TooLong => return ReadOutcome::TooLongBeyondRate(frame.lane),
                }
                if is_stale && frame.lane == Lane::Gossip {
                    return ReadOutcome::Stale;
                }
                *asked |= admission::asks_to_join(frame.kind);
                let input = Input::Frame {
                    from: &opened.peer,
                    proof: authentication.proof(identity.as_ref()),
                    lane: frame.lane,
                    kind: frame.kind,
                    body: frame.body,
                };
                node.handle(now, input);
                ReadOutcome::Handled
            }
            DecodedFrame::Bad {
                consumed: Some(_), ..
            } => ReadOutcome::BadChecksum,
            DecodedFrame::Bad {
                error,
                consumed: None,
            } => ReadOutcome::Bad(opened.peer.clone(), error),
            DecodedFrame::NeedMore(_) => ReadOutcome::Handled,
        });
        self.base.stats.stranger_frames_skipped += held.bytes.take_skipped();
        self.inbound.room_made |= self.inbound.bytes_held() < held_before;
        let Some(found) = found else {
            return false;
        };
        self.judge(link, found);
        true
    }

    pub(crate) fn judge(&mut self, link: LinkId, found: ReadOutcome) {
        match found {
            ReadOutcome::Handled => self.base.stats.frames_received += 1,
            ReadOutcome::OldEpoch => self.base.stats.frames_of_old_epoch += 1,
            ReadOutcome::Stale => self.base.stats.gossip_frames_stale += 1,
            ReadOutcome::BadChecksum => {
                self.base.stats.frames_skipped += 1;
                if self.inbound.bad_checksum(&self.base, link) {
                    self.base.stats.links_closed_for_checksums += 1;
                    self.inbound
                        .violated(&mut self.base, link, &"too many wrong checksums");
                }
            }
            ReadOutcome::WrongLane(peer) => {
                self.inbound.stranger_violated(&self.base, link);
                self.inbound
                    .violated(&mut self.base, link, &"a lane of another link");
                self.misbehaved(&peer);
            }
            ReadOutcome::BeyondRate(lane) => self.beyond_rate(lane),
            ReadOutcome::TooLongBeyondRate(lane) => {
                self.beyond_rate(lane);
                self.base.stats.links_closed_for_rate += 1;
                self.inbound
                    .violated(&mut self.base, link, &"too many frames for too long");
            }
            ReadOutcome::Bad(peer, error) => {
                if matches!(error, WireError::TooLarge { .. }) {
                    self.base.stats.frames_too_large += 1;
                }
                if error.reaction() == Reaction::CloseAndCount {
                    self.inbound.stranger_violated(&self.base, link);
                }
                self.inbound.violated(&mut self.base, link, &error);
                if error.reaction() == Reaction::CloseAndCount {
                    self.misbehaved(&peer);
                }
            }
        }
    }

    const fn beyond_rate(&mut self, lane: Lane) {
        let stats = &mut self.base.stats;
        match lane {
            Lane::Gossip => stats.gossip_frames_beyond_rate += 1,
            Lane::Control | Lane::Reply | Lane::User | Lane::Bulk => stats.control_frames_beyond_rate += 1,
        }
    }
}
