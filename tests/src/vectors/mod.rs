//! Conformance vectors: cases of one JSON file, run against the public API of the core. A file is an object
//! of case lists by key; keys nobody here runs are reported as skipped, keys it lacks are not mentioned.
//! Never panics on a file.

mod allocation;
mod clock;
mod convergence;
mod crdt;
mod delivery;
mod json;
mod load;
mod nrw;
mod passivation;
mod phi;
mod placement;
mod reachability;
mod replicator;
mod ring;
mod sbr;
mod singleton;

use std::fmt;

use serde_json::Value;

pub use json::IllFormed;

/// How many differences of one key are kept to be shown; the rest is only counted.
const DIFFERENCES_MAX: usize = 5;

/// What became of the cases of one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyReport {
    /// The key.
    pub key: String,
    /// The result; `None` if nobody here runs these cases.
    pub result: Option<KeyResult>,
}

/// The result of running the cases of one key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyResult {
    /// Cases in which everything agreed.
    pub passed: usize,
    /// Cases in which something differed.
    pub failed: usize,
    /// The first differences, one line each.
    pub differences: Vec<String>,
}

impl KeyReport {
    /// Whether a case of this key failed.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        self.result.as_ref().is_some_and(|result| result.failed > 0)
    }
}

impl fmt::Display for KeyReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(result) = &self.result else {
            return write!(f, "{}: skipped", self.key);
        };
        write!(
            f,
            "{}: {} passed, {} failed",
            self.key, result.passed, result.failed
        )?;
        result
            .differences
            .iter()
            .try_for_each(|line| write!(f, "\n  {line}"))
    }
}

/// Runs every case of a file.
///
/// # Errors
/// [`IllFormed`] if the text is no JSON object, or a case of a key that is run here lacks an input or has one
/// of a wrong type or range. A case that lacks an expectation fails.
pub fn run(text: &str) -> Result<Vec<KeyReport>, IllFormed> {
    let file: Value =
        serde_json::from_str(text).map_err(|error| IllFormed::new("", format!("not JSON: {error}")))?;
    let keys = file
        .as_object()
        .ok_or_else(|| IllFormed::new("", "expected an object of case lists"))?;
    keys.iter().map(|(key, cases)| run_key(key, cases)).collect()
}

type RunCase = Box<dyn Fn(json::Node<'_>) -> Result<json::Differences, IllFormed>>;

/// What runs the cases of a key; `None` if nobody here does.
fn runner(key: &str) -> Option<RunCase> {
    if let Some(data_type) = crdt::type_of(key) {
        return Some(Box::new(move |case| crdt::run(data_type, &case)));
    }
    Some(Box::new(match key {
        "vector_clock" => clock::run,
        "reachability" => reachability::run,
        "ring" => ring::run,
        "phi" => phi::run,
        "convergence_leader" => convergence::run,
        "sbr" => sbr::run,
        "quorum" => replicator::quorum,
        "gossip_slice" => replicator::gossip_slice,
        "status_chunks" => replicator::status_chunks,
        "handover" => singleton::run,
        "singleton_retries" => singleton::run_retries,
        "allocation_new" => allocation::least_shards,
        "allocation_old" => allocation::one_by_one,
        "passivation_idle" => passivation::idle,
        "passivation_lru" => |case| passivation::plain("lru", &case),
        "passivation_slru" => |case| passivation::plain("slru", &case),
        "passivation_mru" => |case| passivation::plain("mru", &case),
        "passivation_lfu" => |case| passivation::plain("lfu", &case),
        "passivation_lfu_aging" => |case| passivation::plain("lfu_aging", &case),
        "passivation_composite" => passivation::composite,
        "placement_initial" => placement::initial,
        "placement_more" => placement::more,
        "placement_joins" => placement::joins,
        "placement_balance" => placement::balance,
        "placement_evacuation" => placement::evacuation,
        "instance_count" => placement::instance_count,
        "scale" => placement::scale,
        "flow_control" => delivery::flow_control,
        "at_least_once" => delivery::at_least_once,
        "nrw" => nrw::run,
        "ewma" => load::ewma,
        "capacity" => load::capacity,
        "weights" => load::weights,
        "chord" => load::chord,
        "metric_moves" => load::metric_moves,
        _ => return None,
    }))
}

fn run_key(key: &str, cases: &Value) -> Result<KeyReport, IllFormed> {
    let Some(run_case) = runner(key) else {
        return Ok(KeyReport {
            key: key.to_owned(),
            result: None,
        });
    };
    let mut result = KeyResult::default();
    for (at, case) in json::Node::root(key, cases).items()?.into_iter().enumerate() {
        let differences = match run_case(case) {
            Err(refused) if refused.lacks_expectation() => vec![refused.why().to_owned()],
            differences => differences?,
        };
        if differences.is_empty() {
            result.passed += 1;
        } else {
            result.failed += 1;
            let room = DIFFERENCES_MAX.saturating_sub(result.differences.len());
            result.differences.extend(
                differences
                    .into_iter()
                    .take(room)
                    .map(|line| format!("case {at}: {line}")),
            );
        }
    }
    Ok(KeyReport {
        key: key.to_owned(),
        result: Some(result),
    })
}
