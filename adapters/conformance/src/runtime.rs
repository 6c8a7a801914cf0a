//! The executor alone: what the driver needs of one, `quorate_driver::spi::Runtime`, whichever it is.

use std::time::Duration;

use quorate_core::time::Instant;
use quorate_driver::Security;
use quorate_driver::spi::{Adapter, Runtime};

use super::support::{FirstReady, race, runtime, within};

/// A panic ends its own task and nothing else.
pub async fn a_task_that_panics_harms_no_other<A: Adapter>(_: &Security) {
    let runtime = runtime::<A>();
    for _ in 0..8 {
        runtime.spawn(async { panic!("as the test wants") });
    }
    let (sender, receiver) = async_channel::bounded(1);
    runtime.spawn(async move { sender.try_send(7).expect("there is room") });
    assert_eq!(
        within::<A, _>("the task after the panic", receiver.recv()).await,
        Ok(7)
    );
}

/// Clones and later readings agree.
pub async fn the_clock_never_goes_back<A: Adapter>(_: &Security) {
    let one = runtime::<A>();
    let other = one.clone();
    let mut last = one.now().mono;
    for _ in 0..1_000 {
        for now in [one.now(), other.now()] {
            assert!(now.mono >= last);
            last = now.mono;
            // 2020: the wall clock counts from 1970 in milliseconds.
            assert!(now.unix_ms > 1_577_836_800_000, "{}", now.unix_ms);
        }
    }
}

/// A sleep ends at its deadline or later; one that is over at once; one beyond all time never, and without a
/// panic.
pub async fn the_deadline_of_a_sleep_is_kept<A: Adapter>(_: &Security) {
    let runtime = runtime::<A>();
    let until = runtime.now().mono + Duration::from_millis(30);
    within::<A, _>("a short sleep", runtime.sleep_until(until)).await;
    assert!(runtime.now().mono >= until);
    within::<A, _>(
        "a sleep that is over",
        runtime.sleep_until(Instant::from_micros(0)),
    )
    .await;
    let short = runtime.sleep_until(runtime.now().mono + Duration::from_millis(30));
    let never = runtime.sleep_until(Instant::from_micros(u64::MAX));
    assert!(matches!(race(short, never).await, FirstReady::Left(())));
}
