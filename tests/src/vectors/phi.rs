//! Key `phi`: the accrual failure detector of one peer. Spec: membership 2.14.

use std::time::Duration;

use quorate_core::detector::phi::{PhiAccrual, PhiSettings};
use quorate_core::time::Instant;

use super::json::{Differences, IllFormed, NINE_DECIMALS, Node, SIX_DECIMALS, compare, compare_floats};

/// How many milliseconds before the expected first unavailable one are checked one by one: above every
/// detection time of sensible settings, and a limit for the others.
const SCAN_MS_MAX: u64 = 1_000_000;

pub(super) fn run(case: Node<'_>) -> Result<Differences, IllFormed> {
    let mut detector = PhiAccrual::new(settings(&case)?);
    let mut last_ms = 0;
    for heartbeat in case.get("heartbeats")?.items()? {
        let at_ms = heartbeat.natural()?;
        if at_ms < last_ms {
            return Err(heartbeat.refuse("heartbeats must not go back in time"));
        }
        last_ms = at_ms;
        detector.heartbeat(Instant::from_millis(last_ms));
    }
    let after = |ms: u64| Instant::from_millis(last_ms.saturating_add(ms));
    let mut out = Differences::new();
    for (name, found) in [("mean", detector.mean_ms()), ("std", detector.std_deviation_ms())] {
        let expected = case.expected(name)?.float()?;
        compare_floats(&mut out, name, Some(expected), found, SIX_DECIMALS);
    }
    for query in case.expected("queries_ms_after_last")?.items()? {
        let [ms, phi, available] = query.tuple()?;
        let ms = ms.natural()?;
        let expected = phi.non_null().map(Node::float).transpose()?;
        compare_floats(
            &mut out,
            &format!("phi after {ms} ms"),
            expected,
            detector.phi(after(ms)),
            NINE_DECIMALS,
        );
        compare(
            &mut out,
            &format!("available after {ms} ms"),
            &available.flag()?,
            &detector.is_available(after(ms)),
        );
    }
    let expected = case.expected("first_unavailable_ms")?.natural()?;
    let first = expected.saturating_sub(SCAN_MS_MAX)..=expected;
    let found = first.into_iter().find(|ms| !detector.is_available(after(*ms)));
    compare(&mut out, "first_unavailable_ms", &Some(expected), &found);
    Ok(out)
}

fn settings(case: &Node<'_>) -> Result<PhiSettings, IllFormed> {
    let millis = |name: &str| case.get(name)?.natural().map(Duration::from_millis);
    let samples = case.get("max_sample")?;
    let settings = PhiSettings {
        threshold: case.get("threshold")?.float()?,
        max_sample_size: usize::try_from(samples.natural()?).map_err(|_| samples.refuse("too large"))?,
        min_std_deviation: millis("min_std")?,
        max_std_deviation: Duration::MAX,
        acceptable_heartbeat_pause: millis("pause")?,
        first_heartbeat_estimate: millis("first_estimate")?,
    };
    settings
        .validate()
        .map_err(|error| case.refuse(error.to_string()))?;
    Ok(settings)
}
