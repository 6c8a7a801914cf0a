//! A host in one file, its store beside it: std, TCP, a thread for the nodes and two for every socket. It
//! shows the contract between a host and a [`LinkedNode`], by the steps of `docs/embedding.md`. Nodes on
//! tokio could join its cluster. `cargo run -p quorate-links --example custom_loop`
#![allow(clippy::disallowed_types, reason = "a host is where clocks are read")]

#[path = "custom_loop/keeping.rs"]
pub(crate) mod keeping;
#[path = "custom_loop/working.rs"]
pub(crate) mod working;

use std::collections::{BTreeMap, VecDeque, hash_map::RandomState};
use std::hash::BuildHasher;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::spawn;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use keeping::{NodeKeeping, ProcessKeeper};
use quorate_core::effect::{Answer, Effect, HaltReason, HostOrder, HostedInstance};
use quorate_core::event::DetectorEvent::{Paused, Refused, StillMember};
use quorate_core::event::{Event, SeedCause};
use quorate_core::ident::{Address, UniqueAddress};
use quorate_core::input::{Command, HostReport, Input, MembershipCommand, Token};
use quorate_core::sharding::{errors::AskFailure, ids::EntityId, ids::Slot};
use quorate_core::{membership::member::Status, node::Node, owner::Requester, time::Instant, time::Now};
use quorate_links::{HostStep, LinkId, LinkInput, LinkOrder, LinkedNode, ReadChunk, Source};
use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};
pub(crate) use working::{Working, until};

pub(crate) type Failure = Box<dyn std::error::Error + Send + Sync>;

enum LoopInput {
    Knock(TcpStream),
    Link(LinkInput),
}

/// A node with its sockets and entities.
pub(crate) struct Host {
    name: &'static str,
    pub(crate) linked: LinkedNode<Node<ChaCha8Rng>>,
    origin: std::time::Instant,
    reports: Sender<LoopInput>,
    happened: Receiver<LoopInput>,
    /// What each socket's threads wait for: bytes to write, a buffer to read into.
    sockets: BTreeMap<LinkId, (Sender<Vec<u8>>, Sender<ReadChunk>)>,
    entities: BTreeMap<Slot, EntityId>,
    pub(crate) keeping: NodeKeeping,
    pub(crate) working: Working,
    in_doubt: bool,
    /// Step 3: what effects have caused, and what the program wants.
    pub(crate) inputs: VecDeque<Input<'static>>,
    pub(crate) answers: BTreeMap<Token, Answer>,
    pub(crate) halted: Option<HaltReason>,
}

impl Host {
    /// Steps 1 and 2: a clock that begins here, a port, a uid that is new; a node and its links.
    pub(crate) fn bind(name: &'static str, keeper: &ProcessKeeper) -> Result<Self, Failure> {
        let (listener, origin) = (TcpListener::bind("127.0.0.1:0")?, std::time::Instant::now());
        let address = Address::new("127.0.0.1", listener.local_addr()?.port())?;
        let random = || RandomState::new().hash_one("uid"); // good for an example, not for secrets
        let rngs = [(), ()].map(|()| ChaCha8Rng::seed_from_u64(random()));
        let config = keeping::config()?;
        let (reports, happened) = channel();
        let knocks = reports.clone();
        let knock = move |stream| knocks.send(LoopInput::Knock(stream)).is_ok();
        spawn(move || listener.incoming().filter_map(Result::ok).all(knock));
        Ok(Self {
            name,
            linked: LinkedNode::new(config, UniqueAddress::new(address, random()), rngs, now(origin)),
            origin,
            reports,
            happened,
            sockets: BTreeMap::new(),
            entities: BTreeMap::new(),
            keeping: NodeKeeping::new(keeper, random()),
            working: Working::new(keeper, random()),
            in_doubt: false,
            inputs: VecDeque::new(),
            answers: BTreeMap::new(),
            halted: None,
        })
    }

    /// One turn: sleep until the deadline or until something happens (step 5), then all that did.
    pub(crate) fn turn(&mut self, at_most: Duration) {
        let until = self.work().unwrap_or(Instant::MAX);
        let timeout = until.since(now(self.origin).mono).min(at_most);
        let first = self.happened.recv_timeout(timeout).ok();
        // Read after the sleep: so the node sees when its process stood still.
        self.linked.set_time(now(self.origin));
        self.inputs.extend(self.keeping.renew());
        self.inputs.extend(self.working.on_time(now(self.origin).mono));
        let more = self.happened.try_iter().take(256);
        let all: Vec<_> = first.into_iter().chain(more).collect();
        for happened in all {
            match happened {
                LoopInput::Link(input) => self.linked.link(input),
                LoopInput::Knock(stream) => {
                    let from = stream.peer_addr().map(|from| Source::of(from.ip())).ok();
                    if let Some(link) = from.and_then(|from| self.linked.links.accepted(from)) {
                        self.open(link, Ok(stream));
                    }
                }
            }
            self.work();
        }
    }

    /// Step 4: effects out until there are none, then the next input. At last what links want of sockets.
    fn work(&mut self) -> Option<Instant> {
        let until = loop {
            match self.linked.poll(true) {
                HostStep::Effect(effect) => self.perform(effect),
                HostStep::Sleep(until) => match self.inputs.pop_front() {
                    Some(input) => self.linked.handle(input),
                    None => break until,
                },
            }
        };
        while let Some(order) = self.linked.links.next_order() {
            self.obey(order);
        }
        until
    }

    fn perform(&mut self, effect: Effect) {
        match effect {
            Effect::Host(owner, order) => self.run(owner, order),
            Effect::Reply { token, answer } => self.hear(token, answer),
            Effect::Notify(Event::Detector(Paused { .. } | Refused { .. })) => self.in_doubt = true,
            Effect::Notify(Event::Detector(StillMember)) => self.in_doubt = false,
            Effect::Store(owner, request) => self.inputs.push_back(self.keeping.obey(owner, &request)),
            Effect::Lease(owner, order) => self.inputs.push_back(self.keeping.lease(owner, order)),
            Effect::Allocate(question) => self.inputs.push_back(keeping::allocate(*question)),
            Effect::Halt(reason) => self.halted = Some(reason),
            // Facts for people, and what the links have done.
            Effect::Notify(_) | Effect::Send { .. } | Effect::Offer { .. } | Effect::Quarantine(_) => {}
        }
    }

    /// Step 6: what links order of sockets.
    fn obey(&mut self, order: LinkOrder) {
        let socket = |link| self.sockets.get(&link);
        match order {
            LinkOrder::Dial { link, to, .. } => self.open(link, Err(to)),
            LinkOrder::Write { link, bytes } => drop(socket(link).map(|(write, _)| write.send(bytes))),
            LinkOrder::Resume { link, chunk } => drop(socket(link).map(|(_, read)| read.send(chunk))),
            LinkOrder::Finish(link) | LinkOrder::Abort(link) => drop(self.sockets.remove(&link)),
            // Only links whose ends prove something are renewed; datagrams are for transports with some.
            LinkOrder::Drain(_) | LinkOrder::Datagram { .. } => {}
        }
    }

    /// Two threads for a socket that there is, or has to be connected: one reads, one writes.
    fn open(&mut self, link: LinkId, stream: Result<TcpStream, Address>) {
        let ((write, writes), (read, buffers)) = (channel::<Vec<u8>>(), channel::<ReadChunk>());
        self.sockets.insert(link, (write, read));
        let (reports, origin) = (self.reports.clone(), self.origin);
        let report = move |input| drop(reports.send(LoopInput::Link(input)));
        spawn(move || {
            let dialed = |_: &TcpStream| report(LinkInput::Dialed(link));
            let stream = stream.or_else(|to| TcpStream::connect((to.host(), to.port())).inspect(dialed));
            let (mut reader, mut writer) = match stream.and_then(|stream| Ok((stream.try_clone()?, stream))) {
                Ok(both) => both,
                Err(error) => {
                    return report(LinkInput::DialFailed(link, SeedCause::Other(error.to_string())));
                }
            };
            drop(writer.set_write_timeout(Some(Duration::from_secs(5))));
            let told = report.clone();
            spawn(move || {
                for bytes in writes {
                    told(match writer.write_all(&bytes) {
                        Ok(()) => LinkInput::Written(link, bytes),
                        Err(_) => LinkInput::Broken(link),
                    });
                }
                drop(writer.shutdown(Shutdown::Both));
            });
            let first = ReadChunk::from(&[0; quorate_links::limits::READ_BYTES_MIN][..]);
            // Until a buffer comes back nothing more is read: all there is to back-pressure (step 7).
            for mut chunk in std::iter::once(first).chain(buffers) {
                match reader.read(&mut chunk.buffer) {
                    Ok(0) => return report(LinkInput::Closed(link)),
                    Ok(len) => (chunk.len, chunk.read_at) = (len, Some(now(origin).mono)),
                    Err(_) => return report(LinkInput::Broken(link)),
                }
                report(LinkInput::Received(link, chunk));
            }
        });
    }

    /// Step 8. These entities answer at once; a host whose entities take time reports when they are done.
    fn run(&mut self, owner: Requester, order: HostOrder) {
        let order = match self.working.order(order, now(self.origin).mono) {
            Ok(inputs) => return self.inputs.extend(inputs),
            Err(order) => order,
        };
        let report = match order {
            #[rustfmt::skip]
            HostOrder::Start { slot, instance: HostedInstance::Entity { entity, .. } } => return drop(self.entities.insert(slot, entity)),
            HostOrder::Start { .. } => return, // nobody registers a singleton here
            #[rustfmt::skip]
            HostOrder::Deliver { slot, payload, reply_to, .. } => {
                let Some((ask, id)) = reply_to.zip(self.entities.get(&slot)) else { return };
                let text = format!("{id} on {} greets {}", self.name, String::from_utf8_lossy(&payload));
                // Others may have taken it over while this process stood still.
                let refused = self.in_doubt.then_some(AskFailure::MailboxFull);
                let result = refused.map_or(Ok(text.into_bytes().into()), Err);
                HostReport::Answered { ask, result }
            }
            HostOrder::Stop { slot } | HostOrder::StopWithState { slot } | HostOrder::Kill { slot } => {
                self.entities.remove(&slot);
                HostReport::Stopped { slot }
            }
        };
        self.inputs.push_back(Input::Host(owner, report));
    }
}

fn now(origin: std::time::Instant) -> Now {
    let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Now {
        mono: Instant::from_micros(origin.elapsed().as_micros() as u64),
        unix_ms: wall.as_millis() as u64,
    }
}

fn main() -> Result<(), Failure> {
    let keeper = ProcessKeeper::default();
    let bind = |name| Host::bind(name, &keeper);
    let mut hosts = [bind("first")?, bind("second")?, bind("third")?];
    let seed = hosts[0].linked.node.view().me().address().clone();
    for host in &mut hosts {
        host.begin_work();
        let command = Command::Membership(MembershipCommand::Join(seed.clone()));
        host.inputs.push_back(Input::Command { token: 1, command });
    }
    let are_up = |host: &Host| host.linked.node.view().members_in(Status::Up).count() == 3;
    let all_up = |hosts: &[Host]| hosts.iter().all(are_up);
    until(&mut hosts, "three members to be Up", all_up)?;
    let two = |hosts: &[Host]| working::daemons_of(hosts).len() == 2;
    until(&mut hosts, "two daemons", two)?;
    println!("three members are Up, and two daemons run");
    Ok(())
}
