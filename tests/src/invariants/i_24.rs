//! I-24: a decision names incarnations that are members, never an address or one that was removed; and who is
//! Down is never anything else again, whatever is decided after that.

use quorate_core::event::DowningReport;
use quorate_core::ident::UniqueAddress;
use quorate_core::membership::gossip::Gossip;
use quorate_core::membership::member::Status;
use quorate_core::view::{MembershipPhase, View};

pub(super) fn check(before: &Gossip, after: &Gossip) -> Result<(), String> {
    for member in before.members().iter().filter(|m| m.status == Status::Down) {
        let now = after.member(&member.node).map(|member| member.status);
        if now.is_some_and(|status| status != Status::Down) {
            return Err(format!("{} was Down and is {now:?}", member.node));
        }
    }
    Ok(())
}

pub(super) fn on_downing(event: &DowningReport, view: &View) -> Result<(), String> {
    if event.waits_for.is_some() || view.phase() != MembershipPhase::Member {
        return Ok(());
    }
    // Who is left alone has nobody to wait for, and has removed in the same step whom it downs.
    let is_alone = view.members().len() == 1;
    let needs_look = |node: &&UniqueAddress| !(is_alone && event.members.contains(node));
    for node in event.down.iter().filter(needs_look) {
        let member = view.member(node);
        if view.is_removed(node) || member.is_none_or(|member| member.status == Status::Removed) {
            return Err(format!("downs {node}, which is no member"));
        }
    }
    Ok(())
}
