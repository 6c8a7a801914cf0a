//! An operator's last resort: members removed at once, without convergence and without proof that they
//! stopped. Brings it about; judges nothing. Spec: membership 2.10.

use std::sync::Arc;

use quorate_core::ident::Address;
use quorate_core::input::{Command, DownTarget, MembershipCommand};

use super::engine::Sim;
use super::faults::FaultKind;
use super::process::Open;

impl Sim {
    /// Has a node remove the member at another address, as an operator would. Whoever lives there hears of it
    /// and stops.
    pub fn remove(&mut self, at: usize, target: usize) {
        let Some(process) = self.running_at(at) else {
            return;
        };
        let address = self.address(target);
        let view = Arc::clone(self.view(at));
        let named = view.members().iter().filter(|m| *m.node.address() == address);
        self.history
            .removed_by_hand
            .extend(named.map(|member| member.node.clone()));
        let command = MembershipCommand::Remove(DownTarget::Address(address));
        self.command(process, Open::Command("remove"), Command::Membership(command));
    }

    /// A user has a node remove another member, which may run or have ended; or, where chance has drawn one
    /// node twice, it and its neighbour remove each other at the same moment.
    pub(crate) fn remove_from_outside(&mut self, at: usize, target: usize, nodes: usize) {
        if at != target {
            return self.remove_member(at, target);
        }
        let neighbour = (at + 1) % nodes;
        if self.running_at(at).is_some() && self.running_at(neighbour).is_some() {
            self.assumptions
                .breaks(self.now, "two members removed each other");
            self.remove_member(at, neighbour);
            self.remove_member(neighbour, at);
        }
    }

    fn remove_member(&mut self, at: usize, target: usize) {
        let Some(process) = self.running_at(at) else {
            return;
        };
        let (view, address) = (self.view(at), self.address(target));
        let is_member = |who: &Address| view.members().iter().any(|m| m.node.address() == who);
        if !is_member(view.me().address()) || !is_member(&address) {
            return;
        }
        self.assumptions
            .fault(self.now, "a command to remove in a partition");
        self.faults.add(FaultKind::Remove);
        self.fact(process, format_args!("is to remove {address}"));
        self.remove(at, target);
    }
}
