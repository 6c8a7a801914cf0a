//! A node's keys: one row each. Spec: sharding 10.10.

use std::collections::BTreeMap;

use quorate_driver::store::layout::{SEAL_BYTES, seal, unseal};
use quorate_driver::store::limits::ANSWER_BYTES_MAX;
use quorate_driver::store::{Bytes, Change, Outcome, Space, StoreAnswer, StoreError};
use tokio_postgres::Transaction;

use crate::session::{NodeKeys, SessionFault};

/// Rows that are looked at for one answer: an answer of the smallest items is as long.
const ROWS_MAX: i64 = 4_096;

/// Values to write that nothing after them has looked for yet, so that many orders are one statement.
#[derive(Default)]
pub(crate) struct PendingWrites {
    puts: BTreeMap<(Space, Bytes), Vec<u8>>,
}

impl PendingWrites {
    /// Does a batch, or keeps it for later.
    pub(crate) async fn add(
        &mut self,
        transaction: &Transaction<'_>,
        me: NodeKeys<'_>,
        space: Space,
        batch: &[Change],
    ) -> Result<(), SessionFault> {
        for change in batch {
            match change {
                Change::Put { key, value } => {
                    self.puts.insert((space, Bytes::clone(key)), seal(key, &[value]));
                }
                Change::Delete { key } => {
                    self.flush(transaction, me).await?;
                    transaction
                        .execute(
                            "DELETE FROM items WHERE node = $1 AND space = $2 AND key = $3",
                            &[&me.node, &i32::from(space.0), &&**key],
                        )
                        .await?;
                }
                Change::DeleteRange { from, to } => {
                    self.flush(transaction, me).await?;
                    transaction
                        .execute(
                            "DELETE FROM items WHERE node = $1 AND space = $2 AND key >= $3
                             AND ($4::bytea IS NULL OR key < $4)",
                            &[&me.node, &i32::from(space.0), &&**from, &to.as_deref()],
                        )
                        .await?;
                }
            }
        }
        Ok(())
    }

    /// Does what was kept.
    pub(crate) async fn flush(
        &mut self,
        transaction: &Transaction<'_>,
        me: NodeKeys<'_>,
    ) -> Result<(), SessionFault> {
        if self.puts.is_empty() {
            return Ok(());
        }
        let puts = std::mem::take(&mut self.puts);
        let (mut spaces, mut keys, mut sealed) = (Vec::new(), Vec::new(), Vec::new());
        for ((space, key), value) in &puts {
            spaces.push(i32::from(space.0));
            keys.push(&**key);
            sealed.push(&**value);
        }
        transaction
            .execute(
                "INSERT INTO items (node, space, key, sealed)
                 SELECT $1, new.space, new.key, new.sealed
                 FROM unnest($2::integer[], $3::bytea[], $4::bytea[]) AS new (space, key, sealed)
                 ON CONFLICT (node, space, key) DO UPDATE SET sealed = excluded.sealed",
                &[&me.node, &spaces, &keys, &sealed],
            )
            .await?;
        Ok(())
    }
}

pub(crate) async fn read(
    transaction: &Transaction<'_>,
    me: NodeKeys<'_>,
    space: Space,
    key: &[u8],
) -> Result<Outcome, SessionFault> {
    let row = transaction
        .query_opt(
            "SELECT sealed FROM items WHERE node = $1 AND space = $2 AND key = $3",
            &[&me.node, &i32::from(space.0), &key],
        )
        .await?;
    let Some(row) = row else {
        return Ok(Ok(StoreAnswer::Value(None)));
    };
    let sealed: &[u8] = row.try_get(0)?;
    Ok(match unseal(key, sealed) {
        Ok(value) => Ok(StoreAnswer::Value(Some(value.into()))),
        Err(_) => Err(StoreError::Corrupt),
    })
}

/// From the first key on, up to the second without it.
pub(crate) struct KeyRange<'a> {
    pub(crate) from: &'a [u8],
    pub(crate) to: Option<&'a [u8]>,
}

pub(crate) async fn range(
    transaction: &Transaction<'_>,
    me: NodeKeys<'_>,
    space: Space,
    KeyRange { from, to }: KeyRange<'_>,
    bytes_max: usize,
) -> Result<Outcome, SessionFault> {
    // The server counts, so that no more crosses the network than is answered.
    let rows = transaction
        .query(
            "SELECT key, sealed, available FROM (
                 SELECT key, sealed, row_number() OVER sofar AS place, count(*) OVER () AS available,
                        sum(octet_length(key) + octet_length(sealed) - $6::bigint) OVER sofar AS bytes
                 FROM (SELECT key, sealed FROM items
                       WHERE node = $1 AND space = $2 AND key >= $3 AND ($4::bytea IS NULL OR key < $4)
                       ORDER BY key LIMIT $7) AS first
                 WINDOW sofar AS (ORDER BY key ROWS UNBOUNDED PRECEDING)) AS counted
             WHERE place = 1 OR bytes <= $5::bigint ORDER BY key",
            &[
                &me.node,
                &i32::from(space.0),
                &from,
                &to,
                &budget(bytes_max),
                &(SEAL_BYTES as i64),
                &(ROWS_MAX + 1),
            ],
        )
        .await?;
    let mut items: Vec<(Bytes, Bytes)> = Vec::with_capacity(rows.len());
    let mut more = false;
    for row in &rows {
        let (key, sealed): (&[u8], &[u8]) = (row.try_get(0)?, row.try_get(1)?);
        let available: i64 = row.try_get(2)?;
        more = available > rows.len() as i64;
        match unseal(key, sealed) {
            Ok(value) => items.push((key.into(), value.into())),
            // What came before it is good; the next question finds it.
            Err(_) if items.is_empty() => return Ok(Err(StoreError::Corrupt)),
            Err(_) => return Ok(Ok(StoreAnswer::Items { items, more: true })),
        }
    }
    Ok(Ok(StoreAnswer::Items { items, more }))
}

pub(crate) fn budget(bytes_max: usize) -> i64 {
    i64::try_from(bytes_max.min(ANSWER_BYTES_MAX)).unwrap_or(i64::MAX)
}
