//! The links of a board on its serial lines (steps 6 and 7 of `docs/embedding.md`): does what `quorate-links`
//! orders and reports what came. A line carries all links of its two ends, so that a user link cannot be left
//! unread while heartbeats are read: what comes on it while the node has no room is dropped and counted, as
//! the bytes are that the interrupts' queue has no room for.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr};

use quorate_core::config::Limits;
use quorate_core::event::SeedCause;
use quorate_core::ident::Address;
use quorate_core::wire::handshake::HANDSHAKE_MAGIC;
use quorate_links::{LinkId, LinkInput, LinkKind, LinkOrder, Links, ReadChunk, Source};

use super::Counters;
use crate::line::{Letter, Line, Packet};

/// One end of a link.
#[derive(Debug)]
struct End {
    line: usize,
    /// The number that its dialer has given it.
    number: u32,
    /// What it is for, if this board has dialed it.
    dialed: Option<LinkKind>,
    /// Whether it may be handed more.
    is_read: bool,
}

/// All lines with their links.
#[derive(Debug)]
pub(super) struct Lines {
    lines: Vec<Line>,
    ends: BTreeMap<LinkId, End>,
    /// What links have not heard yet.
    pub(super) happened: VecDeque<LinkInput>,
}

impl Lines {
    pub(super) fn new(peers: &[Address]) -> Self {
        let peers = peers.iter().take(usize::from(u8::MAX));
        Self {
            lines: peers.cloned().map(Line::new).collect(),
            ends: BTreeMap::new(),
            happened: VecDeque::new(),
        }
    }

    /// What has come on a line up to the end of a packet; the bytes behind it.
    pub(super) fn take<'a>(
        &mut self,
        links: &mut Links,
        limits: &Limits,
        counters: &mut Counters,
        number: u8,
        bytes: &'a [u8],
    ) -> &'a [u8] {
        let at = usize::from(number);
        let Some(line) = self.lines.get_mut(at) else {
            return &[];
        };
        let mut rest = bytes.iter();
        for byte in rest.by_ref() {
            match line.take(*byte, limits) {
                None => continue,
                Some(Err(_)) => counters.packets_damaged += 1,
                Some(Ok(packet)) => self.on_packet(links, counters, at, packet),
            }
            break;
        }
        rest.as_slice()
    }

    fn on_packet(&mut self, links: &mut Links, counters: &mut Counters, line: usize, packet: Packet) {
        let of_mine = matches!(packet.letter, Letter::Answer | Letter::Refused);
        let is_it =
            |end: &End| end.line == line && end.number == packet.link && end.dialed.is_some() == of_mine;
        let found = self.ends.iter_mut().find(|(_, end)| is_it(end));
        match (packet.letter, found) {
            (Letter::Hello, found) => {
                // The number is used again: the board at the other end has started anew.
                if let Some(link) = found.map(|(link, _)| *link) {
                    self.ends.remove(&link);
                    self.happened.push_back(LinkInput::Broken(link));
                }
                let source = Source::of(IpAddr::V4(Ipv4Addr::from(line as u32)));
                let Some(link) = links.accepted(source) else {
                    return self.refuse(line, packet.link);
                };
                let end = End {
                    line,
                    number: packet.link,
                    dialed: None,
                    is_read: false,
                };
                self.ends.insert(link, end);
                self.happened
                    .push_back(LinkInput::Received(link, chunk(packet.bytes)));
            }
            (Letter::Answer | Letter::Frame, Some((link, end))) if end.is_read => {
                end.is_read = false;
                self.happened
                    .push_back(LinkInput::Received(*link, chunk(packet.bytes)));
            }
            (Letter::Answer | Letter::Frame, Some(_)) => counters.user_frames_dropped += 1,
            (Letter::Closed | Letter::Refused, Some((link, _))) => {
                let link = *link;
                self.ends.remove(&link);
                self.happened.push_back(LinkInput::Closed(link));
            }
            (Letter::Frame, None) => {
                counters.frames_of_nobody += 1;
                self.refuse(line, packet.link);
            }
            (Letter::Answer | Letter::Closed | Letter::Refused, None) => {}
        }
    }

    /// The other end believes in a link that is not there.
    fn refuse(&mut self, line: usize, link: u32) {
        if let Some(line) = self.lines.get_mut(line) {
            let (letter, bytes) = (Letter::Refused, Vec::new());
            line.write(None, Packet { letter, link, bytes }, true);
        }
    }

    /// Does what links want.
    pub(super) fn obey(&mut self, order: LinkOrder) {
        match order {
            LinkOrder::Dial { link, to, kind } => self.dial(link, &to, kind),
            LinkOrder::Write { link, bytes } => {
                let letter = match self.ends.get(&link) {
                    Some(end) if end.dialed.is_none() => Letter::Answer,
                    // The first that a dialer says.
                    Some(_) if is_hello(&bytes) => Letter::Hello,
                    Some(_) | None => Letter::Frame,
                };
                self.write(link, letter, bytes);
            }
            LinkOrder::Resume { link, .. } => {
                if let Some(end) = self.ends.get_mut(&link) {
                    end.is_read = true;
                }
            }
            LinkOrder::Finish(link) => self.close(link),
            LinkOrder::Abort(link) => {
                if let Some(line) = self.ends.get(&link).and_then(|end| self.lines.get_mut(end.line)) {
                    line.forget(link);
                }
                self.close(link);
            }
            // Links are renewed only if their ends prove something; a line has no datagrams.
            LinkOrder::Drain(_) | LinkOrder::Datagram { .. } => {}
        }
    }

    /// There is nothing to connect: the line is there, or none leads to that address.
    fn dial(&mut self, link: LinkId, to: &Address, kind: LinkKind) {
        let line = self.lines.iter().position(|line| line.address == *to);
        self.happened.push_back(match line.zip(u32::try_from(link).ok()) {
            Some((line, number)) => {
                let dialed = Some(kind);
                self.ends.insert(
                    link,
                    End {
                        line,
                        number,
                        dialed,
                        is_read: true,
                    },
                );
                LinkInput::Dialed(link)
            }
            None => LinkInput::DialFailed(link, SeedCause::Refused),
        });
    }

    fn write(&mut self, link: LinkId, letter: Letter, bytes: Vec<u8>) {
        let Some(end) = self.ends.get(&link) else {
            return;
        };
        let is_first = end.dialed != Some(LinkKind::User);
        let link_number = end.number;
        if let Some(line) = self.lines.get_mut(end.line) {
            let packet = Packet {
                letter,
                link: link_number,
                bytes,
            };
            line.write(Some(link), packet, is_first);
        }
    }

    /// Behind what it has said. A word that gets lost is said again when the other end speaks on.
    fn close(&mut self, link: LinkId) {
        let letter = match self.ends.get(&link) {
            Some(end) if end.dialed.is_none() => Letter::Refused,
            Some(_) | None => Letter::Closed,
        };
        self.write(link, letter, Vec::new());
        self.ends.remove(&link);
    }

    /// Gives away what the ports take.
    pub(super) fn flush(&mut self, limits: &Limits, mut send: impl FnMut(u8, &[u8]) -> usize) {
        for (number, line) in (0..).zip(&mut self.lines) {
            let happened = &mut self.happened;
            line.flush(
                limits,
                |bytes| send(number, bytes),
                |link, bytes| happened.push_back(LinkInput::Written(link, bytes)),
            );
        }
    }

    pub(super) fn has_unsent(&self) -> bool {
        self.lines.iter().any(Line::has_unsent)
    }
}

/// A read that has not filled its buffer: a larger one would be of no use.
fn chunk(mut bytes: Vec<u8>) -> ReadChunk {
    let len = bytes.len();
    bytes.push(0);
    ReadChunk {
        buffer: bytes,
        len,
        read_at: None,
    }
}

fn is_hello(bytes: &[u8]) -> bool {
    bytes.starts_with(&HANDSHAKE_MAGIC)
}
