//! Instructions of the message path in the core alone, from a caller's command to its answer: routing,
//! regions and singletons, encoding and decoding. Counted by callgrind: a hidden run that sends few messages
//! and one that sends more; the difference is the messages' own.

mod pair;
mod step;

use self::pair::Pair;
use self::step::Step;

const FEW: usize = 2_000;
const MORE: usize = 6_000;
/// Messages that are sent before any of them leaves the node.
const AT_ONCE: [usize; 2] = [1, 100];

/// The hidden run, which prints nothing: a step, messages at once, messages.
pub(crate) fn send(step: &str, at_once: usize, messages: usize) -> Result<(), String> {
    let step = Step::named(step).ok_or("unknown step")?;
    step.send(&mut Pair::new()?, messages, at_once.max(1))
}

/// Counts all steps and prints them.
pub(crate) fn count(as_json: bool) -> Result<(), String> {
    if !quorate_bench::is_callgrind_installed() {
        return Err("valgrind is not installed: no instructions can be counted".to_owned());
    }
    println!(
        "{:<34} {:>12} {:>14}",
        "instructions per message", "1 at once", "100 at once"
    );
    let mut json = Vec::new();
    for step in Step::ALL {
        let [one, hundred] = AT_ONCE.map(|at_once| per_message(step, at_once));
        let (one, hundred) = one.zip(hundred).ok_or("callgrind failed")?;
        println!("{:<34} {one:12.1} {hundred:14.1}", step.says());
        json.push(format!(
            "{{\"step\":\"{}\",\"one_at_once\":{one:.1},\"hundred_at_once\":{hundred:.1}}}",
            step.name()
        ));
    }
    if as_json {
        println!("[{}]", json.join(","));
    }
    Ok(())
}

fn per_message(step: Step, at_once: usize) -> Option<f64> {
    let counted = run(step, at_once, MORE)?.checked_sub(run(step, at_once, FEW)?)?;
    Some(counted as f64 / (MORE - FEW) as f64)
}

fn run(step: Step, at_once: usize, messages: usize) -> Option<u64> {
    quorate_bench::instructions([
        crate::CORE_ALONE,
        step.name(),
        &at_once.to_string(),
        &messages.to_string(),
    ])
}
