//! A part of a whole, as load is told: whole thousandths, so that no number of a peer is none. Spec: sharding
//! 5.5.

/// A share from 0 to 1, in thousandths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LoadShare(u16);

impl LoadShare {
    /// All of it, in thousandths.
    pub const WHOLE: u16 = 1_000;

    /// Nothing of it.
    pub const NONE: Self = Self(0);

    /// All of it.
    pub const ALL: Self = Self(Self::WHOLE);

    /// So many thousandths; `None` above 1,000.
    #[must_use]
    pub const fn from_thousandths(thousandths: u16) -> Option<Self> {
        if thousandths <= Self::WHOLE {
            Some(Self(thousandths))
        } else {
            None
        }
    }

    /// The nearest one: what is above 1 counts as 1, what is below 0 as 0; `None` if it is no number.
    #[must_use]
    pub fn nearest(part: f64) -> Option<Self> {
        if part.is_nan() {
            return None;
        }
        let thousandths = part.clamp(0.0, 1.0) * f64::from(Self::WHOLE);
        Some(Self((thousandths + 0.5) as u16))
    }

    /// The thousandths.
    #[must_use]
    pub const fn thousandths(self) -> u16 {
        self.0
    }

    /// As a number from 0 to 1.
    #[must_use]
    pub fn as_f64(self) -> f64 {
        f64::from(self.0) / f64::from(Self::WHOLE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_share_becomes_the_nearest_one() {
        let nearest = |part| LoadShare::nearest(part).map(LoadShare::thousandths);
        assert_eq!(nearest(0.1594), Some(159));
        assert_eq!(nearest(0.9995), Some(1_000));
        assert_eq!(nearest(-0.0), Some(0));
        assert_eq!(nearest(-3.0), Some(0));
        assert_eq!(nearest(17.0), Some(1_000));
        assert_eq!(nearest(f64::INFINITY), Some(1_000));
        assert_eq!(nearest(f64::NAN), None);
    }

    #[test]
    fn no_share_is_above_the_whole() {
        assert_eq!(LoadShare::from_thousandths(1_000), Some(LoadShare::ALL));
        assert_eq!(LoadShare::from_thousandths(1_001), None);
        assert_eq!(LoadShare::ALL.as_f64(), 1.0);
        assert_eq!(LoadShare::NONE.as_f64(), 0.0);
    }
}
