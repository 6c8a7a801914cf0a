//! I-34: with a lease an instance starts only while the keeper says that its node holds it; when the lease is
//! lost it is told to stop in the same step; and the lease is given back only once nothing runs. In every
//! run. What a node cannot prevent is not asserted: an instance that takes its time to stop outlives the
//! lease by that.

use super::{InstanceStart, Verdict};
use crate::sim::{History, InstanceRecord, ProcessId};

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct WithTheLease;

pub(super) fn on_start(start: &InstanceStart<'_>) -> Result<(), String> {
    if start.holds_lease {
        return Ok(());
    }
    Err("starts without its lease".to_owned())
}

impl WithTheLease {
    /// A process gives a lease back.
    pub(crate) fn on_release(&self, process: ProcessId, lease: &str, history: &History) -> Verdict {
        match runs(process, lease, history) {
            Some(it) => Err(("I-34", format!("gives {lease} back while {it:?} runs"))),
            None => Ok(()),
        }
    }

    /// A process has been told that it lost a lease, and has done what follows.
    pub(crate) fn on_lost(&self, process: ProcessId, lease: &str, history: &History) -> Verdict {
        match runs(process, lease, history).filter(|it| !it.told_to_stop) {
            Some(it) => Err(("I-34", format!("lost {lease} and does not stop {it:?}"))),
            None => Ok(()),
        }
    }
}

/// The instance of a process that needs this lease.
fn runs<'a>(process: ProcessId, lease: &str, history: &'a History) -> Option<&'a InstanceRecord> {
    let here = |it: &&InstanceRecord| {
        it.process == process
            && it.ended_at.is_none()
            && crate::sim::lease_of(it.singleton).as_deref() == Some(lease)
    };
    history.instances.iter().rev().find(here)
}
