//! Who does not have the key, over real links: wrong, empty or cut proofs, a session that somebody recorded, an acceptor that
//! cannot prove itself. Refused, counted as that, and the cluster goes on. Spec: reliability 3a, 3c (B-53,
//! B-54).

use quorate_core::ident::{Address, ClusterName, UniqueAddress};
use quorate_core::wire::handshake::{
    AUTH_PSK, HandshakeDecoded, Hello, HelloAck, HelloAnswer, LinkKind as HelloLink, Proof, RejectReason,
    decode_answer, encode_answer, encode_hello, encode_proof,
};

use super::strangers::{Stranger, goes_on, links, nodes_of_different_security_do_not_meet};
use super::support::{eventually, first, node, transport, within};
use crate::adapter::Adapter;
use crate::cluster::Cluster;
use crate::psk::{self, Psk};
use crate::security::Security;
use crate::transport::{LinkReader, LinkWriter, Listener, Transport};

const KEY: &str = "a key of thirty-two random bytes";
const OTHER: &str = "another key of the same length!!";

fn keyed(key: &str) -> Security {
    Security::psk(Psk::new(key).expect("a key"))
}

/// What a dialer says first. The nonce is what a stranger likes it to be.
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
        auth_method: AUTH_PSK,
        nonce: [1; 16],
    };
    let mut bytes = Vec::new();
    encode_hello(&hello, &mut bytes).expect("it is a hello");
    bytes
}

fn encoded(proof: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let proof = Proof::from_slice(proof).expect("it is short enough");
    encode_proof(&proof, &mut bytes).expect("it is a proof");
    bytes
}

/// The next answer of an acceptor, and its bytes.
async fn answer(reader: &mut impl LinkReader) -> (HelloAnswer, Vec<u8>) {
    let (mut heard, mut buffer) = (Vec::new(), vec![0; 1_024]);
    loop {
        match decode_answer(&heard) {
            HandshakeDecoded::Done { value, consumed } => {
                heard.truncate(consumed);
                return (value, heard);
            }
            HandshakeDecoded::NeedMore(_) => {}
            HandshakeDecoded::Bad(error) => panic!("{error}"),
        }
        let len = reader.read(&mut buffer).await.expect("the link is open");
        assert!(len > 0, "no answer: {heard:?}");
        heard.extend_from_slice(buffer.get(..len).expect("no more than there is room for"));
    }
}

/// Dials, says hello, and answers the challenge with what `prove` makes of the transcript. What the node says to that.
async fn session<A: Adapter>(
    stranger: &Stranger<A::Transport>,
    node: &Cluster<A>,
    prove: impl FnOnce(&psk::Transcript) -> Vec<u8>,
) -> HelloAnswer {
    let to = node.address().address();
    let said = hello(to);
    within::<A, _>("the node answers", async {
        let (mut reader, mut writer) = stranger.dial(to).await;
        writer.write_all(&said).await.expect("it is sent");
        let (challenge, bytes) = answer(&mut reader).await;
        assert!(matches!(challenge, HelloAnswer::Challenge(_)), "{challenge:?}");
        let proof = prove(&psk::transcript(&said, &bytes));
        writer.write_all(&proof).await.expect("it is sent");
        answer(&mut reader).await.0
    })
    .await
}

/// B-53, B-54: who proves nothing, or too little, or what somebody else proved before, gets no link.
pub async fn wrong_empty_and_cut_proofs_and_recorded_sessions_are_refused_and_counted<A: Adapter>() {
    let security = keyed(KEY);
    let member = first(node::<A>(&security)).await;
    let stranger = Stranger::new::<A>(&security).await;
    let ours = Psk::new(KEY).expect("a key");
    let other = Psk::new(OTHER).expect("a key");
    // With the key the same words open a link: what follows is refused for its proof and nothing else.
    let mut recorded = Vec::new();
    let consent = session(&stranger, &member, |said| {
        recorded = encoded(&ours.prove(said));
        recorded.clone()
    });
    let consent = consent.await;
    assert!(matches!(consent, HelloAnswer::Ack(_)), "{consent:?}");
    eventually::<A>("the link is gone", async || links(&member).await.links_open == 0).await;

    type Prove<'a> = Box<dyn Fn(&psk::Transcript) -> Vec<u8> + 'a>;
    let cases: [(&str, Prove<'_>); 6] = [
        ("another key", Box::new(|said| encoded(&other.prove(said)))),
        ("no proof", Box::new(|_| encoded(&[]))),
        ("zeros", Box::new(|_| encoded(&[0; 32]))),
        ("31 bytes of the right proof", {
            Box::new(|said| encoded(ours.prove(said).get(..31).expect("it has 32")))
        }),
        ("one wrong bit", {
            Box::new(|said| {
                let mut proof = ours.prove(said).to_vec();
                proof[0] ^= 1;
                encoded(&proof)
            })
        }),
        ("a recorded session", Box::new(|_| recorded.clone())),
    ];
    for (what, prove) in cases {
        let before = links(&member).await;
        let refused = session(&stranger, &member, prove).await;
        let HelloAnswer::Reject(reject) = &refused else {
            panic!("{what}: {refused:?}");
        };
        assert_eq!(reject.reason, RejectReason::Unauthenticated, "{what}");
        let after = links(&member).await;
        assert_eq!(
            (after.refused_unauthenticated, after.handshakes_completed),
            (before.refused_unauthenticated + 1, before.handshakes_completed),
            "{what}: {after:?}"
        );
    }
    goes_on(&member, &security).await;
}

/// A dialer believes no acceptor that cannot prove that it has the key, whatever it says.
pub async fn an_acceptor_without_the_key_is_refused<A: Adapter>() {
    let transport = transport::<A>(&keyed(OTHER));
    let mut listener = transport.bind("127.0.0.1:0").await.expect("it listens");
    let port = listener.local_address().expect("it has a port").port();
    let here = Address::new("127.0.0.1", port).expect("an address");
    let dialer = node::<A>(&keyed(KEY)).seeds([&here]).start().await;
    let dialer = dialer.expect("an honest node starts");
    let ack = |proof| HelloAck {
        version: 1,
        from: UniqueAddress::new(here.clone(), 77),
        features: 0,
        auth_method: AUTH_PSK,
        nonce: [1; 16],
        proof,
    };
    let say = |answer: HelloAnswer| {
        let mut bytes = Vec::new();
        encode_answer(&answer, &mut bytes).expect("it is an answer");
        bytes
    };
    let zeros = Proof::from_slice(&[0; 32]).expect("it is short enough");
    let welcomes = [
        // With a challenge and a made-up proof; without any challenge.
        vec![
            say(HelloAnswer::Challenge(ack(Proof::new()))),
            say(HelloAnswer::Ack(ack(zeros))),
        ],
        vec![say(HelloAnswer::Ack(ack(Proof::new())))],
    ];
    for words in welcomes {
        let before = links(&dialer).await.dials_refused;
        let knock = within::<A, _>("the node dials", listener.accept()).await;
        let mut knock = knock.expect("it is accepted");
        let mut heard = [0; 1_024];
        for word in words {
            let read = within::<A, _>("the dialer speaks", knock.reader.read(&mut heard)).await;
            assert!(read.expect("the link is open") > 0);
            knock.writer.write_all(&word).await.expect("it is sent");
        }
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
