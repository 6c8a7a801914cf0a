//! What Quorate nodes keep, in PostgreSQL: for several machines that share it.
//!
//! ```no_run
//! use quorate_store_postgres::{Postgres, Tls};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let authority = std::fs::read("/etc/orders/database-ca.pem")?;
//! let database = "host=db.internal user=orders password=secret dbname=orders";
//! let store = Postgres::new(database, "node-1", Tls::trusting(&authority)?)?;
//! // quorate_tokio::builder("orders").store(store)
//! # Ok(())
//! # }
//! ```
//!
//! # What belongs to whom
//! **Logs** are shared by all nodes that use the same database and schema: whoever opens one with a higher
//! token takes it from its owner, wherever that one runs. The token is written before anything is read, and
//! every append compares token and expected sequence in the statement that writes (sharding §10.7).
//!
//! **Keys** are each node's own, under the name given to [`Postgres::new`]: give every node its own name, and
//! the same one again when it is restarted. A node that is started twice under one name takes the keys from
//! its earlier life, whose writes are refused from then on. A tool ([`Store::open_unused`]) is refused while
//! a session of that node is open: each session holds an advisory lock on the node's name. A node that has
//! lost its connection is not seen; it counts as an earlier life afterwards.
//!
//! # What it guarantees
//! - An order is acknowledged once its transaction is committed and flushed: `synchronous_commit` is turned
//!   on where it is `off` or `local`. A server that runs with `fsync = off` is warned of, once per
//!   connection, and can lose what it acknowledged.
//! - What happens to a commit whose connection broke is not known, and is said so ([`StoreFault::Failed`]).
//! - A server that does not answer within the time limit counts as gone; its session ends itself a moment
//!   later, so that nobody waits for locks of a node that is away.
//! - Records and values carry checksums; what is damaged is not given out.
//!
//! # What it does not
//! It is as durable as the server: a failover to a standby that lacks the last commits takes acknowledged
//! ones back, so replicate synchronously. It does not pipeline: each order but plain writes costs a round
//! trip within its group's transaction.
#![forbid(unsafe_code)]

pub mod connection;
mod items;
mod logs;
mod schema;
mod session;
mod tls;

use std::fmt;
use std::io;
use std::str::FromStr;
use std::time::Duration;

use quorate_driver::store::{Outcome, Space, StoreIdentity, StoreOrder};
use quorate_driver::store::{Store, StoreFault, StoreScope};

use schema::KeyUser;
use session::PostgresSession;
pub use tls::Tls;

/// How long the server may take for one group of orders, unless [`Postgres::timeout`] says otherwise.
pub const TIMEOUT_DEFAULT: Duration = Duration::from_secs(10);

/// The schema that holds the tables, unless [`Postgres::schema`] says otherwise.
pub const SCHEMA_DEFAULT: &str = "quorate";

/// A node's name: 1 to so many bytes.
pub const NODE_NAME_BYTES_MAX: usize = 255;

/// A store in PostgreSQL. Give it to a node with `ClusterBuilder::store`. Connects when the node starts, and
/// again whenever the connection was lost.
pub struct Postgres {
    settings: ServerSettings,
    session: Option<PostgresSession>,
}

/// How to reach the server.
pub(crate) struct ServerSettings {
    pub(crate) config: tokio_postgres::Config,
    pub(crate) tls: Tls,
    pub(crate) node: String,
    pub(crate) schema: String,
    pub(crate) timeout: Duration,
}

impl Postgres {
    /// A store at this server, `host=db user=orders dbname=orders` or `postgres://orders@db/orders`, for the
    /// node of this name. Does not connect yet. A password belongs into the text or into the environment of
    /// the program that makes it; it is never logged.
    ///
    /// # Errors
    /// The text cannot be read or asks for TLS (`sslmode=require`) and there is none ([`Tls::off`]), or the
    /// node's name is empty, too long, or has a zero byte.
    pub fn new(server: &str, node: &str, tls: Tls) -> io::Result<Self> {
        let invalid = |what: String| io::Error::new(io::ErrorKind::InvalidInput, what);
        let config = tokio_postgres::Config::from_str(server)
            .map_err(|error| invalid(session::with_causes(&error)))?;
        if config.get_ssl_mode() == tokio_postgres::config::SslMode::Require && tls.is_off() {
            let what = "the server's text says sslmode=require, and TLS is off";
            return Err(invalid(what.to_owned()));
        }
        if !(1..=NODE_NAME_BYTES_MAX).contains(&node.len()) || node.contains('\0') {
            return Err(invalid(format!(
                "a node's name has 1 to {NODE_NAME_BYTES_MAX} bytes, none of them zero"
            )));
        }
        Ok(Self {
            settings: ServerSettings {
                config,
                tls,
                node: node.to_owned(),
                schema: SCHEMA_DEFAULT.to_owned(),
                timeout: TIMEOUT_DEFAULT,
            },
            session: None,
        })
    }

    /// The schema that holds the tables (default [`SCHEMA_DEFAULT`]); it is made if it is not there. Clusters
    /// that share a database take one each.
    ///
    /// # Errors
    /// The name is not 1 to 63 lower-case letters, digits and underscores, beginning with a letter.
    pub fn schema(mut self, name: &str) -> io::Result<Self> {
        let is_plain = name
            .bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_');
        if !is_plain || name.len() > 63 || !name.starts_with(|first: char| first.is_ascii_lowercase()) {
            let what = "a schema's name is 1 to 63 lower-case letters, digits and underscores, beginning with a letter";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
        }
        name.clone_into(&mut self.settings.schema);
        Ok(self)
    }

    /// How long the server may take for one group of orders, the connection included (default 10 s, at least
    /// 10 ms).
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.settings.timeout = timeout.max(Duration::from_millis(10));
        self
    }
}

impl Postgres {
    fn connect(&mut self, user: KeyUser) -> Result<StoreIdentity, StoreFault> {
        self.session = None;
        let session = PostgresSession::connect(&self.settings, user)?;
        let identity = session.identity();
        self.session = Some(session);
        Ok(identity)
    }
}

impl fmt::Debug for Postgres {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Postgres")
            .field("node", &self.settings.node)
            .field("schema", &self.settings.schema)
            .field("is_connected", &self.session.is_some())
            .finish_non_exhaustive()
    }
}

impl Store for Postgres {
    fn open(&mut self) -> Result<StoreIdentity, StoreFault> {
        self.connect(KeyUser::Node)
    }

    fn open_unused(&mut self) -> Result<StoreIdentity, StoreFault> {
        self.connect(KeyUser::Tool)
    }

    fn commit(&mut self, orders: &[(Space, &StoreOrder)]) -> Result<Vec<Outcome>, StoreFault> {
        let Some(session) = &mut self.session else {
            return Err(StoreFault::Unavailable(io::Error::other("not connected")));
        };
        let done = session.commit(orders);
        if matches!(done, Err(StoreFault::Unavailable(_) | StoreFault::Failed(_))) {
            self.session = None;
        }
        done
    }

    fn scope(&self) -> StoreScope {
        StoreScope::Shared
    }
}

/// The README's example compiles.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
