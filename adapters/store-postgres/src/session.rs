//! One connection: runs a group of orders as one transaction, and says what an error means. Spec: sharding
//! 10.7; reliability I-81.

use std::error::Error;
use std::io;
use std::time::Duration;

use quorate_driver::Token;
use quorate_driver::store::StoreFault;
use quorate_driver::store::{
    Outcome, OwnedLog, Space, StoreAnswer, StoreError, StoreIdentity, StoreOrder, rules,
};
use tokio::runtime::{Builder, Runtime};
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, NoTls, Transaction};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::schema::KeyUser;
use crate::{ServerSettings, items, logs, schema};

/// Two nodes whose groups want the same logs in another order stop each other: one of them begins again.
const ATTEMPTS_MAX: u32 = 10;

/// What can go wrong before a transaction is committed: nothing of it is there.
#[derive(Debug)]
pub(crate) enum SessionFault {
    Server(tokio_postgres::Error),
    Io(io::Error),
    Damaged(&'static str),
}

impl From<tokio_postgres::Error> for SessionFault {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Server(error)
    }
}

impl From<SessionFault> for io::Error {
    fn from(fault: SessionFault) -> Self {
        match fault {
            // Its own text is "db error", with what the server said behind it.
            SessionFault::Server(error) => match error.as_db_error() {
                Some(said) => Self::other(format!("{said} ({})", said.code().code())),
                None => Self::other(with_causes(&error)),
            },
            SessionFault::Io(error) => error,
            SessionFault::Damaged(what) => {
                Self::new(io::ErrorKind::InvalidData, format!("{what} is damaged"))
            }
        }
    }
}

/// An error, and behind it what it came from: its own text says only what was tried.
pub(crate) fn with_causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

impl SessionFault {
    fn code(&self) -> Option<&SqlState> {
        match self {
            Self::Server(error) => error.code(),
            Self::Io(_) | Self::Damaged(_) => None,
        }
    }

    fn begins_again(&self) -> bool {
        let code = self.code();
        code == Some(&SqlState::T_R_DEADLOCK_DETECTED) || code == Some(&SqlState::T_R_SERIALIZATION_FAILURE)
    }

    fn is_full(&self) -> bool {
        self.code() == Some(&SqlState::DISK_FULL)
    }
}

/// What became of a transaction.
enum TransactionOutcome {
    /// It is not there.
    Undone(SessionFault),
    /// The server did not say.
    Unknown(SessionFault),
}

impl From<SessionFault> for TransactionOutcome {
    fn from(fault: SessionFault) -> Self {
        Self::Undone(fault)
    }
}

impl From<tokio_postgres::Error> for TransactionOutcome {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Undone(SessionFault::Server(error))
    }
}

/// See the module.
pub(crate) struct PostgresSession {
    /// `None` once it is being dropped.
    runtime: Option<Runtime>,
    client: Client,
    node: String,
    identity: StoreIdentity,
    timeout: Duration,
}

impl PostgresSession {
    /// Connects, prepares the tables, and counts one more life.
    pub(crate) fn connect(settings: &ServerSettings, user: KeyUser) -> Result<Self, StoreFault> {
        // The store has a thread of its own; the connection is driven while that thread waits.
        let runtime = Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(StoreFault::Unavailable)?;
        let work = async {
            let mut client = connect(settings).await?;
            configure(&client, settings.timeout).await?;
            schema::prepare(&mut client, &settings.schema).await?;
            if !schema::hold(&client, &settings.schema, &settings.node, user).await? {
                let what = format!("node {} uses it", settings.node);
                return Err(SessionFault::Io(io::Error::new(
                    io::ErrorKind::ResourceBusy,
                    what,
                )));
            }
            let identity = schema::boot(&client, &settings.node).await?;
            Ok::<_, SessionFault>((client, identity))
        };
        let connected = runtime.block_on(async { tokio::time::timeout(settings.timeout, work).await });
        let (client, identity) = match connected {
            Ok(Ok(connected)) => connected,
            Ok(Err(fault)) => return Err(StoreFault::Unavailable(fault.into())),
            Err(_) => return Err(StoreFault::Unavailable(too_late())),
        };
        Ok(Self {
            runtime: Some(runtime),
            client,
            node: settings.node.clone(),
            identity,
            timeout: settings.timeout,
        })
    }

    pub(crate) const fn identity(&self) -> StoreIdentity {
        self.identity
    }

    /// All orders in one transaction.
    pub(crate) fn commit(&mut self, orders: &[(Space, &StoreOrder)]) -> Result<Vec<Outcome>, StoreFault> {
        let Self {
            runtime,
            client,
            node,
            identity,
            timeout,
        } = self;
        let me = NodeKeys {
            node,
            identity: *identity,
        };
        // Not a cell that a cancelled future loses: the commit may be on its way when the time is over.
        let mut committing = false;
        let work = async {
            for attempt in 1.. {
                match run(client, me, orders, &mut committing).await {
                    Err(TransactionOutcome::Undone(fault))
                        if fault.begins_again() && attempt < ATTEMPTS_MAX => {}
                    done => return done,
                }
            }
            Ok(Vec::new())
        };
        let done = match runtime {
            Some(runtime) => runtime.block_on(async { tokio::time::timeout(*timeout, work).await }),
            None => return Err(StoreFault::Unavailable(too_late())),
        };
        match done {
            Ok(Ok(outcomes)) => Ok(outcomes),
            Ok(Err(TransactionOutcome::Undone(fault))) if fault.is_full() => {
                Err(StoreFault::Full(fault.into()))
            }
            Ok(Err(TransactionOutcome::Undone(fault))) => Err(StoreFault::Unavailable(fault.into())),
            Ok(Err(TransactionOutcome::Unknown(fault))) => Err(StoreFault::Failed(fault.into())),
            Err(_) if committing => Err(StoreFault::Failed(too_late())),
            Err(_) => Err(StoreFault::Unavailable(too_late())),
        }
    }
}

impl Drop for PostgresSession {
    fn drop(&mut self) {
        // Ending a runtime waits, which is forbidden in asynchronous code, where whoever asks the store
        // itself may drop it.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// Whose keys these are, and in which life.
#[derive(Clone, Copy)]
pub(crate) struct NodeKeys<'a> {
    pub(crate) node: &'a str,
    pub(crate) identity: StoreIdentity,
}

pub(crate) async fn connect(settings: &ServerSettings) -> Result<Client, SessionFault> {
    let mut config = settings.config.clone();
    config.connect_timeout(settings.timeout);
    // For whoever looks at the server's sessions.
    config.application_name(format!("{} {}", settings.schema, settings.node));
    if let Some(tls) = &settings.tls.0 {
        config.ssl_mode(tokio_postgres::config::SslMode::Require);
        let (client, connection) = config.connect(MakeRustlsConnect::new(tls.clone())).await?;
        tokio::spawn(connection);
        return Ok(client);
    }
    config.ssl_mode(tokio_postgres::config::SslMode::Disable);
    let (client, connection) = config.connect(NoTls).await?;
    // It ends with the client, or with an error that the client's next request has too.
    tokio::spawn(connection);
    Ok(client)
}

/// Sees to it that a commit is durable, and that nobody waits for ever for a node that went away in the
/// middle of one.
pub(crate) async fn configure(client: &Client, timeout: Duration) -> Result<(), SessionFault> {
    let limit = format!("{}ms", timeout.as_millis());
    for setting in [
        "statement_timeout",
        "lock_timeout",
        "idle_in_transaction_session_timeout",
    ] {
        client
            .execute("SELECT set_config($1, $2, false)", &[&setting, &limit])
            .await?;
    }
    client
        .execute(
            "SELECT set_config('synchronous_commit', 'on', false)
             WHERE current_setting('synchronous_commit') IN ('off', 'local')",
            &[],
        )
        .await?;
    let fsync: String = client
        .query_one("SELECT current_setting('fsync')", &[])
        .await?
        .try_get(0)?;
    if fsync == "off" {
        tracing::warn!(
            target: "cluster::store", event = "server_without_fsync",
            "the server runs with fsync = off: what it acknowledges is not durable"
        );
    }
    Ok(())
}

async fn run(
    client: &mut Client,
    me: NodeKeys<'_>,
    orders: &[(Space, &StoreOrder)],
    committing: &mut bool,
) -> Result<Vec<Outcome>, TransactionOutcome> {
    *committing = false;
    let transaction = client.transaction().await?;
    let outcomes = obey_all(&transaction, me, orders).await?;
    *committing = true;
    match transaction.commit().await {
        Ok(()) => Ok(outcomes),
        // The server says that it is undone; one that goes away while it says so may have done it.
        Err(error)
            if error
                .code()
                .is_some_and(|code| !matches!(&code.code()[..2], "57" | "08")) =>
        {
            Err(TransactionOutcome::Undone(SessionFault::Server(error)))
        }
        Err(error) => Err(TransactionOutcome::Unknown(SessionFault::Server(error))),
    }
}

async fn obey_all(
    transaction: &Transaction<'_>,
    me: NodeKeys<'_>,
    orders: &[(Space, &StoreOrder)],
) -> Result<Vec<Outcome>, SessionFault> {
    let mut outcomes = Vec::with_capacity(orders.len());
    let mut refusal = None;
    if orders
        .iter()
        .any(|(_, order)| matches!(order, StoreOrder::Write { .. }))
    {
        refusal = later_life(transaction, me).await?;
    }
    let mut writes = items::PendingWrites::default();
    for (space, order) in orders {
        if let Err(error) = rules::check(order) {
            outcomes.push(Err(error));
            continue;
        }
        if let StoreOrder::Write { batch } = order {
            match refusal {
                Some(refusal) => outcomes.push(Err(refusal)),
                None => {
                    writes.add(transaction, me, *space, batch).await?;
                    outcomes.push(Ok(StoreAnswer::Written));
                }
            }
            continue;
        }
        // What follows may read what was written before it.
        writes.flush(transaction, me).await?;
        outcomes.push(obey(transaction, me, *space, order).await?);
    }
    writes.flush(transaction, me).await?;
    Ok(outcomes)
}

async fn obey(
    transaction: &Transaction<'_>,
    me: NodeKeys<'_>,
    space: Space,
    order: &StoreOrder,
) -> Result<Outcome, SessionFault> {
    match order {
        StoreOrder::Identify => Ok(Ok(StoreAnswer::Identity(me.identity))),
        StoreOrder::Read { key } => items::read(transaction, me, space, key).await,
        StoreOrder::Range { from, to, bytes_max } => {
            items::range(
                transaction,
                me,
                space,
                items::KeyRange {
                    from,
                    to: to.as_deref(),
                },
                *bytes_max,
            )
            .await
        }
        // Gathered by the caller.
        StoreOrder::Write { .. } => Ok(Err(StoreError::Unavailable)),
        StoreOrder::Open { log, token, opener } => logs::open(transaction, space, log, *token, *opener).await,
        StoreOrder::Append {
            log,
            token,
            expected,
            records,
        } => {
            logs::append(
                transaction,
                OwnedLog {
                    space,
                    log,
                    token: *token,
                },
                *expected,
                records,
            )
            .await
        }
        StoreOrder::ReadLog { log, from, bytes_max } => {
            logs::read(transaction, space, log, *from, *bytes_max).await
        }
        StoreOrder::Snapshot {
            log,
            token,
            through,
            state,
        } => {
            logs::keep(
                transaction,
                OwnedLog {
                    space,
                    log,
                    token: *token,
                },
                *through,
                state,
            )
            .await
        }
        StoreOrder::ReadSnapshot { log } => logs::read_snapshot(transaction, space, log).await,
        StoreOrder::DeleteRange { log, token, through } => {
            logs::forget(transaction, space, log, *token, *through).await
        }
    }
}

/// The refusal that an earlier life of a node gets. Until this transaction ends no later one can begin.
async fn later_life(
    transaction: &Transaction<'_>,
    me: NodeKeys<'_>,
) -> Result<Option<StoreError>, SessionFault> {
    let row = transaction
        .query_opt("SELECT boot FROM nodes WHERE node = $1 FOR SHARE", &[&me.node])
        .await?;
    let boot: i64 = match row {
        Some(row) => row.try_get(0)?,
        None => 0,
    };
    let boot = boot.cast_unsigned();
    Ok((boot != me.identity.boot).then_some(StoreError::Fenced {
        held: Token::new(boot, 0),
    }))
}

pub(crate) fn too_late() -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, "the server did not answer in time")
}
