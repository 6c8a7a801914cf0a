//! What happens to the five nodes, and what they say of jobs.

use std::time::Duration;

use super::ledger::{Ledger, Verdict};
use crate::fleet::{self, Column, Place, Proof};
use crate::processes::Listens;

/// All nodes of a run.
pub(super) type Fleet = fleet::Fleet<Ledger>;

impl Proof for Ledger {
    // A queue of large messages is read and written back by slow disks.
    const PATIENCE: Duration = Duration::from_secs(90);
    const MAY_FALL: bool = true;
    const COLUMNS: &'static [Column] = &[("messages", 0), ("jobs", 1)];

    fn hear(fleet: &mut Fleet, _: usize, what: &str, job: &str) {
        match what {
            "sent" => fleet.proof.sent(job),
            "took" => fleet.proof.took(job),
            "did" => fleet.proof.handled(job),
            _ => {}
        }
    }

    fn acknowledged(&self) -> u64 {
        self.acknowledged
    }

    fn line(&self, _: &[Place]) -> String {
        format!(
            "{} jobs are acknowledged, {} of them not handled yet",
            self.acknowledged, self.open
        )
    }
}

impl Fleet {
    /// Lets the clients finish, and waits until everything that was acknowledged is handled.
    pub(super) fn end(&mut self) -> Result<(), String> {
        self.start_all()?;
        self.halt()?;
        let mut last = self.proof.open;
        while last > 0 {
            // As long as it goes on.
            self.wait_until(
                Ledger::PATIENCE,
                "what was acknowledged to be handled",
                |fleet, _, _| (fleet.proof.open < last).then_some(()),
            )?;
            last = self.proof.open;
        }
        Ok(())
    }

    pub(super) fn judge(&self) -> Verdict {
        Verdict {
            kills: self.kills,
            ..self.proof.judge()
        }
    }
}
