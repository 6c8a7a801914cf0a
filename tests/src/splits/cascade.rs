//! Crashes in a row, each perhaps reported by the next victim: under the cascade-safe rule they must not end
//! with nobody left where a majority lives. Spec: membership 3.9.

use quorate_core::downing::view::IndirectRule;

use super::plan::{Event, Plan};
use super::play::{Outcome, Setting};

/// Whether somebody must be left. Not all of it is in the rule's hands: keep-oldest gives up when the oldest
/// crashes with others, and lease-majority when who holds the lease crashes, because nobody can tell a dead
/// holder from the other side. Node 0 is the oldest, and leads, and so is the first to hold the lease.
#[must_use]
pub fn must_survive(plan: &Plan, setting: Setting) -> bool {
    let first_lives = !plan.events.iter().any(|(_, event)| *event == Event::Crash(0));
    let is_in_its_hands = match setting.strategy {
        "static-quorum" | "keep-majority" => true,
        "keep-oldest" | "lease-majority" => first_lives,
        _ => false,
    };
    plan.cascade && setting.rule != IndirectRule::Classic && is_in_its_hands
}

/// Whether crashes in a row were survived as they must be.
///
/// # Errors
/// Nobody is left although a majority lives.
pub fn at_rest(plan: &Plan, setting: Setting, outcome: &Outcome) -> Result<(), String> {
    if outcome.is_needless() && must_survive(plan, setting) {
        return Err("nobody is left of a majority that lives after crashes in a row".to_owned());
    }
    Ok(())
}
