//! Who does not have the key, over real links: another key, a made-up, cut or changed greeting, a session
//! that somebody recorded, an acceptor that cannot prove itself. Refused, counted as that, and the cluster
//! goes on. Spec: `docs/WIRE.md` 3.4, reliability 3a, 3c (B-53, B-54).

use quorate_core::ident::{Address, ClusterName, UniqueAddress};
use quorate_core::wire::handshake::{Hello, LinkKind as HelloLink, encode_hello};
use quorate_driver::spi::{Adapter, LinkKind, LinkReader, LinkWriter, Listener, Transport, Unproved};
use quorate_driver::{
    Cluster, Security,
    security::{Proved, Psk},
    stats::LinkStats,
};

use super::strangers::{LinkStranger, goes_on, links, nodes_of_different_security_do_not_meet, rest};
use super::support::both;
use super::support::{eventually, first, node, transport, within};

const KEY: &str = "a key of thirty-two random bytes";
const OTHER: &str = "another key of the same length!!";

fn keyed(key: &str) -> Security {
    Security::psk(Psk::new(key).expect("a key"))
}

/// What a dialer says first within its session.
fn hello(to: &Address) -> Vec<u8> {
    let hello = Hello {
        versions: (1, 1),
        cluster: ClusterName::new("conformance").expect("a name"),
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
    bytes
}

async fn some(reader: &mut impl LinkReader) -> Vec<u8> {
    let mut buffer = vec![0; 1_024];
    let count = reader.read(&mut buffer).await.expect("the link is open");
    assert!(count > 0, "the link has ended");
    buffer.truncate(count);
    buffer
}

/// Somebody on the way between an honest node and a member: what the node said, before and within its
/// session.
async fn recorded<A: Adapter>(member: &Cluster, security: &Security) -> [Vec<u8>; 2] {
    let plain = transport::<A>(&Security::insecure_plaintext());
    let mut listener = plain.bind("127.0.0.1:0").await.expect("it listens");
    let port = listener.local_address().expect("it has a port").port();
    let here = Address::new("127.0.0.1", port).expect("an address");
    let to = member.address().address();
    let honest = async {
        let dialed = transport::<A>(security).dial(&here, LinkKind::Control).await;
        let (mut reader, mut writer) = dialed.expect("the member has the key");
        writer.write_all(&hello(to)).await.expect("it is sent");
        assert!(!some(&mut reader).await.is_empty());
        assert!(matches!(reader.proved(), Proved::Key(_)));
    };
    let mut heard = Vec::new();
    let on_the_way = async {
        let mut from = listener.accept().await.expect("the node dials");
        let (mut reader, mut writer) = plain.dial(to, LinkKind::Control).await.expect("it is there");
        for _ in 0..2 {
            let said = some(&mut from.reader).await;
            writer.write_all(&said).await.expect("it is sent");
            heard.push(said);
            let answer = some(&mut reader).await;
            from.writer.write_all(&answer).await.expect("it is sent");
        }
    };
    within::<A, _>("the session is recorded", both(honest, on_the_way)).await;
    heard.try_into().expect("twice")
}

/// B-53, B-54: who proves nothing, or too little, or what somebody else proved before, gets no link.
pub async fn wrong_empty_and_cut_proofs_and_recorded_sessions_are_refused_and_counted<A: Adapter>() {
    let security = keyed(KEY);
    let member = first::<A>(node::<A>(&security)).await;
    let to = member.address().address();
    // With the key the same words open a link: what follows is refused for what it is and nothing else.
    let [greeting, said] = recorded::<A>(&member, &security).await;
    assert_eq!(links(&member).await.handshakes_completed, 1);
    eventually::<A>("the link is gone", async || links(&member).await.links_open == 0).await;

    let other = transport::<A>(&keyed(OTHER)).dial(to, LinkKind::Control).await;
    let refusal = other.err().expect("another key");
    assert!(Unproved::of(&refusal).is_some(), "{refusal}");
    eventually::<A>("another key is counted", async || {
        links(&member).await.refused_unauthenticated == 1
    })
    .await;

    let changed = {
        let mut greeting = greeting.clone();
        *greeting.last_mut().expect("it is not empty") ^= 1;
        greeting
    };
    let zeros = [greeting.get(..4).expect("a magic"), &[0; 48]].concat();
    type Counter = fn(&LinkStats) -> u64;
    let unauthenticated: Counter = |links| links.refused_unauthenticated;
    let cut: Counter = |links| links.refused_malformed;
    let cases: [(&str, &[u8], &[u8], Counter); 5] = [
        ("zeros", &zeros, &[], unauthenticated),
        ("one wrong bit", &changed, &[], unauthenticated),
        ("a recorded session", &greeting, &said, unauthenticated),
        (
            "half a greeting",
            greeting.get(..31).expect("it has more"),
            &[],
            cut,
        ),
        ("nothing behind a recorded greeting", &greeting, &[], cut),
    ];
    let stranger = LinkStranger::new::<A>(&Security::insecure_plaintext()).await;
    for (what, before_answer, after_answer, counter) in cases {
        let before = links(&member).await;
        within::<A, _>(what, async {
            let (mut reader, mut writer) = stranger.dial(to).await;
            writer.write_all(before_answer).await.expect("it is sent");
            if !after_answer.is_empty() {
                some(&mut reader).await;
                writer.write_all(after_answer).await.expect("it is sent");
            }
            let _ = writer.close().await;
            rest(&mut reader).await;
        })
        .await;
        eventually::<A>(what, async || {
            counter(&links(&member).await) == counter(&before) + 1
        })
        .await;
        let after = links(&member).await;
        assert_eq!(
            after.handshakes_completed, before.handshakes_completed,
            "{what}: {after:?}"
        );
    }
    goes_on::<A>(&member, &security).await;
}

/// A dialer believes no acceptor that cannot prove that it has the key, whatever it says.
pub async fn an_acceptor_without_the_key_is_refused<A: Adapter>() {
    let transport = transport::<A>(&Security::insecure_plaintext());
    let mut listener = transport.bind("127.0.0.1:0").await.expect("it listens");
    let port = listener.local_address().expect("it has a port").port();
    let here = Address::new("127.0.0.1", port).expect("an address");
    let dialer = node::<A>(&keyed(KEY)).seeds([&here]).start().await;
    let dialer = dialer.expect("an honest node starts");
    let zeros = [&b"Qrn1"[..], &[0; 48]].concat();
    // A made-up answer, a refusal, plaintext; and what the dialer itself has said.
    let answers: [Option<&[u8]>; 4] = [Some(&zeros), Some(b"Qrn0"), Some(b"Qrh1"), None];
    for answer in answers {
        let before = links(&dialer).await.dials_refused;
        let knock = within::<A, _>("the node dials", listener.accept()).await;
        let mut knock = knock.expect("it is accepted");
        let heard = within::<A, _>("the dialer speaks", some(&mut knock.reader)).await;
        assert_eq!(heard.len(), 52, "a greeting, of which no word says who dials");
        let answer = answer.unwrap_or(&heard);
        knock.writer.write_all(answer).await.expect("it is sent");
        eventually::<A>("it is refused", async || {
            links(&dialer).await.dials_refused > before
        })
        .await;
    }
    let stats = links(&dialer).await;
    assert_eq!(
        (stats.handshakes_completed, stats.frames_sent),
        (0, 0),
        "{stats:?}"
    );
    dialer.stop().await;
}

/// Nodes of two keys do not meet, nor does one without a key.
pub async fn nodes_of_two_keys_do_not_meet_nor_does_one_without<A: Adapter>() {
    let (ours, theirs) = (keyed(KEY), keyed(OTHER));
    nodes_of_different_security_do_not_meet::<A>(&ours, &theirs).await;
    nodes_of_different_security_do_not_meet::<A>(&ours, &Security::insecure_plaintext()).await;
    nodes_of_different_security_do_not_meet::<A>(&Security::insecure_plaintext(), &ours).await;
}
