//! From bytes of accepted links to inputs of the node: control and bulk links at once, user links in turn and only while there is
//! room. A frame that breaks the protocol ends its link. Spec: sharding 10.2, reliability 3c, I-93.

use quorate_core::ident::UniqueAddress;
use quorate_core::input::{Input, Target};
use quorate_core::message::{Lane, MembershipMsg, Message};
use quorate_core::wire::{Decoded, Reaction, WireError};

use super::Pump;
use super::action::{Chunk, LinkId};
use super::inbuf::Gathers;
use super::limits::FRAMES_PER_LINK_TURN;
use super::machine::Machine;
use super::policy::Judged;
use super::rates::Verdict;
use crate::transport::LinkKind;

/// What stood at the front of a link's bytes.
pub(super) enum Found {
    Handled,
    OldEpoch,
    WrongLane(UniqueAddress),
    BadChecksum,
    BeyondRate(Lane),
    TooLongBeyondRate(Lane),
    Bad(UniqueAddress, WireError),
    NotAllowed(UniqueAddress, Option<Message>),
}

impl<M: Machine> Pump<M> {
    /// Bytes on an accepted link: a handshake's, or frames.
    pub(super) fn received(&mut self, link: LinkId, chunk: Chunk) {
        let Some(held) = self.inbound.put(&mut self.base, link, chunk) else {
            return;
        };
        let (kind, is_member) = (held.opened.as_ref().map(|opened| opened.kind), held.member);
        if held.opened.as_ref().is_some_and(|opened| !opened.spoke) {
            self.inbound.speaks(&mut self.base, link);
        }
        match kind {
            None => self.greet(link),
            // Until this node has heard of who it is: what it says is for entities, or for replicas of members.
            Some(LinkKind::User | LinkKind::Bulk) if !is_member => {}
            Some(LinkKind::User) => self.inbound.ready.push_back(link),
            Some(LinkKind::Control | LinkKind::Bulk) => self.read_at_once(link),
        }
    }

    /// Reads what a control link or a bulk link has brought: one read buffer's worth, so that each has its turn.
    pub(super) fn read_at_once(&mut self, link: LinkId) {
        while self.next_frame(link) {}
        self.inbound.wait_for_room(&mut self.base, link);
        self.inbound.after_reading(&mut self.base, link);
    }

    /// Reads user links in turn, at most `frames` frames, while there is room.
    pub(crate) fn read_users(&mut self, frames: usize) {
        self.use_room();
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
    }

    /// Hands the next frame of an accepted link to the node; `false` if there is none.
    fn next_frame(&mut self, link: LinkId) -> bool {
        let held_before = self.inbound.bytes_held();
        let Some((held, mut room)) = self.inbound.reading(link) else {
            return false;
        };
        let Some(opened) = &held.opened else {
            return false;
        };
        let (node, now, limits) = (&mut self.node, self.base.now, &self.base.config.limits);
        if !held.member {
            room.gathers = match node.hears(&opened.peer, MembershipMsg::WELCOME.kind) {
                true => Gathers::Welcome,
                false => Gathers::Nothing,
            };
        }
        let (is_member, asked) = (held.member, &mut held.asked);
        let (meter, certificate) = (&mut held.meter, held.proved.certificate());
        let (policy, log) = (&self.policy, &mut self.base.log);
        let found = held.bytes.next(limits, &mut room, |decoded| match decoded {
            Decoded::Frame { frame, .. } if frame.epoch != opened.epoch => Found::OldEpoch,
            Decoded::Frame { frame, .. } if LinkKind::of(frame.lane) != opened.kind => {
                Found::WrongLane(opened.peer.clone())
            }
            Decoded::Frame { frame, consumed } => {
                match meter.count((frame.lane, frame.kind), consumed, limits, now.mono) {
                    Verdict::Within => {}
                    Verdict::Beyond => return Found::BeyondRate(frame.lane),
                    Verdict::TooLong => return Found::TooLongBeyondRate(frame.lane),
                }
                // What the node does not hear it counts, undecoded.
                let is_heard = is_member || node.hears(&opened.peer, frame.kind);
                let asks = [MembershipMsg::INIT_JOIN.kind, MembershipMsg::JOIN.kind];
                *asked |= asks.contains(&frame.kind);
                let log = (&mut *log, now.mono);
                if is_heard
                    && let Judged::Refused(answer) =
                        policy.judge(&opened.peer, certificate, &frame, limits, log)
                {
                    return Found::NotAllowed(opened.peer.clone(), answer);
                }
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
        self.base.stats.stranger_frames_skipped += held.bytes.take_skipped();
        self.inbound.room_made |= self.inbound.bytes_held() < held_before;
        let Some(found) = found else {
            return false;
        };
        self.judge(link, found);
        self.drive_node();
        true
    }

    pub(super) fn judge(&mut self, link: LinkId, found: Found) {
        match found {
            Found::Handled => self.base.stats.frames_received += 1,
            Found::OldEpoch => self.base.stats.frames_of_old_epoch += 1,
            Found::BadChecksum => {
                self.base.stats.frames_skipped += 1;
                if self.inbound.bad_checksum(&self.base, link) {
                    self.base.stats.links_closed_for_checksums += 1;
                    self.inbound
                        .violated(&mut self.base, link, &"too many wrong checksums");
                }
            }
            Found::WrongLane(peer) => {
                self.inbound.stranger_violated(&self.base, link);
                self.inbound
                    .violated(&mut self.base, link, &"a lane of another link");
                self.misbehaved(&peer);
            }
            Found::BeyondRate(lane) => self.beyond_rate(lane),
            Found::TooLongBeyondRate(lane) => {
                self.beyond_rate(lane);
                self.base.stats.links_closed_for_rate += 1;
                self.inbound
                    .violated(&mut self.base, link, &"too many frames for too long");
            }
            Found::NotAllowed(peer, answer) => {
                self.base.stats.requests_refused_by_policy += 1;
                if let Some(answer) = answer {
                    let to = Target::Node(peer);
                    self.outbound.send(&mut self.base, self.node.view(), to, answer);
                }
            }
            Found::Bad(peer, error) => {
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
