//! Two boards on one serial line: the source that runs on bare metal, with bytes for a wire and a counter for a clock. Nothing
//! here waits for real time.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use cap::Cap;
use heapless::spsc::Consumer;
use quorate_core::config::Config;
use quorate_core::effect::{Answer, HaltReason, ShardingAnswer};
use quorate_core::ident::{Address, ClusterName, UniqueAddress};
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
const LAMPS: u8 = 10;
/// The heap is measured, so only one test at a time uses it.
static ALONE: Mutex<()> = Mutex::new(());
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
struct Machine<'a> {
    board: Board,
    shared: &'a Shared,
    ports: Ports<'a>,
    queue: Consumer<'a, Chunk>,
    port: Port,
    /// Until when its main loop sleeps if nothing interrupts; `None`: it does not.
    sleeps_until: Option<Instant>,
    /// Its main loop stands still: interrupts go on.
    stuck: bool,
}

struct World<'a> {
    machines: [Machine<'a>; 2],
    millis: u32,
    heap_max: usize,
}

fn address(number: u16) -> Address {
    Address::new(&format!("board-{number}"), 1).expect("an address")
}

impl<'a> Machine<'a> {
    fn start(number: u16, uid: u64, config: &Config, shared: &'a Shared, chunks: &'a mut Chunks) -> Self {
        let (producer, queue) = chunks.split();
        let me = UniqueAddress::new(address(number), uid);
        let config = config.clone().validate().expect("legal settings");
        let seed = [u8::try_from(uid).expect("a small uid"); 32];
        let mut board = Board::new(config, me, seed, &[address(3 - number)], shared);
        board.command(Command::Sharding(ShardingCommand::RegisterKind(
            KindSettings::new(KIND, 6, true),
        )));
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

    fn command(&mut self, command: Command) -> Token {
        self.sleeps_until = None;
        self.board.command(command)
    }

    fn are_up(&self, count: usize) -> bool {
        let members = self.board.view().members();
        members.len() == count && members.iter().all(|member| member.status == Status::Up)
    }
}

impl World<'_> {
    /// A millisecond: what the line has carried interrupts, the timer interrupts, the main loops turn until they may sleep.
    fn step(&mut self) {
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

    fn until<T>(&mut self, what: &str, mut done: impl FnMut(&mut Self) -> Option<T>) -> T {
        let begun = self.millis;
        loop {
            if let Some(found) = done(self) {
                return found;
            }
            assert!(self.millis - begun < PATIENCE, "waited for {what}");
            self.step();
        }
    }

    fn ask(&mut self, at: usize, lamp: u8, message: &[u8]) -> Token {
        self.machines[at].command(Command::Sharding(ShardingCommand::Ask {
            kind: KindId::of(KIND),
            entity: EntityId::from(format!("lamp-{lamp}").as_str()),
            payload: message.into(),
            timeout: std::time::Duration::from_secs(5),
            chain: AskChain::default(),
        }))
    }

    /// Switches every lamp from one board and looks from the other.
    fn switch_all(&mut self, from: usize, on: u8) {
        for lamp in 0..LAMPS {
            for (at, message) in [(from, &[on][..]), (1 - from, &[])] {
                let token = self.ask(at, lamp, message);
                let answer = self.until("an answer", |world| world.machines[at].board.answer(token));
                assert_eq!(
                    answer,
                    Answer::Sharding(ShardingAnswer::Asked(Ok([on].into()))),
                    "lamp {lamp} from board {at}"
                );
            }
        }
    }

    /// The second board's main loop stands still for longer than is accepted, with messages in its queue: it begins with none
    /// of them before it knows that it is still a member.
    fn pause(&mut self) {
        self.machines[1].stuck = true;
        // They change nothing: one that the board has received and not read yet is handled when its asker has given up.
        let asks: Vec<Token> = (0..LAMPS).map(|lamp| self.ask(0, lamp, &[1])).collect();
        for _ in 0..6_000 {
            self.step();
        }
        assert_eq!(self.machines[1].board.counters().orders_held, 0);
        let buffered = self.machines[1].board.stats().sharding.entity_messages_buffered;
        self.machines[1].stuck = false;
        for token in asks {
            let answer = self.until("an ask to end", |world| world.machines[0].board.answer(token));
            assert!(
                matches!(answer, Answer::Sharding(ShardingAnswer::Asked(_))),
                "{answer:?}"
            );
        }
        self.both_up();
        self.switch_all(1, 1);
        // Its region keeps what comes meanwhile; what was ordered before the pause is the board's to hold.
        let waited = self.machines[1].board.stats().sharding.entity_messages_buffered - buffered;
        assert!(waited > 0, "messages waited");
    }

    fn both_up(&mut self) {
        self.until("two members to be Up", |world| {
            world
                .machines
                .iter()
                .all(|machine| machine.are_up(2))
                .then_some(())
        });
    }
}

fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn config() -> Config {
    small(ClusterName::new("boards").expect("a name"))
}

#[test]
fn two_boards_become_a_cluster_lose_bytes_recover_and_part() {
    let _alone = alone();
    let (shared, mut chunks) = ([Shared::new(), Shared::new()], [Chunks::new(), Chunks::new()]);
    let [first_chunks, second_chunks] = &mut chunks;
    let heap_before = HEAP.allocated();
    let config = config();
    let mut world = World {
        machines: [
            Machine::start(1, 11, &config, &shared[0], first_chunks),
            Machine::start(2, 12, &config, &shared[1], second_chunks),
        ],
        millis: 0,
        heap_max: 0,
    };
    world.both_up();
    world.switch_all(0, 1);
    world.switch_all(1, 0);
    world.until("both to have lamps", |world| {
        world
            .machines
            .iter()
            .all(|machine| machine.board.lamps() > 0)
            .then_some(())
    });
    for machine in &world.machines {
        assert_eq!(machine.shared.bytes_lost(), 0, "nothing is lost while both turn");
        assert_eq!(machine.board.counters().packets_damaged, 0);
    }

    // The second board's main loop stands still for two seconds, while the first has a lot to say: its queue overflows, in the
    // middle of packets.
    world.machines[1].stuck = true;
    let asks: Vec<Token> = (0..30).map(|at| world.ask(0, at % LAMPS, &[1])).collect();
    for _ in 0..2_000 {
        world.step();
    }
    let lost = shared[1].bytes_lost();
    assert!(lost > 100, "the queue was full: {lost} bytes lost");
    world.machines[1].stuck = false;
    // Every ask ends: with an answer, or with the news that there is none.
    for token in asks {
        let answer = world.until("an ask to end", |world| world.machines[0].board.answer(token));
        assert!(
            matches!(answer, Answer::Sharding(ShardingAnswer::Asked(_))),
            "{answer:?}"
        );
    }
    let damaged = world.machines[1].board.counters().packets_damaged;
    assert!(damaged > 0, "some packets had holes");
    world.both_up();
    world.switch_all(0, 1);
    assert_eq!(shared[1].bytes_lost(), lost, "and then nothing more is lost");
    assert!(world.machines.iter().all(|machine| machine.are_up(2)));
    world.pause();

    let heap = (world.heap_max - heap_before) / 2;
    println!("heap of one board: at most {heap} bytes; lost: {lost} bytes, damaged: {damaged} packets");
    // It grows with what a node can do: 69 KB with the ordered hand-off, watches, remembered entities and stored homes.
    assert!(heap < 80 << 10, "{heap} bytes");

    // The second leaves; the first goes on alone, with all lamps.
    world.machines[1].command(Command::Membership(MembershipCommand::Leave));
    let end = world.until("the second to leave", |world| world.machines[1].board.halted());
    assert_eq!(end, HaltReason::Left);
    world.until("the first to be alone", |world| {
        world.machines[0].are_up(1).then_some(())
    });
    for lamp in 0..LAMPS {
        let token = world.ask(0, lamp, &[1]);
        let answer = world.until("an answer", |world| world.machines[0].board.answer(token));
        assert_eq!(answer, Answer::Sharding(ShardingAnswer::Asked(Ok([1].into()))));
    }
}

#[test]
fn a_board_that_starts_anew_takes_the_place_of_its_predecessor() {
    let _alone = alone();
    let shared = [Shared::new(), Shared::new(), Shared::new()];
    let mut chunks = [Chunks::new(), Chunks::new(), Chunks::new()];
    let [first_chunks, second_chunks, third_chunks] = &mut chunks;
    let config = config();
    let mut world = World {
        machines: [
            Machine::start(1, 21, &config, &shared[0], first_chunks),
            Machine::start(2, 22, &config, &shared[1], second_chunks),
        ],
        millis: 0,
        heap_max: 0,
    };
    world.both_up();
    // A reset: the same address, another uid, nothing remembered.
    world.machines[1] = Machine::start(2, 23, &config, &shared[2], third_chunks);
    world.until("the second board's new life to be Up everywhere", |world| {
        let is_new = |machine: &Machine<'_>| {
            let members = machine.board.view().members();
            machine.are_up(2) && members.iter().any(|member| member.node.uid() == 23)
        };
        world.machines.iter().all(is_new).then_some(())
    });
    world.switch_all(1, 1);
}
