//! From bytes of accepted links to inputs of the node: control links at once, user links in turn and only while there is
//! room. A frame that breaks the protocol ends its link. Spec: sharding 10.2, reliability 3c, I-93.

use quorate_core::ident::UniqueAddress;
use quorate_core::input::Input;
use quorate_core::message::Lane;
use quorate_core::wire::{Decoded, Reaction, WireError};

use super::Pump;
use super::action::{Chunk, LinkId};
use super::inbound::Greeted;
use super::limits::FRAMES_PER_LINK_TURN;
use super::machine::Machine;
use crate::transport::LinkKind;

/// What stood at the front of a link's bytes.
enum Found {
    Handled,
    OldEpoch,
    WrongLane(UniqueAddress),
    BadChecksum,
    Bad(UniqueAddress, WireError),
}

impl<M: Machine> Pump<M> {
    /// Bytes on an accepted link: a handshake's, or frames.
    pub(super) fn received(&mut self, link: LinkId, chunk: Chunk) {
        let Some(held) = self.inbound.put(&mut self.base, link, chunk) else {
            return;
        };
        let kind = held.opened.as_ref().map(|opened| opened.kind);
        match kind {
            None => match self.inbound.greet(&mut self.base, &self.quarantine, link) {
                Greeted::Waiting | Greeted::Refused | Greeted::Open => {}
            },
            Some(LinkKind::User) => self.inbound.ready.push_back(link),
            Some(LinkKind::Control) => {
                while self.next_frame(link) {}
                self.inbound.after_reading(&mut self.base, link);
            }
        }
    }

    /// Reads user links in turn, at most `frames` frames, while there is room.
    pub(crate) fn read_users(&mut self, frames: usize) {
        let mut left = frames;
        while left > 0 && !self.inbound.ready.is_empty() {
            if !self.has_room() {
                if !self.user_reads_paused {
                    self.base.stats.user_reads_paused += 1;
                }
                self.user_reads_paused = true;
                return;
            }
            self.user_reads_paused = false;
            let Some(link) = self.inbound.ready.pop_front() else {
                return;
            };
            let turn = left.min(FRAMES_PER_LINK_TURN);
            let mut read = 0;
            while read < turn && self.has_room() && self.next_frame(link) {
                read += 1;
            }
            left = left.saturating_sub(read.max(1));
            self.inbound.after_reading(&mut self.base, link);
            let unread = self
                .inbound
                .get_mut(link)
                .is_some_and(|held| held.bytes.has_unread());
            if unread {
                self.inbound.ready.push_back(link);
            }
        }
    }

    /// Hands the next frame of an accepted link to the node; `false` if there is none.
    fn next_frame(&mut self, link: LinkId) -> bool {
        let Some(held) = self.inbound.get_mut(link) else {
            return false;
        };
        let Some(opened) = &held.opened else {
            return false;
        };
        let (node, now) = (&mut self.node, self.base.now);
        let found = held
            .bytes
            .next(&self.base.config.limits, |decoded| match decoded {
                Decoded::Frame { frame, .. } if frame.epoch != opened.epoch => Found::OldEpoch,
                Decoded::Frame { frame, .. }
                    if (frame.lane == Lane::User) != (opened.kind == LinkKind::User) =>
                {
                    Found::WrongLane(opened.peer.clone())
                }
                Decoded::Frame { frame, .. } => {
                    node.handle(
                        now,
                        Input::Frame {
                            from: &opened.peer,
                            lane: frame.lane,
                            kind: frame.kind,
                            body: frame.body,
                        },
                    );
                    Found::Handled
                }
                Decoded::Bad {
                    consumed: Some(_), ..
                } => Found::BadChecksum,
                Decoded::Bad {
                    error,
                    consumed: None,
                } => Found::Bad(opened.peer.clone(), error),
                Decoded::NeedMore(_) => Found::Handled,
            });
        let Some(found) = found else {
            return false;
        };
        match found {
            Found::Handled => self.base.stats.frames_received += 1,
            Found::OldEpoch => self.base.stats.frames_of_old_epoch += 1,
            Found::BadChecksum => {
                self.base.stats.frames_skipped += 1;
                if self.inbound.bad_checksum(&self.base, link) {
                    self.inbound
                        .violated(&mut self.base, link, &"too many wrong checksums");
                }
            }
            Found::WrongLane(peer) => {
                self.inbound
                    .violated(&mut self.base, link, &"a lane of the other link");
                self.misbehaved(&peer);
            }
            Found::Bad(peer, error) => {
                self.inbound.violated(&mut self.base, link, &error);
                if error.reaction() == Reaction::CloseAndCount {
                    self.misbehaved(&peer);
                }
            }
        }
        self.settle();
        true
    }
}
