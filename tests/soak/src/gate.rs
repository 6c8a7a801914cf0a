//! A transport that can be cut off: links break and none is made until it is healed. What a real network does
//! to a process, done from within it, so that the program needs no rights. Decides nothing.

use std::convert::Infallible;
use std::io;
use std::marker::PhantomData;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use async_channel::{Receiver, Sender};
use futures_lite::future;
use quorate_driver::Address;
use quorate_driver::spi::{
    Accepted, Adapter, Datagrams, HandshakeStats, LinkKind, LinkRead, LinkReader, LinkWriter, Listener,
    Transport,
};
use quorate_driver::{Security, security::Proved};

/// Whether this process is connected. Nothing is ever sent: closing the channel wakes every link.
struct Gate(Mutex<Option<(Sender<Infallible>, Receiver<Infallible>)>>);

fn gate() -> &'static Gate {
    static GATE: OnceLock<Gate> = OnceLock::new();
    GATE.get_or_init(|| Gate(Mutex::new(Some(async_channel::bounded(1)))))
}

/// Cuts this process off: all its links break.
pub(crate) fn cut() {
    let mut open = gate().0.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((sender, _)) = open.take() {
        sender.close();
    }
}

/// Connects it again.
pub(crate) fn heal() {
    let mut open = gate().0.lock().unwrap_or_else(PoisonError::into_inner);
    open.get_or_insert_with(|| async_channel::bounded(1));
}

/// What ends when this process is cut off; `None` while it is.
fn line() -> Option<Receiver<Infallible>> {
    let open = gate().0.lock().unwrap_or_else(PoisonError::into_inner);
    open.as_ref().map(|(_, receiver)| receiver.clone())
}

fn is_cut() -> io::Error {
    io::ErrorKind::ConnectionReset.into()
}

/// An adapter whose links can be cut.
pub(crate) struct Cuttable<A>(PhantomData<fn() -> A>);

impl<A: Adapter> Adapter for Cuttable<A> {
    type Runtime = A::Runtime;
    type Transport = Gated<A::Transport>;

    fn runtime() -> io::Result<A::Runtime> {
        A::runtime()
    }

    fn transport(runtime: &A::Runtime, security: &Security) -> io::Result<Gated<A::Transport>> {
        A::transport(runtime, security).map(Gated)
    }
}

/// A transport behind the gate.
#[derive(Clone)]
pub(crate) struct Gated<T>(T);

pub(crate) struct GatedListener<L>(L);

pub(crate) struct GatedReader<R> {
    inner: R,
    line: Receiver<Infallible>,
}

pub(crate) struct GatedWriter<W> {
    inner: W,
    line: Receiver<Infallible>,
}

/// The future's result, unless the line is cut before.
async fn unless_cut<T>(
    line: &Receiver<Infallible>,
    work: impl Future<Output = io::Result<T>>,
) -> io::Result<T> {
    let cut = async {
        // Only ever an error: the line was cut.
        let _ = line.recv().await;
        Err(is_cut())
    };
    future::or(cut, work).await
}

impl<T: Transport> Transport for Gated<T> {
    type Listener = GatedListener<T::Listener>;
    type Reader = GatedReader<T::Reader>;
    type Writer = GatedWriter<T::Writer>;

    async fn bind(&self, address: &str) -> io::Result<Self::Listener> {
        self.0.bind(address).await.map(GatedListener)
    }

    async fn dial(&self, to: &Address, kind: LinkKind) -> io::Result<(Self::Reader, Self::Writer)> {
        let line = line().ok_or_else(is_cut)?;
        let (reader, writer) = unless_cut(&line, self.0.dial(to, kind)).await?;
        let reader = GatedReader {
            inner: reader,
            line: line.clone(),
        };
        Ok((reader, GatedWriter { inner: writer, line }))
    }

    fn links_run_in_loop(&self) -> bool {
        self.0.links_run_in_loop()
    }

    fn handshakes(&self) -> HandshakeStats {
        self.0.handshakes()
    }
}

impl<L: Listener> Listener for GatedListener<L> {
    type Reader = GatedReader<L::Reader>;
    type Writer = GatedWriter<L::Writer>;

    fn local_address(&self) -> io::Result<SocketAddr> {
        self.0.local_address()
    }

    async fn accept(&mut self) -> io::Result<Accepted<Self::Reader, Self::Writer>> {
        loop {
            let Accepted {
                remote,
                reader,
                writer,
            } = self.0.accept().await?;
            // Without a line the connection is dropped, as if nobody had heard it.
            if let Some(line) = line() {
                return Ok(Accepted {
                    remote,
                    reader: GatedReader {
                        inner: reader,
                        line: line.clone(),
                    },
                    writer: GatedWriter { inner: writer, line },
                });
            }
        }
    }
}

impl<R: LinkReader> LinkReader for GatedReader<R> {
    async fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        unless_cut(&self.line, self.inner.read(buffer)).await
    }

    async fn read_next(&mut self, buffer: &mut [u8]) -> io::Result<LinkRead> {
        unless_cut(&self.line, self.inner.read_next(buffer)).await
    }

    fn is_established(&self) -> bool {
        self.inner.is_established()
    }

    async fn establish(&mut self) -> io::Result<()> {
        unless_cut(&self.line, self.inner.establish()).await
    }

    fn proved(&self) -> Proved {
        self.inner.proved()
    }
}

impl<W: LinkWriter> LinkWriter for GatedWriter<W> {
    async fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        unless_cut(&self.line, self.inner.write_all(bytes)).await
    }

    fn datagrams(&self) -> Option<Arc<dyn Datagrams>> {
        self.inner.datagrams()
    }

    async fn close(&mut self) -> io::Result<()> {
        unless_cut(&self.line, self.inner.close()).await
    }
}
