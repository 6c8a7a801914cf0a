//! I-19: one sick node (it stands still, or its links are bad) does not lead to the downing of healthy ones.
//! The rules of the specification do not hold that for broken links, whose other ends go too, so it is
//! counted, not asserted.

/// How many nodes besides the sick one were downed.
#[must_use]
pub fn healthy_downed(sick: usize, downed: &[usize]) -> usize {
    downed.iter().filter(|node| **node != sick).count()
}
