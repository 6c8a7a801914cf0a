//! Key `sbr`: what a downing strategy decides by the classic rule, and who goes. Spec: membership 3.

use std::time::Duration;

use quorate_core::downing::decision::DowningDecision;
use quorate_core::downing::down_all::DownAll;
use quorate_core::downing::keep_majority::KeepMajority;
use quorate_core::downing::keep_oldest::KeepOldest;
use quorate_core::downing::lease_majority::LeaseMajority;
use quorate_core::downing::static_quorum::StaticQuorum;
use quorate_core::downing::strategy::{Strategy, judge};
use quorate_core::downing::view::{DowningView, Observation};
use quorate_core::ident::{DEFAULT_DATA_CENTER, Role, Roles, UniqueAddress};
use quorate_core::membership::app_version::AppVersion;
use quorate_core::membership::member::{Member, Status, UpNumber};
use quorate_core::ordered::OrderedSet;

use super::convergence::member_status;
use super::json::{Differences, IllFormed, Node, compare};

/// The smaller side's delay in all cases.
const MINORITY_DELAY: Duration = Duration::from_secs(2);

pub(super) fn run(case: Node<'_>) -> Result<Differences, IllFormed> {
    let view = view(&case)?;
    let verdict = judge(&*strategy(&case)?, &view, None);
    let mut out = Differences::new();
    let decision = case.expected("decision")?.text()?;
    compare(&mut out, "decision", &decision, &name(verdict.decision));
    let delay = case
        .expected_or_null("acquire_delay")?
        .non_null()
        .map(Node::float)
        .transpose()?;
    let found = delay_of(verdict.decision).map(|delay| delay.as_secs_f64());
    compare(&mut out, "acquire_delay", &delay, &found);
    let down: OrderedSet<UniqueAddress> = verdict.down.into_iter().collect();
    compare(&mut out, "down", &case.expected("down")?.nodes()?, &down);
    let escalated = case.expected("escalated_to_down_all")?.flag()?;
    compare(&mut out, "escalated", &escalated, &verdict.escalated);
    if delay.is_some() {
        let denied: OrderedSet<UniqueAddress> = verdict.down_if_denied.into_iter().collect();
        compare(
            &mut out,
            "if_lease_denied",
            &case.expected("if_lease_denied")?.nodes()?,
            &denied,
        );
    }
    Ok(out)
}

fn strategy(case: &Node<'_>) -> Result<Box<dyn Strategy>, IllFormed> {
    let role = match case.get("role")?.non_null() {
        None => None,
        Some(name) => Some(Role::new(name.text()?).map_err(|error| name.refuse(error.to_string()))?),
    };
    let kind = case.get("strategy")?;
    Ok(match kind.text()? {
        "majority" => Box::new(KeepMajority::new(role)),
        "oldest" => Box::new(KeepOldest::new(case.get("down_if_alone")?.flag()?, role)),
        "lease" => Box::new(LeaseMajority::new(MINORITY_DELAY, role)),
        "down-all" => Box::new(DownAll),
        "quorum" => {
            let quorum = case.get("quorum")?;
            let size = usize::try_from(quorum.natural()?).map_err(|_| quorum.refuse("too large"))?;
            Box::new(StaticQuorum::new(size, role))
        }
        other => return Err(kind.refuse(format!("`{other}` is no strategy"))),
    })
}

/// Who is complained about is unreachable, and so is who is Down.
fn view(case: &Node<'_>) -> Result<DowningView, IllFormed> {
    let mut members: Vec<Member> = Vec::new();
    for code in case.get("members")?.items()? {
        let member = member(&code)?;
        if members.iter().any(|other| other.node == member.node) {
            return Err(code.refuse(format!("{} appears twice", member.node)));
        }
        members.push(member);
    }
    let mut rows = Vec::new();
    for pair in case.get("unreachable_pairs")?.items()? {
        let [observer, subject] = pair.tuple()?;
        rows.push(Observation {
            observer: observer.node()?,
            subject: subject.node()?,
        });
    }
    let seen = case.get("seen")?.nodes()?;
    let dead = members.iter().filter(|member| member.status == Status::Down);
    let mut unreachable: OrderedSet<UniqueAddress> = dead.map(|member| member.node.clone()).collect();
    unreachable.extend(rows.iter().map(|row| row.subject.clone()));
    Ok(DowningView::new(members, unreachable, rows, seen))
}

fn member(code: &Node<'_>) -> Result<Member, IllFormed> {
    let [host, status, up_number, roles] = code.tuple()?;
    let mut names = Vec::new();
    for role in roles.items()? {
        names.push(Role::new(role.text()?).map_err(|error| role.refuse(error.to_string()))?);
    }
    let roles = Roles::new(names, DEFAULT_DATA_CENTER).map_err(|error| code.refuse(error.to_string()))?;
    let mut member = Member::joining(host.node()?, roles, AppVersion::default());
    member.status = member_status(&status)?;
    if let Some(number) = up_number.non_null() {
        let number = u32::try_from(number.natural()?).map_err(|_| number.refuse("too large"))?;
        member.up_number = UpNumber::new(number);
    }
    Ok(member)
}

/// A decision as the file writes it.
fn name(decision: DowningDecision) -> &'static str {
    match decision {
        DowningDecision::DownUnreachable => "DownUnreachable",
        DowningDecision::DownReachable => "DownReachable",
        DowningDecision::DownAll => "DownAll",
        DowningDecision::DownIndirectlyConnected => "DownIndirectlyConnected",
        DowningDecision::AcquireLeaseAndDownUnreachable { .. } => "AcquireLeaseAndDownUnreachable",
        DowningDecision::AcquireLeaseAndDownIndirectlyConnected => "AcquireLeaseAndDownIndirectlyConnected",
        DowningDecision::DownNobody => "DownNobody",
    }
}

fn delay_of(decision: DowningDecision) -> Option<Duration> {
    match decision {
        DowningDecision::AcquireLeaseAndDownUnreachable { after } => Some(after),
        DowningDecision::AcquireLeaseAndDownIndirectlyConnected => Some(Duration::ZERO),
        DowningDecision::DownUnreachable
        | DowningDecision::DownReachable
        | DowningDecision::DownAll
        | DowningDecision::DownIndirectlyConnected
        | DowningDecision::DownNobody => None,
    }
}
