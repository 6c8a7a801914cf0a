//! Strangers at the port of a running cluster: every one is refused with a reason that is counted, within the
//! handshake limit, and the cluster does not notice. Spec: reliability 3c (B-02 to B-12, B-39, B-52).

use crate::common;

use std::time::{Duration, Instant};

use common::{LIMIT, all_up, cluster, node, within};
use quorate_core::ident::{Address, ClusterName, UniqueAddress};
use quorate_core::wire::handshake::{
    HandshakeDecoded, Hello, HelloAnswer, LinkKind, RejectReason, decode_answer, encode_hello,
};
use quorate_tokio::{Cluster, ClusterBuilder, ClusterEvent, Security, stats::LinkStats};
use quorate_tokio::{Config, Event, events::MembershipEvent, membership::MembershipChange};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Short enough to wait for, long enough for honest nodes on a busy machine.
const HANDSHAKE_LIMIT: Duration = Duration::from_millis(1_500);

fn impatient() -> ClusterBuilder<Security> {
    node().link_limits(|limits| limits.handshake_timeout = HANDSHAKE_LIMIT)
}

fn hello_to(target: &Cluster, cluster: &str) -> Hello {
    Hello {
        versions: (1, 1),
        cluster: ClusterName::new(cluster).unwrap(),
        from: UniqueAddress::new(Address::new("127.0.0.1", 9).unwrap(), 77),
        to: target.address().address().clone(),
        expected_uid: None,
        link: LinkKind::Control,
        epoch: 1,
        features: 0,
        auth_method: 0,
        nonce: [1; 16],
    }
}

fn encoded(hello: &Hello) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode_hello(hello, &mut bytes).unwrap();
    bytes
}

async fn connect(target: &Cluster) -> TcpStream {
    let address = target.address().address();
    TcpStream::connect((address.host(), address.port()))
        .await
        .unwrap()
}

/// Says something and waits until the other side hangs up; returns what it said and how long it took.
async fn until_closed(target: &Cluster, said: &[u8]) -> (Vec<u8>, Duration) {
    // Before the other side can have begun to count, however long it takes to connect.
    let begun = Instant::now();
    let mut stream = connect(target).await;
    stream.write_all(said).await.unwrap();
    let heard = rest(&mut stream).await;
    (heard, begun.elapsed())
}

/// A reset is an end as well.
async fn rest(stream: &mut TcpStream) -> Vec<u8> {
    let mut heard = Vec::new();
    let mut buffer = [0; 1024];
    within(async {
        while let Ok(len @ 1..) = stream.read(&mut buffer).await {
            heard.extend_from_slice(&buffer[..len]);
        }
    })
    .await;
    heard
}

async fn links(target: &Cluster) -> LinkStats {
    target.stats().await.unwrap().links
}

fn rejected(heard: &[u8]) -> RejectReason {
    let answer = decode_answer(heard);
    let HandshakeDecoded::Done {
        value: HelloAnswer::Reject(reject),
        ..
    } = answer
    else {
        panic!("{answer:?}")
    };
    reject.reason
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn strangers_are_refused_with_a_reason_and_the_cluster_goes_on() {
    let first = impatient().start().await.unwrap();
    first.join([first.address().address()]).await.unwrap();
    let second = impatient()
        .seeds([first.address().address()])
        .start()
        .await
        .unwrap();
    all_up(&first, 2).await;
    let mut events = first.events();
    let before = links(&first).await;

    until_closed(&first, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").await;
    until_closed(&first, &[0x5a; 300]).await;
    until_closed(&first, &u32::MAX.to_be_bytes()).await;
    assert_eq!(
        links(&first).await.refused_bad_magic,
        before.refused_bad_magic + 3
    );

    let mut long = encoded(&hello_to(&first, "tests"));
    long[6..8].copy_from_slice(&u16::MAX.to_le_bytes());
    until_closed(&first, &long).await;
    assert_eq!(
        links(&first).await.refused_too_large,
        before.refused_too_large + 1
    );

    let (heard, _) = until_closed(&first, &encoded(&hello_to(&first, "others"))).await;
    assert_eq!(rejected(&heard), RejectReason::WrongCluster);
    assert_eq!(links(&first).await.refused_cluster, before.refused_cluster + 1);

    let mut newer = hello_to(&first, "tests");
    newer.versions = (9, 9);
    let (heard, _) = until_closed(&first, &encoded(&newer)).await;
    assert_eq!(rejected(&heard), RejectReason::Version);

    let mut misled = hello_to(&first, "tests");
    misled.expected_uid = Some(first.address().uid() ^ 1);
    let (heard, _) = until_closed(&first, &encoded(&misled)).await;
    assert!(
        matches!(rejected(&heard), RejectReason::WrongIncarnation { found } if found == first.address().uid())
    );

    let whole = encoded(&hello_to(&first, "tests"));
    let (_, took) = until_closed(&first, &whole[..whole.len() / 2]).await;
    assert!(took < LIMIT, "{took:?}");
    let (_, took) = until_closed(&first, b"").await;
    assert!(took >= HANDSHAKE_LIMIT / 2, "{took:?}");
    assert_eq!(links(&first).await.refused_timeout, before.refused_timeout + 2);

    all_up(&first, 2).await;
    all_up(&second, 2).await;
    let mut noticed = Vec::new();
    while let Ok(Some(event)) = tokio::time::timeout(Duration::ZERO, events.next()).await {
        if let ClusterEvent::Event(Event::Membership(MembershipEvent::Changed { change, .. })) = event {
            noticed.push(change);
        }
    }
    assert!(
        !noticed
            .iter()
            .any(|change| matches!(change, MembershipChange::Unreachable(_))),
        "{noticed:?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_the_handshake_a_length_of_four_gigabytes_or_half_a_frame_ends_the_link() {
    let target = impatient().start().await.unwrap();
    let greet = async |epoch: u32| {
        let mut stream = connect(&target).await;
        let mut hello = hello_to(&target, "tests");
        hello.epoch = epoch;
        stream.write_all(&encoded(&hello)).await.unwrap();
        let mut heard = Vec::new();
        while let HandshakeDecoded::NeedMore(_) = decode_answer(&heard) {
            let mut byte = [0; 64];
            let len = within(stream.read(&mut byte)).await.unwrap();
            assert_ne!(len, 0);
            heard.extend_from_slice(&byte[..len]);
        }
        assert!(matches!(
            decode_answer(&heard),
            HandshakeDecoded::Done {
                value: HelloAnswer::Ack(_),
                ..
            }
        ));
        stream
    };
    let mut frame = Vec::new();
    let message =
        quorate_core::message::Message::Membership(quorate_core::message::MembershipMsg::InitJoinNack);
    quorate_core::wire::encode_message(
        &message,
        1,
        &Config::fast(ClusterName::new("t").unwrap()).limits,
        &mut frame,
    )
    .unwrap();

    let mut stream = greet(1).await;
    let mut huge = frame.clone();
    huge[8..12].copy_from_slice(&u32::MAX.to_le_bytes());
    stream.write_all(&huge).await.unwrap();
    rest(&mut stream).await;
    let stats = links(&target).await;
    assert_eq!(stats.frames_too_large, 1, "{stats:?}");

    let begun = Instant::now();
    let mut stream = greet(2).await;
    stream.write_all(&frame[..frame.len() - 1]).await.unwrap();
    rest(&mut stream).await;
    assert!(begun.elapsed() >= HANDSHAKE_LIMIT / 2);
    let stats = links(&target).await;
    // A stranger's link ends with the time for a handshake, whatever it has begun to say.
    assert_eq!(stats.strangers_closed_unasked, 1, "{stats:?}");

    let stats = target.stats().await.unwrap();
    assert_eq!(stats.core.node.frames_received, 0, "{stats:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b_52_one_source_may_have_sixteen_open_handshakes_and_one_more_displaces_one() {
    let target = cluster(1).await.remove(0);
    let mut silent = Vec::new();
    for _ in 0..16 {
        silent.push(connect(&target).await);
    }
    // The kernel accepts before the node does: wait until it has seen them.
    within(async {
        while links(&target).await.handshakes_pending < 16 {
            tokio::task::yield_now().await
        }
    })
    .await;
    silent.push(connect(&target).await);
    within(async {
        while links(&target).await.refused_too_many < 1 {
            tokio::task::yield_now().await
        }
    })
    .await;
    let stats = links(&target).await;
    assert_eq!(
        (stats.handshakes_pending, stats.refused_too_many),
        (16, 1),
        "{stats:?}"
    );
    drop(silent);
    within(async {
        while links(&target).await.handshakes_pending > 0 {
            tokio::task::yield_now().await
        }
    })
    .await;
    assert_eq!(links(&target).await.refused_malformed, 16);
}
