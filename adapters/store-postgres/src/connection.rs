//! One connection whose statements are transactions of their own, for crates that keep something else than a
//! store in PostgreSQL. Blocks; decides nothing.

use std::fmt;
use std::io;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Row};

use crate::session::{SessionFault, configure, connect, too_late};
use crate::{Postgres, Tls, schema};

/// How to reach a server: the same as for a [`Postgres`] store, without a node's name.
pub struct Settings(Postgres);

impl Settings {
    /// See [`Postgres::new`].
    ///
    /// # Errors
    /// The text cannot be read.
    pub fn new(server: &str, tls: Tls) -> io::Result<Self> {
        Postgres::new(server, "-", tls).map(Self)
    }

    /// See [`Postgres::schema`].
    ///
    /// # Errors
    /// The name is not legal.
    pub fn schema(self, name: &str) -> io::Result<Self> {
        self.0.schema(name).map(Self)
    }

    /// See [`Postgres::timeout`].
    #[must_use]
    pub fn timeout(self, timeout: Duration) -> Self {
        Self(self.0.timeout(timeout))
    }
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// See the module.
pub struct Connection {
    /// `None` once it is being dropped.
    runtime: Option<Runtime>,
    client: Client,
    timeout: Duration,
}

impl Connection {
    /// Connects, and makes the schema and this table if they are not there.
    ///
    /// # Errors
    /// The server cannot be reached in time, or refuses.
    pub fn open(settings: &Settings, table: &str) -> io::Result<Self> {
        let settings = &settings.0.settings;
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let work = async {
            let mut client = connect(settings).await?;
            configure(&client, settings.timeout).await?;
            schema::prepare_with(&mut client, &settings.schema, table).await?;
            Ok::<_, SessionFault>(client)
        };
        let opened = runtime.block_on(async { tokio::time::timeout(settings.timeout, work).await });
        let client = opened.map_err(|_| too_late())??;
        Ok(Self {
            runtime: Some(runtime),
            client,
            timeout: settings.timeout,
        })
    }

    /// The row that a statement gives back, if there is one.
    ///
    /// # Errors
    /// The server cannot be asked or does not answer in time; the statement may have been done.
    pub fn query_opt(&self, statement: &str, values: &[&(dyn ToSql + Sync)]) -> io::Result<Option<Row>> {
        let Some(runtime) = &self.runtime else {
            return Err(too_late());
        };
        let work = self.client.query_opt(statement, values);
        let done = runtime.block_on(async { tokio::time::timeout(self.timeout, work).await });
        let done = done.map_err(|_| too_late())?;
        done.map_err(|error| SessionFault::from(error).into())
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        // Ending a runtime waits, which is forbidden in asynchronous code, where the last handle may be
        // dropped.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").finish_non_exhaustive()
    }
}
