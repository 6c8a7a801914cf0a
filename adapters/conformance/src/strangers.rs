//! Who reaches the port and is no member: cut off or told why, counted, and the cluster does not notice.
//! Spec: reliability 3c (B-03, B-04, B-11, B-12, B-39).

use std::time::Duration;

use quorate_core::ident::{Address, ClusterName, UniqueAddress};
use quorate_core::wire::handshake::{
    HandshakeDecoded, Hello, HelloAnswer, LinkKind as HelloLink, RejectReason, decode_answer, encode_hello,
};
use quorate_driver::spi::{Adapter, LinkKind, LinkReader, LinkWriter, Transport};
use quorate_driver::{Cluster, Security, Termination, stats::LinkStats};

use super::support::{eventually, first, joined, node, sleep, transport, within};

/// Short enough to wait for, long enough for honest nodes on a busy machine.
pub(super) const HANDSHAKE_LIMIT: Duration = Duration::from_millis(1_500);

/// Somebody who can open links and nothing else.
pub(super) struct LinkStranger<T: Transport> {
    transport: T,
    _listener: T::Listener,
}

impl<T: Transport> LinkStranger<T> {
    pub(super) async fn new<A: Adapter<Transport = T>>(security: &Security) -> Self {
        let transport = transport::<A>(security);
        let _listener = transport.bind("127.0.0.1:0").await.expect("it listens");
        Self { transport, _listener }
    }

    pub(super) async fn dial(&self, to: &Address) -> (T::Reader, T::Writer) {
        self.try_dial(to).await.expect("the port takes links")
    }

    pub(super) async fn try_dial(&self, to: &Address) -> std::io::Result<(T::Reader, T::Writer)> {
        self.transport.dial(to, LinkKind::Control).await
    }

    /// Says something and listens until the other side hangs up.
    async fn until_cut_off<A: Adapter>(&self, to: &Address, said: &[u8]) -> Vec<u8> {
        let (mut reader, mut writer) = self.dial(to).await;
        writer.write_all(said).await.expect("it is sent");
        within::<A, _>("the node hangs up", rest(&mut reader)).await
    }
}

/// A reset is an end as well.
pub(super) async fn rest(reader: &mut impl LinkReader) -> Vec<u8> {
    let (mut heard, mut buffer) = (Vec::new(), vec![0; 1_024]);
    while let Ok(len @ 1..) = reader.read(&mut buffer).await {
        heard.extend_from_slice(buffer.get(..len).expect("no more than there is room for"));
    }
    heard
}

pub(super) async fn impatient<A: Adapter>(security: &Security) -> Cluster {
    let impatient = node::<A>(security).link_limits(|limits| limits.handshake_timeout = HANDSHAKE_LIMIT);
    first::<A>(impatient).await
}

pub(super) async fn links(node: &Cluster) -> LinkStats {
    node.stats().await.expect("the node runs").links
}

/// The cluster still takes members.
pub(super) async fn goes_on<A: Adapter>(node: &Cluster, security: &Security) {
    let friend = joined::<A>(node.address().address(), security).await;
    within::<A, _>("the friend has left", friend.leave())
        .await
        .expect("it leaves");
}

/// Two nodes whose securities exclude each other do not meet, however often they try: call it with
/// certificates of two authorities, or with another name, or with plaintext on one side.
pub async fn nodes_of_different_security_do_not_meet<A: Adapter>(ours: &Security, theirs: &Security) {
    let member = first::<A>(node::<A>(ours)).await;
    let stranger = node::<A>(theirs)
        .seeds([member.address().address()])
        .start()
        .await;
    let stranger = stranger.expect("the stranger starts");
    eventually::<A>("the stranger has tried", async || {
        links(&stranger).await.dials >= 4
    })
    .await;
    for node in [&member, &stranger] {
        let stats = links(node).await;
        assert_eq!(
            (stats.handshakes_completed, stats.frames_received),
            (0, 0),
            "{stats:?}"
        );
    }
    // Either side is told, and says so.
    let refused = (
        links(&member).await.handshakes_refused,
        links(&stranger).await.dials_refused,
    );
    assert!(refused.0 > 0 && refused.1 > 0, "{refused:?}");
    assert_eq!(member.members().len(), 1);
    assert_eq!(stranger.members().len(), 0);
    assert_eq!(stranger.stop().await, Termination::Stopped);
    goes_on::<A>(&member, ours).await;
}

/// B-03, B-04: another protocol's bytes, noise, a length out of bounds.
pub async fn strangers_who_speak_something_else_are_cut_off<A: Adapter>(security: &Security) {
    let node = impatient::<A>(security).await;
    let stranger = LinkStranger::new::<A>(security).await;
    let before = links(&node).await;
    let to = node.address().address();
    let mut said: u64 = 0;
    for bytes in [
        &b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"[..],
        &[0x5a; 300],
        &[0xff; 64],
    ] {
        assert_eq!(stranger.until_cut_off::<A>(to, bytes).await, b"");
        said += 1;
    }
    assert_eq!(
        links(&node).await.refused_bad_magic,
        before.refused_bad_magic + said
    );
    goes_on::<A>(&node, security).await;
}

/// B-39: a hello for another cluster gets an answer that says so.
pub async fn a_dialer_for_another_cluster_is_told_so<A: Adapter>(security: &Security) {
    let node = impatient::<A>(security).await;
    let stranger = LinkStranger::new::<A>(security).await;
    let to = node.address().address();
    let hello = Hello {
        versions: (1, 1),
        cluster: ClusterName::new("others").expect("a name"),
        from: UniqueAddress::new(Address::new("127.0.0.1", 9).expect("an address"), 77),
        to: to.clone(),
        expected_uid: None,
        link: HelloLink::Control,
        epoch: 1,
        features: 0,
        auth_method: 0,
        nonce: [1; 16],
    };
    let mut bytes = Vec::new();
    encode_hello(&hello, &mut bytes).expect("it is a hello");
    let heard = stranger.until_cut_off::<A>(to, &bytes).await;
    let answer = decode_answer(&heard);
    let HandshakeDecoded::Done {
        value: HelloAnswer::Reject(reject),
        ..
    } = answer
    else {
        panic!("{answer:?}")
    };
    assert_eq!(reject.reason, RejectReason::WrongCluster);
    assert_eq!(links(&node).await.refused_cluster, 1);
    goes_on::<A>(&node, security).await;
}

/// B-11, B-12: half a hello and then silence is over within the limit on handshakes.
pub async fn a_silent_dialer_is_cut_off<A: Adapter>(security: &Security) {
    let node = impatient::<A>(security).await;
    let stranger = LinkStranger::new::<A>(security).await;
    let before = links(&node).await.refused_timeout;
    let heard = stranger.until_cut_off::<A>(node.address().address(), b"Qrh1");
    assert_eq!(heard.await, b"");
    eventually::<A>("it is counted", async || {
        links(&node).await.refused_timeout == before + 1
    })
    .await;
    goes_on::<A>(&node, security).await;
}

/// A node ends within its limits although links are open on which nobody says anything.
pub async fn strangers_do_not_delay_a_shutdown<A: Adapter>(security: &Security) {
    let node = first::<A>(node::<A>(security)).await;
    let stranger = LinkStranger::new::<A>(security).await;
    let (mut reader, mut writer) = stranger.dial(node.address().address()).await;
    writer.write_all(b"Qrh1").await.expect("it is sent");
    eventually::<A>("the link is there", async || links(&node).await.links_open == 1).await;
    assert_eq!(
        within::<A, _>("the node has ended", node.stop()).await,
        Termination::Stopped
    );
    within::<A, _>("the link has ended", rest(&mut reader)).await;
    sleep::<A>(Duration::ZERO).await;
}
