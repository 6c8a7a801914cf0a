//! When entities are taken out of memory although nobody asked for it: after a time without messages, and
//! when a region runs more of them than it may. Values that are checked when they are made; decides nothing.
//! Spec: sharding 1.6, 4.1.

mod share;

use alloc::vec;
use alloc::vec::Vec;
use core::num::NonZeroUsize;
use core::time::Duration;

pub use share::{Factor, PassivationError, Share};

/// Most segments of a segmented recency list: more than three are never useful.
pub const SEGMENTS_MAX: usize = 16;

/// When the entities of a kind are passivated by their shard: they are asked to stop, and the next message
/// starts them again. Only messages that come through sharding count as use; what an entity does by itself
/// does not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PassivationSettings {
    /// After how long without a message; `None`: never for that reason.
    pub idle: Option<IdleSettings>,
    /// How many may run; `None`: any number.
    pub limit: Option<LimitSettings>,
}

impl Default for PassivationSettings {
    /// Two minutes without a message. Mirrors `passivation.strategy = default-idle-strategy`.
    fn default() -> Self {
        Self {
            idle: Some(IdleSettings::default()),
            limit: None,
        }
    }
}

impl PassivationSettings {
    /// Entities stop only when they want to, when their shard moves and when their node ends.
    #[must_use]
    pub const fn off() -> Self {
        Self {
            idle: None,
            limit: None,
        }
    }

    /// After `timeout` without a message; looked at every half of it.
    ///
    /// # Errors
    /// [`PassivationError`] if it is zero.
    pub fn idle(timeout: Duration) -> Result<Self, PassivationError> {
        Ok(Self {
            idle: Some(IdleSettings::new(timeout, timeout / 2)?),
            limit: None,
        })
    }

    /// When a region runs more than a number of entities. The limit alone: add [`Self::and_idle`] for both.
    #[must_use]
    pub const fn limit(limit: LimitSettings) -> Self {
        Self {
            idle: None,
            limit: Some(limit),
        }
    }

    /// After `timeout` without a message as well.
    ///
    /// # Errors
    /// [`PassivationError`] if it is zero.
    pub fn and_idle(mut self, timeout: Duration) -> Result<Self, PassivationError> {
        self.idle = Some(IdleSettings::new(timeout, timeout / 2)?);
        Ok(self)
    }

    /// What is left of it for a kind that may remember its entities: those are never passivated by their
    /// shard, because they would be started again at once (S-078).
    #[must_use]
    pub fn unless_remembered(self, remember_entities: bool) -> Self {
        if remember_entities { Self::off() } else { self }
    }
}

/// After how long without a message an entity is passivated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdleSettings {
    timeout: Duration,
    interval: Duration,
}

impl Default for IdleSettings {
    /// 120 s, looked at every 60 s.
    fn default() -> Self {
        let timeout = Duration::from_secs(120);
        Self {
            timeout,
            interval: timeout / 2,
        }
    }
}

impl IdleSettings {
    /// After `timeout` (> 0), looked at every `interval` (> 0; at least a millisecond is used).
    ///
    /// # Errors
    /// [`PassivationError`] if one of them is zero.
    pub fn new(timeout: Duration, interval: Duration) -> Result<Self, PassivationError> {
        if timeout.is_zero() {
            let what = "the time without a message";
            return Err(PassivationError::Zero { what });
        }
        if interval.is_zero() {
            let what = "the time between two looks";
            return Err(PassivationError::Zero { what });
        }
        Ok(Self { timeout, interval })
    }

    /// Longest time without a message.
    #[must_use]
    pub const fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Time between two looks.
    #[must_use]
    pub fn interval(&self) -> Duration {
        self.interval.max(Duration::from_millis(1))
    }
}

/// Which entities are passivated first when there are too many.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Replacement {
    /// Whoever has had no message for the longest time.
    LeastRecentlyUsed,
    /// The same in several segments: an entity enters the lowest one, rises with each message, and only the
    /// lowest one loses. What is used once cannot push out what is used again and again.
    Segmented(Segments),
    /// Whoever had a message last, before the one that has it now. For entities that are visited in turn.
    MostRecentlyUsed,
    /// Whoever has had the fewest messages since it was started, of those the one that was used the longest
    /// time ago.
    LeastFrequentlyUsed {
        /// Whether old messages count for less: an entity that was busy once goes in the end.
        aging: bool,
    },
}

/// The segments of a segmented recency list: the share of the limit that each may have, the lowest first.
/// What all the others leave belongs to the lowest one, at least one entity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segments(Vec<Share>);

impl Default for Segments {
    /// 20 % and 80 %.
    fn default() -> Self {
        Self(vec![Share(0.2), Share(0.8)])
    }
}

impl Segments {
    /// Segments with these shares, the lowest first.
    ///
    /// # Errors
    /// [`PassivationError`] unless there are 1 to [`SEGMENTS_MAX`] and they are at most the whole together.
    pub fn new(shares: &[f64]) -> Result<Self, PassivationError> {
        /// What sums of decimal fractions may be off by.
        const ROUNDING: f64 = 1e-9;
        if shares.is_empty() || shares.len() > SEGMENTS_MAX || shares.iter().sum::<f64>() > 1.0 + ROUNDING {
            return Err(PassivationError::BadSegments);
        }
        let share = |share: &f64| Share::checked("a segment", *share);
        shares.iter().map(share).collect::<Result<_, _>>().map(Self)
    }

    /// The shares, the lowest segment's first.
    #[must_use]
    pub fn shares(&self) -> &[Share] {
        &self.0
    }
}

/// How many entities a region may run, and which are passivated when there are more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitSettings {
    /// Most running entities of a region, all its shards together (default 100,000). Each shard may have its
    /// equal part of it, at least one, so that a region of more shards than this runs one of each. Mirrors
    /// `active-entity-limit`.
    pub per_region: NonZeroUsize,
    /// Who goes first.
    pub replacement: Replacement,
    /// Newcomers are kept apart until they have shown that they are used; `None`: they are not. Mirrors
    /// `admission.window`.
    pub window: Option<WindowSettings>,
    /// Newcomers get in only if they are used more often than who would go for them; `None`: always. Mirrors
    /// `admission.filter`.
    pub filter: Option<SketchSettings>,
}

/// Most running entities of a region unless said otherwise. Mirrors `active-entity-limit`.
const PER_REGION_DEFAULT: NonZeroUsize = NonZeroUsize::new(100_000).expect("a number above zero");

impl Default for LimitSettings {
    /// 100,000; segments of 20 % and 80 % behind a window of 1 % that adapts itself, and a frequency sketch.
    /// Mirrors `passivation.default-strategy`.
    fn default() -> Self {
        Self {
            per_region: PER_REGION_DEFAULT,
            replacement: Replacement::Segmented(Segments::default()),
            window: Some(WindowSettings::default()),
            filter: Some(SketchSettings::default()),
        }
    }
}

impl LimitSettings {
    /// At most `per_region` entities, by one rule alone: no window, no filter.
    #[must_use]
    pub const fn plain(per_region: NonZeroUsize, replacement: Replacement) -> Self {
        Self {
            per_region,
            replacement,
            window: None,
            filter: None,
        }
    }
}

/// The window in which newcomers are kept apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WindowSettings {
    /// Who leaves it first (default: least recently used). Mirrors `admission.window.policy`.
    pub policy: Replacement,
    /// Its share of the limit at the beginning (default 0.01). Mirrors `admission.window.proportion`.
    pub proportion: Share,
    /// How its share follows the load; `None`: it does not.
    pub climbing: Option<ClimbingSettings>,
}

impl Default for WindowSettings {
    fn default() -> Self {
        Self {
            policy: Replacement::LeastRecentlyUsed,
            proportion: Share(0.01),
            climbing: Some(ClimbingSettings::default()),
        }
    }
}

impl WindowSettings {
    /// A window of this share, least recently used first, which keeps its share.
    ///
    /// # Errors
    /// [`PassivationError`] if it is no share.
    pub fn fixed(proportion: f64) -> Result<Self, PassivationError> {
        Ok(Self {
            policy: Replacement::LeastRecentlyUsed,
            proportion: Share::checked("the window", proportion)?,
            climbing: None,
        })
    }

    /// The same, with a share that follows the load.
    ///
    /// # Errors
    /// [`PassivationError`] if it is no share, or outside of what `climbing` allows.
    pub fn climbing(proportion: f64, climbing: ClimbingSettings) -> Result<Self, PassivationError> {
        let mut window = Self::fixed(proportion)?;
        if window.proportion < climbing.least || window.proportion > climbing.most {
            return Err(PassivationError::BadRange);
        }
        window.climbing = Some(climbing);
        Ok(window)
    }
}

/// How the window's share follows the load: it is changed a little, and goes on in that direction while the
/// share of messages to running entities rises. Mirrors `admission.optimizer.hill-climbing`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClimbingSettings {
    /// Changed after so many messages for each entity of the limit (default 10).
    pub(crate) adjust_multiplier: Factor,
    /// First change (default 0.0625).
    pub(crate) initial_step: Share,
    /// A rate that changes by so much begins with the first change again (default 0.05).
    pub(crate) restart_threshold: Share,
    /// Each change is so much of the one before (default 0.98).
    pub(crate) decay: Share,
    /// Least share of the window (default 0.01).
    pub(crate) least: Share,
    /// Largest share of the window (default 1).
    pub(crate) most: Share,
}

impl Default for ClimbingSettings {
    fn default() -> Self {
        Self {
            adjust_multiplier: Factor(10.0),
            initial_step: Share(0.0625),
            restart_threshold: Share(0.05),
            decay: Share(0.98),
            least: Share(0.01),
            most: Share::WHOLE,
        }
    }
}

impl ClimbingSettings {
    /// Changes the window after `multiplier` messages for each entity of the limit (above 0, at most 1,000;
    /// default 10).
    ///
    /// # Errors
    /// [`PassivationError`] outside of that.
    pub fn every(mut self, multiplier: f64) -> Result<Self, PassivationError> {
        self.adjust_multiplier = Factor::checked("the multiplier", multiplier)?;
        Ok(self)
    }

    /// First change of the share (0 to 1; default 0.0625), and how much of it remains with each change (0 to
    /// 1; default 0.98).
    ///
    /// # Errors
    /// [`PassivationError`] outside of that.
    pub fn step(mut self, first: f64, decay: f64) -> Result<Self, PassivationError> {
        self.initial_step = Share::checked("the first step", first)?;
        self.decay = Share::checked("the decay", decay)?;
        Ok(self)
    }

    /// By how much the rate has to change to begin with the first step again (0 to 1; default 0.05).
    ///
    /// # Errors
    /// [`PassivationError`] outside of that.
    pub fn restart_at(mut self, threshold: f64) -> Result<Self, PassivationError> {
        self.restart_threshold = Share::checked("the threshold", threshold)?;
        Ok(self)
    }

    /// Between which shares the window stays (0 to 1 each; default 0.01 and 1).
    ///
    /// # Errors
    /// [`PassivationError`] outside of that, or if the least is above the largest.
    pub fn within(mut self, least: f64, most: f64) -> Result<Self, PassivationError> {
        self.least = Share::checked("the least window", least)?;
        self.most = Share::checked("the largest window", most)?;
        if self.least > self.most {
            return Err(PassivationError::BadRange);
        }
        Ok(self)
    }
}

/// The table of approximate frequencies. Mirrors `admission.filter.frequency-sketch`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SketchSettings {
    /// Counters in a row for each entity of the limit (default 4).
    pub(crate) width_multiplier: usize,
    /// After so many messages for each entity of the limit all counters are halved (default 10).
    pub(crate) reset_multiplier: Factor,
}

impl Default for SketchSettings {
    fn default() -> Self {
        Self {
            width_multiplier: 4,
            reset_multiplier: Factor(10.0),
        }
    }
}

impl SketchSettings {
    /// Most counters in a row for each entity of the limit.
    const WIDTH_MAX: u32 = 64;

    /// `width` counters in a row for each entity of the limit (1 to 64; default 4): half a byte each, in four
    /// rows. Halved after `reset` messages for each entity of the limit (above 0, at most 1,000; default 10).
    ///
    /// # Errors
    /// [`PassivationError`] outside of that.
    pub fn new(width: u32, reset: f64) -> Result<Self, PassivationError> {
        if !(1..=Self::WIDTH_MAX).contains(&width) {
            let (what, max) = ("the width", Self::WIDTH_MAX);
            return Err(PassivationError::NoFactor { what, max });
        }
        Ok(Self {
            width_multiplier: width as usize,
            reset_multiplier: Factor::checked("the reset", reset)?,
        })
    }
}
