//! One serial line to one peer: bytes to packets and back. A packet is a letter (what it is) and a message of the handshake or
//! a frame, encoded so that no byte of it is 0 (COBS), between two 0: whatever was lost before, a packet begins after a 0. What
//! came damaged fails its checksum, which the core's formats bring along. Never decides anything about the protocol.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use quorate_core::ident::{Address, UniqueAddress};
use quorate_core::input::Target;
use quorate_core::message::{Lane, Message};
use quorate_core::time::Instant;
use quorate_core::wire::HEADER_BYTES;
use quorate_core::wire::handshake::Hello;

/// The longest body of a frame on these lines. Before it admits anybody the core wants room for a member with everything as
/// long as it may be (3 KiB) and for what later versions may add to a state (4 KiB).
pub const FRAME_BYTES_MAX: usize = 8 << 10;
/// Bytes of the longest packet as it travels: COBS adds one byte for every 254.
const PACKET_BYTES_MAX: usize = 1 + HEADER_BYTES + FRAME_BYTES_MAX + FRAME_BYTES_MAX / 128;

/// What a packet is: its first byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Letter {
    Hello,
    Answer,
    Frame,
}

impl Letter {
    const fn byte(self) -> u8 {
        match self {
            Self::Hello => b'H',
            Self::Answer => b'A',
            Self::Frame => b'F',
        }
    }

    const fn of(byte: u8) -> Option<Self> {
        match byte {
            b'H' => Some(Self::Hello),
            b'A' => Some(Self::Answer),
            b'F' => Some(Self::Frame),
            _ => None,
        }
    }
}

/// Where this node's own link to the peer stands.
#[derive(Debug, Default)]
pub(crate) enum Way {
    /// Nobody wanted anything yet.
    #[default]
    Idle,
    /// The hello is repeated until somebody answers; messages wait.
    Greeting {
        hello: Hello,
        sent: u32,
        next_at: Instant,
        waiting: VecDeque<(Target, Message)>,
    },
    /// Frames go to this incarnation with this epoch.
    Open { peer: UniqueAddress, epoch: u32 },
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Line {
    /// Who listens at the other end.
    pub(crate) address: Address,
    pub(crate) way: Way,
    /// The peer's link to this node: who, and with which epoch.
    pub(crate) heard: Option<(UniqueAddress, u32)>,
    /// The packet that has begun; `None`: it was too long, wait for the next.
    packet: Option<Vec<u8>>,
    unsent: VecDeque<u8>,
}

impl Line {
    pub(crate) fn new(address: Address) -> Self {
        Self {
            address,
            way: Way::Idle,
            heard: None,
            packet: Some(Vec::new()),
            unsent: VecDeque::new(),
        }
    }

    /// Takes a byte; the packet that it ends, or an error for one that is none.
    pub(crate) fn take(&mut self, byte: u8) -> Option<Result<(Letter, Vec<u8>), Damaged>> {
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
        let decoded = cobs::decode_vec(&packet).map_err(|_| Damaged);
        Some(decoded.and_then(|mut bytes| {
            let letter = bytes.first().copied().and_then(Letter::of).ok_or(Damaged)?;
            bytes.remove(0);
            Ok((letter, bytes))
        }))
    }

    /// Whether a message of this lane may still be added. All lanes share the line and keep their order; each has its own
    /// bound, so that what can be shed or refused never takes the place of heartbeats.
    pub(crate) fn has_room(&self, lane: Lane) -> bool {
        self.unsent.len()
            < match lane {
                Lane::Gossip => 1 << 10,
                Lane::Reply | Lane::User | Lane::Bulk => 4 << 10,
                Lane::Control => 6 << 10,
            }
    }

    /// Adds a packet.
    pub(crate) fn put(&mut self, letter: Letter, bytes: &[u8]) {
        let mut packet = Vec::with_capacity(bytes.len() + 1);
        packet.push(letter.byte());
        packet.extend_from_slice(bytes);
        // The first 0 ends what was cut off before, so that a hole costs its own packet only.
        self.unsent.push_back(0);
        self.unsent.extend(cobs::encode_vec(&packet));
        self.unsent.push_back(0);
    }

    /// Gives away what the port takes.
    pub(crate) fn flush(&mut self, mut port: impl FnMut(&[u8]) -> usize) {
        while !self.unsent.is_empty() {
            match port(self.unsent.as_slices().0) {
                0 => return,
                taken => drop(self.unsent.drain(..taken.min(self.unsent.len()))),
            }
        }
    }

    pub(crate) fn has_unsent(&self) -> bool {
        !self.unsent.is_empty()
    }
}

/// Bytes that are no packet: some of it was lost or changed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Damaged;

#[cfg(test)]
mod tests {
    use super::*;

    fn line() -> Line {
        Line::new(Address::new("board-2", 1).expect("an address"))
    }

    fn wire(packets: &[(Letter, &[u8])]) -> Vec<u8> {
        let mut line = line();
        for (letter, bytes) in packets {
            line.put(*letter, bytes);
        }
        let mut wire = Vec::new();
        line.flush(|bytes| {
            let taken = bytes.len().min(3);
            wire.extend_from_slice(&bytes[..taken]);
            taken
        });
        assert!(!line.has_unsent());
        wire
    }

    #[test]
    fn packets_come_out_as_they_went_in_and_a_hole_costs_only_its_packet() {
        let packets: [(Letter, &[u8]); 3] = [
            (Letter::Hello, b"one\0\0"),
            (Letter::Frame, &[7; 600]),
            (Letter::Answer, b""),
        ];
        let wire = wire(&packets);
        for hole in 0..wire.len() {
            let mut line = line();
            let bytes = wire.iter().enumerate().filter(|(at, _)| *at != hole);
            let taken: Vec<_> = bytes.filter_map(|(_, byte)| line.take(*byte)).collect();
            let whole = |(letter, bytes): (Letter, &[u8])| Ok((letter, bytes.to_vec()));
            let intact = packets
                .iter()
                .filter(|packet| taken.contains(&whole(**packet)))
                .count();
            let is_needed = wire[hole] != 0 || hole == wire.len() - 1;
            assert_eq!(
                intact,
                3 - usize::from(is_needed),
                "without byte {hole}: {taken:?}"
            );
        }
    }

    #[test]
    fn a_packet_without_an_end_takes_no_more_than_its_bound() {
        let mut line = line();
        for _ in 0..10 * PACKET_BYTES_MAX {
            assert_eq!(line.take(1), None);
            assert!(
                line.packet
                    .as_ref()
                    .is_none_or(|packet| packet.len() <= PACKET_BYTES_MAX)
            );
        }
        assert_eq!(line.take(0), Some(Err(Damaged)));
        let rest: Vec<_> = wire(&[(Letter::Frame, b"next")])
            .into_iter()
            .filter_map(|byte| line.take(byte))
            .collect();
        assert_eq!(rest, [Ok((Letter::Frame, b"next".to_vec()))]);
    }
}
