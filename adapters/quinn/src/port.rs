//! Where peers reach this node: accepts connections, shakes hands with each in a task of its own, and hands out the streams
//! they open. Decides only how many connections there may be. Spec: reliability 3b.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use quinn::{Connection, Endpoint, Incoming};
use quorate_driver::{Accepted, Listener, Unproved};
use tokio::sync::mpsc;

use crate::datagrams::Receivers;
use crate::link::{QuicReader, QuicWriter, lost};
use crate::links::QuicLinks;
use crate::runtime::{QuicRuntime, Timer};

/// Connections there may be, both directions: a cluster of a thousand nodes twice over, and room for strangers who are being
/// refused.
const CONNECTIONS_MAX: usize = 4_096;

/// How long a peer may take to prove who it is.
const HANDSHAKE_LIMIT: Duration = Duration::from_secs(5);

/// Links that wait for the driver to take them; beyond it they wait in their connections.
const ACCEPTED_WAITING_MAX: usize = 64;

type Link = Accepted<QuicReader, QuicWriter>;

/// A link, or why a peer did not come as far.
type Knock = io::Result<Link>;

/// A listening UDP port.
#[derive(Debug)]
pub struct QuicPort {
    endpoint: Endpoint,
    links: mpsc::Receiver<Knock>,
}

impl QuicPort {
    pub(crate) fn new<R: QuicRuntime>(transport: QuicLinks<R>, endpoint: Endpoint) -> Self {
        let (sender, links) = mpsc::channel(ACCEPTED_WAITING_MAX);
        let runtime = transport.runtime().clone();
        // Ends when nobody receives any more.
        runtime.spawn(accept_all(transport, endpoint.clone(), sender));
        Self { endpoint, links }
    }
}

impl Listener for QuicPort {
    type Reader = QuicReader;
    type Writer = QuicWriter;

    fn local_address(&self) -> io::Result<SocketAddr> {
        self.endpoint.local_addr()
    }

    async fn accept(&mut self) -> io::Result<Link> {
        let link = self.links.recv().await;
        link.unwrap_or_else(|| Err(io::ErrorKind::NotConnected.into()))
    }
}

async fn accept_all<R: QuicRuntime>(transport: QuicLinks<R>, endpoint: Endpoint, links: mpsc::Sender<Knock>) {
    loop {
        let incoming = tokio::select! {
            () = links.closed() => return,
            incoming = endpoint.accept() => incoming,
        };
        let Some(incoming) = incoming else {
            return;
        };
        if endpoint.open_connections() >= CONNECTIONS_MAX {
            incoming.refuse();
        } else if !incoming.remote_address_validated() {
            // Whoever forges its address never sees the answer: costs an honest peer one round trip, and keeps strangers
            // from making this node compute signatures for addresses that are not theirs.
            let _ = incoming.retry();
        } else {
            let serving = serve(transport.clone(), incoming, links.clone());
            transport.runtime().spawn(serving);
        }
    }
}

/// One peer's connection, from its handshake until either side has had enough.
async fn serve<R: QuicRuntime>(transport: QuicLinks<R>, incoming: Incoming, links: mpsc::Sender<Knock>) {
    let remote = incoming.remote_address();
    match shake_hands(&transport, incoming).await {
        Ok(connection) => {
            let timer = transport.timer();
            drop(transport);
            tokio::select! {
                () = hand_out(&connection, &links, &timer) => {}
                () = links.closed() => {}
            }
        }
        Err(error) if Unproved::of(&error).is_some() => {
            let turned_away = Unproved::error(format!("{remote}: {error}"));
            // Fails only if the node has ended.
            let _ = links.send(Err(turned_away)).await;
        }
        Err(error) => tracing::debug!(
            target: "cluster::transport", event = "quic_refused", %remote, %error,
            "a connection was refused"
        ),
    }
}

async fn shake_hands<R: QuicRuntime>(transport: &QuicLinks<R>, incoming: Incoming) -> io::Result<Connection> {
    let connecting = incoming.accept_with(transport.server_config()?).map_err(lost)?;
    let connected = transport.timer().within(HANDSHAKE_LIMIT, connecting).await?;
    connected.map_err(lost)
}

async fn hand_out(connection: &Connection, links: &mpsc::Sender<Knock>, timer: &Timer) {
    let receivers = Receivers::default();
    loop {
        let (writer, reader) = tokio::select! {
            stream = connection.accept_bi() => match stream {
                Ok(stream) => stream,
                Err(_) => return,
            },
            datagram = connection.read_datagram() => {
                match datagram {
                    Ok(datagram) => receivers.hand_over(&datagram),
                    Err(_) => return,
                }
                continue;
            }
        };
        let receiving = receivers.of(reader.id());
        let link = Accepted {
            remote: connection.remote_address(),
            reader: QuicReader::accepted(reader, connection, receiving),
            writer: QuicWriter::only_stream(writer, timer.clone()),
        };
        if links.send(Ok(link)).await.is_err() {
            return;
        }
    }
}
