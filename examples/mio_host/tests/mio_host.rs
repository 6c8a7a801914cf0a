//! Runs the host over mio beside two nodes on tokio, then plays strangers and slow peers against it. Every
//! stage has a deadline; nothing sleeps but the host's own poll.

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use quorate_core::config::Config;
use quorate_core::effect::{Answer, CommandError, HaltReason, ShardingCommandError};
use quorate_core::ident::{Address, ClusterName, UniqueAddress};
use quorate_core::input::MessageCommand;
use quorate_core::input::Recipient;
use quorate_core::input::{Command, KindSettings, ShardingCommand};
use quorate_core::sharding::ids::{EntityId, KindId};
use quorate_core::wire::handshake::{
    AUTH_NONE, FEATURES, HandshakeDecoded, Hello, HelloAck, HelloAnswer, LinkKind, RejectReason,
    decode_answer, decode_hello, encode_answer, encode_hello,
};
use quorate_core::wire::{VERSION_MAX, VERSION_MIN};
use quorate_links::LinkLimits;
use quorate_mio_host::host::Host;
use quorate_mio_host::program::{are_up, ask_from_mio, ask_from_tokio, on_mio, on_mio_with, on_tokio, until};

const NO_TIME: Duration = Duration::from_millis(1);

#[test]
fn a_host_over_mio_and_nodes_on_tokio_form_one_cluster_and_answer_each_other() {
    let outcome = quorate_mio_host::program::run().unwrap_or_else(|error| panic!("{error}"));
    for lines in [
        &outcome.asked_by_tokio,
        &outcome.asked_by_mio,
        &outcome.asked_after_cut,
    ] {
        for runtime in ["mio", "tokio"] {
            let expected = format!("on {runtime} greets you");
            assert!(
                lines.iter().any(|line| line.contains(&expected)),
                "{runtime}: {lines:?}"
            );
        }
    }
    assert_eq!(outcome.asked_by_mio.len(), 30);
    assert!(outcome.dials >= 4, "two links to each of two peers");
    assert!(outcome.dials_after_cut >= 4, "{}", outcome.dials_after_cut);
    assert_eq!((outcome.end, outcome.left_behind), (HaltReason::Left, 2));
}

fn tokio_runtime() -> tokio::runtime::Runtime {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(1).enable_all().build().expect("a runtime")
}

#[test]
fn a_node_that_comes_back_at_its_address_is_another_incarnation_and_the_host_asks_that_one() {
    let runtime = tokio_runtime();
    let start = |bind: &str, seed| {
        let started = runtime.block_on(on_tokio(bind, seed));
        started.unwrap_or_else(|error| panic!("{error}"))
    };
    let (first, _region) = start("127.0.0.1:0", None);
    let seed = first.address().address().clone();
    let (second, _region) = start("127.0.0.1:0", Some(seed.clone()));
    let mut host = on_mio(seed.clone()).unwrap_or_else(|error| panic!("{error}"));
    let all_up = |host: &mut Host| {
        until(host, "three members to be Up", |host| {
            are_up(host, 3).then_some(())
        })
        .unwrap_or_else(|error| panic!("{error}"));
    };
    all_up(&mut host);
    let dials = host.dials();
    let gone = second.address().clone();
    runtime.block_on(second.stop());
    drop(second);

    let again = runtime.spawn(async move {
        let bind = format!("{}:{}", gone.address().host(), gone.address().port());
        let started = on_tokio(&bind, Some(seed)).await;
        (gone, started.unwrap_or_else(|error| panic!("{error}")))
    });
    until(&mut host, "the second node to come back", |_| {
        again.is_finished().then_some(())
    })
    .unwrap_or_else(|error| panic!("{error}"));
    let (gone, (again, _region)) = runtime.block_on(again).expect("it has come back");
    assert_eq!(again.address().address(), gone.address());
    until(&mut host, "the new incarnation to be Up", |host| {
        let view = host.view();
        let is_new = view.member(again.address()).is_some() && view.member(&gone).is_none();
        (is_new && are_up(host, 3)).then_some(())
    })
    .unwrap_or_else(|error| panic!("{error}"));
    let lines = ask_from_mio(&mut host).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(lines.len(), 30);
    until(&mut host, "a link to the new one", |host| {
        (host.dials() > dials).then_some(())
    })
    .unwrap_or_else(|error| panic!("{error}"));
}

fn config() -> Config {
    Config::fast(ClusterName::new("mio").expect("a name"))
}

fn bind(config: Config) -> Host {
    Host::bind(config, LinkLimits::default()).unwrap_or_else(|error| panic!("{error}"))
}

fn hello(host: &Host, link: LinkKind, epoch: u32) -> Vec<u8> {
    hello_of(host, 9, link, epoch)
}

/// The hello of a peer at this port.
fn hello_of(host: &Host, port: u16, link: LinkKind, epoch: u32) -> Vec<u8> {
    let me = Address::new("127.0.0.1", port).expect("an address");
    let hello = Hello {
        versions: (VERSION_MIN, VERSION_MAX),
        cluster: ClusterName::new("mio").expect("a name"),
        from: UniqueAddress::new(me, 7),
        to: host.address().address().clone(),
        expected_uid: None,
        link,
        epoch,
        features: FEATURES,
        auth_method: AUTH_NONE,
        nonce: [0; 16],
    };
    let mut bytes = Vec::new();
    encode_hello(&hello, &mut bytes).expect("a hello");
    bytes
}

fn connect(host: &Host) -> TcpStream {
    let address = host.address().address();
    let stream = TcpStream::connect((address.host(), address.port())).expect("a connection");
    stream.set_nonblocking(true).expect("a socket");
    stream
}

/// What the host says on a link, `None` once it has closed it.
fn hear(host: &mut Host, stream: &mut TcpStream) -> Option<HelloAnswer> {
    let mut heard = Vec::new();
    let heard = until(host, "the host to say something", |_| {
        let mut buffer = [0; 256];
        match stream.read(&mut buffer) {
            Ok(0) => return Some(None),
            Ok(len) => heard.extend_from_slice(&buffer[..len]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(_) => return Some(None),
        }
        match decode_answer(&heard) {
            HandshakeDecoded::Done { value, .. } => Some(Some(value)),
            HandshakeDecoded::NeedMore(_) => None,
            HandshakeDecoded::Bad(error) => panic!("{error}"),
        }
    });
    heard.unwrap_or_else(|error| panic!("{error}"))
}

/// A peer that is asked at its address which links are its own: the one of this epoch. Ends once it has said
/// so.
fn owner_of(listener: TcpListener, epoch: u32) -> JoinHandle<()> {
    thread::spawn(move || {
        loop {
            let (mut stream, _) = listener.accept().expect("a question");
            let mut heard = Vec::new();
            let asked = loop {
                let mut buffer = [0; 256];
                let len = stream.read(&mut buffer).expect("a hello");
                heard.extend_from_slice(&buffer[..len]);
                if let HandshakeDecoded::Done { value, .. } = decode_hello(&heard) {
                    break value;
                }
            };
            if asked.epoch != epoch {
                continue;
            }
            let ack = HelloAck {
                version: asked.versions.1,
                from: UniqueAddress::new(asked.to, 7),
                features: asked.features,
                auth_method: asked.auth_method,
                nonce: [0; 16],
            };
            let mut bytes = Vec::new();
            encode_answer(&HelloAnswer::Ack(ack), &mut bytes).expect("an answer");
            return stream.write_all(&bytes).expect("room");
        }
    })
}

#[test]
fn a_hello_that_comes_byte_by_byte_is_answered_and_a_newer_link_replaces_the_older() {
    let mut host = bind(config());
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let owner = owner_of(listener, 3);
    let mut first = connect(&host);
    for byte in hello_of(&host, port, LinkKind::Control, 2) {
        first.write_all(&[byte]).expect("room for one byte");
        host.turn(NO_TIME).expect("a turn");
    }
    assert!(matches!(hear(&mut host, &mut first), Some(HelloAnswer::Ack(_))));

    let mut older = connect(&host);
    older
        .write_all(&hello_of(&host, port, LinkKind::Control, 1))
        .expect("room");
    let answer = hear(&mut host, &mut older);
    assert!(
        matches!(answer, Some(HelloAnswer::Reject(reject)) if reject.reason == RejectReason::TooManyLinks)
    );

    let mut newer = connect(&host);
    newer
        .write_all(&hello_of(&host, port, LinkKind::Control, 3))
        .expect("room");
    assert!(matches!(hear(&mut host, &mut newer), Some(HelloAnswer::Ack(_))));
    assert!(hear(&mut host, &mut first).is_none(), "the older link is closed");
    owner.join().expect("it was asked");
}

#[test]
fn strangers_that_say_nothing_or_nonsense_are_closed() {
    let limits = LinkLimits {
        handshake_timeout: Duration::from_millis(100),
        ..LinkLimits::default()
    };
    let mut host = Host::bind(config(), limits).expect("it listens");
    let mut silent = connect(&host);
    assert!(hear(&mut host, &mut silent).is_none());
    let mut web = connect(&host);
    web.write_all(b"GET / HTTP/1.1\r\n\r\n").expect("room");
    assert!(hear(&mut host, &mut web).is_none());
}

/// Tells an entity of a kind that nobody hosts something, and waits for what becomes of it.
fn tell_nowhere(host: &mut Host) -> Answer {
    let token = host.command(Command::Message(MessageCommand::Tell {
        to: Recipient::Entity(KindId::of("nowhere"), EntityId::from("one")),
        payload: vec![0].into(),
    }));
    let answer = until(host, "an answer", |host| host.answer(token));
    answer.unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn a_full_buffer_pauses_no_link() {
    let runtime = tokio_runtime();
    let started = runtime.block_on(on_tokio("127.0.0.1:0", None));
    let (node, region) = started.unwrap_or_else(|error| panic!("{error}"));
    let mut config = config();
    config.sharding.buffer_messages_max = 4;
    config.sharding.buffer_waiting_max = 0;
    let seed = node.address().address().clone();
    let mut host = on_mio_with(config, seed).unwrap_or_else(|error| panic!("{error}"));
    until(&mut host, "two members to be Up", |host| {
        are_up(host, 2).then_some(())
    })
    .unwrap_or_else(|error| panic!("{error}"));

    // Nobody hosts this kind: what is said to it waits in the region's buffer.
    host.command(Command::Sharding(ShardingCommand::RegisterKind(Box::new(
        KindSettings {
            role: Some(quorate_core::ident::Role::new("nobody").expect("a role")),
            ..KindSettings::new("nowhere", 1, false)
        },
    ))));
    for _ in 0..4 {
        assert_eq!(tell_nowhere(&mut host), Answer::Done);
    }
    let full = Answer::Refused(CommandError::Sharding(ShardingCommandError::BufferFull));
    assert_eq!(tell_nowhere(&mut host), full);

    let mut user = connect(&host);
    user.write_all(&hello(&host, LinkKind::User, 1)).expect("room");
    assert!(matches!(hear(&mut host, &mut user), Some(HelloAnswer::Ack(_))));
    let mut control = connect(&host);
    control
        .write_all(&hello(&host, LinkKind::Control, 2))
        .expect("room");
    assert!(matches!(hear(&mut host, &mut control), Some(HelloAnswer::Ack(_))));

    let answers = ask_from_tokio(&runtime, &region, &mut host).unwrap_or_else(|error| panic!("{error}"));
    let read = answers.iter().filter(|line| line.contains("on mio")).count();
    assert!(read > 0, "what others send to entities here is read: {answers:?}");
    assert_eq!(tell_nowhere(&mut host), full, "it was full all the time");
}
