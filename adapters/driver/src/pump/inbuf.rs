//! Bytes of one link on their way to whole frames. Frames are decoded where the reader put them; only one that lies across
//! two reads is copied. Holds at most one frame and one read. Spec: I-91.

use quorate_core::config::Limits;
use quorate_core::wire::{Decoded, decode_frame};

use super::action::Chunk;
use super::limits::BUFFER_BYTES_KEPT_MAX;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct InBuffer {
    /// The beginning of a frame whose end has not come.
    partial: Vec<u8>,
    /// How long `partial` has to be before it is worth a look.
    wanted: usize,
    /// What the reader handed over.
    chunk: Option<Chunk>,
    /// How much of `chunk` is used up.
    at: usize,
}

impl InBuffer {
    /// Takes what was read. The one before must have been taken back by [`Self::take_used`].
    pub(crate) fn put(&mut self, chunk: Chunk) {
        self.chunk = Some(chunk);
        self.at = 0;
    }

    /// The reader's buffer, once nothing in it is needed any more.
    pub(crate) fn take_used(&mut self) -> Option<Chunk> {
        if self.has_unread() {
            return None;
        }
        self.at = 0;
        self.chunk.take()
    }

    /// Whether bytes wait that nobody looked at.
    pub(crate) fn has_unread(&self) -> bool {
        self.chunk.as_ref().is_some_and(|chunk| self.at < chunk.len)
    }

    /// Whether a frame has begun and not ended.
    pub(crate) const fn is_partial(&self) -> bool {
        !self.partial.is_empty()
    }

    /// Hands the next frame, or what stands in its place, to `visit` and uses it up; `None` if it is not all there. Never
    /// yields [`Decoded::NeedMore`].
    pub(crate) fn next<T>(&mut self, limits: &Limits, visit: impl FnOnce(Decoded<'_>) -> T) -> Option<T> {
        loop {
            let rest = unread(self.chunk.as_ref(), self.at);
            if self.partial.is_empty() {
                if rest.is_empty() {
                    return None;
                }
                match decode_frame(rest, limits) {
                    Decoded::NeedMore(total) => {
                        self.partial.extend_from_slice(rest);
                        self.at = self.at.saturating_add(rest.len());
                        self.wanted = total;
                        return None;
                    }
                    decoded => {
                        let used = used(&decoded).unwrap_or(rest.len());
                        let out = visit(decoded);
                        self.at = self.at.saturating_add(used);
                        return Some(out);
                    }
                }
            }
            let missing = self.wanted.saturating_sub(self.partial.len()).min(rest.len());
            self.partial
                .extend_from_slice(rest.get(..missing).unwrap_or(rest));
            self.at = self.at.saturating_add(missing);
            if self.partial.len() < self.wanted {
                return None;
            }
            match decode_frame(&self.partial, limits) {
                // Strictly more than before: the header told the length.
                Decoded::NeedMore(total) => self.wanted = total.max(self.partial.len().saturating_add(1)),
                decoded => {
                    let out = visit(decoded);
                    self.partial.clear();
                    if self.partial.capacity() > BUFFER_BYTES_KEPT_MAX {
                        self.partial = Vec::new();
                    }
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

fn unread(chunk: Option<&Chunk>, at: usize) -> &[u8] {
    chunk
        .and_then(|chunk| chunk.filled().get(at..))
        .unwrap_or_default()
}

/// Bytes that a decoded frame took.
const fn used(decoded: &Decoded<'_>) -> Option<usize> {
    match decoded {
        Decoded::Frame { consumed, .. } => Some(*consumed),
        Decoded::Bad { consumed, .. } => *consumed,
        Decoded::NeedMore(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_core::ident::{Address, UniqueAddress};
    use quorate_core::message::{Heartbeat, Message};
    use quorate_core::wire::encode_message;

    fn frames(count: u64) -> Vec<u8> {
        let to = UniqueAddress::new(Address::new("h", 1).unwrap(), 1);
        let mut bytes = Vec::new();
        for sequence in 1..=count {
            let message = Message::Heartbeat(Heartbeat {
                to: to.clone(),
                sequence,
                sent_at_micros: 0,
            });
            encode_message(&message, 7, &Limits::default(), &mut bytes).unwrap();
        }
        bytes
    }

    #[test]
    fn frames_come_out_whole_however_the_bytes_are_cut() {
        let bytes = frames(5);
        for size in 1..=bytes.len() {
            let mut buffer = InBuffer::default();
            let mut seen = 0;
            for piece in bytes.chunks(size) {
                buffer.put(Chunk {
                    buffer: piece.to_vec(),
                    len: piece.len(),
                });
                while let Some(good) = buffer.next(
                    &Limits::default(),
                    |decoded| matches!(decoded, Decoded::Frame { frame, .. } if frame.epoch == 7),
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
        buffer.put(Chunk {
            len: bytes.len(),
            buffer: bytes,
        });
        let closed = buffer.next(&Limits::default(), |decoded| {
            matches!(decoded, Decoded::Bad { consumed: None, .. })
        });
        assert_eq!(closed, Some(true));
    }
}
