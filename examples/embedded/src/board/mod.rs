//! The main loop of a board: takes what interrupts have queued, feeds the node, does its effects in their
//! order, says until when it may sleep. Decides nothing about the protocol. The numbers are those of the
//! steps in `docs/embedding.md`.

mod lines;

use alloc::collections::{BTreeMap, VecDeque};

use heapless::spsc::Consumer;
use quorate_core::config::ValidConfig;
use quorate_core::effect::{Answer, Effect, HaltReason};
use quorate_core::event::{DetectorEvent, Event};
use quorate_core::ident::{Address, UniqueAddress};
use quorate_core::input::{Command, Input, Token};
use quorate_core::node::Node;
use quorate_core::owner::Requester;
use quorate_core::stats::Stats;
use quorate_core::time::{Instant, Now};
use quorate_core::view::View;
use quorate_core::wire::handshake::{FEATURE_BULK, FEATURES};
use quorate_links::{HostStep, LinkedNode, Links};

use crate::link_limits;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;

use crate::interrupts::{Chunk, QUEUE_ENTRIES, Shared};
use crate::lamps::Lamps;
use lines::Lines;

/// Encoded bytes that a link gathers while those before them wait for the line: a tenth of a second of it.
/// The rest waits as messages, and old gossip is shed.
const GATHERED_BYTES_MAX: usize = 1 << 10;

/// The sending side of the serial ports.
pub trait Wire {
    /// Takes bytes for a line, as many as there is room for, and says how many. Never waits.
    fn send(&mut self, line: u8, bytes: &[u8]) -> usize;
}

/// What went wrong on the lines, to look at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Packets with a hole or a wrong byte.
    pub packets_damaged: u32,
    /// Frames of no link, or of one that is over.
    pub frames_of_nobody: u32,
    /// Frames, of entity messages as a rule, that came while there was no room for more of their link.
    pub user_frames_dropped: u32,
    /// Gossip that was not sent because the line was slow.
    pub gossip_shed: u32,
    /// Orders for lamps that came while it was not known whether this node is still a member.
    pub orders_held: u32,
}

/// A node on a board.
#[derive(Debug)]
pub struct Board {
    linked: LinkedNode<Node<ChaCha8Rng>>,
    me: UniqueAddress,
    lines: Lines,
    /// Inputs that effects have caused.
    inputs: VecDeque<Input<'static>>,
    answers: BTreeMap<Token, Answer>,
    lamps: Lamps,
    now: Now,
    last_millis: u32,
    last_token: Token,
    counters: Counters,
    halted: Option<HaltReason>,
}

impl Board {
    /// Steps 1 and 2. `me` needs a uid that no earlier start of this board had, and `seed` bytes that no
    /// other board has: from the chip's generator of true random numbers, or from a counter of starts in
    /// flash and the chip's serial number. `peers` are the addresses at the other ends of line 0, 1 and so
    /// on.
    #[must_use]
    pub fn new(
        config: ValidConfig,
        me: UniqueAddress,
        seed: [u8; 32],
        peers: &[Address],
        shared: &Shared,
    ) -> Self {
        let now = Now::default();
        let mut rng = ChaCha8Rng::from_seed(seed);
        let node = Node::new(config.clone(), me.clone(), ChaCha8Rng::from_rng(&mut rng), now);
        let limits = link_limits().validate(&config.limits);
        let limits = limits.expect("invariant: they are legal with all frames that a configuration allows");
        let links = Links::new(config, me.clone(), rng, now)
            .limited(limits)
            .with_features(FEATURES & !FEATURE_BULK) // a slow line has no room for bulk data
            .gathering(GATHERED_BYTES_MAX);
        Self {
            linked: LinkedNode::of(node, links),
            me,
            lines: Lines::new(peers),
            inputs: VecDeque::new(),
            answers: BTreeMap::new(),
            lamps: Lamps::default(),
            now,
            last_millis: shared.millis(),
            last_token: 0,
            counters: Counters::default(),
            halted: None,
        }
    }

    /// A command is an input like any other. Its answer carries the token.
    pub fn command(&mut self, command: Command) -> Token {
        self.last_token += 1;
        let token = self.last_token;
        self.inputs.push_back(Input::Command { token, command });
        token
    }

    /// The answer to a command, once.
    pub fn answer(&mut self, token: Token) -> Option<Answer> {
        self.answers.remove(&token)
    }

    /// One turn: what interrupts have brought, what is due, what has to be sent. Returns until when there is
    /// nothing to do without another interrupt; `None` if there is more to do at once, or the line has not
    /// taken everything.
    pub fn turn(
        &mut self,
        shared: &Shared,
        queue: &mut Consumer<'_, Chunk>,
        wire: &mut impl Wire,
    ) -> Option<Instant> {
        self.read_clock(shared);
        self.work();
        // As many as the queue holds: whatever interrupts add meanwhile comes after the timers.
        for _ in 0..QUEUE_ENTRIES {
            let Some(chunk) = queue.dequeue() else {
                break;
            };
            self.on_chunk(&chunk);
        }
        let mut wake = self.work();
        loop {
            let limits = &self.linked.node.config().limits;
            self.lines.flush(limits, |line, bytes| wire.send(line, bytes));
            if self.lines.happened.is_empty() {
                break;
            }
            // What was written makes room for what waits.
            wake = self.work();
        }
        let is_busy = queue.ready() || self.lines.has_unsent();
        (!is_busy).then_some(wake)
    }

    /// One packet after the other: what a link has heard is worked off before it hears more.
    fn on_chunk(&mut self, chunk: &Chunk) {
        let mut rest = chunk.bytes.as_slice();
        while !rest.is_empty() {
            let LinkedNode { node, links, .. } = &mut self.linked;
            let limits = &node.config().limits;
            rest = self
                .lines
                .take(links, limits, &mut self.counters, chunk.line, rest);
            self.work();
        }
    }

    /// Step 1: the counter of the interrupt wraps, the node's clock does not. A turn every 49 days is enough.
    fn read_clock(&mut self, shared: &Shared) {
        let millis = shared.millis();
        let passed = u64::from(millis.wrapping_sub(self.last_millis));
        self.last_millis = millis;
        let mono = self.now.mono.as_millis().saturating_add(passed);
        // Boards without a calendar say 0: the wall clock is only for people.
        self.now = Now {
            mono: Instant::from_millis(mono),
            unix_ms: 0,
        };
        self.linked.set_time(self.now);
    }

    /// Steps 3 and 4: effects out until the node lets its host sleep, then what links want, then the next
    /// input; what effects cause are inputs too.
    fn work(&mut self) -> Instant {
        loop {
            match self.linked.poll(!self.lamps.is_holding()) {
                HostStep::Effect(effect) => self.perform(effect),
                HostStep::Sleep(wake) => {
                    while let Some(order) = self.linked.links.next_order() {
                        self.lines.obey(order);
                    }
                    // Facts for people; a board with a console would print them.
                    while self.linked.links.next_report().is_some() {}
                    if let Some(input) = self.lines.happened.pop_front() {
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
                self.counters.orders_held += u32::from(self.lamps.is_holding());
                let report = self.lamps.order(order);
                self.inputs
                    .extend(report.map(|report| Input::Host(owner, report)));
            }
            Effect::Reply { token, answer } => {
                self.answers.insert(token, answer);
            }
            Effect::Notify(Event::Detector(DetectorEvent::Paused { .. } | DetectorEvent::Refused { .. })) => {
                self.lamps.hold();
            }
            Effect::Notify(Event::Detector(DetectorEvent::StillMember)) => {
                let reports = self.lamps.release();
                let of_entities = |report| Input::Host(Requester::Sharding, report);
                self.inputs.extend(reports.into_iter().map(of_entities));
            }
            Effect::Notify(_) => {} // facts for people; a board with a console would print them
            Effect::Allocate(_) => {} // no kind has a strategy that is asked
            Effect::Lease(..) => {} // only lease-majority asks for one, and no answer counts as a refusal
            Effect::Store(owner, request) => {
                // No store: whoever asked hears it at once. One that has a disk writes on a thread of its
                // own.
                let report = request.without_a_store();
                self.inputs.push_back(Input::Stored(owner, report));
            }
            Effect::Halt(reason) => self.halted = Some(reason),
            Effect::Send { .. } | Effect::Offer { .. } | Effect::Quarantine(_) => {} // links have done it
        }
    }

    /// The cluster as this node sees it.
    #[must_use]
    pub fn view(&self) -> &View {
        self.linked.node.view()
    }

    /// How it ended, if it has: then [`Board::turn`] until it returns an instant, and stop.
    #[must_use]
    pub const fn halted(&self) -> Option<HaltReason> {
        self.halted
    }

    /// What the node has counted.
    #[must_use]
    pub const fn stats(&self) -> &Stats {
        self.linked.node.stats()
    }

    /// What went wrong on the lines.
    #[must_use]
    pub fn counters(&self) -> Counters {
        let gossip_shed = u32::try_from(self.linked.links.stats().gossip_shed).unwrap_or(u32::MAX);
        Counters {
            gossip_shed,
            ..self.counters
        }
    }

    /// Who this is.
    #[must_use]
    pub const fn address(&self) -> &UniqueAddress {
        &self.me
    }

    /// Lamps on this board.
    #[must_use]
    pub fn lamps(&self) -> usize {
        self.lamps.len()
    }
}
