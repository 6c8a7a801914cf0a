//! I-40: at most one instance of an entity runs at any time, as long as the run stays within the safe shapes;
//! outside of them overlaps are counted.

use quorate_core::effect::HostOrder;
use quorate_core::effect::HostedInstance;

use crate::sim::{History, ProcessId};

pub(super) fn on_order(
    process: ProcessId,
    order: &HostOrder,
    safe: bool,
    history: &mut History,
) -> Result<u64, String> {
    let HostOrder::Start {
        slot,
        instance: HostedInstance::Entity {
            kind, entity, shard, ..
        },
    } = order
    else {
        return Ok(0);
    };
    let name = (*kind, entity.clone());
    let elsewhere = history
        .active
        .get(&name)
        .and_then(|instances| instances.iter().find(|(host, _)| Some(*host) != history.liar))
        .copied();
    let safe = safe && !history.placed_by_liar.contains(&(*kind, *shard));
    history.runs(process, *slot, name);
    match elsewhere {
        None => Ok(0),
        _ if Some(process) == history.liar => Ok(0),
        Some((other, _)) if safe || other == process => {
            Err(format!("starts {entity} while it runs at p{other}"))
        }
        Some(_) => Ok(1),
    }
}
