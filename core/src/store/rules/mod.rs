//! What each order does to an ordered map: the one place where tokens, expected sequences and repetitions are
//! compared. Every engine that has a transaction over an ordered map keeps these rules by calling [`obey`];
//! it adds only that a commit is durable. Never does I/O itself. Spec: sharding 10.7, 10.10; reliability
//! I-80.

mod log;

use alloc::vec::Vec;
use core::ops::ControlFlow;

use super::layout::{self, DamagedBytes};
use super::limits::{
    ANSWER_BYTES_MAX, CHANGES_PER_BATCH_MAX, KEY_BYTES_MAX, LOG_NAME_BYTES_MAX, ORDER_BYTES_MAX,
    VALUE_BYTES_MAX,
};
use super::{Bytes, Change, Outcome, OwnedLog, Space, StoreAnswer, StoreError, StoreIdentity, StoreOrder};
use crate::token::Token;

/// What a range shows its keys and values to; it says when it has seen enough.
pub type Visit<'a> = dyn FnMut(&[u8], &[u8]) -> ControlFlow<()> + 'a;

/// A picture of an ordered map of bytes: later commits do not change it.
pub trait ReadTransaction {
    /// What the engine says when it fails.
    type Error;

    /// The value of a key.
    ///
    /// # Errors
    /// The engine failed.
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Self::Error>;

    /// Shows keys and values in ascending order, from `from` to before `to`. Nothing if `to` is not above
    /// `from`.
    ///
    /// # Errors
    /// The engine failed.
    fn range(&self, from: &[u8], to: &[u8], visit: &mut Visit<'_>) -> Result<(), Self::Error>;
}

/// Changes that become durable together, or not at all. Reads see the changes made before.
pub trait WriteTransaction: ReadTransaction {
    /// The key has this value.
    ///
    /// # Errors
    /// The engine failed.
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), Self::Error>;

    /// The key has no value.
    ///
    /// # Errors
    /// The engine failed.
    fn delete(&mut self, key: &[u8]) -> Result<(), Self::Error>;

    /// No key from `from` to before `to` has a value. Nothing happens if `to` is not above `from`.
    ///
    /// # Errors
    /// The engine failed.
    fn delete_range(&mut self, from: &[u8], to: &[u8]) -> Result<(), Self::Error>;
}

/// Why a rule stopped: the order is refused, or the engine failed.
enum RuleStop<E> {
    Order(StoreError),
    Engine(E),
}

impl<E> From<DamagedBytes> for RuleStop<E> {
    fn from(_: DamagedBytes) -> Self {
        Self::Order(StoreError::Corrupt)
    }
}

type Ruled<T, E> = Result<T, RuleStop<E>>;

fn refuse<T, E>(error: StoreError) -> Ruled<T, E> {
    Err(RuleStop::Order(error))
}

fn outcome<E>(ruled: Ruled<StoreAnswer, E>) -> Result<Outcome, E> {
    match ruled {
        Ok(answer) => Ok(Ok(answer)),
        Err(RuleStop::Order(error)) => Ok(Err(error)),
        Err(RuleStop::Engine(error)) => Err(error),
    }
}

/// Counts one more life of a store, before anything else is done with it. `new_id` is its id if it has none
/// yet.
///
/// # Errors
/// The engine failed; the inner error: what is there is no store, or damaged.
pub fn boot<T: WriteTransaction>(
    tx: &mut T,
    new_id: u128,
) -> Result<Result<StoreIdentity, DamagedBytes>, T::Error> {
    let identity = match identity(tx)? {
        Ok(Some(StoreIdentity { id, boot })) => StoreIdentity {
            id,
            boot: boot.saturating_add(1),
        },
        Ok(None) => StoreIdentity { id: new_id, boot: 1 },
        Err(damaged) => return Ok(Err(damaged)),
    };
    let key = layout::identity_key();
    let value = layout::identity_value(identity);
    tx.put(&key, &layout::seal(&key, &[&value]))?;
    Ok(Ok(identity))
}

/// Which store this is; `None` if it was never booted.
///
/// # Errors
/// The engine failed; the inner error: what is there is no store, or damaged.
pub fn identity<T: ReadTransaction>(tx: &T) -> Result<Result<Option<StoreIdentity>, DamagedBytes>, T::Error> {
    let key = layout::identity_key();
    let Some(sealed) = tx.get(&key)? else {
        return Ok(Ok(None));
    };
    Ok(layout::unseal(&key, &sealed)
        .and_then(layout::take_identity)
        .map(Some))
}

/// Does an order. What is refused has changed nothing.
///
/// # Errors
/// The engine failed: the whole transaction is to be given up.
pub fn obey<T: WriteTransaction>(tx: &mut T, space: Space, order: &StoreOrder) -> Result<Outcome, T::Error> {
    if let Err(error) = check(order) {
        return Ok(Err(error));
    }
    outcome(match order {
        StoreOrder::Write { batch } => write(tx, space, batch),
        StoreOrder::Open { log, token, opener } => log::open(tx, space, log, *token, *opener),
        StoreOrder::Append {
            log,
            token,
            expected,
            records,
        } => log::append(
            tx,
            OwnedLog {
                space,
                log,
                token: *token,
            },
            *expected,
            records,
        ),
        StoreOrder::Snapshot {
            log,
            token,
            through,
            state,
        } => log::keep(
            tx,
            OwnedLog {
                space,
                log,
                token: *token,
            },
            *through,
            state,
        ),
        StoreOrder::DeleteRange { log, token, through } => log::forget(tx, space, log, *token, *through),
        StoreOrder::Identify
        | StoreOrder::Read { .. }
        | StoreOrder::Range { .. }
        | StoreOrder::ReadLog { .. }
        | StoreOrder::ReadSnapshot { .. } => return read(tx, space, order),
    })
}

/// Does an order that changes nothing; one that would is answered with [`StoreError::Unavailable`].
///
/// # Errors
/// The engine failed.
pub fn read<T: ReadTransaction>(tx: &T, space: Space, order: &StoreOrder) -> Result<Outcome, T::Error> {
    if let Err(error) = check(order) {
        return Ok(Err(error));
    }
    outcome(match order {
        StoreOrder::Identify => match identity(tx)? {
            Ok(identity) => Ok(StoreAnswer::Identity(
                identity.unwrap_or(StoreIdentity { id: 0, boot: 0 }),
            )),
            Err(damaged) => Err(damaged.into()),
        },
        StoreOrder::Read { key } => {
            get(tx, &layout::item_key(space, key)).map(|value| StoreAnswer::Value(value.map(Bytes::from)))
        }
        StoreOrder::Range { from, to, bytes_max } => range(tx, space, from, to.as_deref(), *bytes_max),
        StoreOrder::ReadLog { log, from, bytes_max } => log::read_log(tx, space, log, *from, *bytes_max),
        StoreOrder::ReadSnapshot { log } => log::read_snapshot(tx, space, log),
        StoreOrder::Write { .. }
        | StoreOrder::Open { .. }
        | StoreOrder::Append { .. }
        | StoreOrder::Snapshot { .. }
        | StoreOrder::DeleteRange { .. } => refuse(StoreError::Unavailable),
    })
}

/// Whether an order is within the limits that all stores share.
///
/// # Errors
/// [`StoreError::TooLarge`].
pub fn check(order: &StoreOrder) -> Result<(), StoreError> {
    let key = |key: &Bytes| key.len() <= KEY_BYTES_MAX;
    let end = |to: &Option<Bytes>| to.as_ref().is_none_or(key);
    let log = |log: &str| (1..=LOG_NAME_BYTES_MAX).contains(&log.len());
    let fits = match order {
        StoreOrder::Identify => true,
        StoreOrder::Read { key: one } => key(one),
        StoreOrder::Range { from, to, .. } => key(from) && end(to),
        StoreOrder::Write { batch } => {
            batch.len() <= CHANGES_PER_BATCH_MAX
                && batch.iter().all(|change| match change {
                    Change::Put { key: one, value } => key(one) && value.len() <= VALUE_BYTES_MAX,
                    Change::Delete { key: one } => key(one),
                    Change::DeleteRange { from, to } => key(from) && end(to),
                })
        }
        StoreOrder::Append {
            log: name, records, ..
        } => {
            log(name)
                && (1..=CHANGES_PER_BATCH_MAX).contains(&records.len())
                && records.iter().all(|record| record.len() <= VALUE_BYTES_MAX)
        }
        StoreOrder::Snapshot { log: name, state, .. } => log(name) && state.len() <= VALUE_BYTES_MAX,
        StoreOrder::Open { log: name, .. }
        | StoreOrder::ReadLog { log: name, .. }
        | StoreOrder::ReadSnapshot { log: name }
        | StoreOrder::DeleteRange { log: name, .. } => log(name),
    };
    if fits && order.bytes() <= ORDER_BYTES_MAX {
        Ok(())
    } else {
        Err(StoreError::TooLarge)
    }
}

/// Whether a log that is held by `held`, opened by `held_by`, may be opened. An equal token is another
/// owner's, unless the same incarnation repeats itself.
///
/// # Errors
/// [`StoreError::Fenced`].
pub fn admits_opening(held: Token, held_by: u64, token: Token, opener: u64) -> Result<(), StoreError> {
    if token > held || (token == held && opener == held_by && token != Token::NONE) {
        Ok(())
    } else {
        Err(StoreError::Fenced { held })
    }
}

fn get<T: ReadTransaction>(tx: &T, key: &[u8]) -> Ruled<Option<Vec<u8>>, T::Error> {
    let Some(sealed) = tx.get(key).map_err(RuleStop::Engine)? else {
        return Ok(None);
    };
    Ok(Some(layout::unseal(key, &sealed)?.to_vec()))
}

fn put<T: WriteTransaction>(tx: &mut T, key: &[u8], parts: &[&[u8]]) -> Ruled<(), T::Error> {
    tx.put(key, &layout::seal(key, parts)).map_err(RuleStop::Engine)
}

fn write<T: WriteTransaction>(tx: &mut T, space: Space, batch: &[Change]) -> Ruled<StoreAnswer, T::Error> {
    for change in batch {
        match change {
            Change::Put { key, value } => put(tx, &layout::item_key(space, key), &[value])?,
            Change::Delete { key } => tx
                .delete(&layout::item_key(space, key))
                .map_err(RuleStop::Engine)?,
            Change::DeleteRange { from, to } => {
                let (from, to) = bounds(space, from, to.as_deref());
                tx.delete_range(&from, &to).map_err(RuleStop::Engine)?;
            }
        }
    }
    Ok(StoreAnswer::Written)
}

fn bounds(space: Space, from: &[u8], to: Option<&[u8]>) -> (Vec<u8>, Vec<u8>) {
    let end = to.map_or_else(|| layout::item_end(space), |to| layout::item_key(space, to));
    (layout::item_key(space, from), end)
}

fn range<T: ReadTransaction>(
    tx: &T,
    space: Space,
    from: &[u8],
    to: Option<&[u8]>,
    bytes_max: usize,
) -> Ruled<StoreAnswer, T::Error> {
    let (from, to) = bounds(space, from, to);
    let mut items: Vec<(Bytes, Bytes)> = Vec::new();
    let mut room = AnswerRoom::new(bytes_max);
    tx.range(&from, &to, &mut |key, sealed| {
        let item = layout::unseal(key, sealed).map(|value| (layout::item_name(key), value));
        room.take(item.map(|(name, value)| name.len() + value.len()))?;
        if let Ok((name, value)) = item {
            items.push((Bytes::from(name), Bytes::from(value)));
        }
        ControlFlow::Continue(())
    })
    .map_err(RuleStop::Engine)?;
    let more = room.close()?;
    Ok(StoreAnswer::Items { items, more })
}

/// How much of an answer is left. Damage ends it: as an error if nothing came before, else the next question
/// finds it.
struct AnswerRoom {
    left: usize,
    is_empty: bool,
    ended: Option<Result<(), DamagedBytes>>,
}

impl AnswerRoom {
    fn new(bytes_max: usize) -> Self {
        Self {
            left: bytes_max.min(ANSWER_BYTES_MAX),
            is_empty: true,
            ended: None,
        }
    }

    /// Room for so many bytes more, or the end.
    fn take(&mut self, bytes: Result<usize, DamagedBytes>) -> ControlFlow<()> {
        let left = match bytes {
            Ok(bytes) if self.is_empty => self.left.saturating_sub(bytes),
            Ok(bytes) if bytes <= self.left => self.left - bytes,
            Ok(_) => {
                self.ended = Some(Ok(()));
                return ControlFlow::Break(());
            }
            Err(damaged) => {
                self.ended = Some(Err(damaged));
                return ControlFlow::Break(());
            }
        };
        self.left = left;
        self.is_empty = false;
        ControlFlow::Continue(())
    }

    /// Whether there is more behind what was taken.
    fn close(self) -> Result<bool, DamagedBytes> {
        match self.ended {
            None => Ok(false),
            Some(Ok(())) => Ok(true),
            Some(Err(damaged)) if self.is_empty => Err(damaged),
            Some(Err(_)) => Ok(true),
        }
    }
}
