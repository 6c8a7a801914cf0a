//! redb without Quorate: one thread, a table, a commit that is durable when it returns.

use std::path::Path;
use std::time::Instant;

use redb::{Database, Durability, TableDefinition};

use super::report::Figures;
use crate::Failure;
use crate::measure::{IN_FLIGHT, Size, percentiles};

const TABLE: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("bench");

/// The time of a commit with one value; and values per second when each commit has as many as there are
/// updates in flight.
pub(super) fn figures(file: &Path, bytes: usize, size: Size) -> Result<Figures, Failure> {
    let database = Database::create(file)?;
    let mut times = Vec::with_capacity(size.single);
    for number in 0..size.single + size.single / 10 {
        let asked = Instant::now();
        commit(&database, 1, bytes)?;
        // The first ones warm up.
        if number >= size.single / 10 {
            times.push(asked.elapsed());
        }
    }
    let (p50_us, p99_us) = percentiles(&mut times);
    let (started, mut written) = (Instant::now(), 0);
    while started.elapsed() < size.each {
        commit(&database, IN_FLIGHT, bytes)?;
        written += IN_FLIGHT;
    }
    let per_s = written as f64 / started.elapsed().as_secs_f64();
    Ok(Figures {
        p50_us,
        p99_us,
        per_s,
    })
}

fn commit(database: &Database, values: usize, bytes: usize) -> Result<(), Failure> {
    let mut transaction = database.begin_write()?;
    transaction.set_durability(Durability::Immediate)?;
    let mut table = transaction.open_table(TABLE)?;
    for key in 0..values {
        table.insert(key as u64, &*vec![1; bytes])?;
    }
    drop(table);
    Ok(transaction.commit()?)
}
