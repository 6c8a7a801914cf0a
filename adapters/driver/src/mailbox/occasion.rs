//! What is known of an ask beside its bytes. Values only.

use quorate_core::sharding::chain::AskChain;
use quorate_core::sharding::ids::AskRef;
use quorate_core::time::Instant;

/// What is known of an ask beside its bytes, while it waits and while it is being handled.
#[derive(Debug)]
pub(crate) struct Occasion {
    /// The ask, until its answer is put off.
    pub(crate) ask: Option<AskRef>,
    /// When whoever waits for the answer stops waiting, by the runtime's clock.
    pub(crate) deadline: Option<Instant>,
    /// Whose handlers wait for the answer.
    pub(crate) chain: AskChain,
}

impl Occasion {
    /// None of a message that nobody waits for.
    pub(crate) fn of(ask: Option<AskRef>, deadline: Option<Instant>, chain: AskChain) -> Option<Box<Self>> {
        let ask = Some(ask?);
        Some(Box::new(Self { ask, deadline, chain }))
    }
}
