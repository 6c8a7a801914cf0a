//! Restarts as a deployment does them, in virtual time: nodes leave in order and start again at once at the
//! same address, and every node that is not leaving asks all the time.

use core::time::Duration;
use std::collections::BTreeSet;

use quorate_core::config::Config;
use quorate_core::view::MembershipPhase;
use quorate_tests::sim::{Sim, Weather, all_up, secs};

const NODES: usize = 3;
/// 200 asks per second.
const STEP: Duration = Duration::from_millis(5);
/// How long an ask may wait.
const TIMEOUT: Duration = Duration::from_secs(5);

/// What came of the asks.
#[derive(Debug, Default)]
struct Tally {
    answered: usize,
    failures: Vec<String>,
    slowest: Duration,
}

struct Rolling {
    sim: Sim,
    open: Vec<(usize, Duration)>,
    /// Who takes no new requests, because it is about to leave.
    quiet: BTreeSet<usize>,
    asked: u64,
    tally: Tally,
}

impl Rolling {
    /// Three nodes with the documented timings whose shards are spread.
    fn new(seed: u64) -> Self {
        let lan = |config: &mut Config| *config = Config::lan(config.cluster.clone());
        let mut sim = Sim::new(seed).config(lan).nodes(NODES);
        sim.run_until(all_up);
        let mut rolling = Self {
            sim,
            open: Vec::new(),
            quiet: BTreeSet::new(),
            asked: 0,
            tally: Tally::default(),
        };
        rolling.pass(secs(1));
        rolling.sim.run_for(secs(30));
        rolling.settle();
        rolling.tally = Tally::default();
        rolling
    }

    /// One node after the other asks some entity, one in each step.
    fn pass(&mut self, time: Duration) {
        let end = self.sim.now() + time;
        while self.sim.now() < end {
            self.step();
        }
    }

    fn step(&mut self) {
        let asking: Vec<usize> = (0..NODES).filter(|index| !self.quiet.contains(index)).collect();
        let turn = usize::try_from(self.asked).unwrap_or(0) % asking.len();
        let entity = format!("e{}", self.asked * 7 % 20);
        let ask = self.sim.ask(asking[turn], &entity, TIMEOUT);
        self.open.extend(ask.map(|ask| (ask, self.sim.now())));
        self.asked += 1;
        self.sim.run_for(STEP);
        self.look();
    }

    fn look(&mut self) {
        let now = self.sim.now();
        let (sim, tally) = (&self.sim, &mut self.tally);
        self.open.retain(|(ask, sent)| {
            let Some(outcome) = sim.outcome(*ask) else {
                return true;
            };
            match outcome {
                Ok(()) => tally.answered += 1,
                Err(failure) => tally.failures.push(format!("ask {ask} at {now:?}: {failure}")),
            }
            tally.slowest = tally.slowest.max(now - *sent);
            false
        });
    }

    /// Until nobody waits any more.
    fn settle(&mut self) {
        while !self.open.is_empty() {
            self.sim.run_for(STEP);
            self.look();
        }
    }

    /// These nodes stop asking, leave, and are started again each as soon as it has ended; yields how long
    /// each needed to be Up.
    fn restart(&mut self, nodes: &[usize]) -> Vec<Duration> {
        self.quiet.extend(nodes);
        self.pass(Duration::from_millis(200));
        for index in nodes {
            self.sim.leave(*index);
        }
        let mut waiting: Vec<(usize, Option<Duration>)> = nodes.iter().map(|index| (*index, None)).collect();
        let mut took = Vec::new();
        while !waiting.is_empty() {
            self.step();
            let now = self.sim.now();
            for (index, started) in &mut waiting {
                if started.is_none() && !self.sim.running().contains(index) {
                    self.sim.start(*index);
                    *started = Some(now);
                }
            }
            let (sim, quiet) = (&self.sim, &mut self.quiet);
            waiting.retain(|(index, started)| {
                let Some(started) = started else { return true };
                if !is_up(sim, *index) {
                    return true;
                }
                quiet.remove(index);
                took.push(now - *started);
                false
            });
        }
        took
    }
}

fn is_up(sim: &Sim, index: usize) -> bool {
    let view = sim.view(index);
    let own = view.self_member();
    view.phase() == MembershipPhase::Member && own.is_some_and(|member| member.status.is_up_like())
}

fn check(rolling: &Rolling, took: &[Duration], what: &str) {
    let tally = &rolling.tally;
    assert!(tally.failures.is_empty(), "{what}: {:#?}", tally.failures);
    assert!(tally.slowest < secs(1), "{what}: {:?}", tally.slowest);
    assert!(tally.answered > 200, "{what}: {}", tally.answered);
    assert!(took.iter().all(|took| *took < secs(3)), "{what}: {took:?}");
}

#[test]
fn s_097_no_ask_fails_while_three_nodes_are_restarted_one_after_the_other() {
    for seed in [0, 11, 13, 15] {
        let mut rolling = Rolling::new(seed);
        for index in 0..NODES {
            let took = rolling.restart(&[index]);
            rolling.pass(secs(1));
            check(&rolling, &took, &format!("seed {seed}, node {index}"));
        }
        rolling.settle();
        check(&rolling, &[], &format!("seed {seed}, in the end"));
    }
}

#[test]
fn s_094_no_ask_fails_while_two_of_three_nodes_are_restarted_together() {
    for (seed, nodes) in [(0, [0, 1]), (22, [0, 2]), (11, [1, 2]), (24, [0, 2])] {
        let mut rolling = Rolling::new(seed);
        let took = rolling.restart(&nodes);
        rolling.pass(secs(1));
        rolling.settle();
        check(&rolling, &took, &format!("seed {seed}, nodes {nodes:?}"));
    }
}

#[test]
fn s_097_no_ask_fails_when_user_messages_come_much_later_than_the_coordinators_words() {
    let mut rolling = Rolling::new(20);
    rolling.sim.weather(Weather {
        latency_max: 40_000,
        ..Weather::FINE
    });
    let took = rolling.restart(&[1]);
    rolling.pass(secs(1));
    rolling.settle();
    check(&rolling, &took, "with latencies up to 40 ms");
}
