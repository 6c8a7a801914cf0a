//! Key `convergence_leader`: whether a state is converged for a node, and whom it takes for the leader.
//! Spec: membership 2.4, 2.7.

use quorate_core::ident::{Roles, UniqueAddress};
use quorate_core::membership::app_version::AppVersion;
use quorate_core::membership::convergence::{blockers, converged};
use quorate_core::membership::gossip::Gossip;
use quorate_core::membership::leader::leader;
use quorate_core::membership::member::{Member, Status, UpNumber};

use super::json::{Differences, IllFormed, Node, compare};

pub(super) fn run(case: Node<'_>) -> Result<Differences, IllFormed> {
    let mut gossip = Gossip::new();
    for code in case.get("members")?.items()? {
        let member = member(&code)?;
        if gossip.contains(&member.node) {
            return Err(code.refuse(format!("{} appears twice", member.node)));
        }
        gossip.upsert_member(member);
    }
    let known = |name: &Node<'_>| -> Result<UniqueAddress, IllFormed> {
        let node = name.node()?;
        if gossip.contains(&node) {
            Ok(node)
        } else {
            Err(name.refuse(format!("{node} is no member")))
        }
    };
    let me = known(&case.get("self")?)?;
    let seen = case
        .get("seen")?
        .items()?
        .iter()
        .map(known)
        .collect::<Result<Vec<_>, _>>()?;
    let pair = |pair: &Node<'_>| {
        let [observer, subject] = pair.tuple()?;
        Ok((known(&observer)?, known(&subject)?))
    };
    let pairs = case
        .get("unreachable_pairs")?
        .items()?
        .iter()
        .map(pair)
        .collect::<Result<Vec<_>, _>>()?;
    for (observer, subject) in &pairs {
        gossip.reachability_mut().unreachable(observer, subject);
    }
    for node in &seen {
        gossip.add_seen(node);
    }
    let exiting_confirmed = case.get("exiting_confirmed")?.nodes()?;
    let mut out = Differences::new();
    compare(&mut out, "invariants", &Ok(()), &gossip.check_invariants());
    let expected = case.expected("convergence")?.flag()?;
    let found = converged(&gossip, &me, &exiting_confirmed);
    compare(&mut out, "convergence", &expected, &found);
    let found = blockers(&gossip, &me, &exiting_confirmed).is_empty();
    compare(&mut out, "no blockers", &expected, &found);
    let expected = case
        .expected_or_null("leader")?
        .non_null()
        .map(Node::node)
        .transpose()?;
    compare(&mut out, "leader", &expected, &leader(&gossip, &me));
    Ok(out)
}

fn member(code: &Node<'_>) -> Result<Member, IllFormed> {
    let [host, status, up_number, data_center] = code.tuple()?;
    let roles = Roles::new([], data_center.text()?).map_err(|error| data_center.refuse(error.to_string()))?;
    let number = match up_number.non_null() {
        None => UpNumber::NONE,
        Some(number) => {
            let number = u32::try_from(number.natural()?).map_err(|_| number.refuse("too large"))?;
            UpNumber::new(number)
        }
    };
    Ok(Member {
        node: host.node()?,
        status: member_status(&status)?,
        up_number: number,
        roles,
        app_version: AppVersion::default(),
    })
}

pub(super) fn member_status(node: &Node<'_>) -> Result<Status, IllFormed> {
    let name = node.text()?;
    let stored = Status::ALL
        .into_iter()
        .filter(|status| *status != Status::Removed);
    let found = stored.into_iter().find(|status| status.to_string() == name);
    found.ok_or_else(|| node.refuse(format!("`{name}` is no status of a member")))
}
