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
    let disk = Disk::create(file)?;
    let values = vec![vec![1; bytes]; IN_FLIGHT];
    let alone = values.get(..1).unwrap_or_default();
    let mut times = Vec::with_capacity(size.single);
    for number in 0..size.single + size.single / 10 {
        let asked = Instant::now();
        disk.commit(alone)?;
        // The first ones warm up.
        if number >= size.single / 10 {
            times.push(asked.elapsed());
        }
    }
    let (p50_us, p99_us) = percentiles(&mut times);
    let (started, mut written) = (Instant::now(), 0);
    while started.elapsed() < size.each {
        disk.commit(&values)?;
        written += IN_FLIGHT;
    }
    let per_s = written as f64 / started.elapsed().as_secs_f64();
    Ok(Figures {
        p50_us,
        p99_us,
        per_s,
    })
}

/// A file with a table of numbered values.
#[derive(Debug)]
pub(crate) struct Disk(Database);

impl Disk {
    pub(crate) fn create(file: &Path) -> Result<Self, Failure> {
        Ok(Self(Database::create(file)?))
    }

    /// All of them in one commit, each in the place of the last one with its number.
    pub(crate) fn commit(&self, values: &[Vec<u8>]) -> Result<(), Failure> {
        let mut transaction = self.0.begin_write()?;
        transaction.set_durability(Durability::Immediate)?;
        let mut table = transaction.open_table(TABLE)?;
        for (key, value) in (0..).zip(values) {
            table.insert(key, value.as_slice())?;
        }
        drop(table);
        Ok(transaction.commit()?)
    }
}
