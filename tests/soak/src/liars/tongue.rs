//! An adapter whose process hears what its links carry, and can put frames of its own behind those of the
//! node on the links that it dials. Everything else is the adapter's below; what is said is not known here.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::marker::PhantomData;
use std::net::SocketAddr;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use async_channel::{Receiver, Sender};
use async_lock::Mutex as AsyncMutex;
use quorate_core::config::Limits;
use quorate_core::journal::protocol::{Msg as JournalMsg, VoterBody};
use quorate_core::journal::state::StoreId;
use quorate_core::message::Message;
use quorate_core::wire::handshake::{HandshakeDecoded, decode_hello};
use quorate_core::wire::{DecodedFrame, decode_frame, decode_message};
use quorate_driver::Address;
use quorate_driver::spi::{
    Accepted, Adapter, Datagrams, HandshakeStats, LinkKind, LinkRead, LinkReader, LinkWriter, Listener,
    Runtime, Transport,
};
use quorate_driver::{Security, security::Proved};
use quorate_tests::liar::{Heard, Kind};

/// Frames that wait for their turn on one link.
const WAITING_MAX: usize = 64;
/// Of so many messages the numbers of one are noted.
const HEAR_EVERY: u64 = 8;
/// Bytes of a stream that is none of ours are not kept beyond this.
const STREAM_BYTES_MAX: usize = 8 << 20;

/// A frame, and what it says.
pub(super) type Frame = (Kind, Vec<u8>);

/// A way for frames to a peer.
#[derive(Clone)]
pub(super) struct Way {
    pub(super) epoch: u32,
    pub(super) frames: Sender<Frame>,
}

/// What this process has heard and said.
#[derive(Default)]
pub(super) struct Known {
    ways: BTreeMap<(Address, LinkKind), Way>,
    pub(super) heard: Heard,
    messages: u64,
    /// Stores that vote about logs.
    pub(super) stores: BTreeSet<StoreId>,
    /// Frames of each kind that a link has taken.
    pub(super) said: BTreeMap<Kind, u64>,
}

impl Known {
    pub(super) fn way(&self, to: &Address, link: LinkKind) -> Option<&Way> {
        self.ways.get(&(to.clone(), link))
    }

    /// Whether no frame waits for a link.
    pub(super) fn has_said_all(&self) -> bool {
        self.ways.values().all(|way| way.frames.is_empty())
    }

    fn hear(&mut self, message: &Message) {
        if let Message::Journal(said) = message
            && let JournalMsg::Voter(said) = &**said
            && let VoterBody::Introduction {
                store: Some(store), ..
            } = &said.body
        {
            self.stores.insert(*store);
        }
        self.messages += 1;
        if self.messages.is_multiple_of(HEAR_EVERY) {
            self.heard.hear(message);
        }
    }
}

/// What this process knows by now.
pub(super) fn known() -> MutexGuard<'static, Known> {
    static KNOWN: LazyLock<Mutex<Known>> = LazyLock::new(Mutex::default);
    KNOWN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Understands one direction of a link: a hello, then frames.
#[derive(Default)]
struct Ear {
    stream: Vec<u8>,
    limits: Limits,
    /// The link's kind and epoch, once its hello was heard.
    link: Option<(LinkKind, u32)>,
}

impl Ear {
    /// Listens on; yields how many frames ended in these bytes.
    fn hear(&mut self, bytes: &[u8]) -> usize {
        self.stream.extend_from_slice(bytes);
        let (mut at, mut frames) = (0, 0);
        while let Some(rest) = self.stream.get(at..).filter(|rest| !rest.is_empty()) {
            at += if self.link.is_none() {
                match decode_hello(rest) {
                    HandshakeDecoded::Done { value, consumed } => {
                        self.link = Some((value.link, value.epoch));
                        consumed
                    }
                    HandshakeDecoded::NeedMore(_) | HandshakeDecoded::Bad(_) => break,
                }
            } else {
                match decode_frame(rest, &self.limits) {
                    DecodedFrame::Frame { frame, consumed } => {
                        frames += 1;
                        let message = decode_message(frame.kind, frame.lane, frame.body, &self.limits);
                        if let Ok(message) = message {
                            known().hear(&message);
                        }
                        consumed
                    }
                    DecodedFrame::NeedMore(_) | DecodedFrame::Bad { .. } => break,
                }
            };
        }
        self.stream.drain(..at);
        if self.stream.len() > STREAM_BYTES_MAX {
            self.stream.clear();
        }
        frames
    }
}

/// The adapter.
pub(super) struct Lying<A>(PhantomData<fn() -> A>);

impl<A: Adapter> Adapter for Lying<A> {
    type Runtime = A::Runtime;
    type Transport = Mouth<A::Transport, A::Runtime>;

    fn runtime() -> io::Result<A::Runtime> {
        A::runtime()
    }

    fn transport(runtime: &A::Runtime, security: &Security) -> io::Result<Self::Transport> {
        let transport = A::transport(runtime, security)?;
        let runtime = runtime.clone();
        Ok(Mouth { transport, runtime })
    }
}

/// The transport.
#[derive(Clone)]
pub(super) struct Mouth<T, R> {
    transport: T,
    runtime: R,
}

pub(super) struct Port<L>(L);

/// The receiving half of a link that a peer opened; on others nothing is said that could be understood.
pub(super) struct Hears<R> {
    half: R,
    ear: Ear,
}

impl<R> Hears<R> {
    fn on(half: R) -> Self {
        let ear = Ear::default();
        Self { half, ear }
    }
}

/// The sending half of a link. The node's frames and the others wait for each other, so that each is written
/// whole.
pub(super) struct Tongue<W> {
    half: Arc<AsyncMutex<W>>,
    datagrams: Option<Arc<dyn Datagrams>>,
    to: Option<Address>,
    ear: Ear,
    frames: Sender<Frame>,
}

/// Writes the frames of others until the link or the channel ends.
async fn speak(half: Arc<AsyncMutex<impl LinkWriter>>, frames: Receiver<Frame>) {
    while let Ok((kind, frame)) = frames.recv().await {
        let mut half = half.lock().await;
        if frames.is_closed() || half.write_all(&frame).await.is_err() {
            return;
        }
        *known().said.entry(kind).or_default() += 1;
    }
}

impl<W: LinkWriter> Tongue<W> {
    /// Of a link that this node dials, to whom it says; where a peer dialed nothing follows the answer to its
    /// hello.
    fn of(half: W, to: Option<Address>) -> (Self, Receiver<Frame>) {
        let (frames, taken) = async_channel::bounded(WAITING_MAX);
        let tongue = Self {
            datagrams: half.datagrams(),
            half: Arc::new(AsyncMutex::new(half)),
            to,
            ear: Ear::default(),
            frames,
        };
        (tongue, taken)
    }

    /// The peer has taken the hello, and the node begins to say something: others may too.
    fn is_open(&self) {
        if let (Some(to), Some((link, epoch))) = (&self.to, self.ear.link) {
            let mut known = known();
            let newest = known.way(to, link).map(|way| way.epoch);
            if newest < Some(epoch) {
                let frames = self.frames.clone();
                known.ways.insert((to.clone(), link), Way { epoch, frames });
            }
        }
    }
}

impl<W> Drop for Tongue<W> {
    fn drop(&mut self) {
        // The task that writes lets go of the link.
        self.frames.close();
        let Some(to) = self.to.take() else { return };
        let mut known = known();
        if let Some((link, epoch)) = self.ear.link
            && known.way(&to, link).is_some_and(|way| way.epoch == epoch)
        {
            known.ways.remove(&(to, link));
        }
    }
}

impl<T: Transport, R: Runtime> Transport for Mouth<T, R> {
    type Listener = Port<T::Listener>;
    type Reader = Hears<T::Reader>;
    type Writer = Tongue<T::Writer>;

    async fn bind(&self, address: &str) -> io::Result<Self::Listener> {
        self.transport.bind(address).await.map(Port)
    }

    async fn dial(&self, to: &Address, kind: LinkKind) -> io::Result<(Self::Reader, Self::Writer)> {
        let (reader, writer) = self.transport.dial(to, kind).await?;
        let (tongue, frames) = Tongue::of(writer, Some(to.clone()));
        self.runtime.spawn(speak(Arc::clone(&tongue.half), frames));
        Ok((Hears::on(reader), tongue))
    }

    fn links_run_in_loop(&self) -> bool {
        self.transport.links_run_in_loop()
    }

    fn handshakes(&self) -> HandshakeStats {
        self.transport.handshakes()
    }
}

impl<L: Listener> Listener for Port<L> {
    type Reader = Hears<L::Reader>;
    type Writer = Tongue<L::Writer>;

    fn local_address(&self) -> io::Result<SocketAddr> {
        self.0.local_address()
    }

    async fn accept(&mut self) -> io::Result<Accepted<Self::Reader, Self::Writer>> {
        let link = self.0.accept().await?;
        Ok(Accepted {
            remote: link.remote,
            reader: Hears::on(link.reader),
            writer: Tongue::of(link.writer, None).0,
        })
    }
}

impl<R: LinkReader> LinkReader for Hears<R> {
    async fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let len = self.half.read(buffer).await?;
        self.ear.hear(buffer.get(..len).unwrap_or_default());
        Ok(len)
    }

    async fn read_next(&mut self, buffer: &mut [u8]) -> io::Result<LinkRead> {
        let read = self.half.read_next(buffer).await?;
        if let LinkRead::Stream(len) = read {
            self.ear.hear(buffer.get(..len).unwrap_or_default());
        }
        Ok(read)
    }

    fn is_established(&self) -> bool {
        self.half.is_established()
    }

    async fn establish(&mut self) -> io::Result<()> {
        self.half.establish().await
    }

    fn proved(&self) -> Proved {
        self.half.proved()
    }
}

impl<W: LinkWriter> LinkWriter for Tongue<W> {
    async fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.half.lock().await.write_all(bytes).await?;
        if self.to.is_some() && self.ear.hear(bytes) > 0 {
            self.is_open();
        }
        Ok(())
    }

    fn datagrams(&self) -> Option<Arc<dyn Datagrams>> {
        self.datagrams.clone()
    }

    async fn close(&mut self) -> io::Result<()> {
        self.frames.close();
        self.half.lock().await.close().await
    }
}
