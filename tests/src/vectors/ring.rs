//! Key `ring`: whom a node sends heartbeats to. Spec: membership 2.13.

use quorate_core::detector::ring::HeartbeatRing;
use quorate_core::ident::{Address, UniqueAddress};
use quorate_core::ordered::{OrderedMap, OrderedSet};

use super::json::{Differences, IllFormed, Node, compare};

pub(super) fn run(case: Node<'_>) -> Result<Differences, IllFormed> {
    let mut nodes = OrderedMap::new();
    for node in case.get("nodes")?.items()? {
        let [host, port, uid] = node.tuple()?;
        let host = host.text()?;
        let port = u16::try_from(port.natural()?).map_err(|_| port.refuse("expected a port"))?;
        let address = Address::new(host, port).map_err(|error| node.refuse(error.to_string()))?;
        if nodes
            .insert(host, UniqueAddress::new(address, uid.uid()?))
            .is_some()
        {
            return Err(node.refuse(format!("`{host}` appears twice")));
        }
    }
    let sender = named(&nodes, &case.get("sender")?)?;
    let unreachable = all_named(&nodes, &case.get("unreachable")?)?;
    let monitored_by = case.get("monitored_by")?;
    let monitored_by =
        usize::try_from(monitored_by.natural()?).map_err(|_| monitored_by.refuse("too large"))?;
    let ring = HeartbeatRing::new(sender.clone(), nodes.values().cloned(), unreachable, monitored_by);
    let found = ring.receivers_of(&sender);
    let mut found: Vec<&str> = found.iter().map(|node| node.address().host()).collect();
    let mut expected = case
        .expected("receivers")?
        .items()?
        .iter()
        .map(Node::text)
        .collect::<Result<Vec<_>, _>>()?;
    found.sort_unstable();
    expected.sort_unstable();
    let mut out = Differences::new();
    compare(&mut out, "receivers", &expected, &found);
    Ok(out)
}

fn all_named(
    nodes: &OrderedMap<&str, UniqueAddress>,
    list: &Node<'_>,
) -> Result<OrderedSet<UniqueAddress>, IllFormed> {
    list.items()?.iter().map(|host| named(nodes, host)).collect()
}

fn named(nodes: &OrderedMap<&str, UniqueAddress>, host: &Node<'_>) -> Result<UniqueAddress, IllFormed> {
    let name = host.text()?;
    nodes
        .get(name)
        .cloned()
        .ok_or_else(|| host.refuse(format!("`{name}` is none of the nodes")))
}
