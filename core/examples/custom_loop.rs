//! A host for the core in one file: blocking, UDP, the standard library, one thread per node. It shows the whole contract
//! between a host and a [`Node`]; the numbered steps below are all there is.
//!
//! 1. Bind a socket, draw a uid and a seed, make a [`Node`].
//! 2. Give it inputs: commands, frames of checked peers, link changes, reports of entities, `Tick`.
//! 3. After each input do every effect it has for you, in order, until it lets you sleep.
//! 4. Sleep until the deadline it names or the next datagram, whichever is first; past the deadline, `Tick`.
//! 5. Before the first frame to a peer, shake hands: only then do both sides know which incarnation they talk to.
//! 6. Run the entities it orders you to run, and report what they answer.
//! 7. After `Halt`, stop.
//!
//! UDP keeps the loop small, because one blocking call waits for every peer. It is a choice for small states on a good
//! network: a datagram holds 64 KiB, nothing is repeated (the protocol repeats what matters), and a peer that restarts at
//! the same port is only found by silence. `cargo run -p quorate-core --example custom_loop`
#![allow(
    clippy::disallowed_types,
    reason = "the core has no clock; its host is where clocks are read"
)]

use std::collections::hash_map::RandomState;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::error::Error;
use std::hash::BuildHasher;
use std::io::{self, ErrorKind};
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use quorate_core::admission::Proof;
use quorate_core::config::{Config, Limits};
use quorate_core::effect::{Answer, Effect, EntityOrder, HaltReason, Output, ShardingAnswer, Wake};
use quorate_core::event::{DetectorEvent, Event};
use quorate_core::ident::{Address, ClusterName, UniqueAddress};
use quorate_core::input::{
    Command, DropReason, EntityReport, Input, KindSettings, LinkEvent, MembershipCommand, ShardingCommand,
    Target, Token,
};
use quorate_core::membership::member::Status;
use quorate_core::message::Message;
use quorate_core::node::Node;
use quorate_core::sharding::errors::AskFailure;
use quorate_core::sharding::ids::{EntityId, KindId, Payload, Slot};
use quorate_core::time::{Instant, Now};
use quorate_core::wire::handshake::{
    AUTH_NONE, Acceptor, HandshakeDecoded, Hello, HelloAnswer, LinkKind, check_ack, decode_answer,
    decode_hello, encode_answer, encode_hello,
};
use quorate_core::wire::{Decoded, Encoder, VERSION_MAX, VERSION_MIN, decode_frame};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;

type Failure = Box<dyn Error + Send + Sync>;

/// The largest payload of a UDP datagram over IPv4.
const DATAGRAM_BYTES_MAX: usize = 65_507;
/// Messages that wait for a handshake; on loopback it takes a millisecond.
const QUEUE_MESSAGES_MAX: usize = 1_024;
/// How often a hello is repeated that nobody answers, and after how many times the peer counts as unreachable.
const HELLO_EVERY: Duration = Duration::from_millis(200);
const HELLOS_MAX: u32 = 5;
/// How long the host sleeps at most, so that the program on the same thread gets its turn.
const SLEEP_MAX: Duration = Duration::from_millis(20);
/// How long any stage of the example may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// The first byte of a datagram: what TCP would not have needed, because its links know what they are for.
const HELLO: u8 = b'H';
const ANSWER: u8 = b'A';
const FRAME: u8 = b'F';

/// The kind of entities that the example hosts.
const KIND: &str = "greeter";

/// A peer that this node writes to.
struct Outbound {
    hello: Hello,
    /// Who answered the hello; nobody yet.
    peer: Option<UniqueAddress>,
    hellos_sent: u32,
    next_hello_at: Instant,
    /// Numbers the datagrams, so that the receiver can drop one that was overtaken: a lane's messages keep their order.
    sequence: u32,
    queue: VecDeque<(Target, Message)>,
}

/// A peer that writes to this node.
struct Inbound {
    peer: UniqueAddress,
    epoch: u32,
    last_sequence: u32,
}

struct Host {
    name: &'static str,
    node: Node<ChaCha8Rng>,
    me: UniqueAddress,
    cluster: ClusterName,
    limits: Limits,
    socket: UdpSocket,
    origin: std::time::Instant,
    encoder: Encoder,
    outbound: BTreeMap<Address, Outbound>,
    inbound: BTreeMap<SocketAddr, Inbound>,
    quarantined: BTreeSet<UniqueAddress>,
    entities: BTreeMap<Slot, EntityId>,
    /// The process stood still, and others may have taken its entities over: they begin with nothing until the node knows.
    in_doubt: bool,
    /// Inputs that doing an effect has caused.
    inputs: VecDeque<Input<'static>>,
    answers: BTreeMap<Token, Answer>,
    next_token: Token,
    next_epoch: u32,
    halted: Option<HaltReason>,
}

impl Host {
    /// Step 1: a socket, a uid that no earlier process at this port had, a seed, a node.
    fn bind(name: &'static str) -> Result<Self, Failure> {
        let socket = UdpSocket::bind("127.0.0.1:0")?;
        let address = Address::new("127.0.0.1", socket.local_addr()?.port())?;
        let me = UniqueAddress::new(address, random());
        let cluster = ClusterName::new("custom-loop")?;
        let config = Config::fast(cluster.clone()).validate()?;
        let origin = std::time::Instant::now();
        let rng = ChaCha8Rng::seed_from_u64(random());
        Ok(Self {
            name,
            limits: config.limits.clone(),
            node: Node::new(config, me.clone(), rng, now(origin)),
            me,
            cluster,
            socket,
            origin,
            encoder: Encoder::new(),
            outbound: BTreeMap::new(),
            inbound: BTreeMap::new(),
            quarantined: BTreeSet::new(),
            entities: BTreeMap::new(),
            in_doubt: false,
            inputs: VecDeque::new(),
            answers: BTreeMap::new(),
            next_token: 0,
            next_epoch: 0,
            halted: None,
        })
    }

    /// Step 2: a command is an input like any other. Its answer carries the token.
    fn command(&mut self, command: Command) -> Token {
        self.next_token += 1;
        let token = self.next_token;
        self.inputs.push_back(Input::Command { token, command });
        token
    }

    /// Turns the loop until `done` or until the node has halted.
    fn run_until(&mut self, what: &str, mut done: impl FnMut(&Self) -> bool) -> Result<(), Failure> {
        let started = std::time::Instant::now();
        loop {
            let wake = self.work();
            if done(self) {
                return Ok(());
            }
            if let Some(reason) = self.halted {
                return Err(format!("{} halted ({reason:?}) while waiting for {what}", self.name).into());
            }
            if started.elapsed() > PATIENCE {
                return Err(format!("{} waited {PATIENCE:?} for {what}", self.name).into());
            }
            self.sleep(wake)?;
        }
    }

    /// Step 3: inputs in, effects out, until there are neither. What the node returns last is until when to sleep.
    fn work(&mut self) -> Option<Wake> {
        loop {
            match self.node.poll() {
                Output::Effect(effect) => self.perform(effect),
                Output::Sleep(wake) => match self.inputs.pop_front() {
                    Some(input) => self.node.handle(now(self.origin), input),
                    None => return wake,
                },
            }
        }
    }

    /// Step 4: sleep until the deadline or a datagram. The node never looks at a clock: the host says what time it is.
    fn sleep(&mut self, wake: Option<Wake>) -> Result<(), Failure> {
        let until_wake = wake
            .as_ref()
            .map_or(SLEEP_MAX, |wake| wake.at.since(now(self.origin).mono));
        let mut buffer = [0; DATAGRAM_BYTES_MAX];
        // A timeout of zero would mean to wait for ever.
        let timeout = until_wake.clamp(Duration::from_millis(1), SLEEP_MAX);
        self.socket.set_read_timeout(Some(timeout))?;
        match self.socket.recv_from(&mut buffer) {
            Ok((len, from)) => self.on_datagram(&buffer[..len], from),
            // The second is what an earlier datagram to a closed port comes back as; silence is the detector's business.
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            Err(e)
                if matches!(
                    e.kind(),
                    ErrorKind::ConnectionRefused | ErrorKind::ConnectionReset
                ) => {}
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error.into()),
        }
        let now = now(self.origin);
        if wake.is_some_and(|wake| wake.at <= now.mono) {
            self.node.handle(now, Input::Tick);
        }
        self.repeat_hellos(now.mono);
        Ok(())
    }

    fn perform(&mut self, effect: Effect) {
        match effect {
            Effect::Send { to, message } => self.send(to, message),
            Effect::Entity(order) => self.run_entity(order),
            Effect::Reply { token, answer } => {
                self.answers.insert(token, answer);
            }
            Effect::Notify(Event::Detector(DetectorEvent::Paused { .. })) => self.in_doubt = true,
            Effect::Notify(Event::Detector(DetectorEvent::StillMember)) => self.in_doubt = false,
            Effect::Notify(_) => {} // facts for people; this program looks at the view instead
            Effect::Lease(..) => {} // only lease-majority asks for one, and no answer counts as a refusal
            Effect::Store(owner, request) => {
                // No store: whoever asked hears it at once. One that has a disk writes on a thread of its own.
                let report = request.without_a_store();
                self.inputs.push_back(Input::Stored(owner, report));
            }
            Effect::Quarantine(node) => {
                self.outbound
                    .retain(|_, outbound| outbound.peer.as_ref() != Some(&node));
                self.inbound.retain(|_, inbound| inbound.peer != node);
                self.quarantined.insert(node);
            }
            Effect::Halt(reason) => self.halted = Some(reason), // step 7
        }
    }

    /// Step 5, the dialing side. Messages wait until the peer has said which incarnation it is.
    fn send(&mut self, to: Target, message: Message) {
        let now = now(self.origin).mono;
        if !self.outbound.contains_key(to.address()) {
            self.next_epoch += 1;
            let hello = Hello {
                versions: (VERSION_MIN, VERSION_MAX),
                cluster: self.cluster.clone(),
                from: self.me.clone(),
                to: to.address().clone(),
                expected_uid: None,
                link: LinkKind::Control, // one socket carries all lanes here; stream hosts open a second link for users
                epoch: self.next_epoch,
                features: 0, // one line carries all lanes: no bulk links
                auth_method: AUTH_NONE,
                nonce: [0; 16],
            };
            let outbound = Outbound {
                hello,
                peer: None,
                hellos_sent: 0,
                next_hello_at: now,
                sequence: 0,
                queue: VecDeque::new(),
            };
            self.outbound.insert(to.address().clone(), outbound);
            self.repeat_hellos(now);
        }
        let Some(outbound) = self.outbound.get_mut(to.address()) else {
            return;
        };
        if outbound.peer.is_some() {
            self.write(to, message);
        } else if outbound.queue.len() < QUEUE_MESSAGES_MAX {
            outbound.queue.push_back((to, message));
        } else {
            self.dropped(to, message, DropReason::QueueFull);
        }
    }

    /// The node wants to know what its host lost: an ask in it is answered at once.
    fn dropped(&mut self, to: Target, message: Message, reason: DropReason) {
        self.inputs
            .push_back(Input::Link(LinkEvent::Dropped { to, message, reason }));
    }

    fn repeat_hellos(&mut self, now: Instant) {
        let mut given_up = Vec::new();
        for (address, outbound) in &mut self.outbound {
            if outbound.peer.is_some() || outbound.next_hello_at > now {
                continue;
            }
            if outbound.hellos_sent == HELLOS_MAX {
                given_up.push(address.clone());
                continue;
            }
            outbound.hellos_sent += 1;
            outbound.next_hello_at = now + HELLO_EVERY;
            let mut datagram = vec![HELLO];
            if encode_hello(&outbound.hello, &mut datagram).is_ok() {
                transmit(&self.socket, &datagram, address);
            }
        }
        for address in given_up {
            let lost = self
                .outbound
                .remove(&address)
                .map(|outbound| outbound.queue)
                .unwrap_or_default();
            for (to, message) in lost {
                self.dropped(to, message, DropReason::Unreachable);
            }
        }
    }

    fn write(&mut self, to: Target, message: Message) {
        let Some(outbound) = self.outbound.get_mut(to.address()) else {
            return;
        };
        let Some(found) = outbound.peer.clone() else {
            return;
        };
        if let Target::Node(expected) = &to
            && *expected != found
        {
            let expected = expected.clone();
            self.inputs
                .push_back(Input::Link(LinkEvent::WrongIncarnation { expected, found }));
            return self.dropped(to, message, DropReason::Unreachable);
        }
        outbound.sequence += 1;
        let mut datagram = vec![FRAME];
        datagram.extend_from_slice(&outbound.sequence.to_le_bytes());
        let encoded = self
            .encoder
            .encode(&message, outbound.hello.epoch, &self.limits, &mut datagram);
        if encoded.is_err() || datagram.len() > DATAGRAM_BYTES_MAX {
            return self.dropped(to, message, DropReason::TooLarge);
        }
        transmit(&self.socket, &datagram, to.address());
    }

    /// Bytes from anybody. What does not belong here is dropped: no state changes for a stranger.
    fn on_datagram(&mut self, datagram: &[u8], from: SocketAddr) {
        match datagram.split_first() {
            Some((&HELLO, rest)) => self.on_hello(rest, from),
            Some((&ANSWER, rest)) => self.on_answer(rest, from),
            Some((&FRAME, rest)) => self.on_frame(rest, from),
            Some(_) | None => {}
        }
    }

    /// Step 5, the accepting side: the core decides, the host remembers.
    fn on_hello(&mut self, bytes: &[u8], from: SocketAddr) {
        let HandshakeDecoded::Done { value: hello, .. } = decode_hello(bytes) else {
            return;
        };
        let acceptor = Acceptor {
            me: &self.me,
            cluster: &self.cluster,
            features: 0, // one line carries all lanes: no bulk links
            auth_method: AUTH_NONE,
            quarantined: self.quarantined.contains(&hello.from),
            nonce: [0; 16],
        };
        let answer = match acceptor.answer(&hello) {
            Ok(ack) => HelloAnswer::Ack(ack),
            Err(reject) => HelloAnswer::Reject(reject),
        };
        // A repeated hello is the same link.
        let is_new = self
            .inbound
            .get(&from)
            .is_none_or(|i| i.peer != hello.from || i.epoch != hello.epoch);
        if matches!(answer, HelloAnswer::Ack(_)) && is_new {
            let inbound = Inbound {
                peer: hello.from,
                epoch: hello.epoch,
                last_sequence: 0,
            };
            self.inbound.insert(from, inbound);
        }
        let mut datagram = vec![ANSWER];
        if encode_answer(&answer, &mut datagram).is_ok() {
            // A lost answer is asked for again.
            let _ = self.socket.send_to(&datagram, from);
        }
    }

    fn on_answer(&mut self, bytes: &[u8], from: SocketAddr) {
        let Ok(address) = Address::new(&from.ip().to_string(), from.port()) else {
            return;
        };
        let Some(outbound) = self.outbound.get_mut(&address) else {
            return;
        };
        let HandshakeDecoded::Done {
            value: HelloAnswer::Ack(ack),
            ..
        } = decode_answer(bytes)
        else {
            return;
        };
        if outbound.peer.is_some() || check_ack(&outbound.hello, &ack).is_err() {
            return;
        }
        outbound.peer = Some(ack.from.clone());
        let queue = std::mem::take(&mut outbound.queue);
        let epoch = outbound.hello.epoch;
        self.inputs.push_back(Input::Link(LinkEvent::Up {
            peer: ack.from,
            epoch,
        }));
        for (to, message) in queue {
            self.write(to, message);
        }
    }

    /// A frame counts only from a peer that shook hands, on its newest link, in order, and whole.
    fn on_frame(&mut self, bytes: &[u8], from: SocketAddr) {
        let Some(inbound) = self.inbound.get_mut(&from) else {
            return;
        };
        let Some((sequence, bytes)) = bytes.split_first_chunk() else {
            return;
        };
        let sequence = u32::from_le_bytes(*sequence);
        if sequence <= inbound.last_sequence {
            return;
        }
        inbound.last_sequence = sequence;
        if let Decoded::Frame { frame, .. } = decode_frame(bytes, &self.limits)
            && frame.epoch == inbound.epoch
        {
            let (lane, kind, body) = (frame.lane, frame.kind, frame.body);
            self.node.handle(
                now(self.origin),
                Input::Frame {
                    proof: Proof::Nothing,
                    from: &inbound.peer,
                    lane,
                    kind,
                    body,
                },
            );
        }
    }

    /// Step 6. These entities answer at once; a host whose entities take time reports when they are done.
    fn run_entity(&mut self, order: EntityOrder) {
        let report = match order {
            EntityOrder::Start { slot, entity, .. } => {
                self.entities.insert(slot, entity);
                return;
            }
            EntityOrder::Deliver { slot, reply_to, .. } if self.in_doubt => EntityReport::Refused {
                slot,
                ask: reply_to,
                reason: AskFailure::MailboxFull,
            },
            EntityOrder::Deliver {
                slot,
                payload,
                reply_to,
            } => {
                let (Some(ask), Some(id)) = (reply_to, self.entities.get(&slot)) else {
                    return;
                };
                let text = format!(
                    "{id} on {} greets {}",
                    self.name,
                    String::from_utf8_lossy(&payload)
                );
                EntityReport::Answered {
                    ask,
                    result: Ok(Payload::from(text.into_bytes())),
                }
            }
            EntityOrder::Stop { slot } | EntityOrder::Kill { slot } => {
                self.entities.remove(&slot);
                EntityReport::Stopped { slot }
            }
        };
        self.inputs.push_back(Input::Entity(report));
    }
}

fn now(origin: std::time::Instant) -> Now {
    let micros = u64::try_from(origin.elapsed().as_micros()).unwrap_or(u64::MAX);
    let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Now {
        mono: Instant::from_micros(micros),
        unix_ms: u64::try_from(wall.as_millis()).unwrap_or(u64::MAX),
    }
}

/// Entropy that the standard library has: good for an example, not for secrets.
fn random() -> u64 {
    RandomState::new().hash_one("uid")
}

fn transmit(socket: &UdpSocket, datagram: &[u8], to: &Address) {
    // Nothing listens there, or the system's buffer is full: to the protocol both are a lost message.
    let _: io::Result<usize> = socket.send_to(datagram, (to.host(), to.port()));
}

// ---- The program: three nodes form a cluster, ask entities, one leaves, all end. ----

/// What the example found out.
pub struct Outcome {
    /// The answers while there were three nodes.
    pub of_three: Vec<String>,
    /// The answers after one had left.
    pub of_two: Vec<String>,
    /// How each node ended.
    pub ends: Vec<HaltReason>,
}

/// Who has got how far; every node looks at it between two turns of its loop.
#[derive(Default)]
struct Stage {
    formed: AtomicUsize,
    third_may_leave: AtomicUsize,
    all_may_leave: AtomicUsize,
}

/// Runs the example: one thread per node.
pub fn run() -> Result<Outcome, Failure> {
    let stage = Arc::new(Stage::default());
    let hosts = [Host::bind("first")?, Host::bind("second")?, Host::bind("third")?];
    let seed = hosts[0].me.address().clone();
    let (answers, heard) = mpsc::channel();
    let threads: Vec<_> = hosts
        .into_iter()
        .map(|host| {
            let (stage, seed, answers) = (Arc::clone(&stage), seed.clone(), answers.clone());
            thread::spawn(move || live(host, &seed, &stage, &answers))
        })
        .collect();
    drop(answers);
    let mut ends = Vec::new();
    for thread in threads {
        ends.push(thread.join().map_err(|_| "a node's thread panicked")??);
    }
    let (of_three, of_two) = (heard.recv()?, heard.recv()?);
    Ok(Outcome {
        of_three,
        of_two,
        ends,
    })
}

/// The life of one node.
fn live(
    mut host: Host,
    seed: &Address,
    stage: &Stage,
    answers: &mpsc::Sender<Vec<String>>,
) -> Result<HaltReason, Failure> {
    let kind = KindSettings {
        name: Arc::from(KIND),
        shards: 12,
        role: None,
        hosts: true,
    };
    host.command(Command::Sharding(ShardingCommand::RegisterKind(kind)));
    host.command(Command::Membership(MembershipCommand::Join(seed.clone()))); // the first node's own address: it forms the cluster
    host.run_until("three members to be Up", |host| members_up(host, 3))?;
    println!("{} {}: three members are Up", host.name, host.me);
    stage.formed.fetch_add(1, Ordering::SeqCst);
    host.run_until("the others", |_| stage.formed.load(Ordering::SeqCst) == 3)?;
    let is_set = |flag: &AtomicUsize| flag.load(Ordering::SeqCst) > 0;
    match host.name {
        "first" => {
            answers.send(ask_until_others_answer(&mut host)?)?;
            stage.third_may_leave.store(1, Ordering::SeqCst);
            host.run_until("the third to leave", |host| members_up(host, 2))?;
            answers.send(ask_all(&mut host)?)?;
            stage.all_may_leave.store(1, Ordering::SeqCst);
        }
        "second" => host.run_until("the first to ask", |_| is_set(&stage.all_may_leave))?,
        _ => host.run_until("the first to ask", |_| is_set(&stage.third_may_leave))?,
    }
    host.command(Command::Membership(MembershipCommand::Leave));
    host.run_until("its end", |host| host.halted.is_some())?;
    host.halted.ok_or_else(|| "not halted".into())
}

fn members_up(host: &Host, count: usize) -> bool {
    let view = host.node.view();
    view.members().len() == count && view.members().iter().all(|member| member.status == Status::Up)
}

/// Asks until somebody else answers too: the first to ask may be the only one whose entities can start yet.
fn ask_until_others_answer(host: &mut Host) -> Result<Vec<String>, Failure> {
    let started = std::time::Instant::now();
    loop {
        let texts = ask_all(host)?;
        let mine = format!(" on {} ", host.name);
        if texts.iter().any(|text| !text.contains(&mine)) {
            return Ok(texts);
        }
        if started.elapsed() > PATIENCE {
            return Err("nobody else answers".into());
        }
        let wake = host.work();
        host.sleep(wake)?;
    }
}

/// Asks thirty entities, wherever they are.
fn ask_all(host: &mut Host) -> Result<Vec<String>, Failure> {
    let tokens: Vec<Token> = (0..30)
        .map(|number| {
            host.command(Command::Sharding(ShardingCommand::Ask {
                kind: KindId::of(KIND),
                entity: EntityId::from(format!("greeter-{number}").as_str()),
                payload: Payload::from(*b"everybody"),
                timeout: Duration::from_secs(10),
            }))
        })
        .collect();
    host.run_until("thirty answers", |host| {
        tokens.iter().all(|token| host.answers.contains_key(token))
    })?;
    let mut texts = Vec::new();
    for token in tokens {
        match host.answers.remove(&token) {
            Some(Answer::Sharding(ShardingAnswer::Asked(Ok(payload)))) => {
                texts.push(String::from_utf8_lossy(&payload).into_owned())
            }
            other => return Err(format!("an ask ended with {other:?}").into()),
        }
    }
    Ok(texts)
}

fn main() -> Result<(), Failure> {
    let outcome = run()?;
    for (when, texts) in [("three nodes", &outcome.of_three), ("two nodes", &outcome.of_two)] {
        println!(
            "{when}: {} answers, for instance: {}",
            texts.len(),
            texts.join("; ").chars().take(120).collect::<String>()
        );
    }
    println!("ends: {:?}", outcome.ends);
    Ok(())
}
