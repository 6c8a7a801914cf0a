//! Leases of Quorate clusters in PostgreSQL: for lease-majority across machines.
//!
//! ```no_run
//! use std::sync::Arc;
//!
//! use quorate_lease_postgres::{PostgresLeases, Tls};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let authority = std::fs::read("/etc/orders/database-ca.pem")?;
//! let database = "host=db.internal user=orders dbname=orders";
//! let leases = PostgresLeases::new(database, Tls::trusting(&authority)?)?;
//! // quorate_tokio::builder("orders").leases(Arc::new(leases))
//! # Ok(())
//! # }
//! ```
//!
//! A lease is one row, and every question one statement: who waited for another's statement compares again.
//! Time is the server's: a holder that is not heard of for its time to live by **that** clock loses the
//! lease, so clocks of nodes do not matter. The node gives a lease up by its own monotonic clock, counted
//! from before it asked, and so before the server does; setting the server's clock forward by more than it
//! takes breaks that, as does a failover to a standby that lacks the last commits.
//!
//! A lease keeper blocks. The node asks it on a thread of its own; do not call it in asynchronous code.
#![forbid(unsafe_code)]

use std::fmt;
use std::io;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use quorate_driver::UniqueAddress;
use quorate_driver::lease::LeaseKeeper;
use quorate_store_postgres::connection::{self, Connection};
pub use quorate_store_postgres::{SCHEMA_DEFAULT, Tls};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

/// How long the server may take for an answer, the connection included, unless [`PostgresLeases::timeout`]
/// says otherwise.
pub const TIMEOUT_DEFAULT: Duration = Duration::from_secs(5);

/// Leases in PostgreSQL. Give one to a node with `ClusterBuilder::leases`. Connects with the first question,
/// and again after each that failed.
pub struct PostgresLeases {
    settings: connection::Settings,
    connection: Mutex<Option<Connection>>,
}

impl PostgresLeases {
    /// Leases at this server, `host=db user=orders dbname=orders` or `postgres://orders@db/orders`. Does not
    /// connect yet.
    ///
    /// # Errors
    /// The text cannot be read, or asks for TLS (`sslmode=require`) and there is none.
    pub fn new(server: &str, tls: Tls) -> io::Result<Self> {
        let settings = connection::Settings::new(server, tls)?.timeout(TIMEOUT_DEFAULT);
        Ok(Self {
            settings,
            connection: Mutex::default(),
        })
    }

    /// The schema that holds the table (default [`SCHEMA_DEFAULT`]); it is made if it is not there. Clusters
    /// that share a database take one each, or name their leases apart.
    ///
    /// # Errors
    /// The name is not 1 to 63 lower-case letters, digits and underscores, beginning with a letter.
    pub fn schema(mut self, name: &str) -> io::Result<Self> {
        self.settings = self.settings.schema(name)?;
        Ok(self)
    }

    /// How long the server may take (default 5 s, at least 10 ms). Keep it well below a quarter of the
    /// leases' time to live, or a server that is slow once costs the lease.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.settings = self.settings.timeout(timeout);
        self
    }

    /// Asks one question; after an error the next one connects again.
    fn ask(&self, question: &str, values: &[&(dyn ToSql + Sync)]) -> io::Result<Option<Row>> {
        let mut held = self.connection.lock().unwrap_or_else(PoisonError::into_inner);
        let connection = match held.take() {
            Some(connection) => connection,
            None => Connection::open(&self.settings, TABLE)?,
        };
        let row = connection.query_opt(question, values)?;
        *held = Some(connection);
        Ok(row)
    }
}

const TABLE: &str = "CREATE TABLE IF NOT EXISTS leases (
    name text PRIMARY KEY, owner text, token bigint NOT NULL, expires timestamptz NOT NULL, millis double precision NOT NULL)";

const ACQUIRE: &str = "INSERT INTO leases AS held (name, owner, token, expires, millis)
    VALUES ($1, $2, 1, clock_timestamp() + $3 * interval '1 millisecond', $3)
    ON CONFLICT (name) DO UPDATE SET
        token = CASE WHEN held.owner = excluded.owner AND held.expires > clock_timestamp()
                THEN held.token ELSE held.token + 1 END,
        owner = excluded.owner, millis = excluded.millis,
        expires = clock_timestamp() + excluded.millis * interval '1 millisecond'
    WHERE held.owner IS NULL OR held.owner = excluded.owner OR held.expires <= clock_timestamp()
    RETURNING token";

const RENEW: &str = "UPDATE leases SET expires = clock_timestamp() + millis * interval '1 millisecond'
    WHERE name = $1 AND owner = $2 AND token = $3 AND expires > clock_timestamp() RETURNING token";

const RELEASE: &str = "UPDATE leases SET owner = NULL WHERE name = $1 AND owner = $2 RETURNING token";

impl fmt::Debug for PostgresLeases {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresLeases").finish_non_exhaustive()
    }
}

impl LeaseKeeper for PostgresLeases {
    fn acquire(&self, name: &str, owner: &UniqueAddress, time_to_live: Duration) -> io::Result<Option<u64>> {
        let millis = time_to_live.as_secs_f64() * 1_000.0;
        let row = self.ask(ACQUIRE, &[&name, &owner.to_string(), &millis])?;
        let Some(row) = row else {
            return Ok(None);
        };
        let token: i64 = row.try_get(0).map_err(io::Error::other)?;
        u64::try_from(token).map(Some).map_err(io::Error::other)
    }

    fn renew(&self, name: &str, owner: &UniqueAddress, token: u64) -> io::Result<bool> {
        let token = i64::try_from(token).map_err(io::Error::other)?;
        let row = self.ask(RENEW, &[&name, &owner.to_string(), &token])?;
        Ok(row.is_some())
    }

    fn release(&self, name: &str, owner: &UniqueAddress) -> io::Result<()> {
        self.ask(RELEASE, &[&name, &owner.to_string()])?;
        Ok(())
    }
}

/// The README's example compiles.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
