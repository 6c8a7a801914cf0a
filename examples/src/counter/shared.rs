//! One store for all nodes of a run: the parent holds it, in one redb file, and serves it to them on this machine. What a database is
//! to several machines. A node's own keys stay in its memory; only logs are asked for here.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use quorate_driver::core::Token;
use quorate_driver::core::store::{
    Bytes, LogState, Outcome, Record, Snapshot, Space, StoreAnswer, StoreError, StoreIdentity, StoreOrder,
};
use quorate_driver::{SharedMemoryStore, Store, StoreFault, StoreScope};
use quorate_store_redb::Redb;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// A group of orders and all its answers fit: a group's records are a few MiB at most.
const FRAME_BYTES_MAX: usize = 64 << 20;

/// How long an answer may take.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

type Term = (u64, u64);

/// An order, as it is sent.
#[derive(Serialize, Deserialize)]
enum Ask {
    Open(String, Term, u64),
    Append(String, Term, u64, Vec<Vec<u8>>),
    ReadLog(String, u64, u64),
    Snapshot(String, Term, u64, Vec<u8>),
    ReadSnapshot(String),
    DeleteRange(String, Term, u64),
}

/// An outcome, as it is sent.
#[derive(Serialize, Deserialize)]
enum Told {
    Opened(u64, u64, Option<u64>),
    Appended(u64),
    Records(Vec<(u64, Term, Vec<u8>)>, bool),
    Kept,
    Snapshot(Option<(u64, Term, Vec<u8>)>),
    Deleted,
    Fenced(Term),
    Conflict(u64),
    TooLarge,
    Corrupt,
    Unavailable,
}

/// What became of a group.
#[derive(Serialize, Deserialize)]
enum Group {
    Done(Vec<Told>),
    Full,
    Unavailable,
    Failed,
}

const fn pair(token: Token) -> Term {
    (token.term, token.count)
}

const fn token((term, count): Term) -> Token {
    Token::new(term, count)
}

/// The order to send, unless it is about a node's own keys.
fn to_ask(order: &StoreOrder) -> Option<Ask> {
    Some(match order {
        StoreOrder::Open { log, token, opener } => Ask::Open(log.to_string(), pair(*token), *opener),
        StoreOrder::Append {
            log,
            token,
            expected,
            records,
        } => {
            let records = records.iter().map(|record| record.to_vec()).collect();
            Ask::Append(log.to_string(), pair(*token), *expected, records)
        }
        StoreOrder::ReadLog { log, from, bytes_max } => {
            Ask::ReadLog(log.to_string(), *from, *bytes_max as u64)
        }
        StoreOrder::Snapshot {
            log,
            token,
            through,
            state,
        } => Ask::Snapshot(log.to_string(), pair(*token), *through, state.to_vec()),
        StoreOrder::ReadSnapshot { log } => Ask::ReadSnapshot(log.to_string()),
        StoreOrder::DeleteRange { log, token, through } => {
            Ask::DeleteRange(log.to_string(), pair(*token), *through)
        }
        StoreOrder::Identify
        | StoreOrder::Read { .. }
        | StoreOrder::Range { .. }
        | StoreOrder::Write { .. } => {
            return None;
        }
    })
}

fn to_order(ask: Ask) -> StoreOrder {
    match ask {
        Ask::Open(log, held, opener) => StoreOrder::Open {
            log: log.into(),
            token: token(held),
            opener,
        },
        Ask::Append(log, held, expected, records) => StoreOrder::Append {
            log: log.into(),
            token: token(held),
            expected,
            records: records.into_iter().map(Bytes::from).collect(),
        },
        Ask::ReadLog(log, from, bytes_max) => StoreOrder::ReadLog {
            log: log.into(),
            from,
            bytes_max: usize::try_from(bytes_max).unwrap_or(usize::MAX),
        },
        Ask::Snapshot(log, held, through, state) => StoreOrder::Snapshot {
            log: log.into(),
            token: token(held),
            through,
            state: state.into(),
        },
        Ask::ReadSnapshot(log) => StoreOrder::ReadSnapshot { log: log.into() },
        Ask::DeleteRange(log, held, through) => StoreOrder::DeleteRange {
            log: log.into(),
            token: token(held),
            through,
        },
    }
}

fn to_told(outcome: Outcome) -> Told {
    let kept = |sequence, held, bytes: Bytes| (sequence, pair(held), bytes.to_vec());
    match outcome {
        Ok(StoreAnswer::Opened(LogState {
            first,
            last,
            snapshot,
        })) => Told::Opened(first, last, snapshot),
        Ok(StoreAnswer::Appended { last }) => Told::Appended(last),
        Ok(StoreAnswer::Records { records, more }) => {
            let record = |record: Record| kept(record.sequence, record.token, record.bytes);
            Told::Records(records.into_iter().map(record).collect(), more)
        }
        Ok(StoreAnswer::Kept) => Told::Kept,
        Ok(StoreAnswer::Snapshot(snapshot)) => {
            Told::Snapshot(snapshot.map(|found| kept(found.through, found.token, found.state)))
        }
        Ok(StoreAnswer::Deleted) => Told::Deleted,
        Ok(
            StoreAnswer::Identity(_)
            | StoreAnswer::Value(_)
            | StoreAnswer::Items { .. }
            | StoreAnswer::Written,
        ) => Told::Corrupt,
        Err(error) => match error {
            StoreError::Fenced { held } => Told::Fenced(pair(held)),
            StoreError::SequenceConflict { last } => Told::Conflict(last),
            StoreError::TooLarge => Told::TooLarge,
            StoreError::Corrupt => Told::Corrupt,
            StoreError::NoStore
            | StoreError::Busy
            | StoreError::Full
            | StoreError::Unavailable
            | StoreError::OutcomeUnknown
            | _ => Told::Unavailable,
        },
    }
}

fn to_outcome(told: Told) -> Outcome {
    Ok(match told {
        Told::Opened(first, last, snapshot) => StoreAnswer::Opened(LogState {
            first,
            last,
            snapshot,
        }),
        Told::Appended(last) => StoreAnswer::Appended { last },
        Told::Records(records, more) => {
            let record = |(sequence, held, bytes): (u64, Term, Vec<u8>)| Record {
                sequence,
                token: token(held),
                bytes: bytes.into(),
            };
            StoreAnswer::Records {
                records: records.into_iter().map(record).collect(),
                more,
            }
        }
        Told::Kept => StoreAnswer::Kept,
        Told::Snapshot(found) => StoreAnswer::Snapshot(found.map(|(through, held, state)| Snapshot {
            through,
            token: token(held),
            state: state.into(),
        })),
        Told::Deleted => StoreAnswer::Deleted,
        Told::Fenced(held) => return Err(StoreError::Fenced { held: token(held) }),
        Told::Conflict(last) => return Err(StoreError::SequenceConflict { last }),
        Told::TooLarge => return Err(StoreError::TooLarge),
        Told::Corrupt => return Err(StoreError::Corrupt),
        Told::Unavailable => return Err(StoreError::Unavailable),
    })
}

fn send(stream: &mut TcpStream, what: &impl Serialize) -> io::Result<()> {
    let bytes = postcard::to_allocvec(what).map_err(io::Error::other)?;
    let length = u32::try_from(bytes.len()).map_err(io::Error::other)?;
    stream.write_all(&[&length.to_le_bytes()[..], &bytes].concat())
}

fn receive<T: DeserializeOwned>(stream: &mut TcpStream) -> io::Result<T> {
    let mut length = [0; 4];
    stream.read_exact(&mut length)?;
    let length = usize::try_from(u32::from_le_bytes(length)).unwrap_or(usize::MAX);
    if length > FRAME_BYTES_MAX {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut bytes = vec![0; length];
    stream.read_exact(&mut bytes)?;
    postcard::from_bytes(&bytes).map_err(io::Error::other)
}

/// The parent's side: serves the file until the program ends, and says where.
pub(super) fn serve(path: &Path) -> io::Result<SocketAddr> {
    let mut store = Redb::open(path)?;
    store.open().map_err(io::Error::other)?;
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    let store = Arc::new(Mutex::new(store));
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let store = Arc::clone(&store);
            thread::spawn(move || answer(stream, &store));
        }
    });
    Ok(address)
}

/// Answers one node until it hangs up.
fn answer(mut stream: TcpStream, store: &Mutex<Redb>) {
    // A small answer must not wait for the next.
    let _ = stream.set_nodelay(true);
    while let Ok(asked) = receive::<Vec<(u16, Ask)>>(&mut stream) {
        let orders: Vec<(Space, StoreOrder)> = asked
            .into_iter()
            .map(|(space, ask)| (Space(space), to_order(ask)))
            .collect();
        let group: Vec<(Space, &StoreOrder)> = orders.iter().map(|(space, order)| (*space, order)).collect();
        let done = {
            let mut store = store.lock().unwrap_or_else(PoisonError::into_inner);
            let done = store.commit(&group);
            if matches!(done, Err(StoreFault::Failed(_) | StoreFault::Unavailable(_))) {
                // Tried again with the next group.
                let _ = store.open();
            }
            done
        };
        let said = match done {
            Ok(outcomes) => Group::Done(outcomes.into_iter().map(to_told).collect()),
            Err(StoreFault::Full(_)) => Group::Full,
            Err(StoreFault::Unavailable(_)) => Group::Unavailable,
            Err(StoreFault::Failed(_)) => Group::Failed,
        };
        if send(&mut stream, &said).is_err() {
            return;
        }
    }
}

/// A node's side.
#[derive(Debug)]
pub(super) struct SharedStore {
    address: SocketAddr,
    stream: Option<TcpStream>,
    own: SharedMemoryStore,
}

impl SharedStore {
    pub(super) fn at(address: SocketAddr) -> Self {
        Self {
            address,
            stream: None,
            own: SharedMemoryStore::new(),
        }
    }

    fn ask(&mut self, asks: &[(u16, Ask)]) -> Result<Vec<Outcome>, StoreFault> {
        let lost = || StoreFault::Unavailable(io::ErrorKind::NotConnected.into());
        let stream = self.stream.as_mut().ok_or_else(lost)?;
        // Whether it was done is not known if the connection breaks from here on.
        let said = send(stream, &asks).and_then(|()| receive(stream));
        let fault = match said.map_err(StoreFault::Failed)? {
            Group::Done(told) => return Ok(told.into_iter().map(to_outcome).collect()),
            Group::Full => StoreFault::Full(io::ErrorKind::StorageFull.into()),
            Group::Unavailable => lost(),
            Group::Failed => StoreFault::Failed(io::Error::other("the store failed")),
        };
        Err(fault)
    }
}

impl Store for SharedStore {
    fn open(&mut self) -> Result<StoreIdentity, StoreFault> {
        let connect = || {
            let stream = TcpStream::connect(self.address)?;
            stream.set_nodelay(true)?;
            stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
            Ok(stream)
        };
        self.stream = Some(connect().map_err(StoreFault::Unavailable)?);
        self.own.open()
    }

    fn commit(&mut self, orders: &[(Space, &StoreOrder)]) -> Result<Vec<Outcome>, StoreFault> {
        let asks: Vec<(u16, Ask)> = orders
            .iter()
            .filter_map(|(space, order)| Some((space.0, to_ask(order)?)))
            .collect();
        let mut told = if asks.is_empty() {
            Vec::new()
        } else {
            self.ask(&asks)?
        }
        .into_iter();
        let mut outcomes = Vec::with_capacity(orders.len());
        for order in orders {
            if to_ask(order.1).is_some() {
                outcomes.extend(told.next());
            } else {
                outcomes.extend(self.own.commit(std::slice::from_ref(order))?);
            }
        }
        Ok(outcomes)
    }

    fn scope(&self) -> StoreScope {
        StoreScope::Shared
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    quorate_conformance::shared_store_conformance!({
        let folder = std::env::temp_dir().join(format!(
            "quorate-counter-{}-{:?}",
            std::process::id(),
            thread::current().id()
        ));
        std::fs::create_dir_all(&folder).expect("a folder for a test");
        let address = serve(&folder.join("counters.redb")).expect("a file for a test");
        let reopen = move || {
            let own = SharedMemoryStore::new();
            move || {
                let (own, stream) = (own.clone(), None);
                Box::new(SharedStore { address, stream, own }) as Box<dyn Store>
            }
        };
        Some((reopen(), reopen()))
    });
}
