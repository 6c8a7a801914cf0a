//! I-31: an instance starts only where every node that had one before has said, after its last instance
//! ended, that nothing runs there any more, or was removed, and then the removal margin after that became
//! known unless it had said that it is gone. In every run; nodes that were never members in the starter's
//! picture are of another cluster, and do not count. Nor do, outside of the safe shapes, those that began
//! after the starter's own first instance: they had removed the starter, who did not know.

use std::collections::BTreeSet;

use super::InstanceStart;
use super::removals::Removals;
use crate::sim::{History, ProcessId};

pub(super) fn on_start(
    start: &InstanceStart<'_>,
    removals: &Removals,
    history: &History,
) -> Result<(), String> {
    let earlier = history
        .instances
        .iter()
        .filter(|it| it.singleton == start.singleton);
    let earlier: Vec<_> = earlier.collect();
    let own = earlier.iter().position(|it| it.process == start.process);
    let last = own.filter(|_| !start.safe).unwrap_or(earlier.len());
    let others: BTreeSet<ProcessId> = earlier.iter().take(last).map(|it| it.process).collect();
    for other in others.into_iter().filter(|other| *other != start.process) {
        let node = &history.processes[other as usize].node;
        if has_handed_over(start, other, history) {
            continue;
        }
        if start.view.is_removed(node) {
            let known_for = removals.known_for(start.process, node, start.mono);
            if let Some(waited) = known_for.filter(|waited| *waited < start.margin) {
                return Err(format!("starts {waited} us after {node} was removed"));
            }
        } else if start.view.member(node).is_some() {
            return Err(format!("starts, and {node} is a member that has not handed over"));
        }
    }
    Ok(())
}

/// Whether a process has said, after the end of its last instance, that nothing runs there.
fn has_handed_over(start: &InstanceStart<'_>, process: ProcessId, history: &History) -> bool {
    let mine = |it: &&crate::sim::InstanceRecord| it.singleton == start.singleton && it.process == process;
    let last = history.instances.iter().rfind(mine).and_then(|it| it.ended_at);
    let said = history.handed_over.get(&(start.singleton, process));
    matches!((last, said), (Some(ended), Some(said)) if ended <= *said)
}
