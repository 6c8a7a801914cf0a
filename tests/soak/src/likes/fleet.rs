//! What the five nodes say of themselves and their updates.

use std::time::Duration;

use super::ledger::{Dump, Ledger};
use crate::fleet::{self, Column, Place, Proof};
use crate::processes::Listens;

/// Words of what a node shows.
const UPDATES: usize = 0;
const ACKNOWLEDGED: usize = 1;
const LIKES: usize = 2;
const FANS: usize = 3;
const DIGEST: usize = 4;

/// All nodes of a run.
pub(super) type Fleet = fleet::Fleet<Ledger>;

impl Proof for Ledger {
    const PATIENCE: Duration = Duration::from_secs(20);
    const COLUMNS: &'static [Column] = &[
        ("updates", UPDATES),
        ("acknowledged", ACKNOWLEDGED),
        ("likes", LIKES),
        ("followers", FANS),
        ("replica", DIGEST),
    ];

    fn hear(fleet: &mut Fleet, who: usize, what: &str, rest: &str) {
        fleet.proof.heard(who, what, rest);
    }

    fn acknowledged(&self) -> u64 {
        self.acknowledged
    }

    fn line(&self, places: &[Place]) -> String {
        let likes: Vec<String> = places
            .iter()
            .map(|place| {
                format!("{} {}", place.number(LIKES), place.note)
                    .trim()
                    .to_owned()
            })
            .collect();
        let acknowledged: u64 = places.iter().map(|place| place.number(ACKNOWLEDGED)).sum();
        format!(
            "likes seen by node: {}; {acknowledged} acknowledged",
            likes.join(" | ")
        )
    }
}

impl Fleet {
    /// The digest of what every node holds.
    pub(super) fn digests(&mut self) -> Result<Vec<String>, String> {
        self.tell_all("state");
        let mut answers = [const { None }; crate::program::NODES];
        self.wait_until(Ledger::PATIENCE, "what the nodes hold", |_, who, line| {
            if let Some(digest) = line.and_then(|line| line.strip_prefix("state ")) {
                answers[who] = Some(digest.to_owned());
            }
            answers.iter().all(Option::is_some).then_some(())
        })?;
        Ok(answers.into_iter().flatten().collect())
    }

    /// What one node holds.
    pub(super) fn dump(&mut self, index: usize) -> Result<Dump, String> {
        let mut dump = Dump::default();
        self.tell(index, "dump");
        self.wait_until(Ledger::PATIENCE, "all that a node holds", |_, who, line| {
            let line = line.filter(|_| who == index)?;
            dump.read(line);
            (line == "end").then_some(())
        })?;
        Ok(dump)
    }
}
