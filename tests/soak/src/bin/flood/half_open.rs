//! Strangers over QUIC: each answers the retry, so that its address counts as seen, sends its first packet
//! again and then says nothing more. Driven by hand, for no client of the library stops there. Nothing of
//! theirs is kept: the other side does that.

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use quinn_proto::crypto::rustls::QuicClientConfig;
use quinn_proto::{
    ClientConfig, Connection, ConnectionHandle, DatagramEvent, Endpoint, EndpointConfig, EndpointEvent,
};
use quorate_driver::security::DevCa;

use crate::knocks::Knocks;
use crate::{AT_ONCE, Result};

/// How long the other side waits for the rest of a handshake.
const HELD_FOR: Duration = Duration::from_secs(2);
/// Those that wait for a retry at once: each costs a look at its socket every few milliseconds, on processors
/// that the members share.
const FRESH_MAX: usize = 2 * AT_ONCE;
/// How long a retry is waited for.
const RETRY_WAIT: Duration = Duration::from_secs(1);

/// One that has not heard the retry yet.
struct Fresh {
    handle: ConnectionHandle,
    connection: Connection,
    socket: usize,
    to: SocketAddr,
    since: Instant,
}

struct Besiegers {
    endpoint: Endpoint,
    config: ClientConfig,
    sockets: Vec<UdpSocket>,
    fresh: Vec<Fresh>,
    buffer: Vec<u8>,
}

impl Besiegers {
    fn new(knocks: &Knocks) -> Result<Self> {
        // Of another authority: it does not come to that.
        let mtls = DevCa::new("strangers.cluster.internal")?.mtls()?;
        let config = ClientConfig::new(Arc::new(QuicClientConfig::try_from(mtls.client_config())?));
        let mut sockets = Vec::new();
        for source in 0..u64::try_from(knocks.sources)? {
            let socket = UdpSocket::bind((knocks.source(source), 0))?;
            socket.set_nonblocking(true)?;
            sockets.push(socket);
        }
        Ok(Self {
            endpoint: Endpoint::new(Arc::new(EndpointConfig::default()), None, false, None),
            config,
            sockets,
            fresh: Vec::new(),
            buffer: Vec::new(),
        })
    }

    fn open(&mut self, socket: usize, to: SocketAddr) -> Result<()> {
        let since = Instant::now();
        let (handle, connection) =
            self.endpoint
                .connect(since, self.config.clone(), to, "strangers.cluster.internal")?;
        let mut fresh = Fresh {
            handle,
            connection,
            socket,
            to,
            since,
        };
        self.say(&mut fresh);
        self.fresh.push(fresh);
        Ok(())
    }

    /// Sends what the connection wants to send. What the system does not take is lost, as on any network.
    fn say(&mut self, fresh: &mut Fresh) {
        self.buffer.clear();
        let transmit = fresh
            .connection
            .poll_transmit(Instant::now(), 1, &mut self.buffer);
        if let Some((transmit, socket)) = transmit.zip(self.sockets.get(fresh.socket)) {
            let said = self.buffer.get(..transmit.size).unwrap_or_default();
            let _ = socket.send_to(said, fresh.to);
        }
    }

    /// Hands the retries to whom they are for; those who have answered one are forgotten.
    fn answer_retries(&mut self) {
        let mut heard = [0; 2_048];
        let mut listening: Vec<usize> = self.fresh.iter().map(|fresh| fresh.socket).collect();
        listening.sort_unstable();
        listening.dedup();
        for socket in listening {
            while let Some(Ok((len, from))) = self.sockets.get(socket).map(|it| it.recv_from(&mut heard)) {
                let bytes = heard.get(..len).unwrap_or_default().into();
                let now = Instant::now();
                self.buffer.clear();
                let event = self
                    .endpoint
                    .handle(now, from, None, None, bytes, &mut self.buffer);
                let Some(DatagramEvent::ConnectionEvent(handle, event)) = event else {
                    continue;
                };
                if let Some(at) = self.fresh.iter().position(|fresh| fresh.handle == handle) {
                    let mut fresh = self.fresh.swap_remove(at);
                    fresh.connection.handle_event(event);
                    self.say(&mut fresh);
                    self.endpoint.handle_event(handle, EndpointEvent::drained());
                }
            }
        }
        for lost in self
            .fresh
            .extract_if(.., |fresh| fresh.since.elapsed() >= RETRY_WAIT)
        {
            self.endpoint.handle_event(lost.handle, EndpointEvent::drained());
        }
    }
}

/// Opens handshakes until this process ends.
pub(crate) fn besiege(knocks: &Knocks, count: &AtomicU64) -> Result<()> {
    let mut strangers = Besiegers::new(knocks)?;
    let mut held = std::collections::VecDeque::new();
    loop {
        let now = Instant::now();
        while held
            .front()
            .is_some_and(|since| now.duration_since(*since) >= HELD_FOR)
        {
            held.pop_front();
        }
        for _ in 0..AT_ONCE {
            let number = count.load(Ordering::Relaxed);
            let waits = strangers.fresh.len() >= FRESH_MAX;
            if waits || held.len() >= knocks.held || number >= knocks.total {
                break;
            }
            let there = knocks.target(number).ok_or("nobody to knock at")?;
            let socket = usize::try_from(number)? % knocks.sources.max(1);
            strangers.open(socket, there)?;
            count.fetch_add(1, Ordering::Relaxed);
            held.push_back(now);
        }
        thread::sleep(Duration::from_millis(5));
        strangers.answer_retries();
    }
}
