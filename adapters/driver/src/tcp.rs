//! Links over TCP, one connection each, on whatever sockets a runtime has. Decides nothing. Spec:
//! `ARCHITECTURE.md`.

use std::fmt;
use std::future::{Future, poll_fn};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use quorate_core::ident::Address;

use crate::transport::{Accepted, DirectWriter, LinkKind, LinkReader, LinkWriter, Listener, Transport};

/// The receiving half of a runtime's TCP connection.
pub trait ReadHalf: fmt::Debug + Send + 'static {
    /// As `AsyncRead::poll_read` of the runtime: how many bytes came, 0 at the end of the stream.
    fn poll_read(&mut self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>>;
}

/// The sending half of a runtime's TCP connection. Dropping it ends the stream.
pub trait WriteHalf: fmt::Debug + Send + 'static {
    /// As `AsyncWrite::poll_write` of the runtime: how many bytes were taken.
    fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>>;

    /// Writing without waiting; `None` where the runtime's sockets cannot.
    fn direct(&self) -> Option<Arc<dyn DirectWriter>> {
        None
    }

    /// Ends the stream in good order.
    fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>>;
}

/// A connection's address and halves.
pub type Connected<S> = (SocketAddr, <S as Sockets>::Reader, <S as Sockets>::Writer);

/// TCP of a runtime. Its connections wait for nothing before they send (`TCP_NODELAY`): the driver batches
/// frames itself.
pub trait Sockets: fmt::Debug + Clone + Copy + Send + Sync + 'static {
    /// A listening socket.
    type Port: fmt::Debug + Send + 'static;
    /// The receiving half of a connection.
    type Reader: ReadHalf;
    /// The sending half of a connection.
    type Writer: WriteHalf;

    /// Listens at a `host:port`.
    ///
    /// # Errors
    /// Whatever the system says.
    ///
    /// # Cancel safety
    /// Dropping it listens nowhere.
    fn bind(address: &str) -> impl Future<Output = io::Result<Self::Port>> + Send;

    /// Where a socket listens.
    ///
    /// # Errors
    /// Whatever the system says.
    fn local_address(port: &Self::Port) -> io::Result<SocketAddr>;

    /// The next connection.
    ///
    /// # Errors
    /// Whatever the system says.
    ///
    /// # Cancel safety
    /// Dropping it loses no connection that was not yet accepted.
    fn accept(port: &mut Self::Port) -> impl Future<Output = io::Result<Connected<Self>>> + Send;

    /// Connects.
    ///
    /// # Errors
    /// Whatever the system says.
    ///
    /// # Cancel safety
    /// Dropping it gives up.
    fn connect(
        host: &str,
        port: u16,
    ) -> impl Future<Output = io::Result<(Self::Reader, Self::Writer)>> + Send;
}

/// TCP without encryption, on the sockets `S`.
#[derive(Clone, Copy, Debug)]
pub struct Tcp<S>(pub S);

/// A listening port.
#[derive(Debug)]
pub struct TcpPort<S: Sockets>(S::Port);

/// The receiving half of a link.
#[derive(Debug)]
pub struct TcpLinkReader<R>(R);

/// The sending half of a link.
#[derive(Debug)]
pub struct TcpLinkWriter<W>(W);

impl<S: Sockets> Transport for Tcp<S> {
    type Listener = TcpPort<S>;
    type Reader = TcpLinkReader<S::Reader>;
    type Writer = TcpLinkWriter<S::Writer>;

    async fn bind(&self, address: &str) -> io::Result<TcpPort<S>> {
        Ok(TcpPort(S::bind(address).await?))
    }

    async fn dial(&self, to: &Address, _kind: LinkKind) -> io::Result<(Self::Reader, Self::Writer)> {
        let (reader, writer) = S::connect(to.host(), to.port()).await?;
        Ok((TcpLinkReader(reader), TcpLinkWriter(writer)))
    }

    fn links_run_in_loop(&self) -> bool {
        true
    }
}

impl<S: Sockets> Listener for TcpPort<S> {
    type Reader = TcpLinkReader<S::Reader>;
    type Writer = TcpLinkWriter<S::Writer>;

    fn local_address(&self) -> io::Result<SocketAddr> {
        S::local_address(&self.0)
    }

    async fn accept(&mut self) -> io::Result<Accepted<Self::Reader, Self::Writer>> {
        let (remote, reader, writer) = S::accept(&mut self.0).await?;
        Ok(Accepted {
            remote,
            reader: TcpLinkReader(reader),
            writer: TcpLinkWriter(writer),
        })
    }
}

impl<R: ReadHalf> LinkReader for TcpLinkReader<R> {
    async fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        poll_fn(|cx| self.0.poll_read(cx, buffer)).await
    }
}

impl<W: WriteHalf> LinkWriter for TcpLinkWriter<W> {
    async fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut left = bytes;
        poll_fn(|cx| {
            while !left.is_empty() {
                match ready!(self.0.poll_write(cx, left))? {
                    0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                    taken => left = left.get(taken..).unwrap_or_default(),
                }
            }
            Poll::Ready(Ok(()))
        })
        .await
    }

    fn direct(&self) -> Option<Arc<dyn DirectWriter>> {
        self.0.direct()
    }

    async fn close(&mut self) -> io::Result<()> {
        poll_fn(|cx| self.0.poll_close(cx)).await
    }
}
