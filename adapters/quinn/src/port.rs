//! Where peers reach this node: accepts connections, shakes hands with each in a task of its own, and hands
//! out the streams they open. Decides nothing: the door knows who may come. Spec: reliability 3b.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use quinn::{Connection, Endpoint, Incoming, RecvStream, SendStream, VarInt};
use quorate_driver::spi::{Accepted, Listener, Unproved};
use tokio::sync::mpsc;

use crate::datagrams::DatagramReceivers;
use crate::door::{DoorPlace, ProvedConnection};
use crate::link::{QuicReader, QuicWriter, lost};
use crate::links::QuicLinks;
use crate::runtime::{QuicRuntime, QuinnTimer};

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
    let door = transport.door();
    loop {
        let incoming = tokio::select! {
            () = links.closed() => return,
            incoming = endpoint.accept() => incoming,
        };
        let Some(incoming) = incoming else {
            return;
        };
        if !incoming.remote_address_validated() {
            // Whoever forges its address never sees the answer: costs an honest peer one round trip, and
            // keeps strangers from making this node compute signatures for addresses that are not theirs.
            let _ = incoming.retry();
        } else if !door.has_room(endpoint.open_connections(), transport.dialed()) {
            // Without an answer: an honest peer says it again after a while.
            incoming.ignore();
        } else {
            let place = door.enter(incoming.remote_address());
            let serving = serve(transport.clone(), incoming, place, links.clone());
            transport.runtime().spawn(serving);
        }
    }
}

/// One peer's connection, from its handshake until either side has had enough.
async fn serve<R: QuicRuntime>(
    transport: QuicLinks<R>,
    incoming: Incoming,
    place: DoorPlace,
    links: mpsc::Sender<Knock>,
) {
    let remote = incoming.remote_address();
    match shake_hands(&transport, incoming, place).await {
        Ok((connection, proved)) => {
            let (timer, limit) = (transport.timer(), transport.handshake_limits().timeout);
            drop(transport);
            tokio::select! {
                () = hand_out(&connection, &proved, &links,&timer, limit) => {}
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

async fn shake_hands<R: QuicRuntime>(
    transport: &QuicLinks<R>,
    incoming: Incoming,
    mut place: DoorPlace,
) -> io::Result<(Connection, ProvedConnection)> {
    let connecting = incoming.accept_with(transport.server_config()?).map_err(lost)?;
    let (timer, limit) = (transport.timer(), transport.handshake_limits().timeout);
    let connected = tokio::select! {
        connected = timer.within(limit, connecting) => connected,
        () = place.displaced() => return Err(io::Error::other("too many unfinished handshakes")),
    };
    match connected {
        Ok(connected) => Ok((connected.map_err(lost)?, place.prove())),
        Err(late) => {
            place.time_out();
            Err(late)
        }
    }
}

/// Hands out a connection's links. `limit`: how long there may be none, before the first one or after the
/// last.
async fn hand_out(
    connection: &Connection,
    proved: &ProvedConnection,
    links: &mpsc::Sender<Knock>,
    timer: &QuinnTimer,
    limit: Duration,
) {
    let receivers = DatagramReceivers::default();
    loop {
        let next = if receivers.is_empty() {
            first_stream(connection, proved, &receivers, timer, limit).await
        } else {
            tokio::select! {
                biased;
                next = next_stream(connection, &receivers) => next,
                () = receivers.emptied() => continue,
            }
        };
        let Some((writer, reader)) = next else {
            break;
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
    connection.close(VarInt::from_u32(0), b"no link");
}

/// The first stream on a connection that has no link. `None`: it did not come in time, or somebody else needs
/// the place.
async fn first_stream(
    connection: &Connection,
    proved: &ProvedConnection,
    receivers: &DatagramReceivers,
    timer: &QuinnTimer,
    limit: Duration,
) -> Option<(SendStream, RecvStream)> {
    let mut place = proved.vacate();
    let next = tokio::select! {
        biased;
        next = timer.within(limit, next_stream(connection, receivers)) => next.ok().flatten(),
        () = place.displaced() => None,
    };
    drop(place);
    next.filter(|_| proved.may_have_links())
}

/// The next stream that the peer opens. `None`: the connection has ended.
async fn next_stream(
    connection: &Connection,
    receivers: &DatagramReceivers,
) -> Option<(SendStream, RecvStream)> {
    loop {
        tokio::select! {
            stream = connection.accept_bi() => return stream.ok(),
            datagram = connection.read_datagram() => receivers.hand_over(&datagram.ok()?),
        }
    }
}
