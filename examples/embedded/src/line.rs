//! One serial line to one peer: bytes to packets and back. A packet is one piece of one link: what it is, the
//! link's number and a message of the handshake or one frame, encoded so that no byte of it is 0 (COBS),
//! between two 0: whatever was lost before, a packet begins after a 0, and a hole costs one frame. What came
//! damaged fails the checksum that the core's formats bring along, and no link sees it. Never decides
//! anything about the protocol.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use quorate_core::config::Limits;
use quorate_core::ident::Address;
use quorate_core::wire::handshake::{HandshakeDecoded, decode_answer, decode_hello};
use quorate_core::wire::{DecodedFrame, HEADER_BYTES, decode_frame};
use quorate_links::LinkId;

/// The longest body of a frame on these lines. Before it admits anybody the core wants room for a member with
/// everything as long as it may be (3 KiB) and for what later versions may add to a state (4 KiB).
pub const FRAME_BYTES_MAX: usize = 8 << 10;
/// What stands before a packet's bytes: its letter and the number of its link.
const LABEL_BYTES: usize = 5;
/// Bytes of the longest packet as it travels: COBS adds one byte for every 254.
const PACKET_BYTES_MAX: usize = LABEL_BYTES + HEADER_BYTES + FRAME_BYTES_MAX + FRAME_BYTES_MAX / 128;

/// What a packet is: its first byte. Each says which end has dialed the link, for both ends number theirs
/// from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Letter {
    /// The dialer opens a link of this number.
    Hello,
    /// The acceptor's only word.
    Answer,
    /// The dialer's.
    Frame,
    /// The dialer has closed it.
    Closed,
    /// The acceptor has closed it, or has never known it.
    Refused,
}

impl Letter {
    const fn byte(self) -> u8 {
        match self {
            Self::Hello => b'H',
            Self::Answer => b'A',
            Self::Frame => b'F',
            Self::Closed => b'C',
            Self::Refused => b'R',
        }
    }

    const fn of(byte: u8) -> Option<Self> {
        match byte {
            b'H' => Some(Self::Hello),
            b'A' => Some(Self::Answer),
            b'F' => Some(Self::Frame),
            b'C' => Some(Self::Closed),
            b'R' => Some(Self::Refused),
            _ => None,
        }
    }

    /// How many of these bytes the first packet of this kind takes; `None` if they are none.
    fn piece(self, bytes: &[u8], limits: &Limits) -> Option<usize> {
        match self {
            Self::Hello => match decode_hello(bytes) {
                HandshakeDecoded::Done { consumed, .. } => Some(consumed),
                HandshakeDecoded::NeedMore(_) | HandshakeDecoded::Bad(_) => None,
            },
            Self::Answer => match decode_answer(bytes) {
                HandshakeDecoded::Done { consumed, .. } => Some(consumed),
                HandshakeDecoded::NeedMore(_) | HandshakeDecoded::Bad(_) => None,
            },
            Self::Frame => match decode_frame(bytes, limits) {
                DecodedFrame::Frame { consumed, .. } => Some(consumed),
                DecodedFrame::NeedMore(_) | DecodedFrame::Bad { .. } => None,
            },
            Self::Closed | Self::Refused => Some(0),
        }
    }
}

/// One packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Packet {
    pub(crate) letter: Letter,
    /// The number that the link's dialer has given it.
    pub(crate) link: u32,
    pub(crate) bytes: Vec<u8>,
}

/// What a link has to say, in as many packets as it has frames.
#[derive(Debug)]
pub(crate) struct Writing {
    /// Whom to tell when it is said; `None`: nobody.
    pub(crate) of: Option<LinkId>,
    pub(crate) packet: Packet,
    /// How much of it has become packets.
    at: usize,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Line {
    /// Who listens at the other end.
    pub(crate) address: Address,
    /// The packet that has begun; `None`: it was too long, wait for the next.
    packet: Option<Vec<u8>>,
    writings: VecDeque<Writing>,
    /// One packet as it travels, or a few of the shortest.
    unsent: VecDeque<u8>,
}

impl Line {
    pub(crate) const fn new(address: Address) -> Self {
        Self {
            address,
            packet: Some(Vec::new()),
            writings: VecDeque::new(),
            unsent: VecDeque::new(),
        }
    }

    /// Takes a byte; the packet that it ends, or an error for one that is none.
    pub(crate) fn take(&mut self, byte: u8, limits: &Limits) -> Option<Result<Packet, Damaged>> {
        if byte != 0 {
            match &mut self.packet {
                Some(packet) if packet.len() < PACKET_BYTES_MAX => packet.push(byte),
                Some(_) | None => self.packet = None,
            }
            return None;
        }
        let Some(packet) = self.packet.replace(Vec::new()) else {
            return Some(Err(Damaged));
        };
        if packet.is_empty() {
            return None;
        }
        let decoded = cobs::decode_vec(&packet).ok();
        Some(decoded.and_then(|bytes| open(bytes, limits)).ok_or(Damaged))
    }

    /// Lets a link's bytes wait. Those of one link keep their order, and `first` ones come before the others.
    pub(crate) fn write(&mut self, of: Option<LinkId>, packet: Packet, first: bool) {
        let begun = |writing: &Writing| writing.at > 0 || writing.of.is_some() && writing.of == of;
        let at = match first {
            true => self.writings.iter().rposition(begun).map_or(0, |at| at + 1),
            false => self.writings.len(),
        };
        self.writings.insert(at, Writing { of, packet, at: 0 });
    }

    /// Forgets what a link has not said yet.
    pub(crate) fn forget(&mut self, link: LinkId) {
        self.writings.retain(|writing| writing.of != Some(link));
    }

    /// Gives away what the port takes; hands what has become packets to `written`.
    pub(crate) fn flush(
        &mut self,
        limits: &Limits,
        mut port: impl FnMut(&[u8]) -> usize,
        mut written: impl FnMut(LinkId, Vec<u8>),
    ) {
        loop {
            while !self.unsent.is_empty() {
                match port(self.unsent.as_slices().0) {
                    0 => return,
                    taken => drop(self.unsent.drain(..taken.min(self.unsent.len()))),
                }
            }
            let Some(writing) = self.writings.front_mut() else {
                return;
            };
            let (Packet { letter, link, bytes }, at) = (&writing.packet, writing.at);
            let rest = bytes.get(at..).unwrap_or_default();
            // Links write whole frames; anything else could not be told apart at the other end.
            let piece = letter.piece(rest, limits).unwrap_or(rest.len());
            put(
                &mut self.unsent,
                *letter,
                *link,
                rest.get(..piece).unwrap_or(rest),
            );
            writing.at = at + piece;
            if writing.at >= writing.packet.bytes.len()
                && let Some(done) = self.writings.pop_front()
                && let Some(of) = done.of
            {
                written(of, done.packet.bytes);
            }
        }
    }

    pub(crate) fn has_unsent(&self) -> bool {
        !self.unsent.is_empty() || !self.writings.is_empty()
    }
}

fn put(unsent: &mut VecDeque<u8>, letter: Letter, link: u32, bytes: &[u8]) {
    let mut packet = Vec::with_capacity(LABEL_BYTES + bytes.len());
    packet.push(letter.byte());
    packet.extend(link.to_le_bytes());
    packet.extend_from_slice(bytes);
    // The first 0 ends what was cut off before, so that a hole costs its own packet only.
    unsent.push_back(0);
    unsent.extend(cobs::encode_vec(&packet));
    unsent.push_back(0);
}

/// A packet that came whole.
fn open(mut bytes: Vec<u8>, limits: &Limits) -> Option<Packet> {
    let (label, rest) = bytes.split_first_chunk::<LABEL_BYTES>()?;
    let [letter, link @ ..] = *label;
    let letter = Letter::of(letter)?;
    let is_whole = letter.piece(rest, limits) == Some(rest.len());
    bytes.drain(..LABEL_BYTES);
    is_whole.then_some(Packet {
        letter,
        link: u32::from_le_bytes(link),
        bytes,
    })
}

/// Bytes that are no packet: some of it was lost or changed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Damaged;

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_core::ident::UniqueAddress;
    use quorate_core::message::{DetectorMsg, Heartbeat, Message};
    use quorate_core::wire::encode_message;

    fn line() -> Line {
        Line::new(Address::new("board-2", 1).expect("an address"))
    }

    fn frames(count: u64) -> Vec<u8> {
        let to = UniqueAddress::new(Address::new("h", 1).expect("an address"), 1);
        let mut bytes = Vec::new();
        for sequence in 1..=count {
            let message = Message::Detector(DetectorMsg::Heartbeat(Heartbeat::new(&to, sequence)));
            encode_message(&message, 7, &Limits::default(), &mut bytes).expect("a heartbeat");
        }
        bytes
    }

    fn packet(letter: Letter, link: u32, bytes: &[u8]) -> Packet {
        let bytes = bytes.to_vec();
        Packet { letter, link, bytes }
    }

    /// What travels, and what was written by then.
    fn wire(line: &mut Line) -> (Vec<u8>, Vec<LinkId>) {
        let (mut wire, mut written) = (Vec::new(), Vec::new());
        let port = |bytes: &[u8]| {
            let taken = bytes.len().min(3);
            wire.extend_from_slice(&bytes[..taken]);
            taken
        };
        line.flush(&Limits::default(), port, |link, _| written.push(link));
        assert!(!line.has_unsent());
        (wire, written)
    }

    fn taken(bytes: impl Iterator<Item = u8>) -> Vec<Result<Packet, Damaged>> {
        let mut line = line();
        bytes
            .filter_map(|byte| line.take(byte, &Limits::default()))
            .collect()
    }

    #[test]
    fn each_frame_is_a_packet_and_a_hole_costs_only_its_own() {
        let (mut from, three) = (line(), frames(3));
        from.write(Some(4), packet(Letter::Frame, 4, &three), false);
        from.write(None, packet(Letter::Closed, 4, b""), false);
        let (wire, written) = wire(&mut from);
        assert_eq!(written, [4]);
        let one = three.len() / 3;
        let mut expected: Vec<_> = three
            .chunks(one)
            .map(|bytes| packet(Letter::Frame, 4, bytes))
            .collect();
        expected.push(packet(Letter::Closed, 4, b""));
        assert_eq!(
            taken(wire.iter().copied()),
            expected.iter().cloned().map(Ok).collect::<Vec<_>>()
        );
        for hole in 0..wire.len() {
            let bytes = wire.iter().enumerate().filter(|(at, _)| *at != hole);
            let taken = taken(bytes.map(|(_, byte)| *byte));
            let intact = expected
                .iter()
                .filter(|packet| taken.contains(&Ok((*packet).clone())));
            let is_needed = wire[hole] != 0 || hole == wire.len() - 1;
            assert_eq!(
                intact.count(),
                4 - usize::from(is_needed),
                "without byte {hole}: {taken:?}"
            );
        }
    }

    #[test]
    fn heartbeats_go_before_messages_that_have_not_begun_and_after_what_their_link_has_said() {
        let mut line = line();
        let write = |line: &mut Line, link: u32, first| {
            line.write(Some(link.into()), packet(Letter::Frame, link, &frames(1)), first);
        };
        for (link, first) in [(1, false), (2, false), (3, true), (3, true), (4, false)] {
            write(&mut line, link, first);
        }
        line.forget(2);
        assert_eq!(wire(&mut line).1, [3, 3, 1, 4]);
    }

    #[test]
    fn a_packet_without_an_end_takes_no_more_than_its_bound() {
        let (mut line, limits) = (line(), Limits::default());
        for _ in 0..10 * PACKET_BYTES_MAX {
            assert_eq!(line.take(1, &limits), None);
            assert!(
                line.packet
                    .as_ref()
                    .is_none_or(|packet| packet.len() <= PACKET_BYTES_MAX)
            );
        }
        assert_eq!(line.take(0, &limits), Some(Err(Damaged)));
        let next = packet(Letter::Refused, 9, b"");
        line.write(None, next.clone(), false);
        let rest: Vec<_> = wire(&mut line)
            .0
            .into_iter()
            .filter_map(|byte| line.take(byte, &limits))
            .collect();
        assert_eq!(rest, [Ok(next)]);
    }
}
