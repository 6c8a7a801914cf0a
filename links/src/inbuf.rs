//! Bytes of one link on their way to whole frames. Frames are decoded where the reader put them; only one
//! that lies across two reads is copied, and only once its whole length was drawn from the budget; a large
//! one of a stranger is thrown away. Holds at most one frame and one read. Spec: I-91.

use alloc::vec::Vec;
use quorate_core::admission::is_welcome;
use quorate_core::config::Limits;
use quorate_core::time::Instant;
use quorate_core::wire::{DecodedFrame, decode_frame, frame_kind};

use crate::budget::QueueBudget;
use crate::limits::READ_BYTES_MIN;
use crate::order::ReadChunk;
use quorate_core::wire::handshake::LinkKind;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct InBuffer {
    /// The beginning of a frame whose end has not come.
    partial: Vec<u8>,
    /// How long `partial` has to be before it is worth a look.
    wanted: usize,
    /// What the reader handed over.
    chunk: Option<ReadChunk>,
    /// How much of `chunk` is used up.
    at: usize,
    /// Bytes of the budget that the frame which has begun was given.
    drawn: usize,
    /// Bytes that it still needs before it can be gathered.
    wants: Option<usize>,
    /// Bytes of a frame that is thrown away as it comes.
    skip: usize,
    /// Frames that were.
    skipped: u64,
}

/// Which frames get room beyond what every link has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gathers {
    /// Of a member: all.
    All,
    /// Of a stranger that this node has asked to take it in: the state it sends.
    Welcome,
    /// Of any other stranger: none. They are thrown away as they come, undecoded.
    Nothing,
}

/// Where frames that lie across reads get their room.
pub(crate) struct FrameRoom<'a> {
    pub(crate) budget: &'a mut QueueBudget,
    pub(crate) kind: LinkKind,
    /// Others have been waiting for longer: nothing is given out of turn.
    pub(crate) others_wait: bool,
    pub(crate) gathers: Gathers,
}

impl InBuffer {
    /// Takes what was read. The one before must have been taken back by [`Self::take_used`].
    pub(crate) fn put(&mut self, chunk: ReadChunk) {
        self.chunk = Some(chunk);
        self.at = 0;
    }

    /// The reader's buffer, once nothing in it is needed any more.
    pub(crate) fn take_used(&mut self) -> Option<ReadChunk> {
        if self.has_unread() {
            return None;
        }
        self.at = 0;
        self.chunk.take()
    }

    /// When what is looked at was read.
    pub(crate) fn read_at(&self) -> Option<Instant> {
        self.chunk.as_ref().and_then(|chunk| chunk.read_at)
    }

    /// Whether bytes wait that nobody looked at.
    pub(crate) fn has_unread(&self) -> bool {
        self.chunk.as_ref().is_some_and(|chunk| self.at < chunk.len)
    }

    /// Whether a frame has begun and not ended.
    pub(crate) const fn is_partial(&self) -> bool {
        !self.partial.is_empty() || self.skip > 0
    }

    /// How many frames were thrown away since the last look.
    pub(crate) fn take_skipped(&mut self) -> u64 {
        core::mem::take(&mut self.skipped)
    }

    /// Throws away what has come of a frame that gets no room, and lets the rest of it go the same way.
    fn skips(&mut self, header: Option<u16>, total: usize, room: &FrameRoom<'_>) -> bool {
        let gathers = match room.gathers {
            Gathers::All => true,
            Gathers::Welcome => header.is_some_and(is_welcome),
            Gathers::Nothing => false,
        };
        if gathers || total <= READ_BYTES_MIN {
            return false;
        }
        self.skip = total.saturating_sub(self.partial.len());
        self.partial = Vec::new();
        self.skipped += 1;
        true
    }

    fn skip_on(&mut self) {
        let part = self.skip.min(unread(self.chunk.as_ref(), self.at).len());
        self.at = self.at.saturating_add(part);
        self.skip -= part;
    }

    /// Whether a frame has begun for which there is no room.
    pub(crate) const fn waits_for_room(&self) -> bool {
        self.wants.is_some()
    }

    /// Tries to get the room that is waited for.
    pub(crate) fn get_room(&mut self, budget: &mut QueueBudget, kind: LinkKind) -> bool {
        let Some(bytes) = self.wants else {
            return true;
        };
        let got = budget.draw_for_frame(bytes, kind);
        if got {
            self.wants = None;
            self.drawn = self.drawn.saturating_add(bytes);
        }
        got
    }

    /// What was drawn for the frame that has begun, which is forgotten.
    pub(crate) fn take_drawn(&mut self) -> usize {
        self.wants = None;
        core::mem::take(&mut self.drawn)
    }

    /// Whether a frame of so many bytes may be gathered. Small ones fit into what every link has.
    fn may_gather(&mut self, total: usize, room: &mut FrameRoom<'_>) -> bool {
        if total <= READ_BYTES_MIN || total <= self.drawn {
            return true;
        }
        self.wants = Some(total.saturating_sub(self.drawn));
        !room.others_wait && self.get_room(room.budget, room.kind)
    }

    /// Never more memory than twice what came, nor than the frame takes.
    fn gather(&mut self, bytes: usize) {
        let rest = unread(self.chunk.as_ref(), self.at);
        let part = rest.get(..bytes).unwrap_or(rest);
        let len = self.partial.len().saturating_add(part.len());
        if len > self.partial.capacity() {
            let capacity = len
                .max(self.partial.len().saturating_mul(2))
                .min(self.wanted.max(len));
            self.partial
                .reserve_exact(capacity.saturating_sub(self.partial.len()));
        }
        self.partial.extend_from_slice(part);
        self.at = self.at.saturating_add(part.len());
    }

    /// Hands the next frame, or what stands in its place, to `visit` and uses it up; `None` if it is not all
    /// there, or if there is no room to gather it ([`Self::waits_for_room`]). Never yields
    /// [`DecodedFrame::NeedMore`].
    pub(crate) fn next<T>(
        &mut self,
        limits: &Limits,
        room: &mut FrameRoom<'_>,
        visit: impl FnOnce(DecodedFrame<'_>) -> T,
    ) -> Option<T> {
        if self.wants.is_some() && (room.others_wait || !self.get_room(room.budget, room.kind)) {
            return None;
        }
        loop {
            self.skip_on();
            let rest = unread(self.chunk.as_ref(), self.at);
            if self.partial.is_empty() {
                if rest.is_empty() {
                    return None;
                }
                match decode_frame(rest, limits) {
                    DecodedFrame::NeedMore(total) => {
                        let bytes = rest.len();
                        if self.skips(frame_kind(rest), total, room) {
                            continue;
                        }
                        if self.may_gather(total, room) {
                            self.wanted = total;
                            self.gather(bytes);
                        }
                        return None;
                    }
                    decoded @ (DecodedFrame::Frame { .. } | DecodedFrame::Bad { .. }) => {
                        let used = used(&decoded).unwrap_or(rest.len());
                        let out = visit(decoded);
                        self.at = self.at.saturating_add(used);
                        return Some(out);
                    }
                }
            }
            let missing = self.wanted.saturating_sub(self.partial.len()).min(rest.len());
            self.gather(missing);
            if self.partial.len() < self.wanted {
                return None;
            }
            match decode_frame(&self.partial, limits) {
                // Strictly more than before: the header told the length.
                DecodedFrame::NeedMore(total) => {
                    if self.skips(frame_kind(&self.partial), total, room) {
                        continue;
                    }
                    if !self.may_gather(total, room) {
                        return None;
                    }
                    self.wanted = total.max(self.partial.len().saturating_add(1));
                }
                decoded @ (DecodedFrame::Frame { .. } | DecodedFrame::Bad { .. }) => {
                    let out = visit(decoded);
                    self.partial.clear();
                    // What is not drawn is not kept.
                    if self.partial.capacity() > READ_BYTES_MIN {
                        self.partial = Vec::new();
                    }
                    room.budget.give_back(self.take_drawn());
                    return Some(out);
                }
            }
        }
    }

    /// During the handshake: everything that has come so far, in one piece.
    pub(crate) fn gathered(&mut self) -> &[u8] {
        let rest = unread(self.chunk.as_ref(), self.at);
        self.partial.extend_from_slice(rest);
        self.at = self.at.saturating_add(rest.len());
        &self.partial
    }

    /// Ends the handshake; says whether bytes followed it, which nobody may send before the answer.
    pub(crate) fn end_handshake(&mut self, used: usize) -> bool {
        let more = self.partial.len() > used;
        self.partial.clear();
        more
    }
}

fn unread(chunk: Option<&ReadChunk>, at: usize) -> &[u8] {
    chunk
        .and_then(|chunk| chunk.filled().get(at..))
        .unwrap_or_default()
}

/// Bytes that a decoded frame took.
const fn used(decoded: &DecodedFrame<'_>) -> Option<usize> {
    match decoded {
        DecodedFrame::Frame { consumed, .. } => Some(*consumed),
        DecodedFrame::Bad { consumed, .. } => *consumed,
        DecodedFrame::NeedMore(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_core::ident::{Address, UniqueAddress};
    use quorate_core::message::{DetectorMsg, Heartbeat, Message};
    use quorate_core::wire::encode_message;

    fn frames(count: u64) -> Vec<u8> {
        let to = UniqueAddress::new(Address::new("h", 1).unwrap(), 1);
        let mut bytes = Vec::new();
        for sequence in 1..=count {
            let message = Message::Detector(DetectorMsg::Heartbeat(Heartbeat::new(&to, sequence)));
            encode_message(&message, 7, &Limits::default(), &mut bytes).unwrap();
        }
        bytes
    }

    fn room(budget: &mut QueueBudget) -> FrameRoom<'_> {
        FrameRoom {
            budget,
            kind: LinkKind::User,
            others_wait: false,
            gathers: Gathers::All,
        }
    }

    #[test]
    fn frames_come_out_whole_however_the_bytes_are_cut() {
        let bytes = frames(5);
        for size in 1..=bytes.len() {
            let (mut buffer, mut budget) = (InBuffer::default(), QueueBudget::new(1 << 20));
            let mut seen = 0;
            for piece in bytes.chunks(size) {
                buffer.put(ReadChunk {
                    read_at: None,
                    buffer: piece.to_vec(),
                    len: piece.len(),
                });
                while let Some(good) = buffer.next(
                    &Limits::default(),
                    &mut room(&mut budget),
                    |decoded| matches!(decoded, DecodedFrame::Frame { frame, .. } if frame.epoch == 7),
                ) {
                    assert!(good, "pieces of {size}");
                    seen += 1;
                }
                assert!(buffer.take_used().is_some(), "pieces of {size}");
            }
            assert_eq!((seen, buffer.is_partial()), (5, false), "pieces of {size}");
        }
    }

    #[test]
    fn b_10_a_length_of_four_gigabytes_is_refused_before_its_body() {
        let mut bytes = frames(1);
        bytes[8..12].copy_from_slice(&u32::MAX.to_le_bytes());
        let mut buffer = InBuffer::default();
        buffer.put(ReadChunk {
            read_at: None,
            len: bytes.len(),
            buffer: bytes,
        });
        let mut budget = QueueBudget::new(1 << 20);
        let closed = buffer.next(&Limits::default(), &mut room(&mut budget), |decoded| {
            matches!(decoded, DecodedFrame::Bad { consumed: None, .. })
        });
        assert_eq!(closed, Some(true));
    }
}
