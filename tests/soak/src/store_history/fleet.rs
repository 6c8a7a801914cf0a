//! What happens to the five nodes while they are called, and how this process hears of it.

use std::time::{Duration, Instant};

use super::Verdict;
use super::plan::Plan;
use crate::fleet::{self, Column, Place, Proof};
use crate::processes::Listens as _;
use crate::program::NODES;

/// Words of what a node shows: ranges that it owns, moves that it has ended, begun, undone.
const OWNED: usize = 0;
const ENDED: usize = 1;
const BEGUN: usize = 2;
const UNDONE: usize = 3;
/// How often new calls begin.
const CALL_EVERY: Duration = Duration::from_millis(2);
/// Ranges are at rest when nothing was begun or ended for so long.
const AT_REST: Duration = Duration::from_secs(3);
/// How long calls that are open may take at the end.
const CALLS_END: Duration = Duration::from_secs(10);

/// What is proved of the nodes.
pub(super) struct Histories {
    plan: Plan,
    cuts: u64,
    pauses: u64,
}

impl Histories {
    pub(super) fn new() -> Self {
        Self {
            plan: Plan::new(),
            cuts: 0,
            pauses: 0,
        }
    }
}

/// All nodes of a run.
pub(super) type Fleet = fleet::Fleet<Histories>;

impl Proof for Histories {
    const PATIENCE: Duration = Duration::from_secs(60);
    const COLUMNS: &'static [Column] = &[("ranges", OWNED), ("moves ended", ENDED), ("moves begun", BEGUN)];

    fn hear(fleet: &mut Fleet, _: usize, what: &str, rest: &str) {
        fleet.proof.plan.hear(what, rest);
    }

    fn acknowledged(&self) -> u64 {
        let counts = self.plan.books().counts;
        counts.written + counts.decided
    }

    fn line(&self, _: &[Place]) -> String {
        let counts = self.plan.books().counts;
        format!(
            "{} puts and {} gets are answered",
            self.acknowledged(),
            counts.found
        )
    }
}

impl Fleet {
    /// Calls and listens for a while.
    pub(super) fn call_for(&mut self, time: Duration) -> Result<(), String> {
        let end = Instant::now() + time;
        while Instant::now() < end {
            self.begin_calls();
            self.run_for(CALL_EVERY)?;
        }
        Ok(())
    }

    /// Calls until something more is acknowledged: who only listens may have no call open.
    pub(super) fn call_until_acknowledged(&mut self) -> Result<(), String> {
        let (told, limit) = (self.proof.acknowledged(), Instant::now() + Histories::PATIENCE);
        while self.proof.acknowledged() <= told {
            if Instant::now() > limit {
                return Err("nothing more is acknowledged".to_owned());
            }
            self.call_for(CALL_EVERY)?;
        }
        Ok(())
    }

    fn begin_calls(&mut self) {
        let nodes: Vec<usize> = (0..NODES).filter(|index| self.runs(*index)).collect();
        for (node, order) in self.proof.plan.next_calls(&nodes) {
            self.tell(node, &order);
        }
    }

    /// Goes on calling until no range has moved for a while.
    pub(super) fn until_ranges_rest(&mut self) -> Result<(), String> {
        let limit = Instant::now() + Histories::PATIENCE * 2;
        let (mut seen, mut since) = ([0; 3], Instant::now());
        loop {
            self.call_for(Duration::from_millis(250))?;
            let now = [ENDED, BEGUN, UNDONE].map(|what| self.shown(what));
            if now != seen {
                (seen, since) = (now, Instant::now());
            }
            if since.elapsed() >= AT_REST {
                return Ok(());
            }
            if Instant::now() > limit {
                return Err("ranges do not come to rest".to_owned());
            }
        }
    }

    pub(super) fn is_killed(&mut self, index: usize) -> Result<(), String> {
        self.kill(index)?;
        self.proof.plan.lose(index);
        Ok(())
    }

    /// A node reaches nobody for a while.
    pub(super) fn is_cut_off(&mut self, index: usize, time: Duration) -> Result<(), String> {
        self.proof.cuts += 1;
        self.note(index, "cut off");
        self.tell(index, "cut");
        self.call_for(time)?;
        self.tell(index, "heal");
        self.note(index, "");
        self.call_for(time)
    }

    /// A process stands still for a while.
    pub(super) fn stands_still(&mut self, index: usize, time: Duration) -> Result<(), String> {
        self.proof.pauses += 1;
        self.note(index, "stands still");
        self.stand_still(index, true)?;
        let went = self.call_for(time);
        self.stand_still(index, false)?;
        self.note(index, "");
        went?;
        self.call_for(time)
    }

    /// No call begins any more; those that are open end.
    pub(super) fn finish_calls(&mut self) -> Result<(), String> {
        self.proof.plan.halt();
        let end = Instant::now() + CALLS_END;
        while !self.proof.plan.is_idle() {
            if Instant::now() > end {
                return Err("calls are not answered".to_owned());
            }
            self.run_for(CALL_EVERY)?;
        }
        Ok(())
    }

    /// Judges everything; `why`: the run did not go on.
    pub(super) fn judge(&mut self, why: Option<String>) -> Verdict {
        self.proof.plan.judge_all();
        let plan = &self.proof.plan;
        let counts = plan.books().counts;
        Verdict {
            keys: plan.books().keys.len(),
            puts: counts.written + counts.decided + counts.conflicts,
            gets: counts.found,
            unknown: counts.unknown,
            kills: self.kills,
            cuts: self.proof.cuts,
            pauses: self.proof.pauses,
            moves: self.shown(ENDED),
            not_linearizable: plan.not_linearizable,
            not_dominated: plan.not_dominated,
            why: plan.why.clone().or(why),
        }
    }
}
