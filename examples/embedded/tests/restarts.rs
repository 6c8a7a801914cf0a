//! A board that was reset.

mod common;

use common::{Machine, World, config};
use quorate_embedded::interrupts::{Chunks, Shared};

#[test]
fn a_board_that_starts_anew_takes_the_place_of_its_predecessor() {
    let shared = [Shared::new(), Shared::new(), Shared::new()];
    let mut chunks = [Chunks::new(), Chunks::new(), Chunks::new()];
    let [first_chunks, second_chunks, third_chunks] = &mut chunks;
    let config = config();
    let mut world = World::of(|| {
        [
            Machine::start(1, 21, &config, &shared[0], first_chunks),
            Machine::start(2, 22, &config, &shared[1], second_chunks),
        ]
    });
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
    let heap = world.heap_of_one();
    assert!(heap < 64 << 10, "{heap} bytes");
}
