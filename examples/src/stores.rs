//! What keeps the logs of a program's entities: a file for each node of which three vote, or a server for all. Names only.

use std::path::PathBuf;

use quorate_driver::core::{Config, RememberStore, StoreMode};
use quorate_driver::{ClusterBuilder, Security};
use quorate_store_postgres::{Postgres, Tls};
use quorate_store_redb::Redb;

use crate::ending::Folder;
use crate::program::{NodeOptions, Options};

/// What stands before a server in place of a file.
const POSTGRES: &str = "postgres:";
/// Files that keep every log: of five nodes' files a majority of these has every event, so one node at a time may be away.
pub(crate) const VOTERS: usize = 3;

/// Where a kind's own state is kept: which shard lives where, and which entities are remembered. One in each way, so that both ways to
/// keep either are seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum State {
    /// Homes as events in logs, ids in replicated data.
    #[default]
    Events,
    /// Homes as one value, ids as events in logs.
    Data,
}

impl State {
    /// As it is said in an argument.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Events => "events",
            Self::Data => "data",
        }
    }

    /// What an argument says.
    pub(crate) fn named(name: &str) -> Option<Self> {
        let all = [Self::Events, Self::Data];
        all.into_iter().find(|state| state.name() == name)
    }

    /// Where homes are kept.
    pub(crate) const fn homes(self) -> StoreMode {
        match self {
            Self::Events => StoreMode::Events,
            Self::Data => StoreMode::DistributedData,
        }
    }

    /// Where it is kept who is remembered.
    pub(crate) const fn remembered(self) -> RememberStore {
        match self {
            Self::Events => RememberStore::Data,
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
            Self::Files(folder) => folder.join(format!("node-{}.redb", index + 1)),
            Self::Postgres(server) => format!("{POSTGRES}{server}").into(),
        }
    }
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

/// The same builder with a file that votes.
pub(crate) fn with_file<A>(builder: ClusterBuilder<A, Security>, file: Redb) -> ClusterBuilder<A, Security> {
    let voters = |config: &mut Config| config.journal.voters = VOTERS;
    builder.store(file).config(voters)
}

/// The same builder with what keeps the logs.
pub(crate) fn with_store<A>(
    builder: ClusterBuilder<A, Security>,
    options: &NodeOptions,
    schema: &str,
) -> std::io::Result<ClusterBuilder<A, Security>> {
    Ok(match Opened::of(options, schema)? {
        Opened::File(file) => with_file(builder, file),
        Opened::Server(server) => builder.store(*server),
    })
}
