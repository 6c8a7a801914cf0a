//! Who is visited in which order: traces like those that caches are compared on, drawn from a seed.

use quorate_core::sharding::passivation::Hashed;

/// A kind of trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trace {
    /// Every entity as often as every other, ten times as many as may run.
    Uniform,
    /// A few very often, most rarely: the n-th with a frequency of 1/n, fifty times as many as may run.
    Zipf,
    /// Everybody once and never again.
    Once,
    /// As Zipf, and every other access goes to somebody who comes once and never again.
    Scan,
    /// One after the other in a circle, a quarter more than may run.
    Loop,
    /// As Zipf, and who is popular changes ten times.
    Shift,
}

impl Trace {
    pub(crate) const ALL: [Self; 6] = [
        Self::Uniform,
        Self::Zipf,
        Self::Once,
        Self::Scan,
        Self::Loop,
        Self::Shift,
    ];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Uniform => "uniform",
            Self::Zipf => "Zipf",
            Self::Once => "scan",
            Self::Scan => "Zipf and scan",
            Self::Loop => "loop",
            Self::Shift => "shifting Zipf",
        }
    }

    pub(crate) fn draw(self, limit: usize, accesses: usize, seed: u64) -> Vec<u64> {
        let mut chance = Chance(seed);
        let limit = limit as u64;
        match self {
            Self::Uniform => (0..accesses).map(|_| chance.below(10 * limit)).collect(),
            Self::Once => (0..accesses as u64).collect(),
            Self::Loop => (0..accesses as u64).map(|at| at % (limit + limit / 4)).collect(),
            Self::Zipf | Self::Scan | Self::Shift => {
                let zipf = Zipf::new(50 * limit);
                let phase = (accesses as u64 / 10).max(1);
                let visit = |at: u64| match self {
                    Self::Scan if at % 2 == 1 => 1_000_000_000 + at,
                    // Other names for the same ranks.
                    Self::Shift => zipf.draw(&mut chance) + at / phase * 100 * limit,
                    Self::Uniform | Self::Zipf | Self::Once | Self::Scan | Self::Loop => {
                        zipf.draw(&mut chance)
                    }
                };
                (0..accesses as u64).map(visit).collect()
            }
        }
    }
}

/// Random numbers: a counter through a good mixer.
struct Chance(u64);

impl Chance {
    fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        self.0.hash()
    }

    fn below(&mut self, bound: u64) -> u64 {
        u64::try_from((u128::from(self.number()) * u128::from(bound)) >> 64).unwrap_or(0)
    }

    /// From 0 to below 1.
    fn share(&mut self) -> f64 {
        (self.number() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// Ranks with the frequency 1/rank.
struct Zipf {
    /// The sum of the frequencies up to each rank.
    sums: Vec<f64>,
}

impl Zipf {
    fn new(ranks: u64) -> Self {
        let mut sum = 0.0;
        let sums = (1..=ranks).map(|rank| {
            sum += 1.0 / rank as f64;
            sum
        });
        Self { sums: sums.collect() }
    }

    fn draw(&self, chance: &mut Chance) -> u64 {
        let whole = self.sums.last().copied().unwrap_or(0.0);
        let drawn = chance.share() * whole;
        self.sums.partition_point(|sum| *sum <= drawn) as u64
    }
}
