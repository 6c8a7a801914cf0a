//! Keys `handover` and `singleton_retries`: the steps of a singleton's hand-over. Spec: sharding 1.10.

use quorate_core::ident::UniqueAddress;
use quorate_core::singleton::handover::{
    HandOverEvent, HandOverFacts, HandOverRetries, HandOverStage, HandOverStep, step,
};

use super::json::{Differences, IllFormed, Node, compare};

pub(super) fn run_retries(case: Node<'_>) -> Result<Differences, IllFormed> {
    let min = number(&case.get("min_retries")?)?;
    let interval_ms = case.get("interval_ms")?.natural()?;
    let margin_ms = case.get("removal_margin_ms")?.natural()?;
    let retries = HandOverRetries::new(min, interval_ms, margin_ms);
    let mut out = Differences::new();
    for (name, found) in [
        ("hand_over_max", retries.hand_over_max),
        ("take_over_max", retries.take_over_max),
    ] {
        compare(&mut out, name, &number(&case.get(name)?)?, &found);
    }
    Ok(out)
}

pub(super) fn run(case: Node<'_>) -> Result<Differences, IllFormed> {
    let facts = case.get("facts")?;
    let flag = |name: &str| facts.get(name)?.flag();
    let me = case.node_named("self")?;
    let removed = facts.get("removed")?.nodes()?;
    let facts = HandOverFacts {
        me: &me,
        lease: flag("lease")?,
        leaving: flag("leaving")?,
        preparing: flag("preparing")?,
        exited: flag("exited")?,
        self_removed: flag("self_removed")?,
        retries_max: number(&facts.get("max")?)?,
        removed: &removed,
    };
    let (next, steps) = step(stage(&case.get("state")?)?, event(&case.get("event")?)?, &facts);
    let mut out = Differences::new();
    compare(&mut out, "next", &stage(&case.get("next")?)?, &as_written(next));
    if let Some(effects) = case.get("effects")?.non_null() {
        let mut expected = effects
            .items()?
            .iter()
            .map(effect)
            .collect::<Result<Vec<_>, _>>()?;
        let mut found: Vec<String> = steps.iter().map(shown).collect();
        expected.sort();
        found.sort();
        compare(&mut out, "effects", &expected, &found);
    }
    Ok(out)
}

/// The file does not say whether an instance whose lease was lost has ended.
fn as_written(stage: HandOverStage) -> HandOverStage {
    if matches!(stage, HandOverStage::AcquiringLease { .. }) {
        return HandOverStage::AcquiringLease { instance: false };
    }
    stage
}

fn number(node: &Node<'_>) -> Result<u32, IllFormed> {
    u32::try_from(node.natural()?).map_err(|_| node.refuse("expected a number of retries"))
}

fn list(node: &Node<'_>) -> Result<Vec<UniqueAddress>, IllFormed> {
    node.items()?.iter().map(Node::node).collect()
}

fn optional(node: &Node<'_>) -> Result<Option<UniqueAddress>, IllFormed> {
    node.non_null().map(Node::node).transpose()
}

fn stage(node: &Node<'_>) -> Result<HandOverStage, IllFormed> {
    let previous = || list(&node.get("previous")?);
    let instance = || node.get("instance")?.flag();
    Ok(match node.get("name")?.text()? {
        "Start" => HandOverStage::Start,
        "Younger" => HandOverStage::Younger {
            previous: previous()?,
        },
        "BecomingOldest" => HandOverStage::BecomingOldest {
            previous: previous()?,
        },
        "AcquiringLease" => HandOverStage::AcquiringLease { instance: false },
        "Oldest" => HandOverStage::Oldest {
            instance: instance()?,
        },
        "WasOldest" => HandOverStage::WasOldest {
            new: optional(&node.get("new")?)?,
            instance: instance()?,
        },
        "HandingOver" => HandOverStage::HandingOver {
            to: optional(&node.get("to")?)?,
        },
        "Stopping" => HandOverStage::Stopping,
        "End" => HandOverStage::End,
        "Stopped" => HandOverStage::Stopped,
        "Stuck" => HandOverStage::Stuck,
        other => return Err(node.refuse(format!("`{other}` is no state"))),
    })
}

fn event(node: &Node<'_>) -> Result<HandOverEvent, IllFormed> {
    let from = || node.get("from")?.node();
    let retry = || number(&node.get("retry")?);
    Ok(match node.get("name")?.text()? {
        "Initial" => HandOverEvent::Initial {
            oldest_first: list(&node.get("list")?)?,
            safe: node.get("safe")?.flag()?,
        },
        "OldestChanged" => HandOverEvent::OldestChanged(optional(&node.get("oldest")?)?),
        "RemovedAfterMargin" => HandOverEvent::RemovedAfterMargin(node.get("node")?.node()?),
        "HandOverToMe" => HandOverEvent::HandOverToMe(from()?),
        "HandOverInProgress" => HandOverEvent::HandOverInProgress(from()?),
        "HandOverDone" => HandOverEvent::HandOverDone(from()?),
        "TakeOverFromMe" => HandOverEvent::TakeOverFromMe(from()?),
        "HandOverRetry" => HandOverEvent::HandOverRetry(retry()?),
        "TakeOverRetry" => HandOverEvent::TakeOverRetry(retry()?),
        "InstanceTerminated" => HandOverEvent::InstanceTerminated,
        "LeaseLost" => HandOverEvent::LeaseLost,
        "SelfRemoved" => HandOverEvent::SelfRemoved,
        other => return Err(node.refuse(format!("`{other}` is no event"))),
    })
}

/// An effect as the file writes it, in one line.
fn effect(node: &Node<'_>) -> Result<String, IllFormed> {
    if let Ok(name) = node.text() {
        return Ok(name.to_owned());
    }
    let [name, of] = node.tuple()?;
    Ok(match name.text()? {
        "retry" => format!("retry {}", of.natural()?),
        message => format!("{message} {}", of.node()?.address().host()),
    })
}

fn shown(step: &HandOverStep) -> String {
    let to = |message: &str, node: &UniqueAddress| format!("{message} {}", node.address().host());
    match step {
        HandOverStep::StartInstance => "start_instance".to_owned(),
        HandOverStep::StopInstance => "stop_instance".to_owned(),
        HandOverStep::AcquireLease => "acquire_lease".to_owned(),
        HandOverStep::ReleaseLease => "release_lease".to_owned(),
        HandOverStep::CancelRetry => "cancel_retry".to_owned(),
        HandOverStep::Retry(number) => format!("retry {number}"),
        HandOverStep::HandOverToMe(node) => to("hand_over_to_me", node),
        HandOverStep::HandOverInProgress(node) => to("hand_over_in_progress", node),
        HandOverStep::HandOverDone(node) => to("hand_over_done", node),
        HandOverStep::TakeOverFromMe(node) => to("take_over_from_me", node),
    }
}
