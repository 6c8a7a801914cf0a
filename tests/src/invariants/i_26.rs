//! I-26: a side that stays by a decision that needs the lease holds it at that moment, as the keeper says,
//! and a lease has one holder at a time (which the keeper of the simulator cannot violate).

use quorate_core::event::DowningReport;

use super::Moment;

/// The default name of the lease in a cluster named `sim`.
const LEASE: &str = "sim-sbr";

pub(super) fn on_downing(moment: &Moment<'_>, event: &DowningReport) -> Result<(), String> {
    let me = moment.view.me();
    let stays = event.waits_for.is_none() && !event.down.is_empty() && !event.down.contains(me);
    if event.strategy != "lease-majority" || !stays || !event.decision.needs_lease() {
        return Ok(());
    }
    match moment.leases.holder(moment.at, LEASE) {
        Some((holder, _)) if holder == me => Ok(()),
        other => Err(format!(
            "stays without the lease, which {other:?} holds: {event:?}"
        )),
    }
}
