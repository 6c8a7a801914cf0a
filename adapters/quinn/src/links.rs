//! Connections to peers: one per peer, shared by the links that this node dials; a second one while links are
//! renewed. Decides nothing about the protocol.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn::{Connection, Endpoint, EndpointConfig, IdleTimeout, TransportConfig, VarInt};
use quorate_driver::Address;
use quorate_driver::security::{HandshakeLimits, Mtls};
use quorate_driver::spi::{HandshakeStats, LinkKind, Transport};
use quorate_tokio::spi::TokioRuntime;

use crate::door::Door;
use crate::link::{QuicReader, QuicWriter, lost};
use crate::port::QuicPort;
use crate::runtime::{QuicRuntime, QuinnTimer};

/// A connection on which nothing arrives for so long is dead. Its links end with it, and the next dial opens
/// a new one.
const SILENCE_MAX: Duration = Duration::from_secs(5);

/// How often a connection without traffic is probed: three probes may get lost.
const PROBE_INTERVAL: Duration = Duration::from_millis(1_250);

/// What a round trip takes before it was measured: a first packet that is lost, or that a flooded port has no
/// room for, is said again after three of these, and after twice as long each time. The usual third of a
/// second would leave two tries within the time for a handshake.
const FIRST_ROUND_TRIP: Duration = Duration::from_millis(50);

/// Streams a peer may have open: its two links, and as many again while they are being replaced.
const STREAMS_MAX: u32 = 4;

/// What a peer may send on one stream beyond what was read: more than the largest frame in one round trip.
const STREAM_WINDOW_BYTES: u32 = 2 * 1024 * 1024;

/// The same for a whole connection: two streams' worth, so that a user link that is paused with a full window
/// leaves the control link all it can use.
const CONNECTION_WINDOW_BYTES: u32 = 2 * STREAM_WINDOW_BYTES;

/// What the system holds for a port that is not read for a moment: some tens of milliseconds of a flood. Its
/// usual 200 KiB are a hundred first packets, and what members say is lost behind them. Systems cut it to
/// what they allow.
const RECEIVE_BUFFER_BYTES: usize = 2 * 1024 * 1024;

/// Datagrams that wait to be sent, or to be looked at: a few hundred heartbeats. The oldest go first.
const DATAGRAM_BUFFER_BYTES: usize = 32 * 1024;

/// QUIC with mutual TLS. Clones share the port and the connections.
#[derive(Clone)]
pub struct QuicLinks<R = TokioRuntime> {
    inside: Arc<LinksInner<R>>,
}

/// A connection and when it was opened.
type Opened = (Connection, Instant);

/// A connection, or the place where it will be: locked while it is dialed, so that links dialed meanwhile
/// wait for it.
type Slot = Arc<tokio::sync::Mutex<Option<Opened>>>;

struct LinksInner<R> {
    runtime: R,
    timer: QuinnTimer,
    mtls: Mtls,
    /// Younger connections take new links; a link that is renewed gets one of its own age, or certificates
    /// would stay.
    connection_age_max: Option<Duration>,
    limits: HandshakeLimits,
    door: Door,
    dialing: Arc<TransportConfig>,
    accepting: Arc<TransportConfig>,
    endpoint: OnceLock<Endpoint>,
    connections: Mutex<BTreeMap<Address, Slot>>,
}

impl<R: QuicRuntime> QuicLinks<R> {
    /// QUIC with these certificates; links may become as old as that, and so many may shake hands at once.
    #[must_use]
    pub fn new(runtime: R, mtls: Mtls, max_link_age: Option<Duration>, limits: HandshakeLimits) -> Self {
        Self::build(runtime, mtls, max_link_age, limits, Some(DATAGRAM_BUFFER_BYTES))
    }

    /// The same for a node that takes no datagrams: its peers send it heartbeats over the stream.
    #[must_use]
    pub fn without_datagrams(
        runtime: R,
        mtls: Mtls,
        max_link_age: Option<Duration>,
        limits: HandshakeLimits,
    ) -> Self {
        Self::build(runtime, mtls, max_link_age, limits, None)
    }

    fn build(
        runtime: R,
        mtls: Mtls,
        max_link_age: Option<Duration>,
        limits: HandshakeLimits,
        datagrams: Option<usize>,
    ) -> Self {
        Self {
            inside: Arc::new(LinksInner {
                timer: QuinnTimer::of(runtime.clone()),
                runtime,
                mtls,
                // The driver renews links after seven eighths of their time at the latest.
                connection_age_max: max_link_age.map(|age| age / 8),
                limits,
                door: Door::new(limits),
                // Only who dials sends frames; what cannot receive datagrams may not send any either.
                dialing: Arc::new(transport(Some(DATAGRAM_BUFFER_BYTES))),
                accepting: Arc::new(transport(datagrams)),
                endpoint: OnceLock::new(),
                connections: Mutex::new(BTreeMap::new()),
            }),
        }
    }

    pub(crate) fn runtime(&self) -> &R {
        &self.inside.runtime
    }

    pub(crate) fn handshake_limits(&self) -> HandshakeLimits {
        self.inside.limits
    }

    pub(crate) fn door(&self) -> Door {
        self.inside.door.clone()
    }

    pub(crate) fn timer(&self) -> QuinnTimer {
        self.inside.timer.clone()
    }

    /// Connections that this node opened or is opening.
    pub(crate) fn dialed(&self) -> usize {
        let connections = &self.inside.connections;
        connections.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// How the next connection that a peer opens is accepted: with the certificates of the moment.
    pub(crate) fn server_config(&self) -> io::Result<Arc<quinn::ServerConfig>> {
        let tls = QuicServerConfig::try_from(self.inside.mtls.server_config()).map_err(io::Error::other)?;
        let mut config = quinn::ServerConfig::with_crypto(Arc::new(tls));
        config.transport_config(Arc::clone(&self.inside.accepting));
        config.migration(false);
        Ok(Arc::new(config))
    }

    fn client_config(&self) -> io::Result<quinn::ClientConfig> {
        let tls = QuicClientConfig::try_from(self.inside.mtls.client_config()).map_err(io::Error::other)?;
        let mut config = quinn::ClientConfig::new(Arc::new(tls));
        config.transport_config(Arc::clone(&self.inside.dialing));
        Ok(config)
    }

    /// The place of the connection to a peer. Forgets, by the way, the places of connections that have ended.
    fn slot(&self, to: &Address) -> Slot {
        let mut connections = self
            .inside
            .connections
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        connections.retain(|_, slot| {
            let in_use = Arc::strong_count(slot) > 1;
            in_use
                || slot
                    .try_lock()
                    .is_ok_and(|held| held.as_ref().is_some_and(|(connection, _)| is_open(connection)))
        });
        Arc::clone(connections.entry(to.clone()).or_default())
    }

    async fn connect(&self, to: &Address) -> io::Result<Connection> {
        let endpoint = self.inside.endpoint.get().ok_or(io::ErrorKind::NotConnected)?;
        let here = endpoint.local_addr()?;
        let there = resolve::<R>(to.to_string(), |found| found.is_ipv4() == here.is_ipv4()).await?;
        let name = self.inside.mtls.peer_name().to_str();
        let connecting = endpoint
            .connect_with(self.client_config()?, there, &name)
            .map_err(io::Error::other)?;
        connecting.await.map_err(lost)
    }
}

/// What both ends of a connection offer; `datagrams` is for how many bytes of them there is room.
fn transport(datagrams: Option<usize>) -> TransportConfig {
    let mut transport = TransportConfig::default();
    transport
        .max_concurrent_bidi_streams(VarInt::from_u32(STREAMS_MAX))
        .max_concurrent_uni_streams(VarInt::from_u32(0))
        .datagram_receive_buffer_size(datagrams)
        .datagram_send_buffer_size(DATAGRAM_BUFFER_BYTES)
        .stream_receive_window(VarInt::from_u32(STREAM_WINDOW_BYTES))
        .receive_window(VarInt::from_u32(CONNECTION_WINDOW_BYTES))
        .initial_rtt(FIRST_ROUND_TRIP)
        .max_idle_timeout(IdleTimeout::try_from(SILENCE_MAX).ok())
        .keep_alive_interval(Some(PROBE_INTERVAL));
    transport
}

fn is_open(connection: &Connection) -> bool {
    connection.close_reason().is_none()
}

async fn resolve<R: QuicRuntime>(
    address: String,
    usable: impl Fn(&SocketAddr) -> bool,
) -> io::Result<SocketAddr> {
    let found = R::resolve(address).await?.into_iter().find(usable);
    found.ok_or_else(|| io::ErrorKind::AddrNotAvailable.into())
}

impl<R: QuicRuntime> Transport for QuicLinks<R> {
    type Listener = QuicPort;
    type Reader = QuicReader;
    type Writer = QuicWriter;

    async fn bind(&self, address: &str) -> io::Result<QuicPort> {
        let socket = std::net::UdpSocket::bind(resolve::<R>(address.to_owned(), |_| true).await?)?;
        // Only a request: less is slower under a flood, and no reason not to start.
        let _ = socket2::SockRef::from(&socket).set_recv_buffer_size(RECEIVE_BUFFER_BYTES);
        let server = Arc::unwrap_or_clone(self.server_config()?);
        let endpoint = Endpoint::new(
            EndpointConfig::default(),
            Some(server),
            socket,
            self.inside.runtime.quinn(),
        )?;
        if self.inside.endpoint.set(endpoint.clone()).is_err() {
            return Err(io::Error::other("this transport listens already"));
        }
        Ok(QuicPort::new(self.clone(), endpoint))
    }

    async fn dial(&self, to: &Address, kind: LinkKind) -> io::Result<(QuicReader, QuicWriter)> {
        let slot = self.slot(to);
        let mut held = slot.lock().await;
        let is_young = |opened: &Instant| {
            let age_max = self.inside.connection_age_max;
            age_max.is_none_or(|age_max| opened.elapsed() < age_max)
        };
        let (connection, opened) = match held.take() {
            Some((connection, opened)) if is_open(&connection) && is_young(&opened) => (connection, opened),
            Some(_) | None => (self.connect(to).await?, Instant::now()),
        };
        *held = Some((connection.clone(), opened));
        drop(held);
        let (writer, reader) = connection.open_bi().await?;
        // Whatever waits on the control link goes first, bulk data last.
        let priority = match kind {
            LinkKind::Control => 1,
            LinkKind::User => 0,
            LinkKind::Bulk => -1,
        };
        writer.set_priority(priority).map_err(io::Error::other)?;
        let writer = match kind {
            LinkKind::Control => QuicWriter::dialed(writer, connection.clone(), self.timer()),
            LinkKind::User | LinkKind::Bulk => QuicWriter::only_stream(writer, self.timer()),
        };
        Ok((QuicReader::dialed(reader, connection), writer))
    }

    /// Reading and writing a stream copies bytes; what takes the processor is the work of the connection's
    /// own task.
    fn links_run_in_loop(&self) -> bool {
        true
    }

    fn handshakes(&self) -> HandshakeStats {
        self.inside.door.stats()
    }
}

impl<R> Drop for LinksInner<R> {
    /// Says good-bye to all peers at once: they need not wait for the silence to be long enough.
    fn drop(&mut self) {
        if let Some(endpoint) = self.endpoint.get() {
            endpoint.close(VarInt::from_u32(0), b"node ended");
        }
    }
}

impl<R> fmt::Debug for QuicLinks<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QuicLinks")
            .field("endpoint", &self.inside.endpoint)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use quorate_driver::security::DevCa;
    use quorate_driver::spi::{LinkReader, LinkWriter, Listener};

    use super::*;
    use crate::link::ACK_WAIT;

    fn links(mtls: Mtls) -> QuicLinks {
        let runtime = TokioRuntime::current().unwrap();
        QuicLinks::new(runtime, mtls, None, HandshakeLimits::default())
    }

    #[tokio::test]
    async fn no_connection_carries_anything_before_its_handshake() {
        let authority = DevCa::new("tests.cluster.internal").unwrap();
        let (one, other) = (links(authority.mtls().unwrap()), links(authority.mtls().unwrap()));
        let mut port = one.bind("127.0.0.1:0").await.unwrap();
        let _own = other.bind("127.0.0.1:0").await.unwrap();
        let there = port.local_address().unwrap();
        let to = Address::new("127.0.0.1", there.port()).unwrap();
        // One round trip: a ticket to come back with would have arrived by then.
        let (mut reader, mut writer) = other.dial(&to, LinkKind::Control).await.unwrap();
        writer.write_all(b"ping").await.unwrap();
        let mut link = port.accept().await.unwrap();
        let mut buffer = [0; 8];
        assert_eq!(link.reader.read(&mut buffer).await.unwrap(), 4);
        link.writer.write_all(b"pong").await.unwrap();
        assert_eq!(reader.read(&mut buffer).await.unwrap(), 4);
        let endpoint = other.inside.endpoint.get().unwrap();
        let name = other.inside.mtls.peer_name().to_str();
        let again = endpoint.connect_with(other.client_config().unwrap(), there, &name);
        let Err(connecting) = again.unwrap().into_0rtt() else {
            panic!("it has sent before it was believed");
        };
        connecting.await.unwrap();
    }
    #[tokio::test]
    async fn a_link_that_is_not_answered_takes_no_other_one_along() {
        let authority = DevCa::new("tests.cluster.internal").unwrap();
        let (one, other) = (links(authority.mtls().unwrap()), links(authority.mtls().unwrap()));
        let mut port = one.bind("127.0.0.1:0").await.unwrap();
        let _own = other.bind("127.0.0.1:0").await.unwrap();
        let to = Address::new("127.0.0.1", port.local_address().unwrap().port()).unwrap();
        let (mut reader, mut writer) = other.dial(&to, LinkKind::Control).await.unwrap();
        writer.write_all(b"ping").await.unwrap();
        let mut answered = port.accept().await.unwrap();
        answered.writer.write_all(b"pong").await.unwrap();
        let mut buffer = [0; 8];
        assert_eq!(reader.read(&mut buffer).await.unwrap(), 4);

        // Its successor, say, at a peer that is too busy to greet it.
        let (unanswered, mut said) = other.dial(&to, LinkKind::Control).await.unwrap();
        said.write_all(b"ping").await.unwrap();
        let _waiting = port.accept().await.unwrap();
        tokio::time::sleep(2 * ACK_WAIT).await;
        drop((unanswered, said));

        writer.write_all(b"more").await.unwrap();
        assert_eq!(answered.reader.read(&mut buffer).await.unwrap(), 4);
        assert_eq!(answered.reader.read(&mut buffer).await.unwrap(), 4);
        answered.writer.write_all(b"good").await.unwrap();
        assert_eq!(reader.read(&mut buffer).await.unwrap(), 4);
    }

    #[tokio::test]
    async fn a_link_that_nobody_acknowledges_ends_its_connection() {
        let authority = DevCa::new("tests.cluster.internal").unwrap();
        // The peer lives on a runtime of its own, which stands still from some moment on.
        let (tell, hear) = std::sync::mpsc::channel();
        let mtls = authority.mtls().unwrap();
        let peer = std::thread::spawn(move || {
            let mut elsewhere = tokio::runtime::Builder::new_current_thread();
            let elsewhere = elsewhere.enable_all().build().unwrap();
            let one = elsewhere.block_on(async { links(mtls) });
            let answered = elsewhere.block_on(async {
                let mut port = one.bind("127.0.0.1:0").await.unwrap();
                tell.send(port.local_address().unwrap()).unwrap();
                let mut link = port.accept().await.unwrap();
                let mut buffer = [0; 8];
                assert_eq!(link.reader.read(&mut buffer).await.unwrap(), 4);
                link.writer.write_all(b"pong").await.unwrap();
                tokio::time::sleep(ACK_WAIT / 2).await;
                (port, link)
            });
            std::thread::park();
            elsewhere.block_on(async move { drop((answered, one)) });
        });
        let there = hear.recv().unwrap();
        let other = links(authority.mtls().unwrap());
        let _own = other.bind("127.0.0.1:0").await.unwrap();
        let to = Address::new("127.0.0.1", there.port()).unwrap();
        let (mut reader, mut writer) = other.dial(&to, LinkKind::Control).await.unwrap();
        writer.write_all(b"ping").await.unwrap();
        let mut buffer = [0; 8];
        assert_eq!(reader.read(&mut buffer).await.unwrap(), 4);
        tokio::time::sleep(ACK_WAIT).await;

        let (unanswered, mut said) = other.dial(&to, LinkKind::Control).await.unwrap();
        said.write_all(b"ping").await.unwrap();
        tokio::time::sleep(2 * ACK_WAIT).await;
        drop((unanswered, said));
        assert!(
            reader.read(&mut buffer).await.is_err(),
            "closed, for nobody knows it"
        );
        peer.thread().unpark();
        peer.join().unwrap();
    }
}
