//! Keys `crdt_…`: histories of replicas that change, send deltas and whole states, and prune. Everything that
//! one replica hands to another travels as bytes. Spec: sharding 1.13, 10.21.

use std::collections::BTreeMap;
use std::sync::Arc;

use quorate_core::ddata::crdt::{
    Applied, CustomTypes, DataDelta, DataOp, DataType, DataValue, Element, FlagOp, GCounterOp, GSetOp,
    LwwClock, LwwMapOp, LwwRegisterOp, Minting, OrMapOp, OrMultiMapOp, OrSetOp, PnCounterMapOp, PnCounterOp,
    ValueType,
};
use quorate_core::ident::UniqueAddress;
use quorate_core::wire::{DataLimits, decode_data, decode_delta, encode_data, encode_delta};
use serde_json::{Value, json};

use super::json::{Differences, IllFormed, Node, compare};

/// The type that the cases of a key are about.
pub(super) fn type_of(key: &str) -> Option<DataType> {
    Some(match key {
        "crdt_gcounter" => DataType::GCounter,
        "crdt_pncounter" => DataType::PnCounter,
        "crdt_gset" => DataType::GSet,
        "crdt_flag" => DataType::Flag,
        "crdt_orset" => DataType::OrSet,
        "crdt_ormap" => DataType::OrMap(ValueType::GSet),
        "crdt_ormultimap" => DataType::OrMultiMap,
        "crdt_lwwregister" => DataType::LwwRegister,
        "crdt_lwwmap" => DataType::LwwMap,
        "crdt_pncountermap" => DataType::PnCounterMap,
        _ => return None,
    })
}

struct Replica {
    node: UniqueAddress,
    data: DataValue,
    minted: u64,
    /// What each operation yielded, in order; nothing where it changed nothing.
    deltas: Vec<Option<Vec<u8>>>,
}

/// Runs one case of a type.
pub(super) fn run(data_type: DataType, case: &Node<'_>) -> Result<Differences, IllFormed> {
    let clock = match (data_type, case.find("clock")) {
        (DataType::LwwRegister, Some(clock)) => match clock.text()? {
            "default" => LwwClock::Forward,
            "reverse" => LwwClock::Reverse,
            other => return Err(clock.refuse(format!("`{other}` is no clock"))),
        },
        _ => LwwClock::Forward,
    };
    let empty = DataValue::empty(data_type).ok_or_else(|| case.refuse("no such type"))?;
    let mut replicas = BTreeMap::new();
    for node in case.get("replicas")?.items()? {
        let replica = Replica {
            node: node.node()?,
            data: empty.clone(),
            minted: 0,
            deltas: Vec::new(),
        };
        replicas.insert(node.text()?, replica);
    }
    let mut out = Differences::new();
    for step in case.get("steps")?.items()? {
        if let Err(refused) = run_step(data_type, clock, &mut replicas, &step)? {
            out.push(format!("{}: {refused}", step.place()));
        }
    }
    check_values(case, &replicas, &mut out)?;
    Ok(out)
}

fn check_values(
    case: &Node<'_>,
    replicas: &BTreeMap<&str, Replica>,
    out: &mut Differences,
) -> Result<(), IllFormed> {
    let removed = match case.find("removed") {
        Some(removed) => Some((removed.text()?, removed.node()?)),
        None => None,
    };
    let found: BTreeMap<&str, Value> = replicas
        .iter()
        .filter(|(name, _)| removed.as_ref().is_none_or(|(removed, _)| *name != removed))
        .map(|(name, replica)| (*name, shown(&replica.data)))
        .collect();
    let expected = case.expected("values")?.entries()?.into_iter();
    let expected: BTreeMap<&str, Value> = expected
        .map(|(name, node)| (name, sorted(node.value())))
        .collect();
    compare(out, "values", &expected, &found);
    let first = found.values().next();
    let equal = found.values().all(|value| Some(value) == first);
    compare(out, "equal", &case.expected("equal")?.flag()?, &equal);
    if let Some((name, removed)) = removed {
        for (at, replica) in replicas.iter().filter(|(at, _)| **at != name) {
            if replica.data.mentions(&removed) || replica.data.nodes().contains(&removed) {
                out.push(format!("{at} mentions {name}, which was removed"));
            }
        }
    }
    Ok(())
}

/// The outer error is the file's, the inner one the core's.
fn run_step(
    data_type: DataType,
    clock: LwwClock,
    replicas: &mut BTreeMap<&str, Replica>,
    step: &Node<'_>,
) -> Result<Result<(), String>, IllFormed> {
    let parts = step.items()?;
    let part = |at: usize| {
        parts
            .get(at)
            .ok_or_else(|| step.refuse(format!("part {at} is missing")))
    };
    let kind = part(0)?.text()?;
    let replica = |at: usize| -> Result<&str, IllFormed> {
        let name = part(at)?.text()?;
        let known = replicas.contains_key(name);
        known
            .then_some(name)
            .ok_or_else(|| step.refuse(format!("`{name}` is no replica")))
    };
    match kind {
        "op" => {
            let (op, now_ms) = operation(data_type, clock, step, &parts)?;
            let name = replica(1)?;
            Ok(change(replicas, name, &op, now_ms))
        }
        "delta" => {
            let (from, to, number) = (replica(1)?, replica(2)?, part(3)?.natural()?);
            let at = usize::try_from(number)
                .ok()
                .and_then(|number| number.checked_sub(1));
            let delta = at.and_then(|at| replicas[from].deltas.get(at));
            let Some(delta) = delta.cloned() else {
                return Err(step.refuse(format!("`{from}` has no delta {number} yet")));
            };
            Ok(delta.map_or(Ok(()), |bytes| {
                let delta = read_delta(&bytes)?;
                with(replicas, to, |data| {
                    data.merge_delta(&delta)
                        .map(|_| ())
                        .map_err(|error| error.to_string())
                })
            }))
        }
        "full" => {
            let (from, to) = (replica(1)?, replica(2)?);
            Ok(merge(replicas, from, to, None))
        }
        "prune" => {
            let (owner, removed) = (replica(1)?, part(2)?.node()?);
            Ok(prune(replicas, owner, &removed))
        }
        "pruned_full" => {
            let (from, to, removed) = (replica(1)?, replica(2)?, part(3)?.node()?);
            Ok(merge(replicas, from, to, Some(&removed)))
        }
        other => Err(step.refuse(format!("`{other}` is no step"))),
    }
}

fn with<T>(
    replicas: &mut BTreeMap<&str, Replica>,
    name: &str,
    act: impl FnOnce(&mut DataValue) -> Result<T, String>,
) -> Result<T, String> {
    let replica = replicas
        .get_mut(name)
        .ok_or_else(|| format!("`{name}` is no replica"))?;
    act(&mut replica.data)
}

fn change(
    replicas: &mut BTreeMap<&str, Replica>,
    name: &str,
    op: &DataOp,
    now_ms: i64,
) -> Result<(), String> {
    let replica = replicas
        .get_mut(name)
        .ok_or_else(|| format!("`{name}` is no replica"))?;
    let mut minting = Minting::resume(replica.node.clone(), replica.minted);
    minting.set_now(now_ms);
    let applied = replica
        .data
        .apply(op, &mut minting)
        .map_err(|error| error.to_string())?;
    replica.minted = minting.minted();
    let delta = match applied {
        Applied::Unchanged => None,
        Applied::Delta(delta) => Some(written(&delta)?),
        Applied::Whole => return Err("a change without a delta".to_owned()),
    };
    replica.deltas.push(delta);
    Ok(())
}

fn prune(replicas: &mut BTreeMap<&str, Replica>, owner: &str, removed: &UniqueAddress) -> Result<(), String> {
    let replica = replicas
        .get_mut(owner)
        .ok_or_else(|| format!("`{owner}` is no replica"))?;
    replica.data.settle(removed).map_err(|error| error.to_string())
}

fn merge(
    replicas: &mut BTreeMap<&str, Replica>,
    from: &str,
    to: &str,
    removed: Option<&UniqueAddress>,
) -> Result<(), String> {
    let theirs = with(replicas, from, |data| copy(data))?;
    with(replicas, to, |data| {
        if let Some(removed) = removed {
            data.settle(removed).map_err(|error| error.to_string())?;
        }
        data.merge(&theirs).map(|_| ()).map_err(|error| error.to_string())
    })
}

/// The value as the other side reads it.
fn copy(data: &DataValue) -> Result<DataValue, String> {
    let mut bytes = Vec::new();
    encode_data(data, &mut bytes).map_err(|error| error.to_string())?;
    let copy = decode_data(&bytes, &DataLimits::default(), &CustomTypes::new())
        .map_err(|error| error.to_string())?;
    if copy != *data {
        return Err("what was read is not what was written".to_owned());
    }
    Ok(copy)
}

fn written(delta: &DataDelta) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    encode_delta(delta, &mut bytes).map_err(|error| error.to_string())?;
    Ok(bytes)
}

fn read_delta(bytes: &[u8]) -> Result<DataDelta, String> {
    decode_delta(bytes, &DataLimits::default(), &CustomTypes::new()).map_err(|error| error.to_string())
}

/// The operation of a step, and the time it names.
fn operation(
    data_type: DataType,
    clock: LwwClock,
    step: &Node<'_>,
    parts: &[Node<'_>],
) -> Result<(DataOp, i64), IllFormed> {
    let part = |at: usize| {
        parts
            .get(at)
            .ok_or_else(|| step.refuse(format!("part {at} is missing")))
    };
    let element = |at: usize| -> Result<Element, IllFormed> { Ok(Arc::from(part(at)?.text()?.as_bytes())) };
    let amount = |at: usize| -> Result<u64, IllFormed> {
        let text = part(at)?.text()?;
        text.parse()
            .map_err(|_| step.refuse(format!("`{text}` is no amount")))
    };
    let now = |at: usize| -> Result<i64, IllFormed> { part(at)?.integer() };
    let name = part(2)?.text()?;
    let op = match (data_type, name) {
        (DataType::GCounter, "increment") => DataOp::GCounter(GCounterOp::Increment(amount(3)?)),
        (DataType::PnCounter, "increment") => DataOp::PnCounter(PnCounterOp::Increment(amount(3)?)),
        (DataType::PnCounter, "decrement") => DataOp::PnCounter(PnCounterOp::Decrement(amount(3)?)),
        (DataType::GSet, "add") => DataOp::GSet(GSetOp::Add(element(3)?)),
        (DataType::Flag, "switch_on") => DataOp::Flag(FlagOp::SwitchOn),
        (DataType::OrSet, "add") => DataOp::OrSet(OrSetOp::Add(element(3)?)),
        (DataType::OrSet, "remove") => DataOp::OrSet(OrSetOp::Remove(element(3)?)),
        (DataType::OrSet, "clear") => DataOp::OrSet(OrSetOp::Clear),
        (DataType::OrMap(_), "add") => DataOp::OrMap(OrMapOp::Update {
            key: element(3)?,
            op: Box::new(DataOp::GSet(GSetOp::Add(element(4)?))),
        }),
        (DataType::OrMap(_), "remove") => DataOp::OrMap(OrMapOp::Remove(element(3)?)),
        (DataType::OrMultiMap, "add_binding") => DataOp::OrMultiMap(OrMultiMapOp::AddBinding {
            key: element(3)?,
            value: element(4)?,
        }),
        (DataType::OrMultiMap, "remove_binding") => DataOp::OrMultiMap(OrMultiMapOp::RemoveBinding {
            key: element(3)?,
            value: element(4)?,
        }),
        (DataType::OrMultiMap, "replace_binding") => DataOp::OrMultiMap(OrMultiMapOp::ReplaceBinding {
            key: element(3)?,
            old: element(4)?,
            new: element(5)?,
        }),
        (DataType::OrMultiMap, "put") => {
            let values = part(4)?.items()?;
            let values = values.iter().map(|value| Ok(Arc::from(value.text()?.as_bytes())));
            DataOp::OrMultiMap(OrMultiMapOp::Put {
                key: element(3)?,
                values: values.collect::<Result<_, IllFormed>>()?,
            })
        }
        (DataType::OrMultiMap, "remove") => DataOp::OrMultiMap(OrMultiMapOp::Remove(element(3)?)),
        (DataType::LwwRegister, "set") => {
            let value = element(3)?;
            return Ok((DataOp::LwwRegister(LwwRegisterOp::Set { value, clock }), now(4)?));
        }
        (DataType::LwwMap, "put") => {
            let (key, value) = (element(3)?, element(4)?);
            return Ok((DataOp::LwwMap(LwwMapOp::Put { key, value, clock }), now(5)?));
        }
        (DataType::LwwMap, "remove") => DataOp::LwwMap(LwwMapOp::Remove(element(3)?)),
        (DataType::PnCounterMap, "increment") => DataOp::PnCounterMap(PnCounterMapOp::Increment {
            key: element(3)?,
            by: amount(4)?,
        }),
        (DataType::PnCounterMap, "decrement") => DataOp::PnCounterMap(PnCounterMapOp::Decrement {
            key: element(3)?,
            by: amount(4)?,
        }),
        (DataType::PnCounterMap, "remove") => DataOp::PnCounterMap(PnCounterMapOp::Remove(element(3)?)),
        (_, other) => return Err(step.refuse(format!("`{other}` is no operation of this type"))),
    };
    Ok((op, 0))
}

fn text(element: &[u8]) -> String {
    String::from_utf8_lossy(element).into_owned()
}

fn list<'a>(elements: impl Iterator<Item = &'a Element>) -> Value {
    Value::from_iter(elements.map(|element| text(element)))
}

/// The value as the files write it.
fn shown(data: &DataValue) -> Value {
    match data {
        DataValue::GCounter(held) => Value::from(held.value().to_string()),
        DataValue::PnCounter(held) => Value::from(held.value().to_string()),
        DataValue::GSet(held) => list(held.iter()),
        DataValue::OrSet(held) => list(held.iter()),
        DataValue::OrMap(held) => held
            .iter()
            .map(|(key, value)| (text(key), shown(value)))
            .collect(),
        DataValue::OrMultiMap(held) => {
            let keys = held.iter().map(|binding| &binding.key);
            keys.map(|key| (text(key), list(held.get(key)))).collect()
        }
        DataValue::PnCounterMap(held) => held
            .iter()
            .map(|(key, value)| (text(key), Value::from(value.to_string())))
            .collect(),
        DataValue::LwwRegister(held) => held.get().map_or(Value::Null, |held| {
            json!([text(&held.value), held.stamp, held.node.address().host()])
        }),
        DataValue::LwwMap(held) => held
            .iter()
            .map(|(key, value)| (text(key), Value::from(text(value))))
            .collect(),
        DataValue::Flag(held) => Value::from(held.is_on()),
        DataValue::Custom(held) => Value::from(text(held.state())),
    }
}

/// Sets compare without regard to order; a register's three parts have theirs, and its stamp is no text.
fn sorted(value: &Value) -> Value {
    match value {
        Value::Array(items) if items.iter().all(Value::is_string) => {
            let mut items = items.clone();
            items.sort_by(|left, right| left.as_str().cmp(&right.as_str()));
            Value::from(items)
        }
        Value::Object(members) => members
            .iter()
            .map(|(key, value)| (key.clone(), sorted(value)))
            .collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => value.clone(),
    }
}
