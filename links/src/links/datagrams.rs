//! Datagrams of accepted links: each is one heartbeat in its frame, under the same rules as a frame of the
//! link's stream. Spec: `docs/WIRE.md` 3.6, reliability 3c, I-93.

use quorate_core::input::Input;
use quorate_core::message::DetectorMsg;
use quorate_core::wire::{Decoded, Frame, WireError, decode_frame};

use super::Links;
use super::reading::Found;
use crate::order::{Chunk, LinkId, Order};
use crate::rates::Verdict;
use crate::recipient::Recipient;
use quorate_core::wire::handshake::LinkKind;

fn is_heartbeat(frame: &Frame<'_>) -> bool {
    let heartbeats = [DetectorMsg::HEARTBEAT, DetectorMsg::HEARTBEAT_RSP];
    heartbeats.iter().any(|tag| tag.kind == frame.kind)
}

impl Links {
    /// A datagram has come. Before the link is open it is nothing but lost.
    pub(crate) fn datagram(&mut self, node: &mut dyn Recipient, link: LinkId, chunk: Chunk) {
        self.base.stats.bytes_received += chunk.len as u64;
        match self.found(node, link, chunk.filled()) {
            Some(found) => self.judge(link, found),
            None => self.base.stats.frames_skipped += 1,
        }
        self.base.act(Order::Resume { link, chunk });
    }

    fn found(&mut self, node: &mut dyn Recipient, link: LinkId, bytes: &[u8]) -> Option<Found> {
        let (frames, limits, now) = (&self.base.config.limits, &self.base.limits, self.base.now);
        let held = self.inbound.get_mut(link)?;
        let opened = held.opened.as_ref()?;
        let peer = || opened.peer.clone();
        let bad = |error| Found::Bad(peer(), error);
        Some(match decode_frame(bytes, frames) {
            Decoded::Frame { consumed, .. } if consumed < bytes.len() => bad(WireError::TrailingBytes),
            Decoded::Frame { frame, .. } if frame.epoch != opened.epoch => Found::OldEpoch,
            Decoded::Frame { frame, .. } if opened.kind != LinkKind::Control || !is_heartbeat(&frame) => {
                bad(WireError::Malformed { what: "datagram" })
            }
            Decoded::Frame { frame, consumed } => {
                match held.meter.count(frame.tag(), consumed, limits, now.mono) {
                    Verdict::Within => {}
                    Verdict::Beyond => return Some(Found::BeyondRate(frame.lane)),
                    Verdict::TooLong => return Some(Found::TooLongBeyondRate(frame.lane)),
                }
                let input = Input::Frame {
                    from: &opened.peer,
                    proof: self.base.authentication.proof(held.identity.as_ref()),
                    lane: frame.lane,
                    kind: frame.kind,
                    body: frame.body,
                };
                node.handle(now, input);
                held.heard_at(now.mono);
                Found::Handled
            }
            Decoded::Bad {
                consumed: Some(_), ..
            } => Found::BadChecksum,
            Decoded::Bad {
                error,
                consumed: None,
            } => bad(error),
            Decoded::NeedMore(_) => bad(WireError::Incomplete),
        })
    }
}
