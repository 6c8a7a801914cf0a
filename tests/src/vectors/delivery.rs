//! Keys `flow_control` and `at_least_once`: what a consumer says to its producer, and what a sender sends
//! again. Spec: sharding 1.14, 1.15.

use std::time::Duration;

use quorate_core::delivery::{
    AtLeastOnce, AtLeastOnceSettings, ConsumerController, ConsumerOutput, ConsumerSettings, MessagePart,
    SequencedMessage,
};
use quorate_core::time::Instant;
use serde_json::{Value, json};

use super::json::{Differences, IllFormed, Node, compare};

pub(super) fn flow_control(case: Node<'_>) -> Result<Differences, IllFormed> {
    let window = case.get("window")?;
    let settings = ConsumerSettings {
        window: window.natural()?,
        ..ConsumerSettings::default()
    };
    let mut consumer = ConsumerController::new(settings).map_err(|error| window.refuse(error.to_string()))?;
    let events = case.get("events")?.items()?;
    let expected = case.expected("outputs")?.items()?;
    let mut out = Differences::new();
    compare(
        &mut out,
        "events with an expectation",
        &expected.len(),
        &events.len(),
    );
    for (at, event) in events.iter().enumerate() {
        let found = take(&mut consumer, event, &mut out)?;
        if let Some(expected) = expected.get(at).and_then(Node::non_null) {
            let expected = expected
                .items()?
                .iter()
                .map(|output| output.value().clone())
                .collect();
            compare(&mut out, &format!("event {at}"), &expected, &found);
        }
    }
    Ok(out)
}

fn take(
    consumer: &mut ConsumerController<()>,
    event: &Node<'_>,
    differences: &mut Differences,
) -> Result<Vec<Value>, IllFormed> {
    let mut outputs = Vec::new();
    let parts = event.items()?;
    let name = parts
        .first()
        .ok_or_else(|| event.refuse("expected an event"))?
        .text()?;
    match name {
        "message" => {
            let [_, seq, first] = event.tuple()?;
            let message = SequencedMessage {
                producer: (),
                seq: seq.natural()?,
                first: first.flag()?,
                part: MessagePart::WHOLE,
                payload: Box::new([]),
            };
            consumer.on_message(Instant::ZERO, message, &mut outputs);
        }
        "confirm" => {
            let [_, seq] = event.tuple()?;
            let seq = seq.natural()?;
            if !consumer.on_confirmed(Instant::ZERO, seq, &mut outputs) {
                differences.push(format!(
                    "{}: nobody waits for the confirmation of {seq}",
                    event.place()
                ));
            }
        }
        other => return Err(event.refuse(format!("`{other}` is no event"))),
    }
    Ok(outputs.into_iter().map(shown).collect())
}

fn shown(output: ConsumerOutput<()>) -> Value {
    match output {
        ConsumerOutput::Deliver { seq, .. } => json!(["deliver", seq]),
        ConsumerOutput::Dropped { seq, .. } => json!(["dropped", seq]),
        ConsumerOutput::Request { confirmed, up_to, .. } => json!(["request", confirmed, up_to]),
        ConsumerOutput::Resend { from, .. } => json!(["resend", from]),
        ConsumerOutput::Ack { confirmed, .. } => json!(["ack", confirmed]),
    }
}

pub(super) fn at_least_once(case: Node<'_>) -> Result<Differences, IllFormed> {
    let interval = Duration::from_millis(case.get("redeliver_interval_ms")?.natural()?);
    let settings = AtLeastOnceSettings {
        redeliver_interval: interval,
        interval_factor: 1.0,
        interval_max: interval,
        burst_max: count(&case.get("burst_limit")?)?,
        unconfirmed_max: count(&case.get("max_unconfirmed")?)?,
        ..AtLeastOnceSettings::default()
    };
    let mut sender = AtLeastOnce::new(settings).map_err(|error| case.refuse(error.to_string()))?;
    let steps = case.get("steps")?.items()?;
    let expected = case.expected("results")?.items()?;
    let mut out = Differences::new();
    compare(
        &mut out,
        "steps with an expectation",
        &expected.len(),
        &steps.len(),
    );
    for (at, step) in steps.iter().enumerate() {
        let found = do_step(&mut sender, step)?;
        if let Some(expected) = expected.get(at) {
            compare(&mut out, &format!("step {at}"), expected.value(), &found);
        }
    }
    let left: Vec<Value> = sender.unconfirmed().map(|(id, ())| json!(id)).collect();
    compare(
        &mut out,
        "unconfirmed",
        case.expected("unconfirmed")?.value(),
        &Value::from(left),
    );
    Ok(out)
}

fn do_step(sender: &mut AtLeastOnce<()>, step: &Node<'_>) -> Result<Value, IllFormed> {
    let parts = step.items()?;
    let (Some(name), Some(now)) = (parts.first(), parts.get(1)) else {
        return Err(step.refuse("expected a step and its time"));
    };
    let now = Instant::from_millis(now.natural()?);
    Ok(match (name.text()?, parts.get(2), parts.len()) {
        ("deliver", None, _) => json!(sender.deliver(now, ()).ok()),
        ("confirm", Some(id), 3) => json!(sender.confirm(id.natural()?)),
        ("tick", None, _) => json!(sender.redeliver(now).send),
        (other, _, _) => return Err(step.refuse(format!("`{other}` is no step"))),
    })
}

fn count(node: &Node<'_>) -> Result<usize, IllFormed> {
    usize::try_from(node.natural()?).map_err(|_| node.refuse("too large"))
}
