//! Links over TCP: one connection each. Decides nothing.

use std::io;
use std::net::{Shutdown, SocketAddr};

use async_std::io::{ReadExt, WriteExt};
use async_std::net::{TcpListener, TcpStream};
use quorate_driver::core::Address;
use quorate_driver::{Accepted, LinkKind, LinkReader, LinkWriter, Listener, Transport};

/// TCP without encryption.
#[derive(Clone, Copy, Debug)]
pub struct TcpLinks;

/// A listening port.
#[derive(Debug)]
pub struct TcpPort(TcpListener);

/// The receiving half of a connection.
#[derive(Debug)]
pub struct TcpLinkReader(TcpStream);

/// The sending half of a connection: a handle of the same socket, so that dropping it has to end the stream by hand.
#[derive(Debug)]
pub struct TcpLinkWriter(TcpStream);

impl Drop for TcpLinkWriter {
    fn drop(&mut self) {
        // Fails only if the connection is gone already.
        let _ = self.0.shutdown(Shutdown::Write);
    }
}

/// Frames are batched by the driver: waiting for more of them in the kernel would only add delay.
fn halves(stream: TcpStream) -> io::Result<(TcpLinkReader, TcpLinkWriter)> {
    stream.set_nodelay(true)?;
    Ok((TcpLinkReader(stream.clone()), TcpLinkWriter(stream)))
}

impl Transport for TcpLinks {
    type Listener = TcpPort;
    type Reader = TcpLinkReader;
    type Writer = TcpLinkWriter;

    async fn bind(&self, address: &str) -> io::Result<TcpPort> {
        Ok(TcpPort(TcpListener::bind(address).await?))
    }

    async fn dial(&self, to: &Address, _kind: LinkKind) -> io::Result<(TcpLinkReader, TcpLinkWriter)> {
        halves(TcpStream::connect((to.host(), to.port())).await?)
    }

    fn links_run_in_loop(&self) -> bool {
        true
    }
}

impl Listener for TcpPort {
    type Reader = TcpLinkReader;
    type Writer = TcpLinkWriter;

    fn local_address(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }

    async fn accept(&mut self) -> io::Result<Accepted<TcpLinkReader, TcpLinkWriter>> {
        let (stream, remote) = self.0.accept().await?;
        let (reader, writer) = halves(stream)?;
        Ok(Accepted {
            remote,
            reader,
            writer,
        })
    }
}

impl LinkReader for TcpLinkReader {
    async fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer).await
    }
}

impl LinkWriter for TcpLinkWriter {
    async fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all(bytes).await
    }

    async fn close(&mut self) -> io::Result<()> {
        self.0.shutdown(Shutdown::Write)
    }
}
