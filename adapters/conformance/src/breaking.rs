//! An adapter whose links for entity messages break again and again: each after so many bytes, whatever runs
//! over it. What was on its way is lost. For tests of what has to survive that.

use std::io;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU64, Ordering};

use quorate_core::ident::Address;
use quorate_driver::Security;
use quorate_driver::spi::{Adapter, LinkKind, LinkWriter, Transport};

/// Bytes that a link carries before it breaks: some windows of the largest parts that the tests send.
const BYTES: u64 = 6 << 20;

/// Links that broke, in this process.
pub(super) static BROKEN: AtomicU64 = AtomicU64::new(0);

/// See the module.
#[derive(Debug)]
pub(super) struct Breaking<A>(PhantomData<A>);

impl<A: Adapter> Adapter for Breaking<A> {
    type Runtime = A::Runtime;
    type Transport = BreakingTransport<A::Transport>;

    fn runtime() -> io::Result<A::Runtime> {
        A::runtime()
    }

    fn transport(runtime: &A::Runtime, security: &Security) -> io::Result<Self::Transport> {
        A::transport(runtime, security).map(BreakingTransport)
    }
}

#[derive(Clone, Debug)]
pub(super) struct BreakingTransport<T>(T);

impl<T: Transport> Transport for BreakingTransport<T> {
    type Listener = BreakingListener<T::Listener>;
    type Reader = T::Reader;
    type Writer = BreakingWriter<T::Writer>;

    async fn bind(&self, address: &str) -> io::Result<Self::Listener> {
        self.0.bind(address).await.map(BreakingListener)
    }

    async fn dial(&self, to: &Address, kind: LinkKind) -> io::Result<(T::Reader, Self::Writer)> {
        let (reader, writer) = self.0.dial(to, kind).await?;
        let left = (kind == LinkKind::User).then_some(BYTES);
        Ok((reader, BreakingWriter { writer, left }))
    }
}

#[derive(Debug)]
pub(super) struct BreakingListener<L>(L);

impl<L: quorate_driver::spi::Listener> quorate_driver::spi::Listener for BreakingListener<L> {
    type Reader = L::Reader;
    type Writer = BreakingWriter<L::Writer>;

    fn local_address(&self) -> io::Result<std::net::SocketAddr> {
        self.0.local_address()
    }

    async fn accept(&mut self) -> io::Result<quorate_driver::spi::Accepted<L::Reader, Self::Writer>> {
        let accepted = self.0.accept().await?;
        let writer = BreakingWriter {
            writer: accepted.writer,
            left: None,
        };
        Ok(quorate_driver::spi::Accepted {
            remote: accepted.remote,
            reader: accepted.reader,
            writer,
        })
    }
}

#[derive(Debug)]
pub(super) struct BreakingWriter<W> {
    writer: W,
    /// What it may still write; `None`: as much as there is.
    left: Option<u64>,
}

impl<W: LinkWriter> LinkWriter for BreakingWriter<W> {
    async fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        if let Some(left) = &mut self.left {
            let Some(rest) = left.checked_sub(bytes.len() as u64) else {
                BROKEN.fetch_add(1, Ordering::Relaxed);
                return Err(io::Error::from(io::ErrorKind::ConnectionReset));
            };
            *left = rest;
        }
        self.writer.write_all(bytes).await
    }

    async fn close(&mut self) -> io::Result<()> {
        self.writer.close().await
    }
}
