//! A transport of streams with the security the user chose: as it is, or inside Noise or mutual TLS. Decides
//! nothing: the choice is [`Security`]'s. Transports with a TLS of their own (QUIC) do not need it.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use quorate_core::ident::Address;

use crate::proved::Proved;
#[cfg(feature = "psk")]
use crate::psk::{self, NoiseReader, NoiseWriter};
use crate::security::{Protection, Security};
#[cfg(feature = "tls")]
use crate::tls::{self, TlsReader, TlsWriter};
use crate::transport::{
    Accepted, DirectWriter, HandshakeStats, LinkKind, LinkReader, LinkWriter, Listener, Transport,
};

/// A transport `T` whose links are protected as a [`Security`] says. What an adapter of a stream transport
/// names as its [`crate::spi::Adapter::Transport`].
#[derive(Clone, Debug)]
pub struct Secured<T> {
    inner: T,
    security: Security,
}

/// Where peers reach this node.
#[derive(Debug)]
pub struct SecuredListener<L> {
    inner: L,
    security: Security,
}

/// The receiving half of a link.
pub struct SecuredReader<R>(Reading<R>);

enum Reading<R> {
    Plaintext(R),
    #[cfg(feature = "psk")]
    Noise(NoiseReader<R>),
    #[cfg(feature = "tls")]
    Tls(TlsReader<R>),
}

/// The sending half of a link.
pub struct SecuredWriter<W>(Writing<W>);

enum Writing<W> {
    Plaintext(W),
    #[cfg(feature = "psk")]
    Noise(NoiseWriter<W>),
    #[cfg(feature = "tls")]
    Tls(TlsWriter<W>),
}

impl<T> Secured<T> {
    /// Protects the links of a transport whose own links are neither authenticated nor encrypted.
    #[must_use]
    pub fn new(inner: T, security: &Security) -> Self {
        Self {
            inner,
            security: security.clone(),
        }
    }
}

fn plaintext<R, W>(reader: R, writer: W) -> (SecuredReader<R>, SecuredWriter<W>) {
    (
        SecuredReader(Reading::Plaintext(reader)),
        SecuredWriter(Writing::Plaintext(writer)),
    )
}

#[cfg(feature = "psk")]
fn noisy<R, W>((reader, writer): (NoiseReader<R>, NoiseWriter<W>)) -> (SecuredReader<R>, SecuredWriter<W>) {
    (
        SecuredReader(Reading::Noise(reader)),
        SecuredWriter(Writing::Noise(writer)),
    )
}

#[cfg(feature = "tls")]
fn encrypted<R, W>((reader, writer): (TlsReader<R>, TlsWriter<W>)) -> (SecuredReader<R>, SecuredWriter<W>) {
    (
        SecuredReader(Reading::Tls(reader)),
        SecuredWriter(Writing::Tls(writer)),
    )
}

impl<T: Transport> Transport for Secured<T> {
    type Listener = SecuredListener<T::Listener>;
    type Reader = SecuredReader<T::Reader>;
    type Writer = SecuredWriter<T::Writer>;

    async fn bind(&self, address: &str) -> io::Result<Self::Listener> {
        Ok(SecuredListener {
            inner: self.inner.bind(address).await?,
            security: self.security.clone(),
        })
    }

    async fn dial(&self, to: &Address, kind: LinkKind) -> io::Result<(Self::Reader, Self::Writer)> {
        let (reader, writer) = self.inner.dial(to, kind).await?;
        match self.security.protection() {
            Protection::InsecurePlaintext => Ok(plaintext(reader, writer)),
            #[cfg(feature = "psk")]
            Protection::Psk(psk) => Ok(noisy(psk::connect(psk, reader, writer).await?)),
            #[cfg(feature = "tls")]
            Protection::Mtls(mtls) => Ok(encrypted(tls::connect(mtls, reader, writer).await?)),
        }
    }

    fn links_run_in_loop(&self) -> bool {
        self.inner.links_run_in_loop()
    }

    fn handshakes(&self) -> HandshakeStats {
        self.inner.handshakes()
    }
}

impl<L: Listener> Listener for SecuredListener<L> {
    type Reader = SecuredReader<L::Reader>;
    type Writer = SecuredWriter<L::Writer>;

    fn local_address(&self) -> io::Result<SocketAddr> {
        self.inner.local_address()
    }

    async fn accept(&mut self) -> io::Result<Accepted<Self::Reader, Self::Writer>> {
        let Accepted {
            remote,
            reader,
            writer,
        } = self.inner.accept().await?;
        let (reader, writer) = match self.security.protection() {
            Protection::InsecurePlaintext => plaintext(reader, writer),
            #[cfg(feature = "psk")]
            Protection::Psk(psk) => noisy(psk::accept(psk, reader, writer)),
            #[cfg(feature = "tls")]
            Protection::Mtls(mtls) => encrypted(tls::accept(mtls, reader, writer)?),
        };
        Ok(Accepted {
            remote,
            reader,
            writer,
        })
    }
}

impl<R: LinkReader> LinkReader for SecuredReader<R> {
    async fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match &mut self.0 {
            Reading::Plaintext(reader) => reader.read(buffer).await,
            #[cfg(feature = "psk")]
            Reading::Noise(reader) => reader.read(buffer).await,
            #[cfg(feature = "tls")]
            Reading::Tls(reader) => reader.read(buffer).await,
        }
    }

    fn is_established(&self) -> bool {
        match &self.0 {
            Reading::Plaintext(reader) => reader.is_established(),
            #[cfg(feature = "psk")]
            Reading::Noise(reader) => reader.is_established(),
            #[cfg(feature = "tls")]
            Reading::Tls(reader) => reader.is_established(),
        }
    }

    async fn establish(&mut self) -> io::Result<()> {
        match &mut self.0 {
            Reading::Plaintext(reader) => reader.establish().await,
            #[cfg(feature = "psk")]
            Reading::Noise(reader) => reader.establish().await,
            #[cfg(feature = "tls")]
            Reading::Tls(reader) => reader.establish().await,
        }
    }

    fn proved(&self) -> Proved {
        match &self.0 {
            Reading::Plaintext(reader) => reader.proved(),
            #[cfg(feature = "psk")]
            Reading::Noise(reader) => reader.proved(),
            #[cfg(feature = "tls")]
            Reading::Tls(reader) => reader.proved(),
        }
    }
}

impl<W: LinkWriter> LinkWriter for SecuredWriter<W> {
    async fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        match &mut self.0 {
            Writing::Plaintext(writer) => writer.write_all(bytes).await,
            #[cfg(feature = "psk")]
            Writing::Noise(writer) => writer.write_all(bytes).await,
            #[cfg(feature = "tls")]
            Writing::Tls(writer) => writer.write_all(bytes).await,
        }
    }

    /// What is encrypted is written by its task, which has the session.
    fn direct(&self) -> Option<Arc<dyn DirectWriter>> {
        match &self.0 {
            Writing::Plaintext(writer) => writer.direct(),
            #[cfg(feature = "psk")]
            Writing::Noise(_) => None,
            #[cfg(feature = "tls")]
            Writing::Tls(_) => None,
        }
    }

    async fn close(&mut self) -> io::Result<()> {
        match &mut self.0 {
            Writing::Plaintext(writer) => writer.close().await,
            #[cfg(feature = "psk")]
            Writing::Noise(writer) => writer.close().await,
            #[cfg(feature = "tls")]
            Writing::Tls(writer) => writer.close().await,
        }
    }
}

impl<R> fmt::Debug for SecuredReader<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SecuredReader").finish_non_exhaustive()
    }
}

impl<W> fmt::Debug for SecuredWriter<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SecuredWriter").finish_non_exhaustive()
    }
}
