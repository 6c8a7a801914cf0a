//! The sockets of the host: does what links order and reports what happened, without ever waiting (step 6 of
//! `docs/embedding.md`). One read and as much writing per socket and turn, so that none keeps the others
//! waiting. Never looks at what it moves.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr};

use mio::net::TcpStream;
use mio::{Interest, Registry, Token as Id};
use quorate_core::event::SeedCause;
use quorate_core::ident::Address;
use quorate_links::limits::READ_BYTES_MIN;
use quorate_links::{LinkId, LinkInput, LinkOrder, ReadChunk};

/// What happens to a socket once all was written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Then {
    Nothing,
    EndStream,
    Close,
}

struct Socket {
    stream: TcpStream,
    /// This node dialed it, and the system has not said yet whether somebody is there.
    is_dialing: bool,
    unsent: VecDeque<Vec<u8>>,
    /// How much of the first of them is written.
    written: usize,
    /// Where the next read goes; `None` until links give it back, and meanwhile nothing is read: that is all
    /// there is to back-pressure (step 7).
    buffer: Option<Vec<u8>>,
    then: Then,
}

/// All sockets, by link.
#[derive(Default)]
pub(super) struct Sockets {
    sockets: BTreeMap<LinkId, Socket>,
    /// Those that may be written or read. mio says so only once.
    ready: BTreeSet<LinkId>,
    /// What links have not heard yet.
    pub(super) happened: VecDeque<LinkInput>,
}

impl Sockets {
    /// A peer's connection that has become a link.
    pub(super) fn adopt(&mut self, registry: &Registry, link: LinkId, stream: TcpStream) {
        self.add(registry, link, stream, false);
    }

    fn add(&mut self, registry: &Registry, link: LinkId, mut stream: TcpStream, is_dialing: bool) {
        // Frames are batched: waiting for more of them in the system would only add delay.
        let _ = stream.set_nodelay(true);
        let interest = Interest::READABLE | Interest::WRITABLE;
        let id = Id(usize::try_from(link).unwrap_or(usize::MAX));
        if let Err(error) = registry.register(&mut stream, id, interest) {
            return self.failed(link, is_dialing, &error);
        }
        let socket = Socket {
            stream,
            is_dialing,
            unsent: VecDeque::new(),
            written: 0,
            buffer: Some(vec![0; READ_BYTES_MIN]),
            then: Then::Nothing,
        };
        self.sockets.insert(link, socket);
    }

    fn failed(&mut self, link: LinkId, is_dialing: bool, error: &io::Error) {
        self.sockets.remove(&link);
        self.happened.push_back(match (is_dialing, error.kind()) {
            (false, _) => LinkInput::Broken(link),
            (true, ErrorKind::ConnectionRefused) => LinkInput::DialFailed(link, SeedCause::Refused),
            (true, _) => LinkInput::DialFailed(link, SeedCause::Other(error.to_string())),
        });
    }

    /// Does what links want.
    pub(super) fn obey(&mut self, registry: &Registry, order: LinkOrder) {
        match order {
            // Never blocks: a host on one thread resolves names elsewhere, here an address is a number.
            LinkOrder::Dial { link, to, .. } => match connect(&to) {
                Ok(stream) => self.add(registry, link, stream, true),
                Err(error) => self.failed(link, true, &error),
            },
            LinkOrder::Write { link, bytes } => {
                if let Some(socket) = self.sockets.get_mut(&link) {
                    socket.unsent.push_back(bytes);
                    self.ready.insert(link);
                }
            }
            LinkOrder::Resume { link, chunk } => {
                if let Some(socket) = self.sockets.get_mut(&link) {
                    socket.buffer = Some(chunk.buffer);
                    self.ready.insert(link);
                }
            }
            LinkOrder::Drain(link) => self.after_writing(link, Then::EndStream),
            LinkOrder::Finish(link) => self.after_writing(link, Then::Close),
            LinkOrder::Abort(link) => drop(self.sockets.remove(&link)),
            LinkOrder::Datagram { .. } => {} // TCP has none
        }
    }

    fn after_writing(&mut self, link: LinkId, then: Then) {
        if let Some(socket) = self.sockets.get_mut(&link) {
            socket.then = then;
            self.ready.insert(link);
        }
    }

    /// The system says that there may be something to do.
    pub(super) fn is_ready(&mut self, id: Id) {
        self.ready.insert(id.0 as LinkId);
    }

    /// Whether some socket can go on at once.
    pub(super) fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Whether something waits to be written.
    pub(super) fn has_unsent(&self) -> bool {
        self.sockets.values().any(|socket| !socket.unsent.is_empty())
    }

    /// Cuts every connection, as a network does.
    pub(super) fn cut(&mut self) {
        for link in std::mem::take(&mut self.sockets).into_keys() {
            self.happened.push_back(LinkInput::Broken(link));
        }
    }

    /// Lets every socket that is ready write, and read once.
    pub(super) fn advance(&mut self) {
        for link in std::mem::take(&mut self.ready) {
            let Some(mut socket) = self.sockets.remove(&link) else {
                continue;
            };
            match socket.advance(link, &mut self.happened) {
                Ok(is_ready) => {
                    self.sockets.insert(link, socket);
                    if is_ready {
                        self.ready.insert(link);
                    }
                }
                Err(Ended::Closed) => self.happened.push_back(LinkInput::Closed(link)),
                Err(Ended::Finished) => {}
                Err(Ended::Broken(error)) => self.failed(link, socket.is_dialing, &error),
            }
        }
    }
}

/// How a socket ended.
enum Ended {
    Closed,
    Finished,
    Broken(io::Error),
}

impl From<io::Error> for Ended {
    fn from(error: io::Error) -> Self {
        Self::Broken(error)
    }
}

impl Socket {
    /// Writes and reads once; whether there may be more to read.
    fn advance(&mut self, link: LinkId, happened: &mut VecDeque<LinkInput>) -> Result<bool, Ended> {
        if self.is_dialing {
            if let Some(error) = self.stream.take_error()? {
                return Err(error.into());
            }
            match self.stream.peer_addr() {
                Err(error) if is_later(&error) => return Ok(false),
                addressed => addressed?,
            };
            self.is_dialing = false;
            happened.push_back(LinkInput::Dialed(link));
        }
        self.write(link, happened)?;
        if self.unsent.is_empty() {
            match std::mem::replace(&mut self.then, Then::Nothing) {
                Then::Nothing => {}
                Then::EndStream => self.stream.shutdown(Shutdown::Write)?,
                Then::Close => return Err(Ended::Finished),
            }
        }
        let Some(mut buffer) = self.buffer.take() else {
            return Ok(false);
        };
        match self.stream.read(&mut buffer) {
            Ok(0) => return Err(Ended::Closed),
            Ok(len) => {
                // Handled in this turn of the loop.
                let read_at = None;
                let chunk = ReadChunk { buffer, len, read_at };
                happened.push_back(LinkInput::Received(link, chunk));
            }
            Err(error) if is_later(&error) => self.buffer = Some(buffer),
            Err(error) if error.kind() == ErrorKind::Interrupted => {
                self.buffer = Some(buffer);
                return Ok(true);
            }
            Err(error) => return Err(error.into()),
        }
        Ok(false)
    }

    fn write(&mut self, link: LinkId, happened: &mut VecDeque<LinkInput>) -> Result<(), Ended> {
        while let Some(bytes) = self.unsent.front() {
            match self.stream.write(&bytes[self.written..]) {
                Ok(0) => return Err(io::Error::from(ErrorKind::WriteZero).into()),
                Ok(len) => self.written += len,
                // The system's buffer is full: mio says when to go on.
                Err(error) if is_later(&error) => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
            if self.written >= bytes.len() {
                self.written = 0;
                let bytes = self.unsent.pop_front().unwrap_or_default();
                happened.push_back(LinkInput::Written(link, bytes));
            }
        }
        Ok(())
    }
}

fn connect(to: &Address) -> io::Result<TcpStream> {
    let host: IpAddr = to
        .host()
        .parse()
        .map_err(|_| io::Error::from(ErrorKind::AddrNotAvailable))?;
    TcpStream::connect(SocketAddr::new(host, to.port()))
}

fn is_later(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::NotConnected)
}
