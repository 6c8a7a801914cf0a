//! A fourth owner joins three that own everything: how long its share of the ranges takes, and what calls
//! cost meanwhile beside what they cost at rest.

use std::time::Duration;

use super::Failure;
use super::load::{Load, Served, fill};
use super::nodes::{COPIES, Nodes};

const VALUE_BYTES: usize = 4 << 10;

/// `rest` is how long calls are measured before anything moves.
pub(super) async fn measure(moved_mib: usize, rest: Duration) -> Result<String, Failure> {
    let mut nodes = Nodes::start().await?;
    // Each owner of four has three quarters of everything: that much is moved.
    let keys = (moved_mib << 20) * (COPIES + 1) / COPIES / VALUE_BYTES;
    fill(&nodes.bucket, 0..keys, VALUE_BYTES).await?;
    let load = Load::begin(&nodes.bucket, keys, VALUE_BYTES);
    tokio::time::sleep(rest).await;
    let rest = load.end().await?;
    let load = Load::begin(&nodes.bucket, keys, VALUE_BYTES);
    let (ranges, took) = nodes.grow().await?;
    let moving = load.end().await?;
    nodes.stop().await;
    println!(
        "moves: {moved_mib} MiB in {keys} values, {ranges} ranges to the newcomer, {:.1} s",
        took.as_secs_f64()
    );
    for (when, served) in [("at rest", &rest), ("meanwhile", &moving)] {
        println!(
            "moves, calls {when}: {} answered, {} failed, p50 {:.0} us, p99 {:.0} us, longest time without an answer {:.0} ms",
            served.calls,
            served.failed,
            served.p50_us,
            served.p99_us,
            served.gap.as_secs_f64() * 1e3
        );
    }
    Ok(format!(
        "\"moves\":{{\"moved_mib\":{moved_mib},\"ranges\":{ranges},\"seconds\":{:.1},\"at_rest\":{},\"meanwhile\":{}}}",
        took.as_secs_f64(),
        json(&rest),
        json(&moving)
    ))
}

fn json(served: &Served) -> String {
    format!(
        "{{\"calls\":{},\"failed\":{},\"p50_us\":{:.0},\"p99_us\":{:.0},\"gap_ms\":{:.0}}}",
        served.calls,
        served.failed,
        served.p50_us,
        served.p99_us,
        served.gap.as_secs_f64() * 1e3
    )
}
