//! I-46: while all members are Up, no more shards are on the move than the strategy moves at once; within the
//! safe shapes. That shards come to rest, as evenly as their strategy spreads them, is looked at when
//! everything else has (`sim/life.rs`).

use quorate_core::membership::member::Status;
use quorate_core::view::View;

/// A coordinator has done something.
pub(crate) fn on_step(view: &View, moving: usize, most: usize) -> Result<(), String> {
    // What a member leaves behind moves in any number.
    let all_stay = view.members().iter().all(|member| member.status == Status::Up);
    if all_stay && moving > most {
        return Err(format!("{moving} shards are on the move, {most} may be"));
    }
    Ok(())
}
