//! The rules of a store over redb's transactions: one table, one commit per group. Decides nothing. Spec:
//! sharding 10.10.

use std::io;
use std::sync::Arc;

use quorate_driver::store::new_store_id;
use quorate_driver::store::rules::{self, ReadTransaction as Reads, Visit, WriteTransaction as Writes};
use quorate_driver::store::{Outcome, Space, StoreIdentity, StoreOrder};
use redb::{
    Builder, Database, DatabaseError, ReadOnlyTable, ReadableDatabase, ReadableTable, StorageBackend,
    StorageError, Table, TableDefinition, TableError,
};

use super::backend::{CommitFlags, WatchedBackend};

const TABLE: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("quorate");

/// Pages that are kept in memory. A node's store is small; whoever reads much of it reads it once, at the
/// start.
const CACHE_BYTES: usize = 16 << 20;

/// An open file.
pub(crate) struct RedbEngine {
    database: Database,
}

impl RedbEngine {
    /// Opens and verifies: redb reads every page and its checksum.
    pub(crate) fn open(backend: Box<dyn StorageBackend>, flags: &Arc<CommitFlags>) -> io::Result<Self> {
        let mut builder = Builder::new();
        builder
            .set_cache_size(CACHE_BYTES)
            .set_check_integrity_on_open(true);
        let database = builder
            .create_with_backend(WatchedBackend::new(backend, flags))
            .map_err(open_error)?;
        Ok(Self { database })
    }

    /// Which store this is, if it was one before.
    pub(crate) fn identity(&self) -> io::Result<Option<StoreIdentity>> {
        let transaction = self.database.begin_read().map_err(io::Error::other)?;
        match transaction.open_table(TABLE) {
            Ok(table) => rules::identity(&RedbReading(table))?
                .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "the store's identity is damaged")),
            Err(TableError::TableDoesNotExist(_)) => Ok(None),
            Err(error) => Err(io::Error::other(error)),
        }
    }

    /// Counts one more life.
    pub(crate) fn boot(&self) -> io::Result<StoreIdentity> {
        let new_id = new_store_id()?;
        let identity = self.change(|table| rules::boot(table, new_id))?;
        identity.map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "the store's identity is damaged"))
    }

    /// Orders that change nothing.
    pub(crate) fn read(&self, orders: &[(Space, &StoreOrder)]) -> io::Result<Vec<Outcome>> {
        let transaction = self.database.begin_read().map_err(io::Error::other)?;
        let table = RedbReading(transaction.open_table(TABLE).map_err(table_error)?);
        let obey = |(space, order): &(Space, &StoreOrder)| rules::read(&table, *space, order);
        orders.iter().map(obey).collect()
    }

    /// All orders in one commit.
    pub(crate) fn write(&self, orders: &[(Space, &StoreOrder)]) -> io::Result<Vec<Outcome>> {
        self.change(|table| {
            let mut obey = |(space, order): &(Space, &StoreOrder)| rules::obey(table, *space, order);
            orders.iter().map(&mut obey).collect()
        })
    }

    fn change<T>(&self, change: impl FnOnce(&mut RedbWriting<'_>) -> io::Result<T>) -> io::Result<T> {
        // Durable when it returns: that is redb's default.
        let transaction = self.database.begin_write().map_err(io::Error::other)?;
        let table = transaction.open_table(TABLE).map_err(table_error)?;
        let mut writing = RedbWriting(table);
        let changed = change(&mut writing)?;
        drop(writing);
        transaction.commit().map_err(commit_error)?;
        Ok(changed)
    }
}

struct RedbReading(ReadOnlyTable<&'static [u8], &'static [u8]>);

struct RedbWriting<'t>(Table<'t, &'static [u8], &'static [u8]>);

impl Reads for RedbReading {
    type Error = io::Error;

    fn get(&self, key: &[u8]) -> io::Result<Option<Vec<u8>>> {
        get(&self.0, key)
    }

    fn range(&self, from: &[u8], to: &[u8], visit: &mut Visit<'_>) -> io::Result<()> {
        range(&self.0, from, to, visit)
    }
}

impl Reads for RedbWriting<'_> {
    type Error = io::Error;

    fn get(&self, key: &[u8]) -> io::Result<Option<Vec<u8>>> {
        get(&self.0, key)
    }

    fn range(&self, from: &[u8], to: &[u8], visit: &mut Visit<'_>) -> io::Result<()> {
        range(&self.0, from, to, visit)
    }
}

impl Writes for RedbWriting<'_> {
    fn put(&mut self, key: &[u8], value: &[u8]) -> io::Result<()> {
        self.0.insert(key, value).map_err(io_error)?;
        Ok(())
    }

    fn delete(&mut self, key: &[u8]) -> io::Result<()> {
        self.0.remove(key).map_err(io_error)?;
        Ok(())
    }

    fn delete_range(&mut self, from: &[u8], to: &[u8]) -> io::Result<()> {
        if from < to {
            self.0
                .retain_in::<&[u8], _>(from..to, |_, _| false)
                .map_err(io_error)?;
        }
        Ok(())
    }
}

fn get(table: &impl ReadableTable<&'static [u8], &'static [u8]>, key: &[u8]) -> io::Result<Option<Vec<u8>>> {
    let value = table.get(key).map_err(io_error)?;
    Ok(value.map(|value| value.value().to_vec()))
}

fn range(
    table: &impl ReadableTable<&'static [u8], &'static [u8]>,
    from: &[u8],
    to: &[u8],
    visit: &mut Visit<'_>,
) -> io::Result<()> {
    if from >= to {
        return Ok(());
    }
    for entry in table.range::<&[u8]>(from..to).map_err(io_error)? {
        let (key, value) = entry.map_err(io_error)?;
        if visit(key.value(), value.value()).is_break() {
            break;
        }
    }
    Ok(())
}

/// Keeps what the system said: whether the disk is full.
fn io_error(error: StorageError) -> io::Error {
    if let StorageError::Io(error) = error {
        return error;
    }
    io::Error::other(error)
}

fn open_error(error: DatabaseError) -> io::Error {
    if let DatabaseError::Storage(error) = error {
        return io_error(error);
    }
    if matches!(error, DatabaseError::DatabaseAlreadyOpen) {
        let why = "the file is in use by another process or node";
        return io::Error::new(io::ErrorKind::ResourceBusy, why);
    }
    io::Error::other(error)
}

fn commit_error(error: redb::CommitError) -> io::Error {
    if let redb::CommitError::Storage(error) = error {
        return io_error(error);
    }
    io::Error::other(error)
}

fn table_error(error: TableError) -> io::Error {
    if let TableError::Storage(error) = error {
        return io_error(error);
    }
    io::Error::other(error)
}
