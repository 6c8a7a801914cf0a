//! I-02: at one node, a member's status never goes back in the order of the specification (membership 1.3),
//! nor does its up number, once given, grow.

use quorate_core::membership::gossip::Gossip;

pub(super) fn check(before: &Gossip, after: &Gossip) -> Result<(), String> {
    for old in before.members() {
        let Some(new) = after.member(&old.node) else {
            continue;
        };
        if new.status < old.status {
            return Err(format!(
                "{} goes back from {} to {}",
                old.node, old.status, new.status
            ));
        }
        if old.up_number.is_assigned() && new.up_number != old.up_number && new.up_number >= old.up_number {
            let numbers = (old.up_number.get(), new.up_number.get());
            return Err(format!("{} changes its up number: {numbers:?}", old.node));
        }
    }
    Ok(())
}
