//! I-11: within one picture no two members of a data center have the same up number. Two sides of a split may
//! each give one, so it is asserted within the safe shapes only.

use std::collections::BTreeSet;

use quorate_core::membership::gossip::Gossip;

pub(super) fn check(after: &Gossip) -> Result<(), String> {
    let mut given = BTreeSet::new();
    for member in after.members().iter().filter(|m| m.up_number.is_assigned()) {
        if !given.insert((member.data_center(), member.up_number)) {
            return Err(format!("{} has the up number of another member", member.node));
        }
    }
    Ok(())
}
