//! The loop: one thread, one node with its links, its sockets and its entities. Inputs in, effects out in
//! their order, sleep until the deadline or a socket. The numbers are those of the steps in
//! `docs/embedding.md`.

use std::collections::{BTreeMap, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::io::ErrorKind;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use mio::net::TcpListener;
use mio::{Events, Interest, Poll, Token as Id};
use quorate_core::config::Config;
use quorate_core::effect::{Answer, Effect, HaltReason};
use quorate_core::event::{DetectorEvent, Event};
use quorate_core::ident::{Address, UniqueAddress};
use quorate_core::input::{Command, Input, Token};
use quorate_core::node::Node;
use quorate_core::owner::Requester;
use quorate_core::time::{Instant, Now};
use quorate_core::view::View;
use quorate_links::{HostStep, LinkLimits, LinkedNode, Links, Source};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;

use super::Failure;
use super::entities::Greeters;
use super::sockets::Sockets;

/// Links are numbered from 1.
const LISTENER: Id = Id(0);
/// Strangers that are let in before everybody else has a turn.
const ACCEPTS_PER_TURN: usize = 64;

/// A node with its sockets.
pub struct Host {
    linked: LinkedNode<Node<ChaCha8Rng>>,
    me: UniqueAddress,
    poll: Poll,
    listener: TcpListener,
    sockets: Sockets,
    /// Strangers may be knocking. mio says so only once.
    knocking: bool,
    /// The system gives no socket to the next of them.
    is_deaf: bool,
    /// Inputs that effects have caused, and commands.
    inputs: VecDeque<Input<'static>>,
    origin: std::time::Instant,
    events: Events,
    entities: Greeters,
    answers: BTreeMap<Token, Answer>,
    last_token: Token,
    halted: Option<HaltReason>,
}

impl Host {
    /// Steps 1 and 2: a port, a clock that begins here, a uid that no earlier process at this address had,
    /// seeds, a node.
    ///
    /// # Errors
    /// The settings cannot be, or the system gives no port.
    pub fn bind(config: Config, limits: LinkLimits) -> Result<Self, Failure> {
        let mut listener = TcpListener::bind("127.0.0.1:0".parse()?)?;
        let poll = Poll::new()?;
        poll.registry()
            .register(&mut listener, LISTENER, Interest::READABLE)?;
        let address = Address::new("127.0.0.1", listener.local_addr()?.port())?;
        let me = UniqueAddress::new(address, random());
        let origin = std::time::Instant::now();
        let [ours, theirs] = [(), ()].map(|()| ChaCha8Rng::seed_from_u64(random()));
        let config = config.validate()?;
        let limits = limits.validate(&config.limits)?;
        let links = Links::new(config.clone(), me.clone(), theirs, now(origin)).limited(limits);
        Ok(Self {
            linked: LinkedNode::of(Node::new(config, me.clone(), ours, now(origin)), links),
            me,
            poll,
            listener,
            sockets: Sockets::default(),
            knocking: false,
            is_deaf: false,
            inputs: VecDeque::new(),
            origin,
            events: Events::with_capacity(256),
            entities: Greeters::default(),
            answers: BTreeMap::new(),
            last_token: 0,
            halted: None,
        })
    }

    /// Who this node is.
    pub const fn address(&self) -> &UniqueAddress {
        &self.me
    }

    /// The cluster as this node sees it.
    pub fn view(&self) -> &View {
        self.linked.node.view()
    }

    /// How it ended, if it has.
    pub const fn halted(&self) -> Option<HaltReason> {
        self.halted
    }

    /// Links it has dialed so far.
    pub fn dials(&self) -> u64 {
        self.linked.links.stats().dials
    }

    /// Whether it reads the links that carry entity messages: not while its entities hold what they were
    /// given. What waits in buffers of the node stops no link.
    pub fn has_room(&self) -> bool {
        !self.entities.is_holding()
    }

    /// The answer to a command, once.
    pub fn answer(&mut self, token: Token) -> Option<Answer> {
        self.answers.remove(&token)
    }

    /// A command is an input like any other. Its answer carries the token.
    pub fn command(&mut self, command: Command) -> Token {
        self.last_token += 1;
        let token = self.last_token;
        self.inputs.push_back(Input::Command { token, command });
        token
    }

    /// Cuts every connection, as a network does: nobody is told but by their ends.
    pub fn cut_links(&mut self) {
        self.sockets.cut();
    }

    /// One turn: what there is to do, then sleep until the deadline, a socket, or `at_most`, then what has
    /// come.
    ///
    /// # Errors
    /// The system's, about the poll; never a peer's.
    pub fn turn(&mut self, at_most: Duration) -> Result<(), Failure> {
        let wake = self.work();
        if self.halted.is_some() {
            return Ok(());
        }
        self.sleep(wake, at_most)?;
        self.accept();
        self.sockets.advance();
        self.work();
        Ok(())
    }

    /// Step 10: after `Halt`, writes what was to be sent, for at most so long. Dropping the host then closes
    /// the links.
    ///
    /// # Errors
    /// The system's, about the poll.
    pub fn finish(mut self, at_most: Duration) -> Result<(), Failure> {
        let started = std::time::Instant::now();
        self.work();
        self.sockets.advance();
        while self.sockets.has_unsent() && started.elapsed() < at_most {
            self.sleep(None, at_most)?;
            self.sockets.advance();
        }
        Ok(())
    }

    /// Steps 3 and 4: effects out until the node lets its host sleep, then the next input; at last what links
    /// want of sockets.
    fn work(&mut self) -> Instant {
        loop {
            let has_room = self.has_room();
            match self.linked.poll(has_room) {
                HostStep::Effect(effect) => self.perform(effect),
                HostStep::Sleep(wake) => {
                    while let Some(order) = self.linked.links.next_order() {
                        self.sockets.obey(self.poll.registry(), order);
                    }
                    // What is known of links comes first: nothing is sent on one that has just gone.
                    if let Some(input) = self.sockets.happened.pop_front() {
                        self.linked.link(input);
                    } else if let Some(input) = self.inputs.pop_front() {
                        self.linked.handle(input);
                    } else {
                        return wake.unwrap_or(Instant::MAX);
                    }
                }
            }
        }
    }

    fn perform(&mut self, effect: Effect) {
        match effect {
            Effect::Host(owner, order) => {
                let report = self.entities.order(order);
                self.inputs
                    .extend(report.map(|report| Input::Host(owner, report)));
            }
            Effect::Reply { token, answer } => {
                self.answers.insert(token, answer);
            }
            Effect::Notify(Event::Detector(DetectorEvent::Paused { .. } | DetectorEvent::Refused { .. })) => {
                self.entities.hold();
            }
            Effect::Notify(Event::Detector(DetectorEvent::StillMember)) => {
                let reports = self.entities.release();
                let of_entities = |report| Input::Host(Requester::Sharding, report);
                self.inputs.extend(reports.into_iter().map(of_entities));
            }
            Effect::Notify(_) => {}   // facts for people
            Effect::Allocate(_) => {} // no kind has a strategy that is asked
            Effect::Lease(..) => {}   // only lease-majority asks for one, and no answer counts as a refusal
            Effect::Store(owner, request) => {
                // No store: whoever asked hears it at once. One that has a disk writes on a thread of its
                // own.
                let report = request.without_a_store();
                self.inputs.push_back(Input::Stored(owner, report));
            }
            Effect::Halt(reason) => self.halted = Some(reason),
            Effect::Send { .. } | Effect::Offer { .. } | Effect::Quarantine(_) => {} // the links have done it
        }
    }

    /// Step 5: sleep until the deadline and never longer, unless there is something to do.
    fn sleep(&mut self, wake: impl Into<Option<Instant>>, at_most: Duration) -> Result<(), Failure> {
        let wake = wake.into().unwrap_or(Instant::MAX);
        let is_asked = self.knocking && !self.is_deaf;
        let has_work = is_asked || !self.inputs.is_empty() || self.sockets.has_ready();
        let timeout = if has_work {
            Duration::ZERO
        } else {
            wake.since(now(self.origin).mono).min(at_most)
        };
        match self.poll.poll(&mut self.events, Some(timeout)) {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            polled => polled?,
        }
        for event in &self.events {
            match event.token() {
                LISTENER => self.knocking = true,
                id => self.sockets.is_ready(id),
            }
        }
        self.linked.set_time(now(self.origin));
        Ok(())
    }

    /// Takes those who knock; a crowd takes several turns.
    fn accept(&mut self) {
        for _ in 0..ACCEPTS_PER_TURN {
            if !self.knocking {
                return;
            }
            match self.listener.accept() {
                Ok((stream, from)) => {
                    self.is_deaf = false;
                    if let Some(link) = self.linked.links.accepted(Source::of(from.ip())) {
                        self.sockets.adopt(self.poll.registry(), link, stream);
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => self.knocking = false,
                // Too many open files: tried again, but nobody stays awake for it.
                Err(_) => {
                    self.linked.links.short_of_sockets();
                    self.is_deaf = true;
                    return;
                }
            }
        }
    }
}

/// Both clocks: the monotonic one for the protocol, the wall's for what people read.
pub(super) fn now(origin: std::time::Instant) -> Now {
    let micros = u64::try_from(origin.elapsed().as_micros()).unwrap_or(u64::MAX);
    let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Now {
        mono: Instant::from_micros(micros),
        unix_ms: u64::try_from(wall.as_millis()).unwrap_or(u64::MAX),
    }
}

/// Entropy that the standard library has: two processes never draw the same. Not for secrets.
fn random() -> u64 {
    RandomState::new().hash_one("uid")
}
