//! Many seeds: runs them on as many threads as asked for and adds up what happened. Decides nothing about a
//! run.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::engine::Sim;
use super::faults::FaultCounts;
use super::plan::Plan;
use super::trace::Show;
use super::violation::Violation;

/// The outcome of one seed.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The seed.
    pub seed: u64,
    /// The first broken invariant.
    pub violation: Option<Violation>,
    /// The hash of its trace.
    pub hash: u64,
    /// Why single ownership was not asserted to its end; `None` if it was.
    pub unsafe_because: Option<&'static str>,
    /// What it adds to the totals.
    pub totals: Totals,
}

/// Sums over seeds.
#[derive(Clone, Debug, Default)]
pub struct Totals {
    /// Seeds run.
    pub seeds: u64,
    /// Virtual time of all runs.
    pub virtual_micros: u64,
    /// Inputs handed to nodes.
    pub steps: u64,
    /// Faults fired.
    pub faults: FaultCounts,
    /// Messages to entities.
    pub messages: u64,
    /// Asks answered by an entity, and asks that failed.
    pub asks: (u64, u64),
    /// Frames that were lost or cut off.
    pub frames_lost: u64,
    /// Runs that stayed within the safe shapes.
    pub safe_runs: u64,
    /// Overlaps of owners outside of the safe shapes.
    pub overlaps: u64,
    /// Runs outside of the safe shapes that did not come to rest.
    pub stuck: u64,
    /// Processes that were downed, that left, and members removed as seen by all nodes.
    pub removed: u64,
    /// Shards that changed hands in order.
    pub hand_offs: u64,
    /// Gossip states merged because neither was newer.
    pub merges: u64,
    /// Branches that few runs take.
    pub branches: Branches,
}

/// How often rare branches of the protocol were taken: a campaign that never took them proves nothing about
/// them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Branches(pub std::collections::BTreeMap<&'static str, u64>);

impl Branches {
    fn of(sim: &Sim) -> Self {
        let halted = |reason: &str| sim.halts.get(reason).copied().unwrap_or(0);
        let counts = [
            (
                "tombstones expired",
                sim.sum(|stats| stats.membership.tombstones_pruned),
            ),
            (
                "Welcomes resent",
                sim.sum(|stats| stats.membership.welcomes_resent),
            ),
            (
                "shards moved by load",
                sim.sum(|stats| stats.sharding.shards_moved_by_load),
            ),
            ("joins refused", sim.sum(|stats| stats.membership.joins_refused)),
            (
                "members weakly up",
                sim.sum(|stats| stats.membership.members_weakly_up),
            ),
            (
                "told that they were removed",
                sim.sum(|stats| stats.membership.removed_told),
            ),
            (
                "own pauses compensated",
                sim.sum(|stats| stats.detector.pauses_compensated),
            ),
            (
                "old incarnations terminated",
                sim.sum(|stats| stats.membership.incarnations_terminated),
            ),
            (
                "forged clocks",
                sim.sum(|stats| stats.membership.rejected_forged_clock),
            ),
            ("downing decisions", sim.sum(|stats| stats.downing.decisions)),
            ("data writes confirmed", sim.data.counts.confirmed),
            ("data writes unconfirmed", sim.data.counts.unconfirmed),
            ("data writes refused", sim.data.counts.refused),
            ("data writes whose store failed", sim.data.counts.store_failures),
            ("data reads answered", sim.data.counts.reads),
            (
                "majority writes that a majority read had to find",
                sim.data.counts.included,
            ),
            (
                "conflicts that outlived a hand-off",
                sim.sum(|stats| stats.sharding.conflicts_timed_out),
            ),
            ("homes stored", sim.sum(|stats| stats.sharding.state_writes)),
            (
                "coordinators refused by their store",
                sim.sum(|stats| stats.sharding.coordinators_refused),
            ),
            (
                "waits for a store over their limit",
                sim.sum(|stats| stats.sharding.state_answers_late),
            ),
            (
                "stored homes given up",
                sim.sum(|stats| stats.sharding.homes_given_up),
            ),
            (
                "entities passivated",
                sim.sum(|stats| stats.sharding.entities_passivated),
            ),
            (
                "remembered entities started without a message",
                sim.sum(|stats| stats.sharding.entities_recovered),
            ),
            (
                "writes of remembered entities",
                sim.sum(|stats| stats.sharding.remember_writes),
            ),
            (
                "shards whose store failed",
                sim.sum(|stats| stats.sharding.remember_failures),
            ),
            ("remembered entities at rest", sim.remembered.at_rest),
            (
                "remembered entities lost to a late removal",
                sim.remembered.lost_to_late_removals,
            ),
            (
                "steps of entities that no rule knows",
                sim.sum(|stats| stats.sharding.entity_transitions_invalid),
            ),
            (
                "passivations ignored",
                sim.sum(|stats| stats.sharding.passivations_ignored),
            ),
            ("answers given late", sim.lives.counts.late),
            ("handlers that took long", sim.lives.counts.slow),
            ("entities made anew", sim.lives.counts.restarted),
            ("entities failed", sim.lives.counts.failed),
            ("entities stopped by themselves", sim.lives.counts.stopped),
            ("shards failed by an entity", sim.lives.counts.escalated),
            ("wishes from outside", sim.lives.counts.wishes),
            ("runs in which shards came to rest", sim.lives.counts.at_rest),
            ("messages kept over a passivation", sim.checks.i48.kept),
            ("nodes sure again after a pause", sim.checks.i52.sure_again),
            ("regions whose buffer was full", sim.lives.counts.full),
            ("offers to full queues", sim.network.room.offers_refused),
            ("lies told", sim.liars.told),
            ("invariants broken by a liar while it was in", sim.liars.excused),
            ("leases of shards granted", sim.lives.leases.counts.granted),
            ("leases of shards denied", sim.lives.leases.counts.denied),
            ("leases of shards unanswered", sim.lives.leases.counts.unanswered),
            ("leases of shards taken away", sim.lives.leases.counts.taken_away),
            ("leases of shards lost", sim.lives.leases.counts.lost),
            ("entities started with a lease", sim.lives.leases.counts.started),
            ("watches opened", sim.watches.counts.opened),
            ("watches that ended with a stop", sim.watches.counts.stopped),
            ("watches that ended with a failure", sim.watches.counts.failed),
            ("watches of what did not run", sim.watches.counts.not_running),
            ("watches that ended with a node", sim.watches.counts.removed),
            ("watches open at rest", sim.watches.counts.open_at_rest),
            ("runs whose replicas were compared", sim.data.counts.compared),
            ("hints kept", sim.sum(|stats| stats.kv.hints_kept)),
            (
                "hints given to their owners",
                sim.sum(|stats| stats.kv.hints_delivered),
            ),
            ("hints lost", sim.lost_hints()),
            ("delta gaps", sim.sum(|stats| stats.ddata.delta_gaps)),
            ("read repairs", sim.sum(|stats| stats.ddata.repairs_received)),
            ("contributions taken over", sim.sum(|stats| stats.ddata.pruned)),
            (
                "instances started",
                sim.sum(|stats| stats.singleton.instances_started),
            ),
            (
                "instances failed",
                sim.sum(|stats| stats.singleton.instances_failed),
            ),
            (
                "instances killed",
                sim.sum(|stats| stats.singleton.instances_killed),
            ),
            ("killed instances that ran on", sim.singletons.counts.ran_on),
            (
                "instances superseded",
                sim.sum(|stats| stats.singleton.instances_superseded),
            ),
            (
                "hand-overs stuck",
                sim.sum(|stats| stats.singleton.hand_overs_stuck),
            ),
            ("terms refused", sim.sum(|stats| stats.singleton.terms_refused)),
            ("terms not kept", sim.sum(|stats| stats.singleton.terms_not_kept)),
            (
                "late answers not heard",
                sim.sum(|stats| stats.singleton.answers_stale),
            ),
            ("leases lost", sim.singletons.counts.leases_lost),
            (
                "openings refused by the database",
                sim.singletons.ledger.refused.0,
            ),
            ("appends refused by the database", sim.singletons.ledger.refused.1),
            (
                "database outcomes unknown",
                sim.singletons.counts.unknown_outcomes,
            ),
            (
                "tokens that nobody could order",
                sim.singletons.counts.unordered_tokens,
            ),
            (
                "the same with stores on all nodes",
                sim.singletons.counts.unordered_with_stores,
            ),
            ("returns of a singleton", sim.singletons.counts.returns),
            (
                "runs in which all singletons answered",
                sim.singletons.counts.answered_at_rest,
            ),
            (
                "instances of paths started",
                sim.sum(|stats| stats.paths.instances_started),
            ),
            ("instances of paths failed", sim.paths.counts.failures),
            ("instances of paths that never ran", sim.paths.counts.never_ran),
            (
                "instances of paths that stopped late",
                sim.paths.counts.stopped_late,
            ),
            (
                "instances of paths killed",
                sim.sum(|stats| stats.paths.instances_killed),
            ),
            ("moves of slots begun", sim.sum(|stats| stats.paths.moves_planned)),
            (
                "moves of slots completed",
                sim.sum(|stats| stats.paths.moves_completed),
            ),
            (
                "moves of slots given up",
                sim.sum(|stats| stats.paths.moves_aborted),
            ),
            ("states of slots left", sim.paths.counts.states_left),
            (
                "messages passed on by old hosts",
                sim.sum(|stats| stats.paths.messages_forwarded),
            ),
            (
                "messages kept over a move",
                sim.sum(|stats| stats.paths.messages_buffered),
            ),
            (
                "messages for which a buffer of a slot was full",
                sim.sum(|stats| stats.paths.messages_refused),
            ),
            ("messages to all instances", sim.paths.counts.to_all),
            ("messages in order over a move", sim.checks.i51.over_a_move),
            ("instances of paths beside another", sim.paths.counts.overlaps),
            ("members let go with slots", sim.paths.counts.let_go),
            (
                "runs in which all paths answered",
                sim.paths.counts.answered_at_rest,
            ),
            ("halted as Left", halted("Left")),
            ("halted as Downed", halted("Downed")),
            ("halted as Removed", halted("Removed")),
            ("halted as JoinAborted", halted("JoinAborted")),
            ("halted as JoinRefused", halted("JoinRefused")),
        ];
        let of_profiles = sim.durables.branches().into_iter().chain(sim.keyed.branches());
        let kv = [
            ("moves of ranges begun", sim.sum(|stats| stats.kv.moves_begun)),
            (
                "changes of who owns ranges that voters kept",
                sim.sum(|stats| stats.kv.changes_kept),
            ),
            (
                "coordinators of ranges refused by voters",
                sim.sum(|stats| stats.kv.tables_refused),
            ),
            ("moves of ranges ended", sim.sum(|stats| stats.kv.moves_ended)),
            ("moves of ranges undone", sim.sum(|stats| stats.kv.moves_undone)),
            ("parts of ranges merged", sim.sum(|stats| stats.kv.parts_merged)),
            (
                "trees of ranges compared",
                sim.sum(|stats| stats.kv.trees_compared),
            ),
            (
                "keys taken over from other owners",
                sim.sum(|stats| stats.kv.keys_repaired),
            ),
        ];
        Self(counts.into_iter().chain(of_profiles).chain(kv).collect())
    }

    fn absorb(&mut self, other: &Self) {
        for (name, count) in &other.0 {
            *self.0.entry(name).or_default() += count;
        }
    }
}

/// Makes a failing run smaller as long as the same invariant breaks: fewer faults, fewer nodes, shorter.
#[must_use]
pub fn shrink(seed: u64, plan: &Plan, invariant: &str) -> Plan {
    let fails = |plan: &Plan| {
        let violation = run_seed(seed, plan, Show::Nothing).violation;
        violation.is_some_and(|violation| violation.invariant == invariant)
    };
    let mut best = plan.of_seed(seed);
    loop {
        let mut smaller: Vec<Plan> = Vec::new();
        for at in 0..best.faults.len() {
            let mut plan = best.clone();
            plan.faults.remove(at);
            smaller.push(plan);
        }
        if best.nodes > 1 {
            smaller.push(Plan {
                nodes: best.nodes - 1,
                ..best.clone()
            });
        }
        if best.chaos_seconds > 5 {
            let chaos_seconds = best.chaos_seconds * 3 / 4;
            let total_seconds = best.total_seconds.min(chaos_seconds + 40);
            smaller.push(Plan {
                chaos_seconds,
                total_seconds,
                ..best.clone()
            });
        }
        match smaller.into_iter().find(|plan| fails(plan)) {
            Some(plan) => best = plan,
            None => return best,
        }
    }
}

impl Totals {
    /// Adds another run's.
    pub fn absorb(&mut self, other: &Self) {
        self.seeds += other.seeds;
        self.virtual_micros += other.virtual_micros;
        self.steps += other.steps;
        self.faults.absorb(&other.faults);
        self.messages += other.messages;
        self.asks = (self.asks.0 + other.asks.0, self.asks.1 + other.asks.1);
        self.frames_lost += other.frames_lost;
        self.safe_runs += other.safe_runs;
        self.overlaps += other.overlaps;
        self.stuck += other.stuck;
        self.removed += other.removed;
        self.hand_offs += other.hand_offs;
        self.merges += other.merges;
        self.branches.absorb(&other.branches);
    }
}

/// The outcome of a campaign.
#[derive(Clone, Debug)]
pub struct Report {
    /// Sums over all seeds that ran.
    pub totals: Totals,
    /// The seeds with a violation, lowest first.
    pub violations: Vec<(u64, Violation)>,
    /// How long it took.
    pub elapsed: Duration,
    /// Time the threads worked, added up.
    pub core_time: Duration,
}

/// Runs one seed.
#[must_use]
pub fn run_seed(seed: u64, plan: &Plan, show: Show) -> Outcome {
    let mut sim = Sim::showing(seed, show);
    sim.run_plan(&plan.of_seed(seed));
    let branches = Branches::of(&sim);
    let totals = Totals {
        seeds: 1,
        virtual_micros: sim.now,
        steps: sim.steps,
        faults: sim.faults,
        messages: sim.history.messages.len() as u64,
        asks: (sim.checks.i44.answered, sim.checks.i44.failed),
        frames_lost: sim.network.frames_lost + sim.network.frames_cut,
        safe_runs: u64::from(sim.assumptions.safe()),
        overlaps: sim.assumptions.overlaps,
        stuck: u64::from(sim.stuck),
        removed: sim.sum(|stats| stats.membership.members_removed),
        hand_offs: sim.sum(|stats| stats.sharding.hand_offs_completed),
        merges: sim.sum(|stats| stats.membership.gossip_merges),
        branches,
    };
    Outcome {
        seed,
        hash: sim.trace.hash(),
        unsafe_because: sim.assumptions.broken.map(|(_, why)| why),
        violation: sim.violation,
        totals,
    }
}

/// Runs all seeds of a range; stops at the first violations if asked to.
pub fn run(
    seeds: core::ops::Range<u64>,
    plan: &Plan,
    threads: usize,
    stop_at_violation: bool,
    seen: &(dyn Fn(&Outcome) + Sync),
) -> Report {
    let next = AtomicU64::new(seeds.start);
    let stop = AtomicBool::new(false);
    let sums = Mutex::new((Totals::default(), Vec::new(), Duration::ZERO));
    let begun = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..threads.max(1) {
            scope.spawn(|| {
                let begun = Instant::now();
                while !stop.load(Ordering::Relaxed) {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds.end {
                        break;
                    }
                    let outcome = run_seed(seed, plan, Show::Nothing);
                    seen(&outcome);
                    let mut sums = sums.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                    sums.0.absorb(&outcome.totals);
                    if let Some(violation) = outcome.violation {
                        sums.1.push((seed, violation));
                        stop.fetch_or(stop_at_violation, Ordering::Relaxed);
                    }
                }
                let mut sums = sums.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                sums.2 += begun.elapsed();
            });
        }
    });
    let sums = sums
        .into_inner()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    let (totals, mut violations, core_time) = sums;
    violations.sort_by_key(|(seed, _)| *seed);
    Report {
        totals,
        violations,
        elapsed: begun.elapsed(),
        core_time,
    }
}
