//! The entity: a counter whose changes are events. It knows the newest command of each client, so that one
//! that is sent again after an unknown outcome counts once.

use std::collections::BTreeMap;

use quorate_driver::EntityContext;
use quorate_driver::durable::{Decision, EventSourced, Recovery, Retention, SchemaError, Versioned, read};
use serde::{Deserialize, Serialize};

/// Who sends commands: each node's clients have their own numbers, so there are never more.
pub(super) type Client = u8;

/// What a counter is told.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) enum Command {
    /// Numbers of a client only grow.
    Change {
        by: i64,
        client: Client,
        number: u64,
    },
    Read,
}

/// What it answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Told {
    pub(super) value: i64,
    /// Commands that have counted, ever.
    pub(super) changes: u64,
    /// Events that this incarnation found in the store when it began.
    pub(super) recovered: u64,
    /// Where it lives.
    pub(super) node: String,
}

/// What has happened.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(super) enum Event {
    Changed { by: i64, client: Client, number: u64 },
}

/// As it was before commands had numbers: the seed's `CounterChanged`.
#[derive(Serialize, Deserialize)]
enum EventV1 {
    CounterChanged(i64),
}

impl Versioned for Event {
    const VERSION: u32 = 2;

    fn upcast(version: u32, bytes: &[u8]) -> Result<Self, SchemaError> {
        match version {
            1 => read(bytes).map(|EventV1::CounterChanged(by)| Self::Changed {
                by,
                client: 0,
                number: 0,
            }),
            _ => Err(SchemaError::UnknownVersion { version }),
        }
    }
}

/// What all of it amounts to.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct State {
    value: i64,
    changes: u64,
    newest: BTreeMap<Client, u64>,
}

impl Versioned for State {}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Counter {
    recovered: u64,
}

impl EventSourced for Counter {
    type Command = Command;
    type Reply = Told;
    type Event = Event;
    type State = State;

    async fn handle(&mut self, context: &EntityContext, state: &State, command: Command) -> Decision<Self> {
        let (recovered, node) = (self.recovered, context.node().address().to_string());
        let told = move |state: &State| Told {
            value: state.value,
            changes: state.changes,
            recovered,
            node,
        };
        match command {
            Command::Change { by, client, number } if state.newest.get(&client) < Some(&number) => {
                Decision::persist(Event::Changed { by, client, number }).then_reply(told)
            }
            // It has counted already.
            Command::Change { .. } | Command::Read => Decision::reply(told(state)),
        }
    }

    fn apply(state: &mut State, event: Event) {
        let Event::Changed { by, client, number } = event;
        state.value += by;
        state.changes += 1;
        state.newest.insert(client, number);
    }

    fn retention(&self) -> Retention {
        Retention::snapshot_every(20).delete_covered_events()
    }

    async fn on_recovered(&mut self, _: &EntityContext, _: &State, recovery: &Recovery) {
        self.recovered = recovery.last;
    }
}

#[cfg(test)]
mod tests {
    use quorate_driver::durable::Golden;

    use super::*;

    const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/golden");

    #[test]
    fn every_version_of_what_is_kept_can_be_read() {
        let changed = |by, client, number| Event::Changed { by, client, number };
        Golden::<Event>::within(format!("{FOLDER}/counter_event"))
            .earlier(1, "minus-one", &changed(-1, 0, 0))
            .sample("minus-one", &changed(-1, 3, 77))
            .check();
        let state = State {
            value: -1,
            changes: 3,
            newest: BTreeMap::from([(3, 77), (9, 300)]),
        };
        Golden::<State>::within(format!("{FOLDER}/counter_state"))
            .sample("three-changes", &state)
            .check();
    }
}
