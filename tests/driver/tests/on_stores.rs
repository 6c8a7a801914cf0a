//! What entities keep in the nodes' stores, in redb files and in a database: who is remembered, what is due
//! when, what nobody has confirmed; and where shards live.

#![allow(
    clippy::unwrap_used,
    dead_code,
    reason = "a test fails by panicking, and uses a part of what tests share"
)]

use std::io::Write as _;

use quorate_driver_tests::{
    a_reminder_wakes_its_entity_on, homes_are_found_again_on, keys_are_there_again_on,
    remembered_entities_run_again_on, reminders_outlive_all_nodes_on, reminders_outlive_two_of_four_nodes_on,
    what_nobody_has_confirmed_is_delivered_on, what_nobody_has_confirmed_wakes_on,
    what_wakes_entities_moves_on,
};
use quorate_store_postgres::{Postgres, Tls};
use quorate_store_redb::Redb;
use quorate_tokio::sharding::{RememberStore, StoreMode};
use quorate_tokio::{Security, Tokio};

/// The files of nodes, by number, in a folder of the test's own.
struct Files(quorate_programs::Directory);

impl Files {
    fn of(test: &str) -> Self {
        Self(quorate_programs::Directory::new(test))
    }

    fn open(&self, index: usize) -> Redb {
        Redb::open(format!("{}/{index}.redb", self.0.path())).expect("a file")
    }
}

/// The tables of a test in a database that all its nodes share.
struct Tables {
    server: String,
    schema: String,
}

impl Tables {
    /// `None` where there is no server.
    fn of(test: &str) -> Option<Self> {
        let Ok(server) = std::env::var("QUORATE_POSTGRES") else {
            let _ = writeln!(
                std::io::stderr(),
                "skipped: QUORATE_POSTGRES does not name a PostgreSQL server"
            );
            return None;
        };
        let schema = format!("quorate_{test}_{}", std::process::id());
        Some(Self { server, schema })
    }

    fn open(&self, index: usize) -> Postgres {
        let node = format!("node-{index}");
        let store = Postgres::new(&self.server, &node, Tls::off());
        store
            .and_then(|store| store.schema(&self.schema))
            .expect("its name is legal")
    }
}

fn security() -> Security {
    Security::insecure_plaintext()
}

#[tokio::test(flavor = "multi_thread")]
async fn remembered_entities_run_again_from_files_and_once_with_other_shards() {
    let files = Files::of("remembered-data");
    let open = |index| files.open(index);
    remembered_entities_run_again_on::<Tokio, _>(&security(), RememberStore::Data, open).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn entities_remembered_as_events_run_again_from_files_and_once_with_other_shards() {
    let files = Files::of("remembered-events");
    let open = |index| files.open(index);
    remembered_entities_run_again_on::<Tokio, _>(&security(), RememberStore::Events, open).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn remembered_entities_run_again_from_a_database_and_once_with_other_shards() {
    for (test, remember) in [
        ("remembered_data", RememberStore::Data),
        ("remembered_events", RememberStore::Events),
    ] {
        let Some(tables) = Tables::of(test) else { return };
        let open = |index| tables.open(index);
        remembered_entities_run_again_on::<Tokio, _>(&security(), remember, open).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn reminders_in_files_wake_their_entities_and_count_once() {
    let files = Files::of("reminders");
    a_reminder_wakes_its_entity_on::<Tokio, _>(&security(), || files.open(0)).await;
    reminders_outlive_all_nodes_on::<Tokio, _>(&security(), || files.open(1)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn reminders_in_a_database_wake_their_entities_and_count_once() {
    let Some(tables) = Tables::of("reminders") else {
        return;
    };
    a_reminder_wakes_its_entity_on::<Tokio, _>(&security(), || tables.open(0)).await;
    let Some(tables) = Tables::of("restarted") else {
        return;
    };
    reminders_outlive_all_nodes_on::<Tokio, _>(&security(), || tables.open(0)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn reminders_in_files_outlive_two_of_four_nodes() {
    let files = Files::of("reminders-deaths");
    let open = |index| files.open(index);
    reminders_outlive_two_of_four_nodes_on::<Tokio, _>(&security(), open).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn reminders_in_a_database_outlive_two_of_four_nodes() {
    let Some(tables) = Tables::of("reminders_deaths") else {
        return;
    };
    let open = |index| tables.open(index);
    reminders_outlive_two_of_four_nodes_on::<Tokio, _>(&security(), open).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_wakes_entities_moves_in_files() {
    let files = Files::of("waking-moves");
    what_wakes_entities_moves_on::<Tokio, _>(&security(), |index| files.open(index)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_wakes_entities_moves_in_a_database() {
    let Some(tables) = Tables::of("waking_moves") else {
        return;
    };
    what_wakes_entities_moves_on::<Tokio, _>(&security(), |index| tables.open(index)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn s_248_what_nobody_has_confirmed_is_delivered_from_a_file() {
    let files = Files::of("unconfirmed");
    what_nobody_has_confirmed_is_delivered_on::<Tokio, _>(&security(), |_| files.open(0)).await;
    what_nobody_has_confirmed_wakes_on::<Tokio, _>(&security(), |_| files.open(1)).await;
}

/// Each life is another node, which finds in the database what that before it kept.
#[tokio::test(flavor = "multi_thread")]
async fn s_248_what_nobody_has_confirmed_is_delivered_from_a_database() {
    let Some(tables) = Tables::of("unconfirmed") else {
        return;
    };
    what_nobody_has_confirmed_is_delivered_on::<Tokio, _>(&security(), |life| tables.open(life)).await;
    let Some(tables) = Tables::of("unconfirmed_waking") else {
        return;
    };
    what_nobody_has_confirmed_wakes_on::<Tokio, _>(&security(), |life| tables.open(life)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn homes_are_found_again_in_redb_files() {
    let folder = quorate_programs::Directory::new("stored-homes");
    let security = Security::insecure_plaintext();
    for mode in [StoreMode::DistributedData, StoreMode::Events] {
        let open =
            |index: usize| Redb::open(format!("{}/{mode}-{index}.redb", folder.path())).expect("a file");
        homes_are_found_again_on::<Tokio, _>(&security, mode, open).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_are_there_again_in_redb_files() {
    let files = Files::of("keys");
    keys_are_there_again_on::<Tokio, _>(&security(), |index| files.open(index)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_are_there_again_in_a_database() {
    let Some(tables) = Tables::of("keys") else {
        return;
    };
    keys_are_there_again_on::<Tokio, _>(&security(), |index| tables.open(index)).await;
}
