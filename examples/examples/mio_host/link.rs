//! One connection: what it is for, and the bytes on their way in and out. Both buffers are bounded. Never looks into a frame.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};

use mio::net::TcpStream;
use quorate_core::ident::UniqueAddress;
use quorate_core::input::Target;
use quorate_core::message::{Lane, Message};
use quorate_core::time::Instant;
use quorate_core::wire::handshake::{Hello, LinkKind};

/// Bytes per read: with one read per link and turn also what a link may have processed before others have their turn.
pub(super) const READ_BYTES: usize = 64 << 10;

/// What a link is for. Links are one-way: this node writes frames on those it dialed and reads frames on those of its peers.
pub(super) enum Role {
    /// A peer opened it and has not introduced itself.
    Stranger,
    /// A peer opened it, and its handshake is complete.
    Inbound(Known),
    /// This node dialed it, and nobody has answered the hello; what is to be sent waits.
    Greeting(Hello, VecDeque<(Target, Message)>),
    /// This node dialed it, and its handshake is complete.
    Outbound(Known),
}

/// Who is at the other end, and which link to it this is.
#[derive(Clone, Debug)]
pub(super) struct Known {
    pub(super) peer: UniqueAddress,
    pub(super) kind: LinkKind,
    pub(super) epoch: u32,
}

pub(super) struct Link {
    pub(super) stream: TcpStream,
    pub(super) role: Role,
    /// Read and not yet understood: less than one frame of the largest size and one read.
    pub(super) received: Vec<u8>,
    /// Encoded and not yet written.
    unsent: VecDeque<u8>,
    /// When bytes last moved.
    pub(super) moved_at: Instant,
    pub(super) opened_at: Instant,
    pub(super) bad_checksums: u32,
}

/// What came of a read.
pub(super) enum Got {
    Bytes,
    /// The system has no more; it says when there is.
    Nothing,
    /// The peer is gone.
    End,
}

impl Link {
    pub(super) fn new(stream: TcpStream, role: Role, now: Instant) -> Self {
        Self {
            stream,
            role,
            received: Vec::new(),
            unsent: VecDeque::new(),
            moved_at: now,
            opened_at: now,
            bad_checksums: 0,
        }
    }

    pub(super) const fn known(&self) -> Option<&Known> {
        match &self.role {
            Role::Inbound(known) | Role::Outbound(known) => Some(known),
            Role::Stranger | Role::Greeting(..) => None,
        }
    }

    /// Whether it may be left unread while the node has no room. Control and bulk links are always read.
    pub(super) fn may_wait(&self) -> bool {
        matches!(&self.role, Role::Inbound(known) if known.kind == LinkKind::User)
    }

    /// Whether a message of this lane may still be added. The lanes of one link share a buffer, which keeps their order; each
    /// has its own bound, so that the ones that can be shed or refused never take the place of heartbeats.
    pub(super) fn has_room(&self, lane: Lane) -> bool {
        self.unsent.len()
            < match lane {
                Lane::Gossip => 256 << 10,
                Lane::Reply | Lane::User | Lane::Bulk => 2 << 20,
                Lane::Control => 4 << 20,
            }
    }

    pub(super) fn put(&mut self, bytes: &[u8]) {
        self.unsent.extend(bytes);
    }

    pub(super) fn has_unsent(&self) -> bool {
        !self.unsent.is_empty()
    }

    /// Writes what the system takes.
    ///
    /// # Errors
    /// The connection is broken.
    pub(super) fn write(&mut self, now: Instant) -> io::Result<()> {
        while !self.unsent.is_empty() {
            match self.stream.write(self.unsent.as_slices().0) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(len) => {
                    self.unsent.drain(..len);
                    self.moved_at = now;
                }
                // Not connected yet, or the system's buffer is full: mio says when to go on.
                Err(e) if is_later(&e) => return Ok(()),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    /// Reads once.
    pub(super) fn read(&mut self, buffer: &mut [u8], now: Instant) -> Got {
        loop {
            match self.stream.read(buffer) {
                Ok(0) => return Got::End,
                Ok(len) => {
                    self.received.extend_from_slice(&buffer[..len]);
                    self.moved_at = now;
                    return Got::Bytes;
                }
                Err(e) if is_later(&e) => return Got::Nothing,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(_) => return Got::End,
            }
        }
    }
}

fn is_later(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::NotConnected)
}
