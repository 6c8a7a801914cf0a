//! I-22: a clean split of a settled cluster of Up members keeps the side that the strategy names, all of it:
//! no silent outage. The rule of each strategy is worked out here a second time, from the sizes of the sides.

use crate::splits::plan::{Event, Plan};

/// Whether the plan begins with a clean split alone and time enough for its end; if so, the position of the
/// event after it.
#[must_use]
pub fn first_split(plan: &Plan, settled_after: u64) -> Option<(&[Vec<usize>], usize)> {
    let (at, Event::Split(groups)) = plan.events.first()? else {
        return None;
    };
    let is_alone = plan
        .events
        .get(1)
        .is_none_or(|(next, _)| next - at >= settled_after);
    is_alone.then_some((&groups[..], 1))
}

/// Whether the side that must stay did, at rest after such a split; `false` if the strategy promises nothing
/// about it.
///
/// # Errors
/// Another set of nodes is left.
pub fn at_rest(groups: &[Vec<usize>], nodes: usize, strategy: &str, left: &[usize]) -> Result<bool, String> {
    match qualifying(groups, nodes, strategy) {
        Some(side) if side != left => Err(format!("{side:?} should be left, {left:?} are")),
        Some(_) => Ok(true),
        None => Ok(false),
    }
}

/// The side that qualifies, in order; `None` if none does, or the lease decides.
fn qualifying(groups: &[Vec<usize>], nodes: usize, strategy: &str) -> Option<Vec<usize>> {
    // Nodes start in the order of their addresses: the first has the lowest one and is the oldest.
    let first = groups.iter().find(|group| group.contains(&0))?;
    let largest = groups.iter().max_by_key(|group| group.len())?;
    let mut side = match strategy {
        "static-quorum" | "keep-majority" if 2 * largest.len() > nodes => largest.clone(),
        "keep-majority" if groups.len() == 2 && 2 * largest.len() == nodes => first.clone(),
        "keep-oldest" if first.len() == 1 && groups.len() == 2 && nodes > 2 => {
            groups.iter().find(|group| !group.contains(&0))?.clone()
        }
        "keep-oldest" if first.len() > 1 => first.clone(),
        _ => return None,
    };
    side.sort_unstable();
    Some(side)
}
