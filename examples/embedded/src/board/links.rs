//! Packets, handshakes and frames (steps 6 and 7 of `docs/embedding.md`). One link each way on a line: it carries all lanes, so
//! entity messages cannot be left unread while heartbeats are read; what the node has no room for is dropped and counted, as
//! the bytes are that the queue has no room for.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::time::Duration;

use quorate_core::admission::Proof;
use quorate_core::ident::UniqueAddress;
use quorate_core::input::{DropReason, Input, LinkEvent, Target};
use quorate_core::message::{Lane, Message};
use quorate_core::time::Instant;
use quorate_core::wire::handshake::{
    AUTH_NONE, Acceptor, HandshakeDecoded, Hello, HelloAnswer, LinkKind, RejectReason, check_ack,
    decode_answer, decode_hello, encode_answer, encode_hello,
};
use quorate_core::wire::{Decoded, VERSION_MAX, VERSION_MIN, decode_frame};

use super::Board;
use crate::interrupts::Chunk;
use crate::line::{Letter, Line, Way};

/// A hello that nobody answers is repeated after this time, so often, before the peer counts as unreachable.
const HELLO_EVERY: Duration = Duration::from_millis(200);
const HELLOS_MAX: u32 = 5;
/// Messages that wait for one handshake.
const WAITING_MESSAGES_MAX: usize = 32;
/// Incarnations that are refused for good; past it the oldest is forgotten.
const QUARANTINED_MAX: usize = 8;

impl Board {
    pub(super) fn on_chunk(&mut self, chunk: &Chunk) {
        let number = usize::from(chunk.line);
        for byte in &chunk.bytes {
            let Some(line) = self.lines.get_mut(number) else {
                return;
            };
            match line.take(*byte) {
                None => continue,
                Some(Err(_)) => self.counters.packets_damaged += 1,
                Some(Ok((Letter::Hello, bytes))) => self.on_hello(number, &bytes),
                Some(Ok((Letter::Answer, bytes))) => self.on_answer(number, &bytes),
                Some(Ok((Letter::Frame, bytes))) => self.on_frame(number, &bytes),
            }
            self.work();
        }
    }

    /// The peer's link to this node. The core decides, the host remembers.
    fn on_hello(&mut self, number: usize, bytes: &[u8]) {
        let HandshakeDecoded::Done { value: hello, .. } = decode_hello(bytes) else {
            self.counters.packets_damaged += 1;
            return;
        };
        let acceptor = Acceptor {
            me: &self.me,
            cluster: &self.node.config().cluster,
            features: 0, // one line carries all lanes: no bulk links
            auth_method: AUTH_NONE,
            quarantined: self.quarantined.contains(&hello.from),
            nonce: [0; 16],
        };
        let answer = match acceptor.answer(&hello) {
            Ok(ack) => HelloAnswer::Ack(ack),
            Err(reject) => HelloAnswer::Reject(reject),
        };
        let Some(line) = self.lines.get_mut(number) else {
            return;
        };
        let mut bytes = Vec::new();
        if encode_answer(&answer, &mut bytes).is_ok() {
            // A lost answer is asked for again.
            line.put(Letter::Answer, &bytes);
        }
        if !matches!(answer, HelloAnswer::Ack(_)) || hello.from.address() != &line.address {
            return;
        }
        line.heard = Some((hello.from.clone(), hello.epoch));
        // The board at the other end has started anew: what this node has opened to its predecessor is over.
        if let Way::Open { peer, .. } = &line.way
            && *peer != hello.from
        {
            let peer = peer.clone();
            line.way = Way::Idle;
            self.tell(LinkEvent::Down { peer });
        }
    }

    /// The answer to this node's hello.
    fn on_answer(&mut self, number: usize, bytes: &[u8]) {
        let HandshakeDecoded::Done { value: answer, .. } = decode_answer(bytes) else {
            self.counters.packets_damaged += 1;
            return;
        };
        let Some(line) = self.lines.get_mut(number) else {
            return;
        };
        // A second answer to a hello that was repeated.
        let Way::Greeting { hello, waiting, .. } = &mut line.way else {
            return;
        };
        let waiting = core::mem::take(waiting);
        let hello = hello.clone();
        match answer {
            HelloAnswer::Ack(ack)
                if check_ack(&hello, &ack).is_ok() && !self.quarantined.contains(&ack.from) =>
            {
                let (peer, epoch) = (ack.from, hello.epoch);
                line.way = Way::Open {
                    peer: peer.clone(),
                    epoch,
                };
                self.tell(LinkEvent::Up { peer, epoch });
                for (to, message) in waiting {
                    self.send(to, message);
                }
            }
            HelloAnswer::Reject(reject) => {
                line.way = Way::Idle;
                self.on_reject(&hello, reject.reason);
                self.give_back(waiting);
            }
            HelloAnswer::Ack(_) => {
                line.way = Way::Idle;
                self.give_back(waiting);
            }
        }
    }

    fn on_reject(&mut self, hello: &Hello, reason: RejectReason) {
        let Some(uid) = hello.expected_uid else {
            return;
        };
        let expected = UniqueAddress::new(hello.to.clone(), uid);
        match reason {
            RejectReason::WrongIncarnation { found } => {
                let found = UniqueAddress::new(hello.to.clone(), found);
                self.tell(LinkEvent::WrongIncarnation { expected, found });
            }
            // The very incarnation that was meant has removed this one.
            RejectReason::Quarantined => self.tell(LinkEvent::QuarantinedBy { peer: expected }),
            _ => {}
        }
    }

    /// A frame counts only from a peer that shook hands, on its newest link, and whole.
    fn on_frame(&mut self, number: usize, bytes: &[u8]) {
        let Some(line) = self.lines.get(number) else {
            return;
        };
        let limits = &self.node.config().limits;
        let (frame, consumed) = match decode_frame(bytes, limits) {
            Decoded::Frame { frame, consumed } => (frame, consumed),
            Decoded::NeedMore(_) | Decoded::Bad { .. } => {
                self.counters.packets_damaged += 1;
                return;
            }
        };
        let from = match &line.heard {
            Some((peer, epoch)) if *epoch == frame.epoch && consumed == bytes.len() => peer.clone(),
            Some(_) | None => {
                self.counters.frames_of_nobody += 1;
                return;
            }
        };
        if frame.lane == Lane::User && !self.has_room() {
            self.counters.user_frames_dropped += 1;
            return;
        }
        let input = Input::Frame {
            proof: Proof::Nothing,
            from: &from,
            lane: frame.lane,
            kind: frame.kind,
            body: frame.body,
        };
        self.node.handle(self.now, input);
    }

    /// Puts a message on the line of its peer, behind a handshake if it is the first.
    pub(super) fn send(&mut self, to: Target, message: Message) {
        let lines = self.lines.iter();
        let Some(number) = lines
            .enumerate()
            .find_map(|(at, line)| (line.address == *to.address()).then_some(at))
        else {
            return self.dropped(to, message, DropReason::Unreachable);
        };
        let greeting = self.greeting(&to);
        let Some(line) = self.lines.get_mut(number) else {
            return;
        };
        let has_room = line.has_room(message.lane());
        if matches!(line.way, Way::Idle) {
            self.last_epoch = greeting.epoch;
            line.way = Way::Greeting {
                hello: greeting,
                sent: 0,
                next_at: self.now.mono,
                waiting: VecDeque::new(),
            };
        }
        match &mut line.way {
            Way::Greeting { waiting, .. } if waiting.len() < WAITING_MESSAGES_MAX => {
                waiting.push_back((to, message));
            }
            // A message for one incarnation never reaches another.
            Way::Open { peer, .. } if matches!(&to, Target::Node(node) if node != peer) => {
                let (Target::Node(expected), found) = (to.clone(), peer.clone()) else {
                    return;
                };
                self.tell(LinkEvent::WrongIncarnation { expected, found });
                self.dropped(to, message, DropReason::Unreachable);
            }
            Way::Open { epoch, .. } if has_room => {
                let mut bytes = Vec::new();
                let limits = &self.node.config().limits;
                match self.encoder.encode(&message, *epoch, limits, &mut bytes) {
                    Ok(()) => line.put(Letter::Frame, &bytes),
                    Err(_) => self.dropped(to, message, DropReason::TooLarge),
                }
            }
            // The next round brings newer gossip than this.
            Way::Open { .. } | Way::Greeting { .. } if message.lane() == Lane::Gossip => {
                self.counters.gossip_shed += 1;
            }
            Way::Open { .. } | Way::Greeting { .. } | Way::Idle => {
                self.dropped(to, message, DropReason::QueueFull);
            }
        }
    }

    fn greeting(&self, to: &Target) -> Hello {
        Hello {
            versions: (VERSION_MIN, VERSION_MAX),
            cluster: self.node.config().cluster.clone(),
            from: self.me.clone(),
            to: to.address().clone(),
            expected_uid: match to {
                Target::Node(node) => Some(node.uid()),
                Target::Address(_) => None,
            },
            link: LinkKind::Control, // the line's only link
            epoch: self.last_epoch.wrapping_add(1),
            features: 0, // one line carries all lanes: no bulk links
            auth_method: AUTH_NONE,
            nonce: [0; 16],
        }
    }

    /// Says hello where nobody has answered; when the next one is due.
    pub(super) fn repeat_hellos(&mut self) -> Instant {
        let now = self.now.mono;
        let mut next = Instant::MAX;
        let mut given_up = Vec::new();
        for line in &mut self.lines {
            if let Some(due) = greet(line, now) {
                next = next.min(due);
            } else if let Way::Greeting { waiting, .. } = core::mem::take(&mut line.way) {
                given_up.extend(waiting);
            }
        }
        if !given_up.is_empty() {
            self.give_back(given_up);
            self.work();
        }
        next
    }

    /// What waited for a handshake that failed goes back, and each incarnation it was for counts as gone.
    fn give_back(&mut self, messages: impl IntoIterator<Item = (Target, Message)>) {
        let mut told: Vec<UniqueAddress> = Vec::new();
        for (to, message) in messages {
            if let Target::Node(peer) = &to
                && !told.contains(peer)
            {
                told.push(peer.clone());
                self.tell(LinkEvent::Down { peer: peer.clone() });
            }
            self.dropped(to, message, DropReason::Unreachable);
        }
    }

    /// What the host cannot keep goes back to the node, which answers the ask that was in it.
    fn dropped(&mut self, to: Target, message: Message, reason: DropReason) {
        self.tell(LinkEvent::Dropped { to, message, reason });
    }

    pub(super) fn quarantine(&mut self, node: UniqueAddress) {
        for line in &mut self.lines {
            if line.heard.as_ref().is_some_and(|(peer, _)| *peer == node) {
                line.heard = None;
            }
            if matches!(&line.way, Way::Open { peer, .. } if *peer == node) {
                line.way = Way::Idle;
            }
        }
        self.quarantined.push_back(node);
        if self.quarantined.len() > QUARANTINED_MAX {
            self.quarantined.pop_front();
        }
    }
}

/// Says hello if it is due; when the next one is, or `None` after the last.
fn greet(line: &mut Line, now: Instant) -> Option<Instant> {
    let Way::Greeting {
        hello, sent, next_at, ..
    } = &mut line.way
    else {
        return Some(Instant::MAX);
    };
    if *next_at > now {
        return Some(*next_at);
    }
    if *sent == HELLOS_MAX {
        return None;
    }
    *sent += 1;
    *next_at = now + HELLO_EVERY;
    let due = *next_at;
    let mut bytes = Vec::new();
    if encode_hello(hello, &mut bytes).is_ok() {
        line.put(Letter::Hello, &bytes);
    }
    Some(due)
}
