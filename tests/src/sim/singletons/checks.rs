//! What must hold of singletons: what the invariants want to know when an instance starts, and what is
//! expected once everything has healed: each runs on the oldest of its role, alone, and answers everybody.
//! Spec: reliability I-30 to I-34.

use core::time::Duration;
use std::sync::Arc;

use quorate_core::sharding::errors::AskFailure;
use quorate_core::view::View;

use super::{KINDS, Kind, Starting};
use crate::invariants::{InstanceStart, Voter};
use crate::sim::engine::Sim;
use crate::sim::history::ProcessId;
use crate::sim::process::Times;

/// Once the members agree an instance may still wait: for the removal margin (1 s) or its predecessor, who
/// repeats himself and gives up after 1.6 s; for its lease, which outlives a crashed owner (3 s) and is asked
/// for every half second; for a rest after failures (3 s); and for one before it that takes its time to stop
/// (5 s).
const RUNS_AFTER: u64 = 12_000_000;

/// Then everybody's ask is answered within this time.
const ANSWERS_WITHIN: Duration = Duration::from_secs(3);

type Broken = (&'static str, ProcessId, String);

impl Sim {
    /// An instance is about to start.
    pub(super) fn check_start(&mut self, process: ProcessId, starting: &Starting) {
        let Some(kind) = Kind::of(starting.singleton) else {
            return self.violated("I-30", process, format!("starts {:?}", starting.singleton));
        };
        let host = &self.processes[process as usize];
        let view = Arc::clone(host.node.view());
        let holder = self.leases.holder(self.now, &kind.lease_name());
        let holds_lease = !kind.lease || holder.is_some_and(|(holder, _)| *holder == host.me);
        let start = InstanceStart {
            at: self.now,
            mono: host.now(self.now).mono.as_micros(),
            margin: Times::of(host.node.config(), view.members().len()).margin,
            process,
            singleton: starting.singleton,
            role: &kind.role(),
            token: starting.token,
            in_doubt: host.in_doubt,
            safe: self.assumptions.safe(),
            view: &view,
            voters: self.voters(&view, starting),
            holds_lease,
        };
        let me = host.me.clone();
        let own_promise = host.node.singletons().promised(starting.singleton);
        let checked = self.checks.on_instance(&start, &self.history);
        // If it promised its own term as well, it said so to nobody.
        if own_promise == starting.token.term {
            self.note_promise(process, starting.singleton, own_promise, &me);
        }
        match checked {
            Ok(found) => {
                self.assumptions.overlaps += found.overlaps;
                self.singletons.counts.unordered_tokens += found.unordered_tokens;
                if found.unordered_tokens > 0 && self.singletons.all_have_stores() && self.assumptions.safe()
                {
                    self.note(format_args!("UNORDERED {starting:?}"));
                    self.singletons.counts.unordered_with_stores += found.unordered_tokens;
                }
                self.singletons.counts.returns += found.returns;
            }
            Err((invariant, what)) => self.violated(invariant, process, what),
        }
    }

    /// Those that vote in a picture, with what each has promised.
    fn voters(&self, view: &View, starting: &Starting) -> Vec<Voter> {
        let votes = view
            .by_age(None)
            .into_iter()
            .filter(|member| Voter::votes(member.status));
        votes
            .filter_map(|member| {
                let process = self.history.process_of(&member.node)?;
                Some(Voter {
                    promised: self.promised_term(process, starting.singleton),
                    keeper: self.keeper_of(process),
                })
            })
            .collect()
    }

    /// After the last fault: each singleton comes back, on the oldest of its role, and answers everybody.
    pub(crate) fn rest_of_singletons(&mut self) {
        // Disks that were slow still have to do what they were asked for.
        let limit = self.now.max(self.stores_busy_until()) + RUNS_AFTER;
        self.run_until_or(limit, &|sim: &Self| sim.check_homes().is_ok());
        if self.violation.is_some() {
            return;
        }
        if let Err((invariant, process, what)) = self.check_homes() {
            let what = self.report(&what);
            return self.violated(invariant, process, what);
        }
        // A proxy may still know an instance that has ended, and hears so when its message comes back
        // unhandled. And where two clusters had instances, one that did nothing since may learn only now,
        // from its store, that it was replaced.
        let safe = self.assumptions.safe();
        self.ask_everything(|failure| {
            !failure.may_have_been_handled() || (!safe && failure == AskFailure::EntityStopped)
        });
        self.ask_everything(|_| false);
        if self.violation.is_some() {
            return;
        }
        if let Err((invariant, process, what)) = self.check_books() {
            return self.violated(invariant, process, what);
        }
        self.check_at_rest();
        self.singletons.counts.answered_at_rest += 1;
    }

    /// Everybody asks every singleton, which answers or, if that is good enough, says why not.
    fn ask_everything(&mut self, is_good: impl Fn(AskFailure) -> bool) {
        let hosted: Vec<&Kind> = KINDS.iter().filter(|kind| self.home_of(kind).is_some()).collect();
        let mut asks = Vec::new();
        for index in self.running() {
            for kind in &hosted {
                asks.extend(self.ask_singleton(index, kind, Some(ANSWERS_WITHIN)));
            }
        }
        self.advance(self.now + micros(ANSWERS_WITHIN));
        for at in asks {
            let message = &self.history.messages[at];
            let good = match message.outcome {
                Some(Ok(())) => true,
                Some(Err(failure)) => is_good(failure),
                None => false,
            };
            if !good && self.violation.is_none() {
                let what = format!("ask {at} of a quiet cluster: {message:?}");
                self.violated("I-32", message.sender, what);
            }
        }
    }

    /// The process on which a singleton should run: the oldest member of its role, as any running node sees
    /// it.
    fn home_of(&self, kind: &Kind) -> Option<ProcessId> {
        let view = self.view(*self.running().first()?);
        let oldest = view
            .by_age(Some(&kind.role()))
            .first()
            .map(|member| member.node.clone())?;
        self.lives(&oldest)
    }

    /// Each singleton runs on the oldest of its role, and nowhere else.
    fn check_homes(&self) -> Result<(), Broken> {
        for kind in &KINDS {
            let running = self.running_instances(kind.id());
            let home = self.home_of(kind);
            let found: Vec<ProcessId> = running.iter().map(|record| record.process).collect();
            let stops = running.iter().any(|record| record.told_to_stop);
            if found == home.into_iter().collect::<Vec<_>>() && !stops {
                continue;
            }
            let invariant = if found.is_empty() { "I-32" } else { "I-33" };
            let at = home.unwrap_or_default();
            let state = self.processes[at as usize].node.singletons().state(kind.id());
            let what = format!(
                "{} should run on p{at}, and runs on {found:?}: {state:?}",
                kind.name
            );
            return Err((invariant, at, what));
        }
        Ok(())
    }

    /// What was acknowledged is written, once.
    fn check_books(&self) -> Result<(), Broken> {
        let mut written = vec![0_u32; self.history.messages.len()];
        for kind in &KINDS {
            let entries = self.singletons.ledger.entries(kind.id());
            for pair in entries.windows(2) {
                if pair[1].token < pair[0].token {
                    let what = format!("{} has an entry of a lower token: {pair:?}", kind.name);
                    return Err(("I-30", pair[1].process, what));
                }
            }
            for entry in entries {
                written[entry.message] += 1;
            }
        }
        for (at, (message, times)) in self.history.messages.iter().zip(written).enumerate() {
            let is_acknowledged = message.outcome == Some(Ok(())) && !self.history.is_given_to_liar(at);
            if times > 1 || (is_acknowledged && times != 1) {
                let what = format!("a message is written {times} times: {message:?}");
                return Err(("I-30", message.sender, what));
            }
        }
        Ok(())
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX / 2)
}
