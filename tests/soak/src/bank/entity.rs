//! The entity: an account. Who is told to transfer takes the money off its own balance and delivers it to the
//! other account, which has each transfer once, however often it comes.

use std::collections::BTreeMap;
use std::time::Duration;

use quorate_driver::EntityContext;
use quorate_driver::durable::{
    AtLeastOnceSettings, Confirmed, Decision, DeliveryId, EventSourced, Persist, Received, Retention,
    Versioned,
};
use serde::{Deserialize, Serialize};

/// The kind's name.
pub(super) const ACCOUNT: &str = "Account";

/// One transfer: who wants it, under which number, between whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct Transfer {
    /// A client of one process: never again another one's.
    pub(super) client: u64,
    /// Of a client; they only grow, and the next is sent when the one before is acknowledged.
    pub(super) number: u64,
    pub(super) from: u64,
    pub(super) to: u64,
    pub(super) amount: i64,
}

impl Transfer {
    /// Something by which it is told from all others: sums of these say which transfers there were.
    pub(super) const fn mark(&self) -> u64 {
        let mixed = (self.client ^ self.number.rotate_left(32)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let mixed = (mixed ^ (mixed >> 29)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed ^ (mixed >> 32)
    }
}

/// What an account is told.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) enum Command {
    Transfer(Transfer),
    Deposit { id: DeliveryId, transfer: Transfer },
    Read,
}

/// What went in, or out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Flow {
    pub(super) transfers: u64,
    pub(super) amount: i64,
    /// The sum of their marks.
    pub(super) marks: u64,
}

impl Flow {
    pub(super) const fn add(&mut self, transfer: &Transfer) {
        self.transfers += 1;
        self.amount += transfer.amount;
        self.marks = self.marks.wrapping_add(transfer.mark());
    }
}

/// What it answers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Told {
    pub(super) balance: i64,
    pub(super) out: Flow,
    pub(super) into: Flow,
    /// Transfers on their way to others.
    pub(super) open: u64,
    /// Where it lives.
    pub(super) node: String,
}

/// What has happened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) enum Event {
    Withdrawn(Transfer),
    Deposited {
        id: DeliveryId,
        transfer: Transfer,
    },
    /// The other one has it.
    Arrived,
}

impl Versioned for Event {}

/// What all of it amounts to.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct State {
    balance: i64,
    out: Flow,
    into: Flow,
    open: u64,
    newest: BTreeMap<u64, u64>,
    received: Received,
}

impl Versioned for State {}

/// See the module.
#[derive(Debug)]
pub(super) struct Account;

/// What accounts are called.
pub(super) fn id_of(account: u64) -> String {
    format!("account-{account}")
}

/// Whose log this is; `None` for every other entity's.
pub(super) fn account_of(log: &str) -> Option<u64> {
    let id = log.strip_prefix(ACCOUNT)?.strip_prefix('/')?;
    id.strip_prefix("account-")?.parse().ok()
}

impl EventSourced for Account {
    type Command = Command;
    type Reply = Told;
    type Event = Event;
    type State = State;

    async fn handle(&mut self, context: &EntityContext, state: &State, command: Command) -> Decision<Self> {
        let node = context.node().address().to_string();
        let told = move |state: &State| Told {
            balance: state.balance,
            out: state.out,
            into: state.into,
            open: state.open,
            node,
        };
        match command {
            Command::Transfer(transfer) if state.newest.get(&transfer.client) < Some(&transfer.number) => {
                let accounts = match context.region::<Command, Told>(ACCOUNT) {
                    Ok(accounts) => accounts,
                    Err(error) => return context.fail(error).await,
                };
                let other = accounts.entity(id_of(transfer.to));
                Decision::persist(Event::Withdrawn(transfer))
                    .deliver(&other, move |id| Command::Deposit { id, transfer })
                    .then_reply(told)
            }
            Command::Deposit { id, transfer } if state.received.is_new(&id) => {
                Decision::persist(Event::Deposited { id, transfer }).then_reply(told)
            }
            // They have counted already.
            Command::Transfer(_) | Command::Deposit { .. } | Command::Read => Decision::reply(told(state)),
        }
    }

    fn apply(state: &mut State, event: Event) {
        match event {
            Event::Withdrawn(transfer) => {
                state.balance -= transfer.amount;
                state.out.add(&transfer);
                state.open += 1;
                state.newest.insert(transfer.client, transfer.number);
            }
            Event::Deposited { id, transfer } => {
                state.balance += transfer.amount;
                state.into.add(&transfer);
                state.received.note(&id);
            }
            Event::Arrived => state.open -= 1,
        }
    }

    fn retention(&self) -> Retention {
        Retention::snapshot_every(50).delete_covered_events()
    }

    fn redelivery(&self) -> AtLeastOnceSettings {
        AtLeastOnceSettings {
            redeliver_interval: Duration::from_millis(500),
            interval_max: Duration::from_secs(3),
            ..AtLeastOnceSettings::default()
        }
    }

    async fn on_confirmed(&mut self, _: &EntityContext, _: &State, _: Confirmed) -> Persist<Self> {
        Decision::persist(Event::Arrived)
    }
}

#[cfg(test)]
mod tests {
    use quorate_driver::durable::{Golden, read};

    use super::*;

    const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/golden");

    #[test]
    fn the_log_of_an_account_is_told_from_those_of_other_entities() {
        assert_eq!(account_of("Account/account-57"), Some(57));
        for other in [
            "wake-ups-of-Account/14",
            "wake-ups-of-Account/account-14",
            "Account/14",
            "Accounts/account-1",
            "",
        ] {
            assert_eq!(account_of(other), None, "{other}");
        }
    }

    #[test]
    fn every_version_of_what_is_kept_can_be_read() {
        let transfer = Transfer {
            client: 7,
            number: 300,
            from: 1,
            to: 2,
            amount: -1,
        };
        // Sender, number, and up to where all is confirmed.
        let id: DeliveryId = read(b"\x09Account/a\x05\x04").unwrap();
        let deposited = Event::Deposited { id, transfer };
        Golden::<Event>::within(format!("{FOLDER}/bank_event"))
            .sample("withdrawn", &Event::Withdrawn(transfer))
            .sample("deposited", &deposited)
            .sample("arrived", &Event::Arrived)
            .check();
        let mut state = State::default();
        for event in [
            Event::Withdrawn(transfer),
            deposited,
            Event::Withdrawn(transfer),
            Event::Arrived,
        ] {
            Account::apply(&mut state, event);
        }
        Golden::<State>::within(format!("{FOLDER}/bank_state"))
            .sample("some", &state)
            .check();
    }
}
