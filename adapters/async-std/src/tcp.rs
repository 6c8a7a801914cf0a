//! AsyncStd's TCP sockets, for the driver's links. Decides nothing.

use std::io;
use std::net::{Shutdown, SocketAddr};
use std::pin::Pin;
use std::task::{Context, Poll};

use async_std::io::{Read as AsyncRead, Write as AsyncWrite};
use async_std::net::{TcpListener, TcpStream};
use quorate_driver::spi::{Connected, ReadHalf, Sockets, WriteHalf};

/// TCP on async-std.
#[derive(Clone, Copy, Debug)]
pub struct AsyncStdSockets;

/// The receiving half of a connection.
#[derive(Debug)]
pub struct AsyncStdReadHalf(TcpStream);

/// The sending half of a connection: a handle of the same socket, so that dropping it has to end the stream
/// by hand.
#[derive(Debug)]
pub struct AsyncStdWriteHalf(TcpStream);

impl Drop for AsyncStdWriteHalf {
    fn drop(&mut self) {
        // Fails only if the connection is gone already.
        let _ = self.0.shutdown(Shutdown::Write);
    }
}

fn halves(stream: TcpStream) -> io::Result<(AsyncStdReadHalf, AsyncStdWriteHalf)> {
    stream.set_nodelay(true)?;
    Ok((AsyncStdReadHalf(stream.clone()), AsyncStdWriteHalf(stream)))
}

impl Sockets for AsyncStdSockets {
    type Port = TcpListener;
    type Reader = AsyncStdReadHalf;
    type Writer = AsyncStdWriteHalf;

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

    async fn connect(host: &str, port: u16) -> io::Result<(AsyncStdReadHalf, AsyncStdWriteHalf)> {
        halves(TcpStream::connect((host, port)).await?)
    }
}

impl ReadHalf for AsyncStdReadHalf {
    fn poll_read(&mut self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_read(cx, buffer)
    }
}

impl WriteHalf for AsyncStdWriteHalf {
    fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, bytes)
    }

    fn poll_close(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.0.shutdown(Shutdown::Write))
    }
}
