//! Logs: one row each, and one per record. Token and expected sequence are compared by the very statement
//! that writes, so that whoever waited for another owner's transaction compares again. Spec: sharding 10.7.

use quorate_driver::Token;
use quorate_driver::store::layout::{SEAL_BYTES, seal, unseal};
use quorate_driver::store::{
    Bytes, LogState, Outcome, OwnedLog, Record, Sequence, Snapshot, Space, StoreAnswer, StoreError,
};
use tokio_postgres::{Row, Transaction};

use crate::items::budget;
use crate::session::SessionFault;

/// Records that are looked at for one answer.
const ROWS_MAX: i64 = 4_096;

const TOKEN_BYTES: usize = 16;

/// A token as the database keeps it: the order of the bytes is the order of tokens.
fn token_bytes(token: Token) -> [u8; TOKEN_BYTES] {
    let mut out = [0; TOKEN_BYTES];
    out[..8].copy_from_slice(&token.term.to_be_bytes());
    out[8..].copy_from_slice(&token.count.to_be_bytes());
    out
}

fn take_token(bytes: &[u8]) -> Option<(Token, &[u8])> {
    let (term, rest) = bytes.split_first_chunk::<8>()?;
    let (count, rest) = rest.split_first_chunk::<8>()?;
    let token = Token::new(u64::from_be_bytes(*term), u64::from_be_bytes(*count));
    Some((token, rest))
}

/// What a record's checksum covers beside the record.
fn place(log: &str, sequence: i64) -> Vec<u8> {
    let mut out = log.as_bytes().to_vec();
    out.extend_from_slice(&sequence.to_be_bytes());
    out
}

/// As large as a number of the database can be: no log gets there.
fn number(sequence: Sequence) -> i64 {
    i64::try_from(sequence).unwrap_or(i64::MAX)
}

fn sequence(row: &Row, at: usize) -> Result<Sequence, SessionFault> {
    let number: i64 = row.try_get(at)?;
    u64::try_from(number).map_err(|_| SessionFault::Damaged("a log's sequence"))
}

/// Why an order for a log was not done: another owner, or another end than expected.
async fn refusal(
    transaction: &Transaction<'_>,
    space: Space,
    log: &str,
    token: Token,
) -> Result<StoreError, SessionFault> {
    let row = transaction
        .query_opt(
            "SELECT token, last FROM logs WHERE space = $1 AND log = $2",
            &[&i32::from(space.0), &log.as_bytes()],
        )
        .await?;
    let Some(row) = row else {
        return Ok(StoreError::Fenced { held: Token::NONE });
    };
    let (held, _) = take_token(row.try_get(0)?).ok_or(SessionFault::Damaged("a log's token"))?;
    Ok(if held == token {
        StoreError::SequenceConflict {
            last: sequence(&row, 1)?,
        }
    } else {
        StoreError::Fenced { held }
    })
}

pub(crate) async fn open(
    transaction: &Transaction<'_>,
    space: Space,
    log: &str,
    token: Token,
    opener: u64,
) -> Result<Outcome, SessionFault> {
    let row = if token == Token::NONE {
        None
    } else {
        transaction
            .query_opt(
                "INSERT INTO logs AS held (space, log, token, opener, first, last) VALUES ($1, $2, $3, $4, 1, 0)
                 ON CONFLICT (space, log) DO UPDATE SET token = excluded.token, opener = excluded.opener
                 WHERE held.token < excluded.token OR (held.token = excluded.token AND held.opener = excluded.opener)
                 RETURNING first, last, covers",
                &[
                    &i32::from(space.0),
                    &log.as_bytes(),
                    &&token_bytes(token)[..],
                    &opener.cast_signed(),
                ],
            )
            .await?
    };
    let Some(row) = row else {
        // An equal token is another opener's.
        let refused = refusal(transaction, space, log, token).await?;
        let is_taken = matches!(refused, StoreError::SequenceConflict { .. });
        return Ok(Err(if is_taken {
            StoreError::Fenced { held: token }
        } else {
            refused
        }));
    };
    let covers: Option<i64> = row.try_get(2)?;
    Ok(Ok(StoreAnswer::Opened(LogState {
        first: sequence(&row, 0)?,
        last: sequence(&row, 1)?,
        snapshot: covers.map(i64::cast_unsigned),
    })))
}

pub(crate) async fn append(
    transaction: &Transaction<'_>,
    OwnedLog { space, log, token }: OwnedLog<'_>,
    expected: Sequence,
    records: &[Bytes],
) -> Result<Outcome, SessionFault> {
    let (first, owner) = (number(expected).saturating_add(1), token_bytes(token));
    let sealed: Vec<Vec<u8>> = (first..)
        .zip(records)
        .map(|(at, record)| seal(&place(log, at), &[&owner, record]))
        .collect();
    let added = i64::try_from(sealed.len()).unwrap_or(i64::MAX);
    let done = transaction
        .execute(
            "WITH owned AS (
                 UPDATE logs SET last = last + $5
                 WHERE space = $1 AND log = $2 AND token = $3 AND last = $4 RETURNING space, log)
             INSERT INTO records (space, log, sequence, sealed)
             SELECT owned.space, owned.log, $4 + new.place, new.sealed
             FROM owned, unnest($6::bytea[]) WITH ORDINALITY AS new (sealed, place)",
            &[
                &i32::from(space.0),
                &log.as_bytes(),
                &&owner[..],
                &number(expected),
                &added,
                &sealed,
            ],
        )
        .await?;
    if done == sealed.len() as u64 {
        return Ok(Ok(StoreAnswer::Appended {
            last: expected.saturating_add(done),
        }));
    }
    let refusal = refusal(transaction, space, log, token).await?;
    let StoreError::SequenceConflict { last } = refusal else {
        return Ok(Err(refusal));
    };
    // The owner repeats what it does not know to be done: succeeds if it is exactly that.
    let rows = transaction
        .query(
            "SELECT sealed FROM records WHERE space = $1 AND log = $2 AND sequence >= $3 AND sequence < $3 + $4
             ORDER BY sequence",
            &[&i32::from(space.0), &log.as_bytes(), &first, &added],
        )
        .await?;
    let mut is_repetition = rows.len() == sealed.len();
    for (row, sealed) in rows.iter().zip(&sealed) {
        let there: &[u8] = row.try_get(0)?;
        is_repetition &= *there == **sealed;
    }
    Ok(if is_repetition {
        Ok(StoreAnswer::Appended { last })
    } else {
        Err(refusal)
    })
}

pub(crate) async fn keep(
    transaction: &Transaction<'_>,
    OwnedLog { space, log, token }: OwnedLog<'_>,
    through: Sequence,
    state: &Bytes,
) -> Result<Outcome, SessionFault> {
    let owner = token_bytes(token);
    let covers = number(through);
    let snapshot = seal(&place(log, covers), &[&owner, state]);
    let done = transaction
        .execute(
            "UPDATE logs SET covers = $4, snapshot = $5
             WHERE space = $1 AND log = $2 AND token = $3 AND last >= $4 AND (covers IS NULL OR covers <= $4)",
            &[
                &i32::from(space.0),
                &log.as_bytes(),
                &&owner[..],
                &covers,
                &snapshot,
            ],
        )
        .await?;
    Ok(if done == 1 {
        Ok(StoreAnswer::Kept)
    } else {
        Err(refusal(transaction, space, log, token).await?)
    })
}

pub(crate) async fn read_snapshot(
    transaction: &Transaction<'_>,
    space: Space,
    log: &str,
) -> Result<Outcome, SessionFault> {
    let row = transaction
        .query_opt(
            "SELECT covers, snapshot FROM logs WHERE space = $1 AND log = $2 AND covers IS NOT NULL",
            &[&i32::from(space.0), &log.as_bytes()],
        )
        .await?;
    let Some(row) = row else {
        return Ok(Ok(StoreAnswer::Snapshot(None)));
    };
    let (covers, sealed): (i64, &[u8]) = (row.try_get(0)?, row.try_get(1)?);
    let parts = unseal(&place(log, covers), sealed).ok().and_then(take_token);
    Ok(parts.map_or(Err(StoreError::Corrupt), |(token, state)| {
        Ok(StoreAnswer::Snapshot(Some(Snapshot {
            through: covers.cast_unsigned(),
            token,
            state: state.into(),
        })))
    }))
}

pub(crate) async fn forget(
    transaction: &Transaction<'_>,
    space: Space,
    log: &str,
    token: Token,
    through: Sequence,
) -> Result<Outcome, SessionFault> {
    let row = transaction
        .query_opt(
            "UPDATE logs SET first = greatest(first, least($4, last) + 1)
             WHERE space = $1 AND log = $2 AND token = $3 RETURNING first",
            &[
                &i32::from(space.0),
                &log.as_bytes(),
                &&token_bytes(token)[..],
                &number(through),
            ],
        )
        .await?;
    let Some(row) = row else {
        return Ok(Err(refusal(transaction, space, log, token).await?));
    };
    let first: i64 = row.try_get(0)?;
    transaction
        .execute(
            "DELETE FROM records WHERE space = $1 AND log = $2 AND sequence < $3",
            &[&i32::from(space.0), &log.as_bytes(), &first],
        )
        .await?;
    Ok(Ok(StoreAnswer::Deleted))
}

pub(crate) async fn read(
    transaction: &Transaction<'_>,
    space: Space,
    log: &str,
    from: Sequence,
    bytes_max: usize,
) -> Result<Outcome, SessionFault> {
    // One statement sees one moment, the log's end and its records.
    let rows = transaction
        .query(
            "SELECT sequence, sealed, available, first, last FROM (
                 SELECT sequence, sealed, first, last, row_number() OVER sofar AS place, count(*) OVER () AS available,
                        sum(octet_length(sealed) - $5::bigint) OVER sofar AS bytes
                 FROM (SELECT r.sequence, r.sealed, l.first, l.last FROM logs AS l
                       JOIN records AS r ON r.space = l.space AND r.log = l.log
                       WHERE l.space = $1 AND l.log = $2 AND r.sequence >= greatest(l.first, $3)
                             AND r.sequence <= l.last
                       ORDER BY r.sequence LIMIT $6) AS chosen
                 WINDOW sofar AS (ORDER BY sequence ROWS UNBOUNDED PRECEDING)) AS counted
             WHERE place = 1 OR bytes <= $4::bigint ORDER BY sequence",
            &[
                &i32::from(space.0),
                &log.as_bytes(),
                &number(from),
                &budget(bytes_max),
                &((SEAL_BYTES + TOKEN_BYTES) as i64),
                &(ROWS_MAX + 1),
            ],
        )
        .await?;
    let mut records: Vec<Record> = Vec::with_capacity(rows.len());
    let mut more = false;
    let (mut expected, mut ends_early) = (None, false);
    for row in &rows {
        let (at, sealed): (i64, &[u8]) = (row.try_get(0)?, row.try_get(1)?);
        let (available, first): (i64, i64) = (row.try_get(2)?, row.try_get(3)?);
        more = available > rows.len() as i64;
        let is_next = at == expected.unwrap_or_else(|| first.max(number(from)));
        let parts = unseal(&place(log, at), sealed).ok().and_then(take_token);
        match parts.filter(|_| is_next) {
            Some((token, bytes)) => records.push(Record {
                sequence: at.cast_unsigned(),
                token,
                bytes: bytes.into(),
            }),
            // Damage, or a gap: what came before it is good, the next question finds it.
            None if records.is_empty() => return Ok(Err(StoreError::Corrupt)),
            None => return Ok(Ok(StoreAnswer::Records { records, more: true })),
        }
        expected = Some(at + 1);
        let last: i64 = row.try_get(4)?;
        // The last record that is there must be the log's last.
        ends_early = at < last;
    }
    more |= ends_early;
    if rows.is_empty() && is_missing(transaction, space, log, from).await? {
        return Ok(Err(StoreError::Corrupt));
    }
    Ok(Ok(StoreAnswer::Records { records, more }))
}

/// Whether a log should have records from `from` on.
async fn is_missing(
    transaction: &Transaction<'_>,
    space: Space,
    log: &str,
    from: Sequence,
) -> Result<bool, SessionFault> {
    let row = transaction
        .query_opt(
            "SELECT 1 FROM logs WHERE space = $1 AND log = $2 AND greatest(first, $3) <= last",
            &[&i32::from(space.0), &log.as_bytes(), &number(from)],
        )
        .await?;
    Ok(row.is_some())
}
