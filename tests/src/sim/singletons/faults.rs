//! Faults that concern who acts for others: a user has members declared Down, the two oldest leave at once,
//! the cluster prepares to stop, the lease keeper has its own troubles. Brings them about; judges nothing.

use core::time::Duration;

use quorate_core::effect::Answer;
use quorate_core::input::{Command, MembershipCommand, SingletonCommand};

use super::KINDS;
use crate::sim::LeaseKeeper;
use crate::sim::engine::Sim;
use crate::sim::faults::FaultKind;
use crate::sim::history::ProcessId;
use crate::sim::process::Open;

/// How long an instance may take that its user stops.
const STOP_WITHIN: Duration = Duration::from_secs(1);

/// A node that was told to host a singleton no more.
#[derive(Clone, Copy, Debug)]
pub(super) struct Retired {
    process: ProcessId,
    name: &'static str,
    pub(super) until: u64,
}

/// What is wrong with the lease keeper, by a number that chance has drawn.
fn trouble(strength: u64, nodes: usize, index: usize) -> LeaseKeeper {
    match strength % 3 {
        0 => LeaseKeeper {
            is_down: true,
            ..LeaseKeeper::default()
        },
        1 => LeaseKeeper {
            late: strength * 20_000,
            ..LeaseKeeper::default()
        },
        _ => LeaseKeeper {
            cut_off: (0..nodes).filter(|at| at % 2 == index % 2).collect(),
            ..LeaseKeeper::default()
        },
    }
}

impl Sim {
    /// A user has a node declare another one Down.
    pub(crate) fn down_from_outside(&mut self, at: usize, target: usize) {
        let (Some(_), Some(victim)) = (self.running_at(at), self.running_at(target)) else {
            return;
        };
        self.assumptions
            .fault(self.now, "a command to down in a partition");
        self.faults.add(FaultKind::Down);
        self.fact(victim, format_args!("is to be declared Down"));
        self.down(at, target);
    }

    /// The two oldest members of the role of one of the singletons leave at the same time.
    pub(crate) fn leave_two(&mut self, at: usize, which: usize) {
        if self.running_at(at).is_none() {
            return;
        }
        let role = self.singletons.enabled.then(|| KINDS[which % KINDS.len()].role());
        let members = self.view(at).by_age(role.as_ref());
        let oldest = members.iter().take(2);
        let oldest: Vec<usize> = oldest
            .filter_map(|member| self.index_of_node(&member.node))
            .collect();
        if oldest.len() < 2 {
            return;
        }
        self.faults.add(FaultKind::LeaveTwo);
        for index in oldest {
            self.leave(index);
        }
    }

    /// A user prepares the whole cluster for its shutdown. There is no way back: everybody has to end.
    pub fn prepare_for_shutdown(&mut self, at: usize) -> bool {
        let Some(process) = self.running_at(at).filter(|_| !self.is_shutting_down()) else {
            return false;
        };
        self.faults.add(FaultKind::Prepare);
        self.fact(process, format_args!("prepares the cluster for shutdown"));
        let command = Command::Membership(MembershipCommand::PrepareForShutdown);
        self.command(process, Open::Command("prepare"), command);
        true
    }

    /// Whether the cluster prepares to stop, as anybody sees it.
    pub(crate) fn is_shutting_down(&self) -> bool {
        self.running()
            .iter()
            .any(|index| self.view(*index).is_shutting_down())
    }

    /// The user of the node at an address has it host one of the singletons no more, for a while.
    pub(crate) fn retire_singleton(&mut self, index: usize, which: usize, time: u64) {
        let kind = &KINDS[which % KINDS.len()];
        let Some(process) = self.running_at(index).filter(|it| self.may_host(*it, kind)) else {
            return;
        };
        let same = |it: &Retired| (it.process, it.name) == (process, kind.name);
        if self.singletons.retired.iter().any(same) {
            return;
        }
        self.faults.add(FaultKind::Retire);
        self.fact(process, format_args!("is to host {} no more", kind.name));
        let until = self.now + time;
        self.singletons.retired.push(Retired {
            process,
            name: kind.name,
            until,
        });
        let stop = SingletonCommand::Stop {
            singleton: kind.id(),
            timeout: STOP_WITHIN,
        };
        self.command(process, Open::Command("stop"), Command::Singleton(stop));
    }

    /// Whoever was told to host a singleton no more, and whose time is over, hosts it again; if its last
    /// instance still runs, later.
    pub(crate) fn host_again(&mut self) {
        let due = |it: &&Retired| it.until <= self.now;
        let due: Vec<Retired> = self.singletons.retired.iter().filter(due).copied().collect();
        for Retired { process, name, .. } in due {
            match KINDS.iter().find(|kind| kind.name == name) {
                Some(kind) if self.processes[process as usize].runs() => {
                    self.register_singleton(process, kind, Open::Host(name));
                }
                Some(_) | None => self.forget_retired(process, name),
            }
        }
    }

    fn forget_retired(&mut self, process: ProcessId, name: &str) {
        let others = |it: &Retired| (it.process, it.name) != (process, name);
        self.singletons.retired.retain(others);
    }

    /// What a node says that is to host a singleton again.
    pub(crate) fn on_hosting(&mut self, process: ProcessId, name: &str, answer: &Answer) {
        if *answer == Answer::Done {
            self.fact(process, format_args!("hosts {name} again"));
            self.forget_retired(process, name);
        }
    }

    /// Something is wrong with the lease keeper.
    pub(crate) fn trouble_lease_keeper(&mut self, strength: u64, nodes: usize, index: usize) {
        self.faults.add(FaultKind::LeaseKeeper);
        self.lease_keeper = trouble(strength, nodes, index);
        self.note(format_args!("{:?}", self.lease_keeper.clone()));
    }
}
