//! What a scenario of [`figures`](super::figures) came to with several seeds: medians, with the worst beside.

use core::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Value, json};

use super::figures::{Figures, REST_SECONDS, Scenario, measure, seconds};

/// A scenario, and what each seed measured.
pub struct Measured {
    scenario: Scenario,
    nodes: usize,
    seeds: Range<u64>,
    runs: Vec<Figures>,
}

/// A figure of all runs: infinite where it was not reached.
#[derive(Clone, Copy)]
struct Spread {
    median: f64,
    worst: f64,
}

impl Measured {
    /// Runs the scenario once for each seed, so many at a time.
    ///
    /// # Panics
    /// If a run does.
    #[must_use]
    pub fn of(scenario: Scenario, nodes: usize, seeds: Range<u64>, threads: usize) -> Self {
        let (next, runs) = (AtomicU64::new(seeds.start), Mutex::new(Vec::new()));
        std::thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| {
                    loop {
                        let seed = next.fetch_add(1, Ordering::Relaxed);
                        if !seeds.contains(&seed) {
                            return;
                        }
                        let found = measure(scenario, nodes, seed);
                        runs.lock().expect("no run panicked").push(found);
                    }
                });
            }
        });
        let runs = runs.into_inner().expect("no run panicked");
        Self {
            scenario,
            nodes,
            seeds,
            runs,
        }
    }

    /// Whether everybody came to know in every run.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.scenario == Scenario::Rest || self.spread(|run| self.known(run)).worst.is_finite()
    }

    fn spread(&self, of: impl Fn(&Figures) -> Option<f64>) -> Spread {
        let mut all: Vec<f64> = self
            .runs
            .iter()
            .map(|run| of(run).unwrap_or(f64::INFINITY))
            .collect();
        all.sort_by(f64::total_cmp);
        let at = |index: usize| all.get(index).copied().unwrap_or(f64::INFINITY);
        Spread {
            median: f64::midpoint(at(all.len().saturating_sub(1) / 2), at(all.len() / 2)),
            worst: at(all.len().saturating_sub(1)),
        }
    }

    /// Until all knew: of a crash from the first report on.
    fn known(&self, run: &Figures) -> Option<f64> {
        match self.scenario {
            Scenario::Crash => run.known.zip(run.first).map(|(known, first)| known - first),
            Scenario::Join | Scenario::ColdStart | Scenario::Rest => run.known,
        }
    }

    /// The figures as lines, beside those of Akka's algorithm.
    #[must_use]
    pub fn text(&self) -> String {
        let (name, nodes, Range { start, end }) = (self.scenario.name(), self.nodes, &self.seeds);
        let seeds = if self.runs.len() == 1 {
            format!("seed {start}")
        } else {
            format!("seeds {start}..{end}: medians, and the worst")
        };
        let mut lines = vec![format!("{name} of {nodes} nodes, {seeds}")];
        let each = |of: fn(&Figures) -> f64, digits| self.plain(self.spread(|run| Some(of(run))), digits);
        if self.scenario == Scenario::Rest {
            lines.push(format!(
                "  per node and second: {} bytes and {} of heartbeats, {} messages",
                each(other_bytes_at_rest, 0),
                each(heartbeat_bytes_at_rest, 0),
                each(messages_at_rest, 1),
            ));
            return lines.join("\n");
        }
        let reference = self.scenario.reference(self.nodes);
        let of = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| format!("{value:.1} s"));
        if self.scenario != Scenario::ColdStart {
            lines.push(format!("  first known      {}", self.seconds(|run| run.first)));
        }
        lines.push(format!(
            "  known everywhere {} ({}); Akka's algorithm {}",
            self.seconds(|run| self.known(run)),
            if self.scenario == Scenario::Crash {
                "after the first report"
            } else {
                "from the beginning"
            },
            of(reference.and_then(|found| found.0))
        ));
        if self.scenario != Scenario::Crash {
            lines.push(format!(
                "  Up everywhere    {}; Akka's algorithm {}",
                self.seconds(|run| run.up),
                of(reference.and_then(|found| found.1))
            ));
        }
        lines.push(format!(
            "  per node: {} messages, {} bytes",
            each(|run| run.messages_per_node, 1),
            each(|run| run.bytes_per_node, 0),
        ));
        lines.join("\n")
    }

    fn seconds(&self, of: impl Fn(&Figures) -> Option<f64>) -> String {
        let spread = self.spread(of);
        let text = |value: f64| seconds(value.is_finite().then_some(value));
        if self.runs.len() == 1 {
            text(spread.median)
        } else {
            format!("{}, {}", text(spread.median), text(spread.worst))
        }
    }

    fn plain(&self, spread: Spread, digits: usize) -> String {
        if self.runs.len() == 1 {
            format!("{:.digits$}", spread.median)
        } else {
            format!("{:.digits$} ({:.digits$})", spread.median, spread.worst)
        }
    }

    /// The figures as an object: medians, and the worst; null where nobody got there.
    #[must_use]
    pub fn json(&self) -> Value {
        let mut object = json!({
            "scenario": self.scenario.name(), "nodes": self.nodes, "seeds": [self.seeds.start, self.seeds.end],
        });
        let mut put = |name: &str, of: &dyn Fn(&Figures) -> Option<f64>| {
            let spread = self.spread(of);
            object[name] = json!(spread.median);
            object[format!("{name}_worst")] = json!(spread.worst);
        };
        if self.scenario == Scenario::Rest {
            put("bytes_per_node_s", &|run| Some(other_bytes_at_rest(run)));
            put("heartbeat_bytes_per_node_s", &|run| {
                Some(heartbeat_bytes_at_rest(run))
            });
            put("messages_per_node_s", &|run| Some(messages_at_rest(run)));
        } else {
            put("first_s", &|run| run.first);
            put("known_s", &|run| self.known(run));
            put("up_s", &|run| run.up);
            put("messages_per_node", &|run| Some(run.messages_per_node));
            put("bytes_per_node", &|run| Some(run.bytes_per_node));
        }
        object
    }
}

fn heartbeat_bytes_at_rest(run: &Figures) -> f64 {
    run.heartbeat_bytes_per_node / REST_SECONDS as f64
}

fn other_bytes_at_rest(run: &Figures) -> f64 {
    run.bytes_per_node / REST_SECONDS as f64 - heartbeat_bytes_at_rest(run)
}

fn messages_at_rest(run: &Figures) -> f64 {
    run.messages_per_node / REST_SECONDS as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_several_runs_the_median_is_said_and_the_worst_beside() {
        let run = |known: Option<f64>| Figures {
            known,
            first: Some(0.5),
            ..Figures::default()
        };
        let mut measured = Measured {
            scenario: Scenario::Join,
            nodes: 10,
            seeds: 0..3,
            runs: vec![run(Some(2.0)), run(Some(1.0)), run(Some(4.0))],
        };
        assert!(measured.is_complete());
        let said = "  known everywhere 2.00 s, 4.00 s (from the beginning); Akka's algorithm 1.7 s";
        assert!(
            measured.text().lines().any(|line| line == said),
            "{}",
            measured.text()
        );
        assert_eq!(measured.json()["known_s"], json!(2.0));
        measured.scenario = Scenario::Crash;
        assert!(
            measured.text().contains("known everywhere 1.50 s, 3.50 s (after"),
            "{}",
            measured.text()
        );
        measured.runs.push(run(None));
        assert!(!measured.is_complete());
        assert!(
            measured.text().contains("2.50 s, not within 600s"),
            "{}",
            measured.text()
        );
        assert_eq!(measured.json()["known_s_worst"], Value::Null);
    }

    #[test]
    fn every_seed_is_run_once() {
        let measured = Measured::of(Scenario::Join, 3, 4..7, 2);
        assert_eq!(measured.runs.len(), 3);
        assert!(measured.is_complete());
    }
}
