//! Two boards on one serial line, with bytes for a wire and a counter for a clock. Nothing here waits for
//! real time.
//!
//! The heap is measured, and the test harness uses it too: each test is a program of its own.

use std::collections::VecDeque;

use cap::Cap;
use heapless::spsc::Consumer;
use quorate_core::config::Config;
use quorate_core::effect::Answer;
use quorate_core::ident::{Address, ClusterName, UniqueAddress};
use quorate_core::input::MessageCommand;
use quorate_core::input::Recipient;
use quorate_core::input::{Command, KindSettings, MembershipCommand, ShardingCommand, Token};
use quorate_core::membership::member::Status;
use quorate_core::sharding::chain::AskChain;
use quorate_core::sharding::ids::{EntityId, KindId};
use quorate_core::time::Instant;
use quorate_embedded::board::{Board, Wire};
use quorate_embedded::interrupts::{Chunk, Chunks, Ports, Shared};
use quorate_embedded::small;

#[global_allocator]
static HEAP: Cap<std::alloc::System> = Cap::new(std::alloc::System, usize::MAX);

/// Bytes a line carries in a millisecond: 115,200 baud.
const BYTES_PER_MILLI: usize = 11;
/// Bytes a port takes at once.
const PORT_BYTES: usize = 64;
const KIND: &str = "lamp";
pub(crate) const LAMPS: u8 = 10;
/// Virtual milliseconds any stage may take.
const PATIENCE: u32 = 120_000;

/// What a port has taken and the line has not carried.
#[derive(Default)]
struct Port(VecDeque<u8>);

impl Wire for Port {
    fn send(&mut self, line: u8, bytes: &[u8]) -> usize {
        assert_eq!(line, 0, "each board has one line");
        let taken = bytes.len().min(PORT_BYTES - self.0.len());
        self.0.extend(&bytes[..taken]);
        taken
    }
}

/// One board with what its hardware would do.
pub(crate) struct Machine<'a> {
    pub(crate) board: Board,
    pub(crate) shared: &'a Shared,
    ports: Ports<'a>,
    queue: Consumer<'a, Chunk>,
    port: Port,
    /// Until when its main loop sleeps if nothing interrupts; `None`: it does not.
    sleeps_until: Option<Instant>,
    /// Its main loop stands still: interrupts go on.
    pub(crate) stuck: bool,
}

pub(crate) struct World<'a> {
    pub(crate) machines: [Machine<'a>; 2],
    millis: u32,
    heap_before: usize,
    heap_max: usize,
}

fn address(number: u16) -> Address {
    Address::new(&format!("board-{number}"), 1).expect("an address")
}

impl<'a> Machine<'a> {
    pub(crate) fn start(
        number: u16,
        uid: u64,
        config: &Config,
        shared: &'a Shared,
        chunks: &'a mut Chunks,
    ) -> Self {
        let (producer, queue) = chunks.split();
        let me = UniqueAddress::new(address(number), uid);
        let config = config.clone().validate().expect("legal settings");
        let seed = [u8::try_from(uid).expect("a small uid"); 32];
        let mut board = Board::new(config, me, seed, &[address(3 - number)], shared);
        board.command(Command::Sharding(ShardingCommand::RegisterKind(Box::new(
            KindSettings::new(KIND, 6, true),
        ))));
        board.command(Command::Membership(MembershipCommand::JoinSeeds(vec![
            address(1),
            address(2),
        ])));
        Self {
            board,
            shared,
            ports: Ports::new(producer, shared),
            queue,
            port: Port::default(),
            sleeps_until: None,
            stuck: false,
        }
    }

    /// The main loop: it turns when an interrupt has brought something or its time has come, and only then.
    fn turn(&mut self) {
        let is_time = |at: Instant| at <= Instant::from_millis(self.shared.millis().into());
        if !self.stuck && (self.queue.ready() || self.sleeps_until.is_none_or(is_time)) {
            self.sleeps_until = self.board.turn(self.shared, &mut self.queue, &mut self.port);
        }
    }

    pub(crate) fn command(&mut self, command: Command) -> Token {
        self.sleeps_until = None;
        self.board.command(command)
    }

    pub(crate) fn are_up(&self, count: usize) -> bool {
        let members = self.board.view().members();
        members.len() == count && members.iter().all(|member| member.status == Status::Up)
    }
}

impl<'a> World<'a> {
    pub(crate) fn of(machines: impl FnOnce() -> [Machine<'a>; 2]) -> Self {
        let heap_before = HEAP.allocated();
        Self {
            machines: machines(),
            millis: 0,
            heap_before,
            heap_max: 0,
        }
    }

    /// The most bytes that a board had on its heap.
    pub(crate) fn heap_of_one(&self) -> usize {
        (self.heap_max - self.heap_before) / 2
    }

    /// A millisecond: what the line has carried interrupts, the timer interrupts, the main loops turn until
    /// they may sleep.
    pub(crate) fn step(&mut self) {
        self.millis += 1;
        for at in 0..2 {
            let bytes: Vec<u8> = {
                let sent = &mut self.machines[at].port.0;
                let len = sent.len().min(BYTES_PER_MILLI);
                sent.drain(..len).collect()
            };
            self.machines[1 - at].ports.on_bytes(0, &bytes);
        }
        for machine in &mut self.machines {
            machine.shared.on_millisecond();
            machine.turn();
        }
        self.heap_max = self.heap_max.max(HEAP.allocated());
    }

    pub(crate) fn until<T>(&mut self, what: &str, mut done: impl FnMut(&mut Self) -> Option<T>) -> T {
        let begun = self.millis;
        loop {
            if let Some(found) = done(self) {
                return found;
            }
            assert!(self.millis - begun < PATIENCE, "waited for {what}");
            self.step();
        }
    }

    pub(crate) fn ask(&mut self, at: usize, lamp: u8, message: &[u8]) -> Token {
        self.machines[at].command(Command::Message(MessageCommand::Ask {
            to: Recipient::Entity(KindId::of(KIND), EntityId::from(format!("lamp-{lamp}").as_str())),
            payload: message.into(),
            timeout: std::time::Duration::from_secs(5),
            chain: AskChain::default(),
        }))
    }

    /// Switches every lamp from one board and looks from the other.
    pub(crate) fn switch_all(&mut self, from: usize, on: u8) {
        for lamp in 0..LAMPS {
            for (at, message) in [(from, &[on][..]), (1 - from, &[])] {
                let token = self.ask(at, lamp, message);
                let answer = self.until("an answer", |world| world.machines[at].board.answer(token));
                assert_eq!(
                    answer,
                    Answer::Asked(Ok([on].into())),
                    "lamp {lamp} from board {at}"
                );
            }
        }
    }

    pub(crate) fn both_up(&mut self) {
        self.until("two members to be Up", |world| {
            world
                .machines
                .iter()
                .all(|machine| machine.are_up(2))
                .then_some(())
        });
    }
}

pub(crate) fn config() -> Config {
    small(ClusterName::new("boards").expect("a name"))
}
