//! I-15: a new incarnation of an address becomes Up only when the old one is Down or gone. Two sides of a split may each have
//! one, so it is asserted within the safe shapes only.

use quorate_core::membership::gossip::Gossip;
use quorate_core::membership::member::Status;

pub(super) fn check(after: &Gossip) -> Result<(), String> {
    // Members are in order, so the incarnations of one address are neighbours.
    for pair in after.members().windows(2) {
        let same = pair[0].node.address() == pair[1].node.address();
        if same
            && pair
                .iter()
                .all(|m| (Status::Up..Status::Down).contains(&m.status))
        {
            return Err(format!("{} and {} are both in", pair[0].node, pair[1].node));
        }
    }
    Ok(())
}
