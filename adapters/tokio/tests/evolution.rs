//! A rolling upgrade that changes a message: a node of the old program and one of the new, and what each can
//! read. Page: `docs/entities.md`.

use crate::common;

use common::{cluster, within};
use quorate_tokio::durable::{AnyVersion, Golden, SchemaError, Versioned, read};
use quorate_tokio::{AskError, EntityContext, Kind};
use serde::{Deserialize, Serialize};

/// As the old program has it.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct AddV1 {
    item: String,
}

impl Versioned for AddV1 {}

/// As the new one has it.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Add {
    item: String,
    pieces: u32,
}

impl Versioned for Add {
    const VERSION: u32 = 2;

    fn upcast(version: u32, bytes: &[u8]) -> Result<Self, SchemaError> {
        match version {
            1 => read(bytes).map(|AddV1 { item }| Self { item, pieces: 1 }),
            _ => Err(SchemaError::UnknownVersion { version }),
        }
    }
}

fn tea(pieces: u32) -> Add {
    let item = "tea".to_owned();
    Add { item, pieces }
}

fn old_tea() -> AddV1 {
    let item = "tea".to_owned();
    AddV1 { item }
}

fn folder(of: &str) -> String {
    format!("{}/tests/golden/{of}", env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn every_version_of_a_message_that_ever_was_can_be_read() {
    Golden::<Add>::within(folder("add"))
        .earlier(1, "tea", &tea(1))
        .sample("tea", &tea(3))
        .check();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_old_and_a_new_program_read_what_they_can_and_say_what_they_cannot() {
    let nodes = cluster(2).await;
    let old = Kind::new("cart").shards(16);
    let old = nodes[0].entities(old).start_fn(
        |_: EntityContext, AnyVersion(add): AnyVersion<AddV1>| async move { format!("old {}", add.item) },
    );
    let old = within(old).await.unwrap();
    let new = Kind::new("cart").shards(16);
    let new =
        nodes[1]
            .entities(new)
            .start_fn(|_: EntityContext, AnyVersion(add): AnyVersion<Add>| async move {
                format!("new {} {}", add.item, add.pieces)
            });
    let new = within(new).await.unwrap();
    let (mut at_old, mut at_new) = (0, 0);
    // Until each has been at home on both: shards come to the second node as it has room.
    for number in 0_u32.. {
        let id = (number % 64).to_string();
        let said = within(old.entity(&id).ask(AnyVersion(old_tea())).into_future()).await;
        let said_new = within(new.entity(&id).ask(AnyVersion(tea(3))).into_future()).await;
        match (said.as_deref(), said_new.as_deref()) {
            (Ok("old tea"), Err(error @ AskError::Undecodable)) => {
                assert!(!error.may_have_been_handled());
                at_old += 1;
            }
            (Ok("new tea 1"), Ok("new tea 3")) => at_new += 1,
            // Its shard moved in between.
            (Ok("old tea" | "new tea 1"), Ok("new tea 3") | Err(AskError::Undecodable)) => {}
            (said, said_new) => panic!("{said:?}, {said_new:?}"),
        }
        if at_old > 3 && at_new > 3 {
            break;
        }
        assert!(
            number < 100_000,
            "{at_old} at the old node, {at_new} at the new one"
        );
    }
}
