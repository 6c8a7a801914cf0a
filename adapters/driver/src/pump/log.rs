//! What the log says about links: one line per report, as many lines per second as the settings allow.
//! Decides nothing. Spec: reliability 3b (logs).

use quorate_core::time::Instant;
use quorate_core::wire::handshake::RejectReason;
use quorate_links::{LinkRefusal, LinkReport};

use crate::log_limit::LogLimit;

/// Writes a report to the log. Those that no stranger can cause are not limited.
pub(crate) fn report(report: &LinkReport, log: &mut LogLimit, now: Instant) {
    match report {
        LinkReport::Opened { peer, kind, epoch } => {
            tracing::debug!(target: "cluster::transport", event = "link_opened", %peer, ?kind, epoch);
        }
        LinkReport::Accepted { peer, kind, epoch } => {
            tracing::debug!(target: "cluster::transport", event = "link_accepted", %peer, ?kind, epoch);
        }
        LinkReport::Renewed { to, kind, epoch } => {
            tracing::debug!(target: "cluster::transport", event = "link_renewed", address = %to, ?kind, epoch);
        }
        LinkReport::DialFailed {
            to,
            kind,
            failures,
            why,
        } => {
            tracing::debug!(target: "cluster::transport", event = "dial_failed", address = %to, ?kind, failures, "{why}");
        }
        LinkReport::Quarantined { node } => {
            tracing::info!(target: "cluster::transport", event = "quarantined", peer = %node);
        }
        LinkReport::Refused { .. }
        | LinkReport::Closed { .. }
        | LinkReport::DialRefused { .. }
        | LinkReport::RenewalFailed { .. }
        | LinkReport::Kept { .. }
        | LinkReport::Expired { .. } => limited(report, log, now),
        // What a later version of the links reports.
        _ => limited(report, log, now),
    }
}

fn limited(report: &LinkReport, log: &mut LogLimit, now: Instant) {
    if let Some(left_out) = log.take_line(now) {
        line(report, left_out);
    }
}

fn line(report: &LinkReport, left_out: u64) {
    match report {
        // A peer that has not heard of a restart: a cluster's life, and nobody's fault.
        LinkReport::Refused {
            from,
            refusal: refusal @ LinkRefusal::Rejected(RejectReason::WrongIncarnation { .. }),
        } => tracing::info!(
            target: "cluster::transport", event = "handshake_refused", %from, left_out, "{refusal}"
        ),
        LinkReport::Refused { from, refusal } => tracing::warn!(
            target: "cluster::transport", event = "handshake_refused", %from, left_out, "{refusal}"
        ),
        LinkReport::Closed { peer, why } => {
            tracing::warn!(target: "cluster::transport", event = "link_closed", %peer, left_out, "{why}");
        }
        LinkReport::DialRefused { to, kind, why } => tracing::warn!(
            target: "cluster::transport", event = "link_refused", address = %to, ?kind, left_out, "{why}"
        ),
        LinkReport::RenewalFailed { to, kind, why } => tracing::warn!(
            target: "cluster::transport", event = "renewal_failed", address = %to, ?kind, left_out, "{why}"
        ),
        LinkReport::Kept { peer, kind } => tracing::warn!(
            target: "cluster::transport", event = "link_kept", %peer, ?kind, left_out,
            "a link was not renewed in time; it stays open while its peer's credentials are valid"
        ),
        LinkReport::Expired { peer, kind, why } => tracing::warn!(
            target: "cluster::transport", event = "link_expired", %peer, ?kind, left_out,
            "a link was not renewed in time: {why}"
        ),
        LinkReport::DialFailed { .. }
        | LinkReport::Opened { .. }
        | LinkReport::Accepted { .. }
        | LinkReport::Renewed { .. }
        | LinkReport::Quarantined { .. } => {
            tracing::debug!(target: "cluster::transport", event = "unlimited", left_out, ?report);
        }
        // What a later version of the links reports.
        _ => tracing::debug!(target: "cluster::transport", event = "other", left_out, ?report),
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Debug;
    use std::sync::{Arc, Mutex};

    use quorate_core::ident::{Address, UniqueAddress};
    use quorate_core::wire::handshake::LinkKind;
    use quorate_links::ReportParty;
    use tracing::field::{Field, Visit};
    use tracing::{Level, Metadata, span};

    use super::*;
    use crate::sync::lock;

    /// What was written, by its level and name.
    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<(Level, String)>>>);

    /// The name of one.
    #[derive(Default)]
    struct Name(String);

    impl Visit for Name {
        fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
            if field.name() == "event" {
                self.0 = format!("{value:?}").replace('"', "");
            }
        }
    }

    impl tracing::Subscriber for Lines {
        fn enabled(&self, _: &Metadata<'_>) -> bool {
            true
        }

        fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
            span::Id::from_u64(1)
        }

        fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

        fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

        fn event(&self, event: &tracing::Event<'_>) {
            let mut name = Name::default();
            event.record(&mut name);
            lock(&self.0).push((*event.metadata().level(), name.0));
        }

        fn enter(&self, _: &span::Id) {}

        fn exit(&self, _: &span::Id) {}
    }

    #[test]
    fn what_somebody_has_to_set_right_is_a_warning_under_its_own_name() {
        let to = Address::new("h", 2).unwrap();
        let peer = UniqueAddress::new(to.clone(), 7);
        let (kind, why) = (LinkKind::User, "it cannot be".to_owned());
        let warned = [
            (
                "handshake_refused",
                LinkReport::Refused {
                    from: ReportParty::Unknown,
                    refusal: LinkRefusal::Rejected(RejectReason::WrongCluster),
                },
            ),
            (
                "link_closed",
                LinkReport::Closed {
                    peer: ReportParty::Unknown,
                    why: why.clone(),
                },
            ),
            (
                "link_refused",
                LinkReport::DialRefused {
                    to: to.clone(),
                    kind,
                    why: why.clone(),
                },
            ),
            (
                "renewal_failed",
                LinkReport::RenewalFailed {
                    to,
                    kind,
                    why: why.clone(),
                },
            ),
            (
                "link_kept",
                LinkReport::Kept {
                    peer: peer.clone(),
                    kind,
                },
            ),
            ("link_expired", LinkReport::Expired { peer, kind, why }),
        ];
        let lines = Lines::default();
        let mut limit = LogLimit::new(100);
        tracing::subscriber::with_default(lines.clone(), || {
            for (_, told) in &warned {
                report(told, &mut limit, Instant::default());
            }
        });
        let expected = warned.map(|(name, _)| (Level::WARN, name.to_owned()));
        assert_eq!(*lock(&lines.0), expected);
    }
}
