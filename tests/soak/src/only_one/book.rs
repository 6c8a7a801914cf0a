//! The invoice book: a log in a file that one process holds for all, and the words in which an instance
//! speaks to it. The rules of a fenced log are the store's (sharding 10.7): a token is written before
//! anything is read, from then on every lower one is refused, and an append names the invoice that it
//! believes to be the last.

use std::fmt;
use std::path::Path;
use std::str::FromStr;

use quorate_core::store::{Outcome, Space, StoreAnswer, StoreError, StoreOrder};
use quorate_core::token::Token;
use quorate_driver::store::Store;
use quorate_store_redb::Redb;

/// The book's part of its file: none of Quorate's own.
const SPACE: Space = Space(1_000);
const LOG: &str = "invoices";
/// Bytes of one answer with invoices: a line.
const PAGE_BYTES: usize = 16 << 10;

/// What an instance wants of the book.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Request {
    /// It is this token's from now on.
    Open { token: Token, opener: u64 },
    /// The invoices from this number on.
    Read { from: u64 },
    /// One more, behind the last one that the instance knows.
    Append {
        token: Token,
        expected: u64,
        order: String,
    },
}

/// What the book says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Reply {
    /// It is the instance's; the last invoice's number.
    Opened { last: u64 },
    /// Orders by number, and whether there are more.
    Invoices { orders: Vec<(u64, String)>, more: bool },
    /// It is stored under this number.
    Appended { number: u64 },
    /// A higher token has opened the book.
    Fenced { held: Token },
    /// The book ends elsewhere.
    Conflict { last: u64 },
    /// It cannot say.
    Failed,
}

/// One invoice as it is in the book.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Invoice {
    pub(super) number: u64,
    pub(super) token: Token,
    pub(super) order: String,
}

pub(super) struct Book {
    store: Redb,
}

impl Book {
    pub(super) fn open(path: &Path) -> Result<Self, String> {
        let mut store = Redb::open(path).map_err(|error| format!("{}: {error}", path.display()))?;
        store
            .open()
            .map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(Self { store })
    }

    /// Does it, durably.
    pub(super) fn obey(&mut self, request: &Request) -> Reply {
        let log = || LOG.into();
        let order = match request {
            Request::Open { token, opener } => StoreOrder::Open {
                log: log(),
                token: *token,
                opener: *opener,
            },
            Request::Read { from } => read(*from),
            Request::Append {
                token,
                expected,
                order,
            } => StoreOrder::Append {
                log: log(),
                token: *token,
                expected: *expected,
                records: vec![order.as_bytes().into()],
            },
        };
        match self.commit(&order) {
            Ok(StoreAnswer::Opened(state)) => Reply::Opened { last: state.last },
            Ok(StoreAnswer::Appended { last }) => Reply::Appended { number: last },
            Ok(StoreAnswer::Records { records, more }) => Reply::Invoices {
                orders: records
                    .iter()
                    .map(|record| (record.sequence, text(&record.bytes)))
                    .collect(),
                more,
            },
            Err(StoreError::Fenced { held }) => Reply::Fenced { held },
            Err(StoreError::SequenceConflict { last }) => Reply::Conflict { last },
            Ok(_) | Err(_) => Reply::Failed,
        }
    }

    /// All of it.
    pub(super) fn invoices(&mut self) -> Result<Vec<Invoice>, String> {
        let mut invoices: Vec<Invoice> = Vec::new();
        loop {
            let from = invoices.last().map_or(1, |last| last.number + 1);
            let (records, more) = match self.commit(&read(from)) {
                Ok(StoreAnswer::Records { records, more }) => (records, more),
                Ok(other) => return Err(format!("the book answers {other:?}")),
                Err(error) => return Err(format!("the book: {error}")),
            };
            invoices.extend(records.iter().map(|record| Invoice {
                number: record.sequence,
                token: record.token,
                order: text(&record.bytes),
            }));
            if !more {
                return Ok(invoices);
            }
        }
    }

    fn commit(&mut self, order: &StoreOrder) -> Outcome {
        let outcomes = self.store.commit(&[(SPACE, order)]);
        let first = outcomes.ok().and_then(|outcomes| outcomes.into_iter().next());
        first.unwrap_or(Err(StoreError::Unavailable))
    }
}

fn read(from: u64) -> StoreOrder {
    StoreOrder::ReadLog {
        log: LOG.into(),
        from,
        bytes_max: PAGE_BYTES,
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// One line: words with a space between. An order's name has none.
impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Open { token, opener } => write!(f, "open {} {} {opener}", token.term, token.count),
            Self::Read { from } => write!(f, "read {from}"),
            Self::Append {
                token,
                expected,
                order,
            } => write!(f, "append {} {} {expected} {order}", token.term, token.count),
        }
    }
}

impl FromStr for Request {
    type Err = ();

    fn from_str(line: &str) -> Result<Self, ()> {
        let words: Vec<&str> = line.split(' ').collect();
        match *words.as_slice() {
            ["open", term, count, opener] => Ok(Self::Open {
                token: token(term, count)?,
                opener: number(opener)?,
            }),
            ["read", from] => Ok(Self::Read { from: number(from)? }),
            ["append", term, count, expected, order] => Ok(Self::Append {
                token: token(term, count)?,
                expected: number(expected)?,
                order: order.to_owned(),
            }),
            _ => Err(()),
        }
    }
}

impl fmt::Display for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Opened { last } => write!(f, "opened {last}"),
            Self::Invoices { orders, more } => {
                write!(f, "invoices {}", u8::from(*more))?;
                orders
                    .iter()
                    .try_for_each(|(number, order)| write!(f, " {number} {order}"))
            }
            Self::Appended { number } => write!(f, "appended {number}"),
            Self::Fenced { held } => write!(f, "fenced {} {}", held.term, held.count),
            Self::Conflict { last } => write!(f, "conflict {last}"),
            Self::Failed => f.write_str("failed"),
        }
    }
}

impl FromStr for Reply {
    type Err = ();

    fn from_str(line: &str) -> Result<Self, ()> {
        let words: Vec<&str> = line.split(' ').collect();
        match *words.as_slice() {
            ["opened", last] => Ok(Self::Opened { last: number(last)? }),
            ["invoices", more, ref orders @ ..] => Ok(Self::Invoices {
                orders: orders
                    .chunks_exact(2)
                    .map(|pair| Ok((number(pair[0])?, pair[1].to_owned())))
                    .collect::<Result<_, ()>>()?,
                more: more == "1",
            }),
            ["appended", last] => Ok(Self::Appended {
                number: number(last)?,
            }),
            ["fenced", term, count] => Ok(Self::Fenced {
                held: token(term, count)?,
            }),
            ["conflict", last] => Ok(Self::Conflict { last: number(last)? }),
            ["failed"] => Ok(Self::Failed),
            _ => Err(()),
        }
    }
}

fn number(word: &str) -> Result<u64, ()> {
    word.parse().map_err(drop)
}

fn token(term: &str, count: &str) -> Result<Token, ()> {
    Ok(Token::new(number(term)?, number(count)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_is_understood() {
        let token = Token::new(3, 2);
        let requests = [
            Request::Open { token, opener: 9 },
            Request::Read { from: 7 },
            Request::Append {
                token,
                expected: 41,
                order: "n1-2-3".to_owned(),
            },
        ];
        for request in requests {
            assert_eq!(request.to_string().parse(), Ok(request));
        }
        let orders = vec![(1, "n1-2-3".to_owned()), (2, "n1-2-4".to_owned())];
        let replies = [
            Reply::Opened { last: 7 },
            Reply::Invoices { orders, more: true },
            Reply::Invoices {
                orders: Vec::new(),
                more: false,
            },
            Reply::Appended { number: 8 },
            Reply::Fenced { held: token },
            Reply::Conflict { last: 8 },
            Reply::Failed,
        ];
        for reply in replies {
            assert_eq!(reply.to_string().parse(), Ok(reply));
        }
        assert_eq!("append 1 1 x".parse::<Request>(), Err(()));
    }
}
