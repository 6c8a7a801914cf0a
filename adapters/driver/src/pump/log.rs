//! What the log says about links: one line per report, as many lines per second as the settings allow. Decides nothing.
//! Spec: reliability 3b (logs).

use quorate_core::time::Instant;
use quorate_core::wire::handshake::RejectReason;
use quorate_links::{Refusal, Report};

/// Lets a few lines per second through: whoever can make a node log can otherwise fill its disk.
#[derive(Debug)]
pub(crate) struct LogLimit {
    lines_max: u32,
    second: u64,
    lines: u32,
    left_out: u64,
    /// Lines that were left out since the node started.
    pub(crate) left_out_ever: u64,
}

impl LogLimit {
    pub(crate) const fn new(lines_max: u32) -> Self {
        Self {
            lines_max,
            second: 0,
            lines: 0,
            left_out: 0,
            left_out_ever: 0,
        }
    }

    /// Whether a line may be written, and how many were left out before it.
    pub(crate) fn take_line(&mut self, now: Instant) -> Option<u64> {
        let second = now.as_micros() / 1_000_000;
        if second != self.second {
            (self.second, self.lines) = (second, 0);
        }
        if self.lines >= self.lines_max {
            self.left_out += 1;
            self.left_out_ever += 1;
            return None;
        }
        self.lines += 1;
        Some(std::mem::take(&mut self.left_out))
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_gets_ten_lines_per_second_and_the_number_left_out() {
        let mut log = LogLimit::new(10);
        let lines = (0..100)
            .filter(|_| log.take_line(Instant::from_millis(1)).is_some())
            .count();
        assert_eq!(lines, 10);
        assert_eq!(log.take_line(Instant::from_millis(1_001)), Some(90));
        assert_eq!(log.left_out_ever, 90);
    }
}
