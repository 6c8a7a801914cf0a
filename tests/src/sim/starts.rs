//! Nodes that start at once, each with all of them as seed nodes, on the default settings: how long until all
//! are Up everywhere, and whether exactly one cluster came of it. Never lets chance into which cluster that
//! has to be: the first seed node's. Spec: membership 2.2, M-164 to M-169.

use core::time::Duration;

use quorate_core::config::Config;
use quorate_core::ident::ClusterName;

use super::engine::Sim;
use super::figures::all_are_up;
use super::network::Weather;
use super::trace::Show;
use super::violation::Violation;

/// Where frames are lost nodes start within so many microseconds, so that some find nobody there yet.
const TOGETHER: u64 = 100_000;
/// When everybody has to be Up at the latest, in microseconds: a first exchange of all, and some lost ones.
const PATIENCE: u64 = 60_000_000;
/// A start with loss loses up to so many frames in a thousand.
const LOSS_MAX: u64 = 300;

/// What came of one start.
#[derive(Clone, Debug, PartialEq)]
pub struct Start {
    /// Until every node saw all of them Up, in the cluster of the first seed node; `None` if that did not
    /// happen within a minute.
    pub up: Option<Duration>,
    /// The first broken invariant.
    pub violation: Option<Violation>,
}

/// Starts so many nodes: all at the same time over a network that loses nothing, or almost at once over one
/// that does.
#[must_use]
pub fn at_once(seed: u64, nodes: usize, with_loss: bool) -> Start {
    let name = ClusterName::new("sim").expect("invariant: a short name is legal");
    let mut sim = Sim::with_config(seed, Config::lan(name), Show::Nothing);
    sim.has_workload = false;
    sim.last_at.resize(nodes, None);
    let apart = if with_loss { TOGETHER } else { 0 };
    if with_loss {
        let loss_per_mille = sim.process_chance.below(LOSS_MAX + 1);
        sim.weather(Weather {
            loss_per_mille,
            ..Weather::FINE
        });
    }
    let mut begins: Vec<(u64, usize)> = (0..nodes)
        .map(|index| (sim.process_chance.below(apart + 1), index))
        .collect();
    begins.sort_unstable();
    for (at, index) in begins {
        sim.advance(at);
        sim.start(index);
    }
    let is_one =
        |sim: &Sim| (0..nodes).all(|index| all_are_up(sim, index, nodes) && sim.oldest_of(index) == Some(0));
    let came = sim.run_until_or(PATIENCE, &is_one);
    Start {
        up: came.then(|| Duration::from_micros(sim.now)),
        violation: sim.violation.clone(),
    }
}
