//! Instructions, counted by callgrind: a hidden run of one step, once few and once more times; the difference
//! is the step's own.

use crate::work::Step;

const FEW: u64 = 2;
const MORE: u64 = 12;

/// Instructions per member; `None` where valgrind is not installed or fails.
pub(crate) fn per_member(step: Step, members: usize) -> Option<f64> {
    let counted = run(step, members, MORE)?.checked_sub(run(step, members, FEW)?)?;
    Some(counted as f64 / ((MORE - FEW) as f64 * members as f64))
}

fn run(step: Step, members: usize, times: u64) -> Option<u64> {
    let (members, times) = (members.to_string(), times.to_string());
    quorate_bench::instructions(["--members", &members, "--only", step.name(), &times])
}
