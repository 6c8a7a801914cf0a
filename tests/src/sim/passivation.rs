//! Entities that leave memory during a run: each seed of the profile `sharding` has a strategy of its own,
//! and entities ask for it themselves. Decides nothing about messages; I-44 and I-42 judge what becomes of
//! them. Spec: sharding 1.6.

use core::num::NonZeroUsize;
use core::time::Duration;

use quorate_core::config::ShardingConfig;
use quorate_core::sharding::passivation::{
    ClimbingSettings, LimitSettings, PassivationSettings, Replacement, Segments, SketchSettings,
    WindowSettings,
};

use super::chance::{Chance, Purpose};

/// Of a thousand messages so many have their entity ask to be passivated.
const ASKS_PER_MILLE: u64 = 40;

/// The chance of one run.
#[derive(Debug)]
pub(crate) struct Passivations {
    chance: Chance,
    /// Whether entities ask for it.
    pub(crate) are_wanted: bool,
}

impl Passivations {
    /// A run in which nobody is passivated before two minutes without a message.
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            chance: Chance::new(seed, Purpose::Passivation),
            are_wanted: false,
        }
    }

    /// Draws a strategy for this run.
    pub(crate) fn configure(&mut self, config: &mut ShardingConfig) {
        self.are_wanted = true;
        config.passivation = self.strategy();
    }

    /// Whether the entity that has just handled a message asks to be passivated. Always draws, so that runs
    /// differ in nothing else.
    pub(crate) fn asks(&mut self) -> bool {
        self.chance.per_mille(ASKS_PER_MILLE) && self.are_wanted
    }

    fn strategy(&mut self) -> PassivationSettings {
        let replacement = match self.chance.below(8) {
            0 | 1 => return PassivationSettings::off(),
            2 => Replacement::LeastRecentlyUsed,
            3 => Replacement::MostRecentlyUsed,
            4 => Replacement::LeastFrequentlyUsed { aging: false },
            5 => Replacement::LeastFrequentlyUsed { aging: true },
            _ => Replacement::Segmented(Segments::default()),
        };
        // Twenty entities live on some nodes, so that such limits are passed all the time.
        let per_region = usize::try_from(self.chance.between(1, 6))
            .ok()
            .and_then(NonZeroUsize::new);
        let mut limit = LimitSettings::plain(per_region.unwrap_or(NonZeroUsize::MIN), replacement);
        if self.chance.per_mille(400) {
            let climbing = ClimbingSettings::default().every(1.0);
            let window = climbing.and_then(|climbing| WindowSettings::climbing(0.25, climbing));
            limit.window = window.ok();
            limit.filter = Some(SketchSettings::default());
        }
        let settings = PassivationSettings::limit(limit);
        if self.chance.per_mille(500) {
            let idle = Duration::from_millis(self.chance.between(500, 5_000));
            return settings.clone().and_idle(idle).unwrap_or(settings);
        }
        settings
    }
}
