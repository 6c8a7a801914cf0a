//! An adapter whose links can be cut: all at once, in the middle of whatever they carry, as a switch that is
//! restarted does. Decides nothing; everything else is the adapter's below.

use std::io;
use std::marker::PhantomData;
use std::net::SocketAddr;
use std::sync::{Arc, LazyLock};

use quorate_driver::spi::{
    Accepted, Adapter, Datagrams, HandshakeStats, LinkKind, LinkRead, LinkReader, LinkWriter, Listener,
    Transport,
};
use quorate_driver::{Security, security::Proved};
use quorate_tokio::Address;
use tokio::sync::watch;

static CUTS: LazyLock<watch::Sender<Arc<()>>> = LazyLock::new(watch::Sender::default);

/// The links that were cut.
#[derive(Debug)]
pub(crate) struct Former(Arc<()>);

impl Former {
    /// Whether all of them have been let go by both of their nodes.
    pub(crate) fn is_noticed(&self) -> bool {
        Arc::strong_count(&self.0) == 1
    }
}

/// Cuts all links of this process that go through a [`Cut`].
pub(crate) fn cut_all() -> Former {
    Former(CUTS.send_replace(Arc::default()))
}

#[derive(Clone, Debug)]
pub(crate) struct Cut<T>(T);

/// The adapter.
#[derive(Debug)]
pub(crate) struct Cuttable<A>(PhantomData<A>);

#[derive(Debug)]
pub(crate) struct Half<T> {
    half: T,
    cuts: watch::Receiver<Arc<()>>,
    /// Counts those that have not noticed a cut.
    _alive: Arc<()>,
}

impl<T> Half<T> {
    fn of(half: T) -> Self {
        let cuts = CUTS.subscribe();
        let _alive = Arc::clone(&cuts.borrow());
        Self { half, cuts, _alive }
    }

    fn check(&self) -> io::Result<()> {
        match self.cuts.has_changed() {
            Ok(true) => Err(io::ErrorKind::ConnectionReset.into()),
            Ok(false) | Err(_) => Ok(()),
        }
    }
}

impl<A: Adapter> Adapter for Cuttable<A> {
    type Runtime = A::Runtime;
    type Transport = Cut<A::Transport>;

    fn runtime() -> io::Result<Self::Runtime> {
        A::runtime()
    }

    fn transport(runtime: &Self::Runtime, security: &Security) -> io::Result<Self::Transport> {
        A::transport(runtime, security).map(Cut)
    }
}

impl<T: Transport> Transport for Cut<T> {
    type Listener = Cut<T::Listener>;
    type Reader = Half<T::Reader>;
    type Writer = Half<T::Writer>;

    async fn bind(&self, address: &str) -> io::Result<Self::Listener> {
        self.0.bind(address).await.map(Cut)
    }

    async fn dial(&self, to: &Address, kind: LinkKind) -> io::Result<(Self::Reader, Self::Writer)> {
        let (reader, writer) = self.0.dial(to, kind).await?;
        Ok((Half::of(reader), Half::of(writer)))
    }

    fn links_run_in_loop(&self) -> bool {
        self.0.links_run_in_loop()
    }

    fn handshakes(&self) -> HandshakeStats {
        self.0.handshakes()
    }
}

impl<L: Listener> Listener for Cut<L> {
    type Reader = Half<L::Reader>;
    type Writer = Half<L::Writer>;

    fn local_address(&self) -> io::Result<SocketAddr> {
        self.0.local_address()
    }

    async fn accept(&mut self) -> io::Result<Accepted<Self::Reader, Self::Writer>> {
        let link = self.0.accept().await?;
        Ok(Accepted {
            remote: link.remote,
            reader: Half::of(link.reader),
            writer: Half::of(link.writer),
        })
    }
}

impl<R: LinkReader> LinkReader for Half<R> {
    async fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        // A clone, so that it stays cut.
        let mut cuts = self.cuts.clone();
        tokio::select! {
            biased;
            Ok(()) = cuts.changed() => Err(io::ErrorKind::ConnectionReset.into()),
            read = self.half.read(buffer) => read,
        }
    }

    async fn read_next(&mut self, buffer: &mut [u8]) -> io::Result<LinkRead> {
        // A clone, so that it stays cut.
        let mut cuts = self.cuts.clone();
        tokio::select! {
            biased;
            Ok(()) = cuts.changed() => Err(io::ErrorKind::ConnectionReset.into()),
            read = self.half.read_next(buffer) => read,
        }
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

impl<W: LinkWriter> LinkWriter for Half<W> {
    async fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.check()?;
        self.half.write_all(bytes).await
    }

    fn datagrams(&self) -> Option<Arc<dyn Datagrams>> {
        self.half.datagrams()
    }

    async fn close(&mut self) -> io::Result<()> {
        self.check()?;
        self.half.close().await
    }
}
