//! Links that peers opened: their handshake, then frames that are whole, of the link's epoch and on a lane of its kind, handed
//! to the node one by one in their order (steps 6 and 7 of `docs/embedding.md`). A link that carries entity messages is left
//! unread while the node has no room; then the peer's system, and at last the peer, have to wait.

use mio::Token as Id;
use quorate_core::admission::Proof;
use quorate_core::input::Input;
use quorate_core::wire::handshake::{
    AUTH_NONE, Acceptor, FEATURES, HandshakeDecoded, Hello, HelloAnswer, HelloReject, LinkKind, RejectReason,
    decode_hello, encode_answer,
};
use quorate_core::wire::{Decoded, VERSION_MAX, VERSION_MIN, decode_frame};

use super::host::Host;
use super::link::{Got, Known, Role};

/// Strangers that are let in before everybody else has a turn.
const ACCEPTS_PER_TURN: usize = 64;

impl Host {
    /// Takes those who knock, as far as there is room; a crowd takes several turns.
    pub(super) fn accept(&mut self) {
        for _ in 0..ACCEPTS_PER_TURN {
            if !self.knocking {
                return;
            }
            match self.listener.accept() {
                Ok((stream, _)) if self.links.len() < self.limits.links_max => {
                    self.is_deaf = false;
                    // Without a place in the poll it is dropped, and thereby closed.
                    let _ = self.adopt(stream, Role::Stranger);
                }
                Ok(_) => {}
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => self.knocking = false,
                // Too many open files: tried again, but nobody stays awake for it.
                Err(_) => {
                    self.is_deaf = true;
                    return;
                }
            }
        }
    }

    /// Writes and reads once, and understands what there is. A link stays in `ready` until the system has no more for it.
    pub(super) fn advance(&mut self, id: Id, buffer: &mut [u8]) {
        let time = self.now().mono;
        let written = self
            .links
            .get_mut(&id)
            .is_some_and(|link| link.write(time).is_ok());
        // What an earlier turn had to leave comes first.
        if !written || !self.understand(id) {
            return self.close(id);
        }
        let has_room = self.has_room();
        let Some(link) = self.links.get_mut(&id) else {
            return;
        };
        if link.may_wait() && !has_room {
            return;
        }
        match link.read(buffer, time) {
            Got::Bytes if self.understand(id) => {}
            Got::Bytes | Got::End => self.close(id),
            Got::Nothing => {
                self.ready.remove(&id);
            }
        }
    }

    /// `false` if the link has to go.
    fn understand(&mut self, id: Id) -> bool {
        match self.links.get(&id) {
            None => true,
            Some(link) if link.received.is_empty() => true,
            Some(link) => match &link.role {
                Role::Stranger => self.on_hello(id),
                Role::Inbound(known) => {
                    let known = known.clone();
                    self.on_frames(id, &known)
                }
                Role::Greeting(..) => self.on_answer(id),
                // Nothing is ever said on the way back.
                Role::Outbound(_) => false,
            },
        }
    }

    /// The core decides whether to accept a hello, the host remembers.
    fn on_hello(&mut self, id: Id) -> bool {
        let Some(link) = self.links.get_mut(&id) else {
            return true;
        };
        let hello = match decode_hello(&link.received) {
            HandshakeDecoded::NeedMore(_) => return true,
            // More than the hello before it is answered is no handshake.
            HandshakeDecoded::Done { value, consumed } if consumed == link.received.len() => value,
            HandshakeDecoded::Bad(_) | HandshakeDecoded::Done { .. } => return false,
        };
        link.received.clear();
        let acceptor = Acceptor {
            me: &self.me,
            cluster: &self.node.config().cluster,
            features: FEATURES,
            auth_method: AUTH_NONE,
            quarantined: self.quarantined.contains(&hello.from),
            nonce: [0; 16], // only a method with a proof needs one
        };
        let answer = match acceptor.answer(&hello) {
            Err(reject) => HelloAnswer::Reject(reject),
            Ok(_) if !self.replace_older(&hello) => HelloAnswer::Reject(HelloReject {
                reason: RejectReason::TooManyLinks,
                versions: (VERSION_MIN, VERSION_MAX),
            }),
            Ok(ack) => HelloAnswer::Ack(ack),
        };
        let is_welcome = matches!(answer, HelloAnswer::Ack(_));
        let mut bytes = Vec::new();
        let time = self.now().mono;
        let Some(link) = self
            .links
            .get_mut(&id)
            .filter(|_| encode_answer(&answer, &mut bytes).is_ok())
        else {
            return false;
        };
        link.put(&bytes);
        if is_welcome {
            link.role = Role::Inbound(Known {
                peer: hello.from,
                kind: hello.link,
                epoch: hello.epoch,
            });
        }
        // A refused peer is told as far as the system takes it at once.
        link.write(time).is_ok() && is_welcome
    }

    /// One link per incarnation and kind: the newest. `false` if this one is not newer than the one that is there.
    fn replace_older(&mut self, hello: &Hello) -> bool {
        let same = |role: &Role| match role {
            Role::Inbound(known) if known.peer == hello.from && known.kind == hello.link => Some(known.epoch),
            Role::Inbound(_) | Role::Stranger | Role::Greeting(..) | Role::Outbound(_) => None,
        };
        let mut links = self.links.iter();
        let found = links.find_map(|(id, link)| Some((*id, same(&link.role)?)));
        match found {
            None => true,
            Some((_, epoch)) if epoch >= hello.epoch => false,
            Some((older, _)) => {
                self.close(older);
                true
            }
        }
    }

    /// Frames, as far as the node has room for them.
    fn on_frames(&mut self, id: Id, known: &Known) -> bool {
        let Some(link) = self.links.get_mut(&id) else {
            return true;
        };
        let is_user = known.kind == LinkKind::User;
        let mut at = 0;
        let is_fine = loop {
            if is_user && !self.node.has_capacity() {
                break true;
            }
            match decode_frame(&link.received[at..], &self.limits) {
                Decoded::NeedMore(_) => break true,
                Decoded::Bad { consumed: None, .. } => break false,
                Decoded::Bad {
                    consumed: Some(len), ..
                } => {
                    at += len;
                    link.bad_checksums += 1;
                    if link.bad_checksums >= self.limits.checksum_failures_max {
                        break false;
                    }
                }
                Decoded::Frame { frame, consumed } => {
                    at += consumed;
                    if frame.epoch == known.epoch && LinkKind::of(frame.lane) == known.kind {
                        let input = Input::Frame {
                            proof: Proof::Nothing,
                            from: &known.peer,
                            lane: frame.lane,
                            kind: frame.kind,
                            body: frame.body,
                        };
                        let now = super::host::now(self.origin);
                        self.node.handle(now, input);
                    }
                }
            }
        };
        link.received.drain(..at);
        is_fine
    }
}
