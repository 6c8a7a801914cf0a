//! The store without Quorate around it: one thread, and groups of as many appends as entities are asked at
//! once, each to a log of its own.

use std::time::{Duration, Instant};

use quorate_driver::Token;
use quorate_driver::store::Store;
use quorate_driver::store::{Bytes, LogName, Space, StoreOrder};

use super::{Failure, rate};

/// As long as what an entity writes: version and number.
const RECORD: [u8; 8] = [1; 8];

/// Entities write in 16; it does not matter.
const SPACE: Space = Space(17);

const TOKEN: Token = Token::new(0, 1);

/// Commits groups for so long.
pub(super) fn appends_per_s(mut store: impl Store, at_once: usize, time: Duration) -> Result<f64, Failure> {
    store.open()?;
    let logs: Vec<LogName> = (0..at_once)
        .map(|log| LogName::from(format!("Counter/{log}")))
        .collect();
    let open = |log: &LogName| StoreOrder::Open {
        log: LogName::clone(log),
        token: TOKEN,
        opener: 1,
    };
    commit(&mut store, &logs.iter().map(open).collect::<Vec<_>>())?;
    let (started, mut expected) = (Instant::now(), 0);
    while started.elapsed() < time {
        let append = |log: &LogName| StoreOrder::Append {
            log: LogName::clone(log),
            token: TOKEN,
            expected,
            records: vec![Bytes::from(RECORD)],
        };
        commit(&mut store, &logs.iter().map(append).collect::<Vec<_>>())?;
        expected += 1;
    }
    Ok(rate(expected * at_once as u64, started))
}

fn commit(store: &mut impl Store, orders: &[StoreOrder]) -> Result<(), Failure> {
    let group: Vec<(Space, &StoreOrder)> = orders.iter().map(|order| (SPACE, order)).collect();
    for outcome in store.commit(&group)? {
        outcome?;
    }
    Ok(())
}
