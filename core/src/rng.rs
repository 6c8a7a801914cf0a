//! Chance as an argument: small helpers over the host's generator. Every draw of the core goes through here,
//! so that a seed and an input sequence decide everything.

use rand_core::Rng;

/// A number below `bound`, by multiply-shift (the bias is below 2^-32 for any bound the core uses); 0 if
/// `bound` is 0.
pub(crate) fn below(rng: &mut dyn Rng, bound: usize) -> usize {
    let wide = u128::from(rng.next_u64()) * (bound as u128);
    (wide >> 64) as usize
}

/// Any number: a name that nobody else draws.
pub(crate) fn number(rng: &mut dyn Rng) -> u64 {
    rng.next_u64()
}

/// True with probability `p`; `p` outside 0..=1 is clamped. Always draws once.
pub(crate) fn chance(rng: &mut dyn Rng, p: f64) -> bool {
    const SCALE: f64 = (1_u64 << 53) as f64;
    ((rng.next_u64() >> 11) as f64) < p * SCALE
}

/// Moves `count` random elements to the front (or all, shuffled, if there are fewer).
pub(crate) fn choose_front<T>(rng: &mut dyn Rng, items: &mut [T], count: usize) {
    let count = count.min(items.len());
    for front in 0..count {
        let pick = front + below(rng, items.len() - front);
        items.swap(front, pick);
    }
}
