//! Key `nrw`: what gets find after puts and deletes with some replicas down, and which replicas are repaired.
//! Spec: sharding 5.6, 10.19.

use std::collections::VecDeque;

use quorate_core::ddata::state::key::Key;
use quorate_core::journal::state::StoreId;
use quorate_core::kv::replica::{RangeReplica, ReplicaSettings};
use quorate_core::kv::requests::{Call, CallAnswer, CallError, CallGoal, CallOutput, CallPlace};
use quorate_core::kv::state::call::{Ballot, CallId};
use quorate_core::kv::state::clock::VersionClock;
use quorate_core::kv::state::configuration::{Configuration, Owners};
use quorate_core::kv::state::entry::KvEntry;
use quorate_core::kv::state::exchange::{KvAnswer, KvAsk, KvChange};
use quorate_core::kv::state::level::Level;
use quorate_core::kv::state::table::RangeLevels;
use quorate_core::ordered::OrderedSet;

use super::json::{Differences, IllFormed, Node, compare};

/// One replica, with what it holds of the one key.
struct Replica {
    replica: RangeReplica,
    entry: KvEntry,
    is_up: bool,
}

struct World {
    key: Key,
    replicas: Vec<Replica>,
    levels: RangeLevels,
    configuration: Configuration,
    calls: u64,
    /// The clock that each step's get has found.
    found: Vec<VersionClock>,
}

pub(super) fn run(case: Node<'_>) -> Result<Differences, IllFormed> {
    let mut world = World::new(&case)?;
    let steps = case.get("steps")?.items()?;
    let expected = case.expected("results")?.items()?;
    let mut out = Differences::new();
    compare(&mut out, "results", &expected.len(), &steps.len());
    for (at, (step, expected)) in steps.iter().zip(&expected).enumerate() {
        let (found, clock) = world.step(step)?;
        world.found.push(clock);
        compare(&mut out, &format!("step {at}"), expected.value(), &found);
    }
    let held: Vec<_> = world
        .replicas
        .iter()
        .map(|replica| values(&replica.entry))
        .collect();
    let held = serde_json::json!(held);
    compare(&mut out, "replicas", case.expected("replicas")?.value(), &held);
    Ok(out)
}

fn values(entry: &KvEntry) -> Vec<String> {
    let values = entry.siblings.values();
    let mut values: Vec<_> = values
        .map(|bytes| String::from_utf8_lossy(bytes).into_owned())
        .collect();
    values.sort_unstable();
    values
}

impl World {
    fn new(case: &Node<'_>) -> Result<Self, IllFormed> {
        let n = case.get("n")?;
        let copies = u8::try_from(n.natural()?).map_err(|_| n.refuse("too many"))?;
        // The calls' own levels are what counts: no get or put is below the least.
        let levels = RangeLevels::new(copies, 1, 1).map_err(|error| n.refuse(error.to_string()))?;
        let stores: Vec<_> = (0..u128::from(copies)).map(StoreId).collect();
        let settings = ReplicaSettings {
            copies: usize::from(copies),
            grace_ms: u64::MAX,
        };
        let configuration = Configuration {
            epoch: 1,
            owners: Owners::Stable(stores.clone()),
        };
        let mut replicas = Vec::new();
        for store in stores {
            let mut replica =
                RangeReplica::open(settings, store, 1, None).map_err(|error| n.refuse(error.to_string()))?;
            replica
                .adopt(&configuration)
                .map_err(|error| n.refuse(error.to_string()))?;
            replicas.push(Replica {
                replica,
                entry: KvEntry::default(),
                is_up: true,
            });
        }
        Ok(Self {
            key: Key::new("key").map_err(|error| n.refuse(error.to_string()))?,
            replicas,
            levels,
            configuration,
            calls: 0,
            found: Vec::new(),
        })
    }

    /// What the step came to, and the clock that it has found.
    fn step(&mut self, step: &Node<'_>) -> Result<(serde_json::Value, VersionClock), IllFormed> {
        let parts = step.items()?;
        let name = parts
            .first()
            .ok_or_else(|| step.refuse("expected a step"))?
            .text()?;
        match (name, &parts[1..]) {
            ("down" | "up", [at]) => {
                let at = self.replica(at)?;
                self.replicas[at].is_up = name == "up";
                Ok((serde_json::Value::Null, VersionClock::new()))
            }
            ("put", [at, value, context, level]) => {
                let change = KvChange::Put {
                    bytes: value.text()?.as_bytes().into(),
                    ttl_ms: None,
                };
                self.write(at, change, context, level)
            }
            ("delete", [at, context, level]) => self.write(at, KvChange::Delete, context, level),
            ("get", [level, first]) => self.get(level, first),
            _ => Err(step.refuse("no such step")),
        }
    }

    fn replica(&self, at: &Node<'_>) -> Result<usize, IllFormed> {
        let found = usize::try_from(at.natural()?).ok();
        let found = found.filter(|found| *found < self.replicas.len());
        found.ok_or_else(|| at.refuse("no replica"))
    }

    fn write(
        &mut self,
        at: &Node<'_>,
        change: KvChange,
        context: &Node<'_>,
        level: &Node<'_>,
    ) -> Result<(serde_json::Value, VersionClock), IllFormed> {
        let minter = self.replica(at)?;
        let context = match context.non_null() {
            Some(step) => {
                let at = usize::try_from(step.natural()?).ok();
                let clock = at.and_then(|at| self.found.get(at));
                clock.cloned().ok_or_else(|| step.refuse("no step before"))?
            }
            None => VersionClock::new(),
        };
        let goal = CallGoal::Write {
            change,
            context,
            level: replicas(level)?,
        };
        let (answer, acks) = self.call(goal, &[minter]);
        let is_ok = matches!(answer, Ok(CallAnswer::Written(_)));
        let acks = match answer {
            Err(CallError::Timeout { acknowledged }) => acknowledged,
            Ok(_) | Err(_) => acks,
        };
        Ok((
            serde_json::json!({ "ok": is_ok, "acks": acks }),
            VersionClock::new(),
        ))
    }

    fn get(
        &mut self,
        level: &Node<'_>,
        first: &Node<'_>,
    ) -> Result<(serde_json::Value, VersionClock), IllFormed> {
        let goal = CallGoal::Get {
            level: replicas(level)?,
        };
        let mut order = Vec::new();
        for at in first.items()? {
            order.push(self.replica(&at)?);
        }
        let before: Vec<_> = self
            .replicas
            .iter()
            .map(|replica| replica.entry.siblings.clone())
            .collect();
        let (answer, _) = self.call(goal, &order);
        let Ok(CallAnswer::Found(entry)) = answer else {
            let failed = serde_json::json!({ "ok": false, "values": null, "repaired": null });
            return Ok((failed, VersionClock::new()));
        };
        let all = self.replicas.iter().zip(&before).enumerate();
        let repaired: Vec<_> = all
            .filter(|(_, (replica, before))| replica.entry.siblings != **before)
            .map(|(at, _)| at)
            .collect();
        let found = serde_json::json!({ "ok": true, "values": values(&entry), "repaired": repaired });
        Ok((found, entry.siblings.clock().clone()))
    }

    /// Runs a call until nothing is left to be sent; of one step's questions those to `first` arrive first.
    /// How many replicas have acknowledged it.
    fn call(&mut self, goal: CallGoal, first: &[usize]) -> (Result<CallAnswer, CallError>, usize) {
        self.calls += 1;
        let mut out = Vec::new();
        let place = CallPlace {
            id: CallId {
                origin: 1,
                number: self.calls,
            },
            open_from: self.calls,
            levels: self.levels,
            configuration: self.configuration.clone(),
            minters: first.iter().map(|at| (StoreId(*at as u128), None)).collect(),
            rounds_from: 0,
            last_turn: Ballot::NONE,
        };
        let mut call = Call::begin(place, goal, &mut out);
        let (mut answer, mut acks) = (None, OrderedSet::new());
        let mut asked: VecDeque<(usize, u32, KvAsk)> = VecDeque::new();
        loop {
            for output in out.drain(..) {
                match output {
                    CallOutput::Ask { to, step, ask } => asked.push_back((to.0 as usize, step, ask)),
                    CallOutput::Answer(found) => answer = Some(found),
                    CallOutput::Over => {}
                }
            }
            let rank = |at: usize| first.iter().position(|other| *other == at).unwrap_or(first.len());
            asked.make_contiguous().sort_by_key(|(at, ..)| rank(*at));
            let Some((at, step, ask)) = asked.pop_front() else {
                break;
            };
            let Replica {
                replica,
                entry,
                is_up,
            } = &mut self.replicas[at];
            if *is_up {
                let found = replica.answer((&self.key, entry), 1, &ask, self.calls).answer;
                if matches!(found, KvAnswer::Minted { .. } | KvAnswer::Done) {
                    acks.insert(at);
                }
                call.on_answer((StoreId(at as u128), 1), step, found, self.calls, &mut out);
            }
        }
        call.on_timeout(&mut out);
        let late = out.into_iter().find_map(|output| match output {
            CallOutput::Answer(found) => Some(found),
            CallOutput::Ask { .. } | CallOutput::Over => None,
        });
        (answer.or(late).unwrap_or(Err(CallError::NoOwner)), acks.len())
    }
}

fn replicas(level: &Node<'_>) -> Result<Level, IllFormed> {
    let count = u16::try_from(level.natural()?).map_err(|_| level.refuse("too many"))?;
    Ok(Level::Replicas(count))
}
