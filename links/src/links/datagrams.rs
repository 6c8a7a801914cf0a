//! Datagrams of accepted links: each is one heartbeat in its frame, under the same rules as a frame of the
//! link's stream. Spec: `docs/WIRE.md` 3.6, reliability 3c, I-93.

use quorate_core::input::Input;
use quorate_core::message::DetectorMsg;
use quorate_core::wire::{DecodedFrame, Frame, WireError, decode_frame};

use super::Links;
use super::reading::ReadOutcome;
use crate::order::{LinkId, LinkOrder, ReadChunk};
use crate::rates::RateVerdict;
use crate::recipient::LinkRecipient;
use quorate_core::wire::handshake::LinkKind;

fn is_heartbeat(frame: &Frame<'_>) -> bool {
    let heartbeats = [DetectorMsg::HEARTBEAT, DetectorMsg::HEARTBEAT_RSP];
    heartbeats.iter().any(|tag| tag.kind == frame.kind)
}

impl Links {
    /// A datagram has come. Before the link is open it is nothing but lost.
    pub(crate) fn datagram(&mut self, node: &mut dyn LinkRecipient, link: LinkId, chunk: ReadChunk) {
        self.base.stats.bytes_received += chunk.len as u64;
        match self.found(node, link, chunk.filled()) {
            Some(found) => self.judge(link, found),
            None => self.base.stats.frames_skipped += 1,
        }
        self.base.act(LinkOrder::Resume { link, chunk });
    }

    fn found(&mut self, node: &mut dyn LinkRecipient, link: LinkId, bytes: &[u8]) -> Option<ReadOutcome> {
        let (frames, limits, now) = (&self.base.config.limits, &self.base.limits, self.base.now);
        let held = self.inbound.get_mut(link)?;
        let opened = held.opened.as_ref()?;
        let peer = || opened.peer.clone();
        let bad = |error| ReadOutcome::Bad(peer(), error);
        Some(match decode_frame(bytes, frames) {
            DecodedFrame::Frame { consumed, .. } if consumed < bytes.len() => bad(WireError::TrailingBytes),
            DecodedFrame::Frame { frame, .. } if frame.epoch != opened.epoch => ReadOutcome::OldEpoch,
            DecodedFrame::Frame { frame, .. }
                if opened.kind != LinkKind::Control || !is_heartbeat(&frame) =>
            {
                bad(WireError::Malformed { what: "datagram" })
            }
            DecodedFrame::Frame { frame, consumed } => {
                match held.meter.count(frame.tag(), consumed, limits, now.mono) {
                    RateVerdict::Within => {}
                    RateVerdict::Beyond => return Some(ReadOutcome::BeyondRate(frame.lane)),
                    RateVerdict::TooLong => return Some(ReadOutcome::TooLongBeyondRate(frame.lane)),
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
                ReadOutcome::Handled
            }
            DecodedFrame::Bad {
                consumed: Some(_), ..
            } => ReadOutcome::BadChecksum,
            DecodedFrame::Bad {
                error,
                consumed: None,
            } => bad(error),
            DecodedFrame::NeedMore(_) => bad(WireError::Incomplete),
        })
    }
}
