//! What a scenario expects of a simulated cluster. An expectation that does not hold panics with the seed,
//! the time and the state of every node.

use core::fmt::Write as _;
use std::sync::Arc;

use quorate_core::effect::HaltReason;
use quorate_core::membership::member::Status;
use quorate_core::view::View;

use super::engine::Sim;
use super::history::{Life, ProcessId};

impl Sim {
    /// Panics unless each of these nodes sees exactly these members, all Up.
    pub fn expect_members(
        &self,
        at: impl IntoIterator<Item = usize>,
        members: impl IntoIterator<Item = usize>,
    ) {
        let mut expected: Vec<usize> = members.into_iter().collect();
        expected.sort_unstable();
        for index in at {
            let view = self.view(index);
            let mut found: Vec<usize> = view
                .members()
                .iter()
                .filter(|member| member.status == Status::Up)
                .filter_map(|member| self.index_of_node(&member.node))
                .collect();
            found.sort_unstable();
            let all = view.members().len();
            if found != expected || all != found.len() {
                let what = format!("n{index} should see {expected:?} Up, sees {found:?} of {all}");
                panic!("{}", self.report(&what));
            }
        }
    }

    /// Panics unless the processes at these addresses have halted for this reason.
    pub fn expect_halted(&self, at: impl IntoIterator<Item = usize>, reason: HaltReason) {
        for index in at {
            let id = self.last_at[index].expect("a node was started there");
            let life = self.processes[id as usize].life;
            if life != Life::Halted(reason) {
                let what = format!("n{index} should have halted as {reason:?}, is {life:?}");
                panic!("{}", self.report(&what));
            }
        }
    }

    /// Panics if an ask has no answer, or no good one.
    pub fn expect_answered(&self, asks: impl IntoIterator<Item = usize>) {
        for at in asks {
            let message = &self.history.messages[at];
            if message.outcome != Some(Ok(())) {
                panic!("{}", self.report(&format!("ask {at}: {message:?}")));
            }
        }
    }

    /// Panics if an invariant was broken, or one that holds only at rest does not hold now.
    pub fn check_invariants(&mut self) {
        self.guard();
        self.check_at_rest();
        self.guard();
    }

    /// Looks at what must hold when nothing is going on any more.
    pub(crate) fn check_at_rest(&mut self) {
        let nodes: Vec<(ProcessId, &Arc<View>)> = self
            .last_at
            .iter()
            .flatten()
            .filter(|id| self.processes[**id as usize].runs())
            .map(|id| (*id, self.processes[*id as usize].node.view()))
            .collect();
        let broken = nodes.iter().find_map(|(id, _)| {
            let error = self.processes[*id as usize].node.check_invariants().err()?;
            Some((error.machine, *id, error.what))
        });
        if let Some((machine, process, what)) = broken {
            return self.violated(machine, process, what);
        }
        let result = self.checks.at_rest(&nodes, &self.history);
        if let Err((invariant, process, what)) = result {
            self.violated(invariant, process, what);
        }
    }

    /// Panics if an invariant is broken: for scripts, which have nobody to return it to and come by here
    /// whenever time has passed. What campaigns use as well never does.
    pub(crate) fn guard(&self) {
        if let Some(violation) = &self.violation {
            panic!("{}", self.report(&violation.to_string()));
        }
    }

    /// What is wrong, with everything needed to see why.
    pub(crate) fn report(&self, what: &str) -> String {
        let mut text = format!("{what}\nseed {}, {:?} of virtual time", self.seed, self.elapsed());
        let messages = self.history.messages.iter().enumerate();
        for (at, message) in messages.filter(|(_, message)| self.is_open(message)).take(5) {
            let _ = write!(text, "\n  open: message {at} {message:?}");
        }
        for (index, id) in self.last_at.iter().enumerate() {
            let Some(id) = id else { continue };
            let host = &self.processes[*id as usize];
            let view = host.node.view();
            let _ = write!(
                text,
                "\n  n{index} {} {:?} {:?}",
                host.me,
                host.life,
                view.phase()
            );
            let _ = write!(
                text,
                " converged {} leader {:?}",
                view.is_converged(),
                view.leader()
            );
            for member in view.members() {
                let seen = if view.gossip().has_seen(&member.node) {
                    "seen"
                } else {
                    ""
                };
                let reach = if view.is_reachable(&member.node) {
                    ""
                } else {
                    "unreachable"
                };
                let number = member.up_number.get();
                let _ = write!(
                    text,
                    "\n      {} {} {number} {seen} {reach}",
                    member.node, member.status
                );
            }
        }
        text
    }
}
