//! The loop: one thread, one node, its sockets and its entities. Inputs in, effects out in their order, sleep until the
//! node's deadline or a socket. The numbers are those of the steps in `docs/embedding.md`.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::io::ErrorKind;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token as Id};
use quorate_core::config::{Config, Limits};
use quorate_core::effect::{Answer, Effect, HaltReason, Output, Wake};
use quorate_core::event::{DetectorEvent, Event};
use quorate_core::ident::{Address, UniqueAddress};
use quorate_core::input::{Command, Input, LinkEvent, Token};
use quorate_core::node::Node;
use quorate_core::reject::Rejection;
use quorate_core::time::{Instant, Now};
use quorate_core::view::View;
use quorate_core::wire::handshake::LinkKind;
use quorate_core::wire::{Encoder, Reaction};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;

use super::Failure;
use super::entities::Greeters;
use super::link::{Known, Link, READ_BYTES, Role};

const LISTENER: Id = Id(0);
/// Inputs that doing effects has caused, handled before the sockets have their turn again.
const INPUTS_PER_TURN: usize = 1_024;
/// Incarnations that are refused for good; past it the oldest is forgotten, which the node's own tombstones outlive.
const QUARANTINED_MAX: usize = 1_024;

/// A node with its sockets.
pub struct Host {
    pub(super) node: Node<ChaCha8Rng>,
    pub(super) me: UniqueAddress,
    pub(super) limits: Limits,
    pub(super) poll: Poll,
    pub(super) listener: TcpListener,
    pub(super) links: BTreeMap<Id, Link>,
    /// The link of this node to an address, one for each kind.
    pub(super) ways: BTreeMap<(Address, LinkKind), Id>,
    /// Who said on the control link that it accepts bulk links.
    pub(super) takes_bulk: BTreeSet<Address>,
    /// Addresses that are not dialed before then: the last dial failed.
    pub(super) not_before: BTreeMap<Address, Instant>,
    /// Links that may have more to read than has been read. mio says so only once.
    pub(super) ready: BTreeSet<Id>,
    /// The same for strangers that knock.
    pub(super) knocking: bool,
    /// The system gives no socket to the next of them.
    pub(super) is_deaf: bool,
    pub(super) encoder: Encoder,
    pub(super) quarantined: VecDeque<UniqueAddress>,
    pub(super) inputs: VecDeque<Input<'static>>,
    pub(super) last_id: usize,
    pub(super) last_epoch: u32,
    pub(super) origin: std::time::Instant,
    events: Events,
    buffer: Vec<u8>,
    entities: Greeters,
    answers: BTreeMap<Token, Answer>,
    last_token: Token,
    halted: Option<HaltReason>,
}

impl Host {
    /// Steps 1 and 2: a port, a clock that begins here, a uid that no earlier process at this address had, a seed, a node.
    ///
    /// # Errors
    /// The settings cannot be, or the system gives no port.
    pub fn bind(config: Config) -> Result<Self, Failure> {
        let mut listener = TcpListener::bind("127.0.0.1:0".parse()?)?;
        let poll = Poll::new()?;
        poll.registry()
            .register(&mut listener, LISTENER, Interest::READABLE)?;
        let address = Address::new("127.0.0.1", listener.local_addr()?.port())?;
        let me = UniqueAddress::new(address, random());
        let config = config.validate()?;
        let origin = std::time::Instant::now();
        let rng = ChaCha8Rng::seed_from_u64(random());
        Ok(Self {
            limits: config.limits.clone(),
            node: Node::new(config, me.clone(), rng, now(origin)),
            me,
            poll,
            listener,
            links: BTreeMap::new(),
            ways: BTreeMap::new(),
            takes_bulk: BTreeSet::new(),
            not_before: BTreeMap::new(),
            ready: BTreeSet::new(),
            knocking: false,
            is_deaf: false,
            encoder: Encoder::new(),
            quarantined: VecDeque::new(),
            inputs: VecDeque::new(),
            last_id: LISTENER.0,
            last_epoch: 0,
            origin,
            events: Events::with_capacity(256),
            buffer: vec![0; READ_BYTES],
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
        self.node.view()
    }

    /// How it ended, if it has.
    pub const fn halted(&self) -> Option<HaltReason> {
        self.halted
    }

    /// Links it has dialed so far.
    pub const fn dials(&self) -> u32 {
        self.last_epoch
    }

    /// Whether it reads the links that carry entity messages.
    pub fn has_room(&self) -> bool {
        self.node.has_capacity() && !self.entities.is_holding()
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
        for id in self.links.keys().copied().collect::<Vec<_>>() {
            self.close(id);
        }
    }

    /// One turn: what there is to do, then sleep until the node's deadline, a socket, or `at_most`, then what has come.
    ///
    /// # Errors
    /// The system's, about the poll; never a peer's.
    pub fn turn(&mut self, at_most: Duration) -> Result<(), Failure> {
        let wake = self.work();
        self.flush();
        if self.halted.is_some() {
            return Ok(());
        }
        self.sleep(wake, at_most)?;
        self.serve();
        Ok(())
    }

    /// Step 10: after `Halt`, writes what was to be sent, for at most so long. Dropping the host then closes the links.
    ///
    /// # Errors
    /// The system's, about the poll.
    pub fn finish(mut self, at_most: Duration) -> Result<(), Failure> {
        let started = std::time::Instant::now();
        self.flush();
        while self.links.values().any(Link::has_unsent) && started.elapsed() < at_most {
            self.poll.poll(&mut self.events, Some(at_most))?;
            self.flush();
        }
        Ok(())
    }

    pub(super) fn now(&self) -> Now {
        now(self.origin)
    }

    /// Steps 3 and 4: effects out until the node lets its host sleep, then the next input; what effects cause are inputs too.
    fn work(&mut self) -> Option<Wake> {
        let mut inputs_left = INPUTS_PER_TURN;
        loop {
            match self.node.poll() {
                Output::Effect(effect) => self.perform(effect),
                Output::Sleep(wake) if inputs_left == 0 => return wake,
                Output::Sleep(wake) => match self.inputs.pop_front() {
                    Some(input) => self.node.handle(self.now(), input),
                    None => return wake,
                },
            }
            inputs_left = inputs_left.saturating_sub(1);
        }
    }

    fn perform(&mut self, effect: Effect) {
        match effect {
            Effect::Send { to, message } => self.send(to, message),
            Effect::Entity(order) => {
                let report = self.entities.order(order);
                self.inputs.extend(report.map(Input::Entity));
            }
            Effect::Reply { token, answer } => {
                self.answers.insert(token, answer);
            }
            Effect::Notify(Event::Rejected {
                peer,
                rejection: Rejection::Wire(error),
            }) if error.reaction() != Reaction::Drop => {
                self.close_all_of(&peer, |link| matches!(link.role, Role::Inbound(_)));
            }
            Effect::Notify(Event::Detector(DetectorEvent::Paused { .. })) => self.entities.hold(),
            Effect::Notify(Event::Detector(DetectorEvent::StillMember)) => {
                let reports = self.entities.release();
                self.inputs.extend(reports.into_iter().map(Input::Entity));
            }
            Effect::Notify(_) => {} // facts for people
            Effect::Lease(..) => {} // only lease-majority asks for one, and no answer counts as a refusal
            Effect::Store(owner, request) => {
                // No store: whoever asked hears it at once. One that has a disk writes on a thread of its own.
                let report = request.without_a_store();
                self.inputs.push_back(Input::Stored(owner, report));
            }
            Effect::Quarantine(node) => {
                self.close_all_of(&node, |_| true);
                self.quarantined.push_back(node);
                if self.quarantined.len() > QUARANTINED_MAX {
                    self.quarantined.pop_front();
                }
            }
            Effect::Halt(reason) => self.halted = Some(reason),
        }
    }

    /// Step 5: sleep until the deadline and never longer, unless there is something to do; past the deadline, `Tick`.
    fn sleep(&mut self, wake: Option<Wake>, at_most: Duration) -> Result<(), Failure> {
        let wake = wake.map_or(Instant::MAX, |wake| wake.at);
        let has_room = self.has_room();
        let readable = |id: &Id| {
            self.links
                .get(id)
                .is_some_and(|link| has_room || !link.may_wait())
        };
        let is_asked = self.knocking && !self.is_deaf;
        let has_work = is_asked || !self.inputs.is_empty() || self.ready.iter().any(readable);
        let timeout = if has_work {
            Duration::ZERO
        } else {
            wake.since(self.now().mono).min(at_most)
        };
        match self.poll.poll(&mut self.events, Some(timeout)) {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            polled => polled?,
        }
        for event in &self.events {
            match event.token() {
                LISTENER => self.knocking = true,
                id => {
                    self.ready.insert(id);
                }
            }
        }
        let time = self.now();
        if wake <= time.mono {
            self.node.handle(time, Input::Tick);
            self.work();
        }
        Ok(())
    }

    /// Every link that has something gets one read, so that none keeps the others or the timers waiting.
    fn serve(&mut self) {
        self.accept();
        for id in self.ready.iter().copied().collect::<Vec<_>>() {
            if !self.links.contains_key(&id) {
                self.ready.remove(&id);
                continue;
            }
            let mut buffer = std::mem::take(&mut self.buffer);
            self.advance(id, &mut buffer);
            self.buffer = buffer;
            self.work();
        }
        self.sweep();
    }

    fn flush(&mut self) {
        let time = self.now().mono;
        let mut broken = Vec::new();
        for (id, link) in &mut self.links {
            if link.has_unsent() && link.write(time).is_err() {
                broken.push(*id);
            }
        }
        for id in broken {
            self.close(id);
        }
    }

    pub(super) fn adopt(&mut self, mut stream: TcpStream, role: Role) -> std::io::Result<Id> {
        // Frames are batched: waiting for more of them in the system would only add delay.
        let _ = stream.set_nodelay(true);
        self.last_id += 1;
        let id = Id(self.last_id);
        let interest = Interest::READABLE | Interest::WRITABLE;
        self.poll.registry().register(&mut stream, id, interest)?;
        self.links.insert(id, Link::new(stream, role, self.now().mono));
        Ok(id)
    }

    /// Forgets a link, and tells the node what went with it (step 6).
    pub(super) fn close(&mut self, id: Id) {
        let Some(link) = self.links.remove(&id) else {
            return;
        };
        self.ready.remove(&id);
        self.ways.retain(|_, way| *way != id);
        match link.role {
            Role::Greeting(hello, waiting) => self.gave_up(&hello, waiting),
            // No ask is under way on a bulk link.
            Role::Outbound(Known {
                kind: LinkKind::Bulk, ..
            }) => {}
            Role::Outbound(Known { peer, .. }) => self.tell(LinkEvent::Down { peer }),
            // Its answers came on this one; without it those on their way are lost.
            Role::Inbound(Known {
                peer,
                kind: LinkKind::Control,
                ..
            }) => self.tell(LinkEvent::Down { peer }),
            Role::Inbound(_) | Role::Stranger => {}
        }
    }

    pub(super) fn close_all_of(&mut self, peer: &UniqueAddress, which: impl Fn(&Link) -> bool) {
        let is_meant = |link: &Link| link.known().is_some_and(|known| known.peer == *peer) && which(link);
        let links = self.links.iter().filter(|(_, link)| is_meant(link));
        for id in links.map(|(id, _)| *id).collect::<Vec<_>>() {
            self.close(id);
        }
    }

    pub(super) fn tell(&mut self, event: LinkEvent) {
        self.inputs.push_back(Input::Link(event));
    }

    /// Closes what does not move: handshakes that take too long, halves of frames, links of nodes that are no members.
    fn sweep(&mut self) {
        let time = self.now().mono;
        let view = self.node.view();
        let limits = &self.limits;
        let is_stuck = |id: &Id, link: &Link| match &link.role {
            Role::Stranger | Role::Greeting(..) => time.since(link.opened_at) > limits.handshake_timeout,
            Role::Inbound(known) | Role::Outbound(known) => {
                let idle = time.since(link.moved_at);
                // Not `ready`: it is the peer that has not sent the rest, not this host that has not read it.
                let is_half = !link.received.is_empty() && !self.ready.contains(id);
                (is_half && idle > limits.handshake_timeout)
                    || (view.member(&known.peer).is_none() && idle > limits.stranger_idle_timeout)
            }
        };
        let stuck = self.links.iter().filter(|(id, link)| is_stuck(id, link));
        let stuck: Vec<Id> = stuck.map(|(id, _)| *id).collect();
        self.not_before.retain(|_, not_before| *not_before > time);
        let ways = &self.ways;
        self.takes_bulk
            .retain(|address| ways.contains_key(&(address.clone(), LinkKind::Control)));
        for id in stuck {
            self.close(id);
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
