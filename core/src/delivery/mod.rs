//! Messages that are repeated until somebody has confirmed them. State machines without a clock, a network or
//! a store of their own: each call says what has happened and gets what is to be done. Spec: sharding 1.14,
//! 1.15, 2.4.
//!
//! * [`AtLeastOnce`]: what a persistent sender has sent and nobody has confirmed, sent again at intervals
//!   that grow.
//! * [`ProducerController`]: numbers messages, sends as many as were asked for, and again what is not
//!   confirmed.
//! * [`ToEntities`]: a producer for each of many entities, with one bound for all.
//! * [`WorkPulling`]: jobs of one producer for workers that ask for them.
//! * [`ConsumerController`]: one message at a time, in order and without a gap, and no more on the way than
//!   there is room for.

mod at_least_once;
mod consumer;
mod producer;
mod to_entities;
mod work;

use core::time::Duration;

pub use at_least_once::{
    AtLeastOnce, AtLeastOnceSettings, Redelivery, TooManyUnconfirmed, UnconfirmedDelivery,
};
pub use consumer::{ConsumerController, ConsumerOutput, ConsumerSettings, MessagePart, SequencedMessage};
pub use producer::{
    ConsumerRequest, NotRequested, ProducerController, ProducerOutput, ProducerSettings, StoredMessage,
};
pub use to_entities::{ToEntities, ToEntitiesOutput, ToEntitiesSettings, TooManyWaiting};
pub use work::{TooManyJobs, WorkPulling, WorkerPull};

/// Why a setting of delivery is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} must be {allowed}")]
pub struct BadSetting {
    /// Which.
    pub what: &'static str,
    /// What it may be.
    pub allowed: &'static str,
}

/// Refuses what is not allowed.
const fn ensure(holds: bool, what: &'static str, allowed: &'static str) -> Result<(), BadSetting> {
    if holds {
        Ok(())
    } else {
        Err(BadSetting { what, allowed })
    }
}

/// The next interval of repetitions that become rarer: `factor` times the last one, at most `longest`.
fn grown(last: Duration, factor: f64, longest: Duration) -> Duration {
    let micros = libm::trunc(last.as_micros() as f64 * factor);
    // Intervals are below a day, far from where a float loses microseconds.
    Duration::from_micros(micros as u64)
        .min(longest)
        .max(last.min(longest))
}
