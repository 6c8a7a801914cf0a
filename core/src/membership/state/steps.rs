//! What makes the bytes of one state of those of another: runs that are the same, bytes that go, bytes that
//! come. Knows nothing of states, so that what a state gets next is in it as well. Linear in the bytes, with
//! a bounded number of steps: what differs too much has none. Spec: `docs/WIRE.md` 5.3.
#![deny(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]

use alloc::vec::Vec;

use crate::bytes::{BodyReader, WireError};

/// How far apart two places may be from which both go on alike: fifty members that come at once.
const SHIFT_MAX: usize = 1024;
/// Up to how many bytes that go and come together are all looked for.
const NEAR: usize = 48;
/// So many equal bytes are taken for the same place in both.
const ALIKE: usize = 8;
/// The three numbers of a step.
const STEP_BYTES: usize = 6;
/// More places than this are not looked for, at up to four thousand comparisons each: what differs so much
/// would hold the node up for longer than the whole state does.
const STEPS_MAX: usize = 1024;

/// The steps from `base` to `result`; `None` if they would take more than half of the bytes of `result`, or
/// the two differ at more than one place in a row by too much.
pub(crate) fn between(base: &[u8], result: &[u8]) -> Option<Vec<u8>> {
    let bytes_max = result.len() / 2;
    let (mut base, mut result) = (base, result);
    let mut out = Vec::new();
    let mut left = STEPS_MAX;
    while !base.is_empty() || !result.is_empty() {
        left = left.checked_sub(1)?;
        let same = base.iter().zip(result).take_while(|(a, b)| a == b).count();
        base = base.get(same..)?;
        result = result.get(same..)?;
        let (gone, come) = next_alike(base, result)?;
        put_step(&mut out, same, gone, result.get(..come)?)?;
        if out.len() > bytes_max {
            return None;
        }
        base = base.get(gone..)?;
        result = result.get(come..)?;
    }
    Some(out)
}

/// How many bytes go and how many come until both are alike again: as few as may be, where neither are many;
/// else only some that come, or go, or are others.
fn next_alike(base: &[u8], result: &[u8]) -> Option<(usize, usize)> {
    let both = (0..=NEAR).flat_map(|all| (0..=all).map(move |gone| (gone, all.saturating_sub(gone))));
    let one = (NEAR..=SHIFT_MAX).flat_map(|by| [(0, by), (by, 0), (by, by)]);
    let mut places = both.chain(one);
    let found = places.find(|(gone, come)| {
        let (Some(base), Some(result)) = (base.get(*gone..), result.get(*come..)) else {
            return false;
        };
        match (base.get(..ALIKE), result.get(..ALIKE)) {
            (Some(a), Some(b)) => a == b,
            _ => base == result,
        }
    });
    let rest = (base.len(), result.len());
    found.or_else(|| Some(rest).filter(|(gone, come)| *gone.max(come) <= SHIFT_MAX))
}

/// A step; a number beyond its field takes several.
fn put_step(out: &mut Vec<u8>, same: usize, gone: usize, come: &[u8]) -> Option<()> {
    const MOST: usize = u16::MAX as usize;
    let mut same = same;
    while same > MOST {
        put_numbers(out, MOST, 0, 0)?;
        same = same.checked_sub(MOST)?;
    }
    put_numbers(out, same, gone, come.len())?;
    out.extend_from_slice(come);
    Some(())
}

fn put_numbers(out: &mut Vec<u8>, same: usize, gone: usize, come: usize) -> Option<()> {
    out.reserve(STEP_BYTES);
    for number in [same, gone, come] {
        out.extend_from_slice(&u16::try_from(number).ok()?.to_le_bytes());
    }
    Some(())
}

/// Goes those steps from `base`; the result has at most `bytes_max` bytes.
pub(crate) fn walk(base: &[u8], steps: &[u8], bytes_max: usize) -> Result<Vec<u8>, WireError> {
    let (mut base, mut steps) = (BodyReader::new(base), BodyReader::new(steps));
    let mut out = Vec::new();
    while !steps.rest().is_empty() {
        let mut next = || steps.u16().map(usize::from);
        let (same, gone, come) = (next()?, next()?, next()?);
        if out.len().saturating_add(same).saturating_add(come) > bytes_max {
            return Err(WireError::LimitExceeded { what: "state" });
        }
        out.extend_from_slice(base.take(same)?);
        base.take(gone)?;
        out.extend_from_slice(steps.take(come)?);
    }
    base.finish()?;
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::{between, walk};
    use alloc::vec::Vec;
    use proptest::prelude::*;

    fn there(base: &[u8], result: &[u8]) -> Option<usize> {
        let steps = between(base, result)?;
        assert_eq!(walk(base, &steps, result.len()).as_deref(), Ok(result));
        Some(steps.len())
    }

    fn column(of: core::ops::Range<u16>) -> Vec<u8> {
        of.flat_map(|at| (at.wrapping_mul(2_654)).to_le_bytes()).collect()
    }

    #[test]
    fn a_changed_a_new_and_a_lost_value_are_a_step_each() {
        let base = column(0..500);
        assert_eq!(there(&base, &base), Some(6));
        let mut changed = base.clone();
        changed.splice(300..302, [255, 255]);
        assert_eq!(there(&base, &changed), Some(6 + 2 + 6));
        let mut grown = base.clone();
        grown.splice(400..400, [1, 2, 3, 4]);
        assert_eq!(there(&base, &grown), Some(6 + 4 + 6));
        assert_eq!(there(&grown, &base), Some(6 + 6));
    }

    #[test]
    fn what_differs_at_the_end_and_in_length_is_a_step() {
        let base = column(0..300);
        let mut result = base.clone();
        result.splice(590..600, [9; 25]);
        assert_eq!(there(&base, &result), Some(6 + 25));
    }

    #[test]
    fn states_that_differ_too_much_have_no_steps() {
        assert_eq!(between(&column(0..2_000), &column(3_000..5_000)), None);
    }

    #[test]
    fn what_differs_at_too_many_places_has_no_steps() {
        let base: Vec<u8> = (0..60_000_u32).flat_map(u32::to_le_bytes).collect();
        let changed_every = |bytes: usize| {
            let changed = |(at, byte): (usize, &u8)| if at % bytes == 0 { byte ^ 255 } else { *byte };
            base.iter().enumerate().map(changed).collect::<Vec<u8>>()
        };
        assert!(there(&base, &changed_every(400)).is_some());
        assert_eq!(between(&base, &changed_every(100)), None);
    }

    #[test]
    fn runs_longer_than_a_number_take_several_steps() {
        let base = alloc::vec![7; 200_000];
        let mut result = base.clone();
        result.splice(150_000..150_001, [1]);
        assert_eq!(there(&base, &result), Some(6 * 4 + 1));
    }

    #[test]
    fn steps_that_leave_the_base_or_a_part_of_it_or_make_too_much_are_refused() {
        let base = column(0..10);
        assert!(walk(&base, &[20, 0, 0, 0, 0, 0], 20).is_ok());
        assert!(walk(&base, &[20, 0, 0, 0, 0, 0], 19).is_err(), "too much");
        assert!(walk(&base, &[21, 0, 0, 0, 0, 0], 99).is_err(), "beyond the base");
        assert!(walk(&base, &[19, 0, 0, 0, 0, 0], 99).is_err(), "not all of it");
        assert!(
            walk(&base, &[19, 0, 1, 0, 1, 0], 99).is_err(),
            "a byte is missing"
        );
        assert!(walk(&base, &[20, 0, 0, 0, 0], 99).is_err(), "half a step");
    }

    proptest! {
        #[test]
        fn steps_lead_where_they_should_or_there_are_none(
            base in proptest::collection::vec(0_u8..3, 0..300),
            edits in proptest::collection::vec((0_usize..300, 0_usize..20, proptest::collection::vec(any::<u8>(), 0..20)), 0..5),
        ) {
            let mut result = base.clone();
            for (at, gone, come) in edits {
                let at = at.min(result.len());
                let end = (at + gone).min(result.len());
                result.splice(at..end, come);
            }
            there(&base, &result);
        }

        #[test]
        fn no_steps_panic(base in proptest::collection::vec(any::<u8>(), 0..100), steps in proptest::collection::vec(any::<u8>(), 0..100)) {
            let _ = walk(&base, &steps, 1_000);
        }
    }
}
