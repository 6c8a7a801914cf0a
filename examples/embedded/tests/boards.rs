//! Two boards on one serial line become a cluster, lose bytes, stand still, and part.

mod common;

use common::{LAMPS, Machine, World, config};
use quorate_core::effect::{Answer, HaltReason};
use quorate_core::input::{Command, MembershipCommand, Token};
use quorate_embedded::interrupts::{Chunks, Shared};

impl World<'_> {
    /// The second board's main loop stands still for longer than is accepted, with messages in its queue: it
    /// begins with none of them before it knows that it is still a member.
    fn pause(&mut self) {
        self.machines[1].stuck = true;
        // They change nothing: one that the board has received and not read yet is handled when its asker has
        // given up.
        let asks: Vec<Token> = (0..LAMPS).map(|lamp| self.ask(0, lamp, &[1])).collect();
        for _ in 0..6_000 {
            self.step();
        }
        assert_eq!(self.machines[1].board.counters().orders_held, 0);
        let buffered = self.machines[1].board.stats().sharding.entity_messages_buffered;
        self.machines[1].stuck = false;
        for token in asks {
            let answer = self.until("an ask to end", |world| world.machines[0].board.answer(token));
            assert!(matches!(answer, Answer::Asked(_)), "{answer:?}");
        }
        self.both_up();
        self.switch_all(1, 1);
        // Its region keeps what comes meanwhile; what was ordered before the pause is the board's to hold.
        let waited = self.machines[1].board.stats().sharding.entity_messages_buffered - buffered;
        assert!(waited > 0, "messages waited");
    }
}

#[test]
fn two_boards_become_a_cluster_lose_bytes_recover_and_part() {
    let (shared, mut chunks) = ([Shared::new(), Shared::new()], [Chunks::new(), Chunks::new()]);
    let [first_chunks, second_chunks] = &mut chunks;
    let config = config();
    let mut world = World::of(|| {
        [
            Machine::start(1, 11, &config, &shared[0], first_chunks),
            Machine::start(2, 12, &config, &shared[1], second_chunks),
        ]
    });
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

    // The second board's main loop stands still for two seconds, while the first has a lot to say: its queue
    // overflows, in the middle of packets.
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
        assert!(matches!(answer, Answer::Asked(_)), "{answer:?}");
    }
    let damaged = world.machines[1].board.counters().packets_damaged;
    assert!(damaged > 0, "some packets had holes");
    world.both_up();
    world.switch_all(0, 1);
    assert_eq!(shared[1].bytes_lost(), lost, "and then nothing more is lost");
    assert!(world.machines.iter().all(|machine| machine.are_up(2)));
    world.pause();

    let heap = world.heap_of_one();
    println!("heap of one board: at most {heap} bytes; lost: {lost} bytes, damaged: {damaged} packets");
    // It grows with what a node can do: 52 KB with the ordered hand-off, watches, remembered entities, stored
    // homes and placement from outside.
    assert!(heap < 64 << 10, "{heap} bytes");

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
        assert_eq!(answer, Answer::Asked(Ok([1].into())));
    }
}
