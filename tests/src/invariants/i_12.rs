//! I-12: two members have the same age order at all nodes at all times: the number a member once got is its
//! number everywhere. Two sides of a split may each give one, so it is asserted within the safe shapes only.

use std::collections::HashMap;

use quorate_core::membership::member::UpNumber;

use super::Step;

/// The number of each incarnation, by uid.
#[derive(Debug, Default)]
pub(super) struct OneAge {
    numbers: HashMap<u64, UpNumber>,
}

impl OneAge {
    pub(super) fn check(&mut self, step: &Step<'_>) -> Result<(), String> {
        let members = step.after.members().iter();
        for member in members.filter(|m| m.up_number.is_assigned()) {
            let first = *self.numbers.entry(member.node.uid()).or_insert(member.up_number);
            if first != member.up_number && step.safe {
                let (node, now) = (&member.node, member.up_number.get());
                return Err(format!(
                    "{node} has the number {now}, elsewhere it had {}",
                    first.get()
                ));
            }
        }
        Ok(())
    }
}
