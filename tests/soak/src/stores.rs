//! What keeps the logs of a program's entities: a file for each node of which three vote, or a server for
//! all. Names only.

use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;

use quorate_driver::store::{Outcome, Space, StoreIdentity, StoreOrder};
use quorate_driver::{
    ClusterBuilder, Security,
    store::{Store, StoreFault, StoreScope},
};
use quorate_driver::{
    Config,
    sharding::{RememberStore, StoreMode},
};
use quorate_store_postgres::{Postgres, Tls};
use quorate_store_redb::Redb;

use crate::ending::Folder;
use crate::program::{NO_ROOM, NODES, NodeOptions, Options, Program, one_line, say};

/// What stands before a server in place of a file.
const POSTGRES: &str = "postgres:";
/// Files that keep every log: of five nodes' files a majority of these has every event, so one node at a time
/// may be away.
pub(crate) const VOTERS: usize = 3;

/// Where a kind's own state is kept: which shard lives where, and which entities are remembered. One in each
/// way, so that both ways to keep either are seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum State {
    /// Homes as events in logs, ids in replicated data.
    #[default]
    Events,
    /// Homes as one value, ids as events in logs.
    Data,
    /// As [`Self::Events`]; what entities keep is in a bucket, in the memory of three nodes.
    Bucket,
}

impl State {
    /// As it is said in an argument.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Events => "events",
            Self::Data => "data",
            Self::Bucket => "bucket",
        }
    }

    /// What an argument says.
    pub(crate) fn named(name: &str) -> Option<Self> {
        let all = [Self::Events, Self::Data, Self::Bucket];
        all.into_iter().find(|state| state.name() == name)
    }

    /// Where homes are kept.
    pub(crate) const fn homes(self) -> StoreMode {
        match self {
            Self::Events | Self::Bucket => StoreMode::Events,
            Self::Data => StoreMode::DistributedData,
        }
    }

    /// Where it is kept who is remembered.
    pub(crate) const fn remembered(self) -> RememberStore {
        match self {
            Self::Events | Self::Bucket => RememberStore::Data,
            Self::Data => RememberStore::Events,
        }
    }
}

/// See the module.
pub(crate) enum Stores {
    /// A file for each node in this folder.
    Files(PathBuf),
    /// A server for all.
    Postgres(String),
}

impl Stores {
    /// The server that was named, or files in the run's folder.
    pub(crate) fn of_run(options: &Options, folder: &Folder) -> Self {
        match &options.postgres {
            Some(server) => Self::Postgres(server.clone()),
            None => Self::Files(folder.path().to_owned()),
        }
    }

    /// Whether writes go to a server, over something that may hold them up.
    pub(crate) const fn is_server(&self) -> bool {
        match self {
            Self::Files(_) => false,
            Self::Postgres(_) => true,
        }
    }

    /// What a node is told.
    pub(crate) fn of(&self, index: usize) -> PathBuf {
        match self {
            Self::Files(folder) => file_of(folder, index),
            Self::Postgres(server) => format!("{POSTGRES}{server}").into(),
        }
    }
}

/// How long a store may take that is opened before any node is started.
const CHECK_TIMEOUT: Duration = Duration::from_secs(10);
/// A server gives up before that, and says why.
const SERVER_TIMEOUT: Duration = Duration::from_secs(8);

/// Whether the stores that the user named can be opened: the cause is said before any node starts, which
/// would try for ever.
pub(crate) fn check<P: Program>(options: &Options) -> Result<(), String> {
    let Options { store, postgres, .. } = options.clone();
    let (name, opened) = match (store, postgres) {
        (_, Some(server)) => (
            "the server".to_owned(),
            in_time(move || open_server(&server, P::SCHEMA)),
        ),
        (Some(folder), None) => (folder.display().to_string(), in_time(move || open_files(&folder))),
        (None, None) => return Ok(()),
    };
    opened.map_err(|error| format!("{name}: {error}"))
}

/// Blocking work on a thread of its own, which is left alone if it takes too long: the process ends.
fn in_time(work: impl FnOnce() -> std::io::Result<()> + Send + 'static) -> std::io::Result<()> {
    let (done, outcome) = mpsc::channel();
    std::thread::Builder::new()
        .name("store-check".into())
        // Nobody listens any more if it took too long.
        .spawn(move || drop(done.send(work())))?;
    let late = || std::io::Error::other(format!("no answer within {} s", CHECK_TIMEOUT.as_secs()));
    outcome
        .recv_timeout(CHECK_TIMEOUT)
        .unwrap_or_else(|_| Err(late()))
}

fn open_server(server: &str, schema: &str) -> std::io::Result<()> {
    let server = Postgres::new(server, "node-1", Tls::off())?;
    let server = if schema.is_empty() {
        server
    } else {
        server.schema(schema)?
    };
    let opened = server.timeout(SERVER_TIMEOUT).open();
    opened.map(drop).map_err(|fault| match fault {
        StoreFault::Full(error) | StoreFault::Unavailable(error) | StoreFault::Failed(error) => error,
    })
}

/// Every node's file, made if it is not there.
fn open_files(folder: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(folder)?;
    for index in 0..NODES {
        let file = file_of(folder, index);
        let name = file.display().to_string();
        Redb::open(file).map_err(|error| std::io::Error::other(format!("{name}: {error}")))?;
    }
    Ok(())
}

/// Where a node keeps what it has.
pub(crate) fn file_of(folder: &Path, index: usize) -> PathBuf {
    folder.join(format!("node-{}.redb", index + 1))
}

/// What keeps a node's logs.
pub(crate) enum Opened {
    /// Its own file, which votes about them with those of others.
    File(Redb),
    /// A database.
    Server(Box<Postgres>),
}

impl Opened {
    /// What the node was told, with the tables of a database in `schema`.
    pub(crate) fn of(options: &NodeOptions, schema: &str) -> std::io::Result<Self> {
        let nothing = || std::io::Error::other("no store was named");
        let store = options.store.as_ref().ok_or_else(nothing)?;
        Ok(
            match store.to_str().and_then(|store| store.strip_prefix(POSTGRES)) {
                Some(server) => {
                    let node = format!("node-{}", options.index + 1);
                    let server = Postgres::new(server, &node, Tls::off())?.schema(schema)?;
                    Self::Server(Box::new(server))
                }
                None => Self::File(Redb::open(store)?),
            },
        )
    }
}

/// A store that has the whole program end as soon as its disk is full: a node would wait for room, and the
/// program for that.
#[derive(Debug)]
pub(crate) struct EndsIfFull<S>(pub(crate) S);

impl<S: Store> Store for EndsIfFull<S> {
    fn open(&mut self) -> Result<StoreIdentity, StoreFault> {
        ends_if_full(self.0.open())
    }

    fn commit(&mut self, orders: &[(Space, &StoreOrder)]) -> Result<Vec<Outcome>, StoreFault> {
        ends_if_full(self.0.commit(orders))
    }

    fn scope(&self) -> StoreScope {
        self.0.scope()
    }
}

fn ends_if_full<T>(done: Result<T, StoreFault>) -> Result<T, StoreFault> {
    if let Err(StoreFault::Full(error)) = &done {
        say(format_args!("{NO_ROOM}{}", one_line(error)));
    }
    done
}

/// The same builder with a file that votes.
pub(crate) fn with_file(builder: ClusterBuilder<Security>, file: Redb) -> ClusterBuilder<Security> {
    let voters = |config: &mut Config| config.journal.voters = VOTERS;
    builder.store(EndsIfFull(file)).config(voters)
}

/// The same builder with what keeps the logs.
pub(crate) fn with_store(
    builder: ClusterBuilder<Security>,
    options: &NodeOptions,
    schema: &str,
) -> std::io::Result<ClusterBuilder<Security>> {
    Ok(match Opened::of(options, schema)? {
        Opened::File(file) => with_file(builder, file),
        Opened::Server(server) => builder.store(EndsIfFull(*server)),
    })
}
