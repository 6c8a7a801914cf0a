//! Strangers over QUIC, whose handshakes are below the links: those who stop in the middle of one, and those
//! who finish it, with a certificate, and are no members. Spec: reliability 3b (F-29, B-52).

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use quinn::crypto::rustls::QuicClientConfig;
use quinn::{ClientConfig, Connection, Endpoint, TransportConfig};
use quorate_quinn::{Cluster, Security, config::LinkLimits, security::DevCa, stats::LinkStats};
use tokio::net::UdpSocket;
use tokio::time::{sleep, timeout};

use crate::conformance::block_on;

const NAME: &str = "tests.cluster.internal";
const HANDSHAKE_LIMIT: Duration = Duration::from_millis(1_500);
/// A retry, and the first packet with its answer: no handshake is finished with less, nor with so much.
const DATAGRAMS_OF_HALF_A_HANDSHAKE: usize = 2;

async fn node(authority: &DevCa, change: impl FnOnce(&mut LinkLimits) + Send + 'static) -> Cluster {
    let builder = quorate_quinn::builder("strangers")
        .bind("127.0.0.1:0")
        .security(Security::mtls(authority.mtls().unwrap()))
        .fast_profile()
        .config(|config| config.failure_detector.acceptable_heartbeat_pause = Duration::from_secs(3))
        .link_limits(move |limits| {
            limits.handshake_timeout = HANDSHAKE_LIMIT;
            change(limits);
        });
    builder.start().await.unwrap()
}

async fn first(authority: &DevCa, change: impl FnOnce(&mut LinkLimits) + Send + 'static) -> Cluster {
    let node = node(authority, change).await;
    node.join([node.address().address()]).await.unwrap();
    node.up().await.unwrap();
    node
}

fn port(node: &Cluster) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], node.address().address().port()))
}

async fn links(node: &Cluster) -> LinkStats {
    node.stats().await.unwrap().links
}

async fn eventually(what: &str, mut look: impl AsyncFnMut() -> bool) {
    let looking = async {
        while !look().await {
            sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(Duration::from_secs(30), looking).await.expect(what);
}

/// Somebody with a certificate of this authority who can do nothing but connect.
fn stranger(authority: &DevCa) -> Endpoint {
    let tls = authority.mtls().unwrap().client_config();
    let mut config = ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls).unwrap()));
    let mut transport = TransportConfig::default();
    transport.keep_alive_interval(Some(Duration::from_millis(500)));
    config.transport_config(Arc::new(transport));
    let mut endpoint = Endpoint::client(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    endpoint.set_default_client_config(config);
    endpoint
}

/// A network that lets a few datagrams of a dialer through and then none.
async fn torn(to: SocketAddr) -> SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let here = socket.local_addr().unwrap();
    tokio::spawn(async move {
        let (mut dialer, mut passed, mut bytes) = (to, 0, [0; 2_048]);
        while let Ok((len, from)) = socket.recv_from(&mut bytes).await {
            if from == to {
                socket.send_to(&bytes[..len], dialer).await.unwrap();
            } else if passed < DATAGRAMS_OF_HALF_A_HANDSHAKE {
                (dialer, passed) = (from, passed + 1);
                socket.send_to(&bytes[..len], to).await.unwrap();
            }
        }
    });
    here
}

#[test]
fn b_52_half_done_handshakes_are_counted_and_end_within_their_time() {
    block_on(async {
        let authority = DevCa::new(NAME).unwrap();
        let target = first(&authority, |_| {}).await;
        let stranger = stranger(&authority);
        let mut begun = Vec::new();
        for _ in 0..18 {
            let connecting = stranger.connect(torn(port(&target)).await, NAME).unwrap();
            begun.push(tokio::spawn(connecting));
        }
        eventually("so many as one source may have, and two have gone", async || {
            let links = links(&target).await;
            (links.handshakes_pending, links.refused_too_many) == (16, 2)
        })
        .await;
        eventually("their time is over", async || {
            links(&target).await.handshakes_pending == 0
        })
        .await;
        let links = links(&target).await;
        assert_eq!(
            (links.refused_timeout, links.handshakes_refused),
            (16, 18),
            "{links:?}"
        );
        begun.iter().for_each(tokio::task::JoinHandle::abort);
    });
}

/// A connection on which a link was opened that the node closed.
async fn linked_and_closed(stranger: &Endpoint, to: SocketAddr) -> Option<Connection> {
    let connection = stranger.connect(to, NAME).ok()?.await.ok()?;
    let (mut says, mut hears) = connection.open_bi().await.ok()?;
    says.write_all(b"GET / HTTP/1.1\r\n\r\n").await.ok()?;
    // The link is closed, or the whole connection.
    let _ = hears.read_to_end(1_024).await;
    Some(connection)
}

#[test]
fn b_52_connections_of_strangers_without_a_link_keep_no_member_out_and_are_closed() {
    block_on(async {
        let authority = DevCa::new(NAME).unwrap();
        let smallest = |limits: &mut LinkLimits| {
            limits.links_max = 16;
            limits.pending_handshakes_max = 16;
            limits.stranger_links_max = 16;
        };
        let target = first(&authority, smallest).await;
        let stranger = stranger(&authority);
        let mut held = Vec::new();
        for _ in 0..60 {
            held.extend(linked_and_closed(&stranger, port(&target)).await);
        }
        assert_eq!(held.len(), 60);

        let friend = node(&authority, |_| {}).await;
        friend.join([target.address().address()]).await.unwrap();
        let up = timeout(Duration::from_secs(5), friend.up()).await;
        up.expect("an honest node joins").unwrap();

        for connection in held {
            let closed = timeout(3 * HANDSHAKE_LIMIT, connection.closed()).await;
            closed.expect("a connection without a link is closed");
        }
        friend.leave().await.unwrap();
    });
}
