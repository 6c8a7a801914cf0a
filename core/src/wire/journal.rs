//! What voters and owners of quorum logs say, as bytes. Unstable: these layouts may change with any version
//! until they are declared stable. Spec: sharding 10.7, `docs/WIRE.md` 4.10.
#![deny(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]

use super::declare::{List, Maybe, Rises, Rising, by_hand, choice, messages, number_as, record};
use crate::bytes::{WireError, count_u16, text};
use crate::ident::UniqueAddress;
use crate::journal::protocol::{
    ENTRIES_MAX, LOG_NAME_BYTES_MAX, NUMBER_MAX, ReplicaAnswer, ReplicaAsk, ReplicaPage, ReplicaReply,
    ReplicaRequest, VOTERS_MAX, VoterBody, VoterMsg,
};
use crate::journal::state::{LogEntry, LogItem, LogPlace, SnapshotHead, StoreId, Voters};
use crate::message::JournalMsg as Msg;
use crate::store::{Bytes, LogName};
use crate::token::Token;

/// The stores of those who vote.
type Stores = Rising<List<u8, StoreId, VOTERS_MAX, 1>>;

/// A position or the number of a record: far below where adding one overflows.
struct LogNumber;

number_as! {
    StoreId: u128, "u128", |store: StoreId| store.0, StoreId;
}

by_hand! {
    LogNumber: u64, "u64", 8, u64::put, |reader, what| match reader.u64()? {
        number if number > NUMBER_MAX => Err(WireError::LimitExceeded { what }),
        number => Ok(number),
    };
    LogName: LogName, "log", 3, |log, what, out| {
        out.extend_from_slice(&count_u16(log.len(), what)?.to_le_bytes());
        out.extend_from_slice(log.as_bytes());
        Ok(())
    }, |reader, what| match usize::from(reader.u16()?) {
        len @ 1..=LOG_NAME_BYTES_MAX => text(reader.take(len)?, what).map(LogName::from),
        _ => Err(WireError::LimitExceeded { what }),
    };
    Bytes: Bytes, "bytes", 4, |bytes, what, out| {
        let len = u32::try_from(bytes.len()).map_err(|_| WireError::LimitExceeded { what })?;
        out.extend_from_slice(&len.to_le_bytes());
        out.extend_from_slice(bytes);
        Ok(())
    }, |reader, _| {
        let len = reader.u32()? as usize;
        reader.take(len).map(Bytes::from)
    };
}

impl Rises for StoreId {
    fn is_below(&self, next: &Self) -> bool {
        self < next
    }
}

record! { Voters as "voters" { is_settled: bool, stores: Stores } }

record! { VoterMsg as "voter" { to: UniqueAddress, body: VoterBody } }

choice! {
    VoterBody as "voter" {
        1 Introduction { asks: bool, store: Maybe<StoreId>, voters: Maybe<Voters> },
        2 Elect { stores: Stores },
    }
}

record! {
    ReplicaRequest as "request" { log: LogName, store: StoreId, opener: u64, id: u64, token: Token, ask: ReplicaAsk }
}

choice! {
    ReplicaAsk as "log request" {
        1 Promise,
        2 Read { from: LogPlace },
        3 Accept { entries: List<u16, LogEntry, ENTRIES_MAX> },
        4 Keep { snapshot: SnapshotHead, index: u32, bytes: Bytes },
    }
}

record! { ReplicaReply as "reply" { log: LogName, store: StoreId, opener: u64, id: u64, said: ReplicaAnswer } }

choice! {
    ReplicaAnswer as "log reply" {
        1 Page(page: ReplicaPage),
        2 Accepted,
        3 Kept,
        4 Refused { held: Token },
    }
}

record! {
    ReplicaPage as "page" { snapshot: Maybe<SnapshotHead>, next: Maybe<LogPlace>, items: List<u16, LogItem, ENTRIES_MAX> }
}

choice! {
    LogItem as "item" {
        1 Part { index: u32, bytes: Bytes },
        2 Entry { accepted: Token, entry: LogEntry },
    }
}

record! {
    LogEntry as "entry" { position: LogNumber, origin: Token, first: LogNumber, records: List<u16, Bytes, ENTRIES_MAX> }
}

record! { SnapshotHead as "snapshot" { through: LogNumber, covers: LogNumber, token: Token, parts: u32 } }

choice! {
    LogPlace as "place" {
        1 Part(part: u32),
        2 Entry(position: u64),
    }
}

messages! {
    Msg {
        VOTER "JournalVoter" Voter(voter: VoterMsg),
        REQUEST "JournalRequest" Request(request: ReplicaRequest),
        REPLY "JournalReply" Reply(reply: ReplicaReply),
    }
}
