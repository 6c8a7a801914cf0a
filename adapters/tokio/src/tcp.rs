//! Tokio's TCP sockets, for the driver's links. Decides nothing.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use quorate_driver::spi::{Connected, DirectWriter, ReadHalf, Sockets, WriteHalf};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};

/// TCP on tokio.
#[derive(Clone, Copy, Debug)]
pub struct TokioSockets;

/// The receiving half of a connection.
#[derive(Debug)]
pub struct TokioReadHalf(OwnedReadHalf);

/// The sending half of a connection.
#[derive(Debug)]
pub struct TokioWriteHalf(Arc<Mutex<OwnedWriteHalf>>);

/// The same for who does not wait.
#[derive(Debug)]
struct TokioDirectWriter(Arc<Mutex<OwnedWriteHalf>>);

/// Nobody panics who holds it.
fn lock(half: &Mutex<OwnedWriteHalf>) -> MutexGuard<'_, OwnedWriteHalf> {
    half.lock().unwrap_or_else(PoisonError::into_inner)
}

impl DirectWriter for TokioDirectWriter {
    fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        lock(&self.0).try_write(bytes)
    }
}

fn halves(stream: TcpStream) -> io::Result<(TokioReadHalf, TokioWriteHalf)> {
    stream.set_nodelay(true)?;
    let (reader, writer) = stream.into_split();
    let writer = Arc::new(Mutex::new(writer));
    Ok((TokioReadHalf(reader), TokioWriteHalf(writer)))
}

impl Sockets for TokioSockets {
    type Port = TcpListener;
    type Reader = TokioReadHalf;
    type Writer = TokioWriteHalf;

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

    async fn connect(host: &str, port: u16) -> io::Result<(TokioReadHalf, TokioWriteHalf)> {
        halves(TcpStream::connect((host, port)).await?)
    }
}

impl ReadHalf for TokioReadHalf {
    fn poll_read(&mut self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        let mut filled = ReadBuf::new(buffer);
        ready!(Pin::new(&mut self.0).poll_read(cx, &mut filled))?;
        Poll::Ready(Ok(filled.filled().len()))
    }
}

impl WriteHalf for TokioWriteHalf {
    fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut *lock(&self.0)).poll_write(cx, bytes)
    }

    fn direct(&self) -> Option<Arc<dyn DirectWriter>> {
        Some(Arc::new(TokioDirectWriter(Arc::clone(&self.0))))
    }

    fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *lock(&self.0)).poll_shutdown(cx)
    }
}
