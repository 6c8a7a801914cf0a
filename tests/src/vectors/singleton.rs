//! Keys `handover` and `singleton_retries`: the steps of a singleton's hand-over. Spec: sharding 1.10.

use quorate_core::ident::UniqueAddress;
use quorate_core::singleton::handover::{Event, Facts, Retries, Stage, Step, step};

use super::json::{Differences, IllFormed, Node, compare};

pub(super) fn run_retries(case: Node<'_>) -> Result<Differences, IllFormed> {
    let min = number(&case.get("min_retries")?)?;
    let interval_ms = case.get("interval_ms")?.natural()?;
    let margin_ms = case.get("removal_margin_ms")?.natural()?;
    let retries = Retries::new(min, interval_ms, margin_ms);
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
    let facts = Facts {
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
fn as_written(stage: Stage) -> Stage {
    if matches!(stage, Stage::AcquiringLease { .. }) {
        return Stage::AcquiringLease { instance: false };
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

fn stage(node: &Node<'_>) -> Result<Stage, IllFormed> {
    let previous = || list(&node.get("previous")?);
    let instance = || node.get("instance")?.flag();
    Ok(match node.get("name")?.text()? {
        "Start" => Stage::Start,
        "Younger" => Stage::Younger {
            previous: previous()?,
        },
        "BecomingOldest" => Stage::BecomingOldest {
            previous: previous()?,
        },
        "AcquiringLease" => Stage::AcquiringLease { instance: false },
        "Oldest" => Stage::Oldest {
            instance: instance()?,
        },
        "WasOldest" => Stage::WasOldest {
            new: optional(&node.get("new")?)?,
            instance: instance()?,
        },
        "HandingOver" => Stage::HandingOver {
            to: optional(&node.get("to")?)?,
        },
        "Stopping" => Stage::Stopping,
        "End" => Stage::End,
        "Stopped" => Stage::Stopped,
        "Stuck" => Stage::Stuck,
        other => return Err(node.refuse(format!("`{other}` is no state"))),
    })
}

fn event(node: &Node<'_>) -> Result<Event, IllFormed> {
    let from = || node.get("from")?.node();
    let retry = || number(&node.get("retry")?);
    Ok(match node.get("name")?.text()? {
        "Initial" => Event::Initial {
            oldest_first: list(&node.get("list")?)?,
            safe: node.get("safe")?.flag()?,
        },
        "OldestChanged" => Event::OldestChanged(optional(&node.get("oldest")?)?),
        "RemovedAfterMargin" => Event::RemovedAfterMargin(node.get("node")?.node()?),
        "HandOverToMe" => Event::HandOverToMe(from()?),
        "HandOverInProgress" => Event::HandOverInProgress(from()?),
        "HandOverDone" => Event::HandOverDone(from()?),
        "TakeOverFromMe" => Event::TakeOverFromMe(from()?),
        "HandOverRetry" => Event::HandOverRetry(retry()?),
        "TakeOverRetry" => Event::TakeOverRetry(retry()?),
        "InstanceTerminated" => Event::InstanceTerminated,
        "LeaseLost" => Event::LeaseLost,
        "SelfRemoved" => Event::SelfRemoved,
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

fn shown(step: &Step) -> String {
    let to = |message: &str, node: &UniqueAddress| format!("{message} {}", node.address().host());
    match step {
        Step::StartInstance => "start_instance".to_owned(),
        Step::StopInstance => "stop_instance".to_owned(),
        Step::AcquireLease => "acquire_lease".to_owned(),
        Step::ReleaseLease => "release_lease".to_owned(),
        Step::CancelRetry => "cancel_retry".to_owned(),
        Step::Retry(number) => format!("retry {number}"),
        Step::HandOverToMe(node) => to("hand_over_to_me", node),
        Step::HandOverInProgress(node) => to("hand_over_in_progress", node),
        Step::HandOverDone(node) => to("hand_over_done", node),
        Step::TakeOverFromMe(node) => to("take_over_from_me", node),
    }
}
