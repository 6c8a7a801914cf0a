//! The checks of ranges, with the error that each setting out of its range has. For settings of hosts too:
//! those of links are checked by these.

use core::fmt::Debug;
use core::time::Duration;

use super::ConfigError;

/// Refuses a value that is not legal.
///
/// # Errors
/// [`ConfigError`] with the key, the value as `Debug` writes it, and what would be legal.
pub fn ensure(
    legal: bool,
    key: &'static str,
    value: &dyn Debug,
    range: &'static str,
) -> Result<(), ConfigError> {
    if legal {
        return Ok(());
    }
    Err(ConfigError {
        key,
        value: alloc::format!("{value:?}"),
        legal: range,
    })
}

/// Far beyond any use, and far from where sums of times overflow.
const LONGEST: Duration = Duration::from_secs(400 * 24 * 3600);

/// A duration that timers can measure.
///
/// # Errors
/// [`ConfigError`] below a microsecond and above 400 days.
pub fn positive(key: &'static str, value: Duration) -> Result<(), ConfigError> {
    // The core's clock counts microseconds: anything shorter is a timer that is due again at once, for ever.
    const SHORTEST: Duration = Duration::from_micros(1);
    ensure(
        (SHORTEST..=LONGEST).contains(&value),
        key,
        &value,
        "a duration of at least a microsecond, at most 400 days",
    )
}

/// A duration that may be zero.
///
/// # Errors
/// [`ConfigError`] above 400 days.
pub fn bounded(key: &'static str, value: Duration) -> Result<(), ConfigError> {
    let legal = value <= LONGEST;
    ensure(legal, key, &value, "a duration of at most 400 days")
}

/// A number that is not zero.
///
/// # Errors
/// [`ConfigError`] for zero.
pub fn at_least_one(key: &'static str, value: usize) -> Result<(), ConfigError> {
    ensure(value >= 1, key, &value, "at least 1")
}

/// A number from the first bound to the second, both included.
///
/// # Errors
/// [`ConfigError`] outside of them.
pub fn within(
    key: &'static str,
    value: usize,
    bounds: (usize, usize),
    range: &'static str,
) -> Result<(), ConfigError> {
    ensure((bounds.0..=bounds.1).contains(&value), key, &value, range)
}
