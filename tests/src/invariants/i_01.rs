//! I-01: every state is well formed: seen, reachability and clock speak of members only, no removed member is
//! a member, everything is sorted and unique. At rest, no address has two live incarnations (two nodes may
//! each have admitted one; the merge keeps both until one is downed).

use quorate_core::membership::gossip::Gossip;
use quorate_core::membership::member::Status;

pub(super) fn check(gossip: &Gossip) -> Result<(), String> {
    gossip.check_invariants().map_err(|error| error.to_string())?;
    let members = gossip.members();
    let stranger = gossip
        .version()
        .entries()
        .iter()
        .find(|(node, _)| !members.iter().any(|member| member.node == *node));
    if let Some((node, _)) = stranger {
        return Err(format!("{node} has a clock entry and is no member"));
    }
    match gossip
        .tombstones()
        .iter()
        .find(|node| members.iter().any(|m| m.node == **node))
    {
        Some(node) => Err(format!("{node} is a member and removed")),
        None => Ok(()),
    }
}

pub(super) fn check_at_rest(gossip: &Gossip) -> Result<(), String> {
    let live: Vec<_> = gossip
        .members()
        .iter()
        .filter(|member| member.status < Status::Down)
        .collect();
    let twice = live
        .windows(2)
        .find(|pair| pair[0].node.address() == pair[1].node.address());
    match twice {
        Some(pair) => Err(format!(
            "{} and {} are both live members",
            pair[0].node, pair[1].node
        )),
        None => Ok(()),
    }
}
