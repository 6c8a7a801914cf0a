//! Smol's TCP sockets, for the driver's links. Decides nothing.

use std::io::{self, Write};
use std::net::{Shutdown, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use quorate_driver::spi::{Connected, DirectWriter, ReadHalf, Sockets, WriteHalf};
use smol::Async;
use smol::io::{AsyncRead, AsyncWrite};
use smol::net::{TcpListener, TcpStream};

/// TCP on smol.
#[derive(Clone, Copy, Debug)]
pub struct SmolSockets;

/// The receiving half of a connection.
#[derive(Debug)]
pub struct SmolReadHalf(TcpStream);

/// The sending half of a connection: a handle of the same socket, so that dropping it has to end the stream
/// by hand.
#[derive(Debug)]
pub struct SmolWriteHalf(TcpStream);

/// The same for who does not wait.
#[derive(Debug)]
struct SmolDirectWriter(Arc<Async<std::net::TcpStream>>);

impl DirectWriter for SmolDirectWriter {
    fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        let mut socket: &std::net::TcpStream = self.0.get_ref();
        socket.write(bytes)
    }
}

impl Drop for SmolWriteHalf {
    fn drop(&mut self) {
        // Fails only if the connection is gone already.
        let _ = self.0.shutdown(Shutdown::Write);
    }
}

fn halves(stream: TcpStream) -> io::Result<(SmolReadHalf, SmolWriteHalf)> {
    stream.set_nodelay(true)?;
    Ok((SmolReadHalf(stream.clone()), SmolWriteHalf(stream)))
}

impl Sockets for SmolSockets {
    type Port = TcpListener;
    type Reader = SmolReadHalf;
    type Writer = SmolWriteHalf;

    async fn bind(address: &str) -> io::Result<TcpListener> {
        TcpListener::bind(address).await
    }

    fn local_address(port: &TcpListener) -> io::Result<SocketAddr> {
        port.local_addr()
    }

    async fn accept(port: &mut TcpListener) -> io::Result<Connected<Self>> {
        let (stream, remote) = port.accept().await?;
        let (reader, writer) = halves(stream)?;
        Ok((remote, reader, writer))
    }

    async fn connect(host: &str, port: u16) -> io::Result<(SmolReadHalf, SmolWriteHalf)> {
        halves(TcpStream::connect((host, port)).await?)
    }
}

impl ReadHalf for SmolReadHalf {
    fn poll_read(&mut self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_read(cx, buffer)
    }
}

impl WriteHalf for SmolWriteHalf {
    fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, bytes)
    }

    fn direct(&self) -> Option<Arc<dyn DirectWriter>> {
        Some(Arc::new(SmolDirectWriter(self.0.clone().into())))
    }

    fn poll_close(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.0.shutdown(Shutdown::Write))
    }
}
