//! The tables, and the identity of a node's store. Tables only ever grow. Spec: sharding 10.10.

use quorate_driver::store::StoreIdentity;
use quorate_driver::store::new_store_id;
use tokio_postgres::Client;

use crate::session::SessionFault;

/// Two that make the tables at once wait for each other: PostgreSQL's own `IF NOT EXISTS` does not.
const MAKING: i64 = 0x51_75_6F_72_61_74_65;

const TABLES: &str = "
    CREATE TABLE IF NOT EXISTS nodes (
        node text PRIMARY KEY, id bytea NOT NULL, boot bigint NOT NULL);
    CREATE TABLE IF NOT EXISTS items (
        node text, space integer, key bytea, sealed bytea NOT NULL, PRIMARY KEY (node, space, key));
    CREATE TABLE IF NOT EXISTS logs (
        space integer, log bytea, token bytea NOT NULL, opener bigint NOT NULL, first bigint NOT NULL,
        last bigint NOT NULL, covers bigint, snapshot bytea, PRIMARY KEY (space, log));
    CREATE TABLE IF NOT EXISTS records (
        space integer, log bytea, sequence bigint, sealed bytea NOT NULL, PRIMARY KEY (space, log, sequence))";

/// Makes the store's tables if they are not there.
pub(crate) async fn prepare(client: &mut Client, schema: &str) -> Result<(), SessionFault> {
    prepare_with(client, schema, TABLES).await
}

/// Makes what is not there, and speaks of it without naming the schema from then on. The schema's name was
/// checked.
pub(crate) async fn prepare_with(
    client: &mut Client,
    schema: &str,
    tables: &str,
) -> Result<(), SessionFault> {
    let transaction = client.transaction().await?;
    transaction
        .execute("SELECT pg_advisory_xact_lock($1)", &[&MAKING])
        .await?;
    transaction
        .batch_execute(&format!(
            "CREATE SCHEMA IF NOT EXISTS {schema}; SET search_path TO {schema}; {tables}"
        ))
        .await?;
    Ok(transaction.commit().await?)
}

/// Who uses the keys of a node.
#[derive(Clone, Copy)]
pub(crate) enum KeyUser {
    /// The node. A later life of it takes over from an earlier one, so that lives share the name.
    Node,
    /// A tool, which has the name alone or not at all.
    Tool,
}

/// Holds the node's name for as long as the session lives; false if a tool finds that a session of the node
/// has it.
pub(crate) async fn hold(
    client: &Client,
    schema: &str,
    node: &str,
    user: KeyUser,
) -> Result<bool, SessionFault> {
    // The schema's name has no blank: no two pairs give one text. A collision of the hash makes a tool
    // refuse, or a node wait for it.
    let name = format!("{schema} {node}");
    let lock = match user {
        KeyUser::Node => "SELECT pg_advisory_lock_shared(hashtextextended($1, 0)) IS NOT NULL",
        KeyUser::Tool => "SELECT pg_try_advisory_lock(hashtextextended($1, 0))",
    };
    Ok(client.query_one(lock, &[&name]).await?.try_get(0)?)
}

/// Counts one more life of a node's store.
pub(crate) async fn boot(client: &Client, node: &str) -> Result<StoreIdentity, SessionFault> {
    let new_id = new_store_id().map_err(SessionFault::Io)?.to_be_bytes().to_vec();
    let row = client
        .query_one(
            "INSERT INTO nodes AS n (node, id, boot) VALUES ($1, $2, 1)
             ON CONFLICT (node) DO UPDATE SET boot = n.boot + 1 RETURNING id, boot",
            &[&node, &new_id],
        )
        .await?;
    let (id, boot): (Vec<u8>, i64) = (row.try_get(0)?, row.try_get(1)?);
    let id = <[u8; 16]>::try_from(id).map_err(|_| SessionFault::Damaged("the store's id"))?;
    Ok(StoreIdentity {
        id: u128::from_be_bytes(id),
        boot: boot.cast_unsigned(),
    })
}
