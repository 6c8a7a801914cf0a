//! What the log says about links: one line per report, as many lines per second as the settings allow. Decides nothing.
//! Spec: reliability 3b (logs).

use quorate_core::time::Instant;
use quorate_core::wire::handshake::RejectReason;
use quorate_links::{Refusal, Report};

use crate::log_limit::LogLimit;

/// Writes a report to the log. Those that no stranger can cause are not limited.
pub(crate) fn report(report: &Report, log: &mut LogLimit, now: Instant) {
    match report {
        Report::Opened { peer, kind, epoch } => {
            tracing::debug!(target: "cluster::transport", event = "link_opened", %peer, ?kind, epoch);
        }
        Report::Accepted { peer, kind, epoch } => {
            tracing::debug!(target: "cluster::transport", event = "link_accepted", %peer, ?kind, epoch);
        }
        Report::Renewed { to, kind, epoch } => {
            tracing::debug!(target: "cluster::transport", event = "link_renewed", address = %to, ?kind, epoch);
        }
        Report::DialFailed {
            to,
            kind,
            failures,
            why,
        } => {
            tracing::debug!(target: "cluster::transport", event = "dial_failed", address = %to, ?kind, failures, "{why}");
        }
        Report::Quarantined { node } => {
            tracing::info!(target: "cluster::transport", event = "quarantined", peer = %node);
        }
        Report::Refused { .. }
        | Report::Closed { .. }
        | Report::DialRefused { .. }
        | Report::RenewalFailed { .. }
        | Report::Kept { .. }
        | Report::Expired { .. } => limited(report, log, now),
        // What a later version of the links reports.
        _ => limited(report, log, now),
    }
}

fn limited(report: &Report, log: &mut LogLimit, now: Instant) {
    if let Some(left_out) = log.take_line(now) {
        line(report, left_out);
    }
}

fn line(report: &Report, left_out: u64) {
    match report {
        // A peer that has not heard of a restart: a cluster's life, and nobody's fault.
        Report::Refused {
            from,
            refusal: refusal @ Refusal::Rejected(RejectReason::WrongIncarnation { .. }),
        } => tracing::info!(
            target: "cluster::transport", event = "handshake_refused", %from, left_out, "{refusal}"
        ),
        Report::Refused { from, refusal } => tracing::warn!(
            target: "cluster::transport", event = "handshake_refused", %from, left_out, "{refusal}"
        ),
        Report::Closed { peer, why } => {
            tracing::warn!(target: "cluster::transport", event = "link_closed", %peer, left_out, "{why}");
        }
        Report::DialRefused { to, kind, why } => tracing::warn!(
            target: "cluster::transport", event = "link_refused", address = %to, ?kind, left_out, "{why}"
        ),
        Report::RenewalFailed { to, kind, why } => tracing::warn!(
            target: "cluster::transport", event = "renewal_failed", address = %to, ?kind, left_out, "{why}"
        ),
        Report::Kept { peer, kind } => tracing::warn!(
            target: "cluster::transport", event = "link_kept", %peer, ?kind, left_out,
            "a link was not renewed in time, and goes on because what its peer proved still holds"
        ),
        Report::Expired { peer, kind, why } => tracing::warn!(
            target: "cluster::transport", event = "link_expired", %peer, ?kind, left_out,
            "a link was not renewed in time: {why}"
        ),
        Report::DialFailed { .. }
        | Report::Opened { .. }
        | Report::Accepted { .. }
        | Report::Renewed { .. }
        | Report::Quarantined { .. } => {
            tracing::debug!(target: "cluster::transport", event = "unlimited", left_out, ?report);
        }
        // What a later version of the links reports.
        _ => tracing::debug!(target: "cluster::transport", event = "other", left_out, ?report),
    }
}
