//! One node process: hosts files, reads them when asked, ends with the demo. Never reads a file on the node's loop.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use quorate_examples::{files, process, words};
use quorate_tokio::{Cluster, ClusterError, Entity, EntityContext, Security, StartError};

use crate::kind::{self, Content, Question, Told};
use crate::options::NodeOptions;

/// Files a node reads at the same time. Two keep a disk and a core busy and leave the other threads to the node's loop,
/// which has to answer heartbeats.
const READS_MAX: usize = 2;

/// What a node's first line begins with when it listens, and when it cannot.
pub(crate) const READY: &str = "ready ";

/// Runs until the demo ends, or the node does.
pub(crate) fn run(options: NodeOptions) -> ExitCode {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .max_blocking_threads(READS_MAX)
        .enable_all()
        .build();
    let result = match runtime {
        Ok(runtime) => runtime.block_on(host(options)).map_err(|error| error.to_string()),
        Err(error) => Err(error.to_string()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            println!("{error}");
            ExitCode::FAILURE
        }
    }
}

async fn host(options: NodeOptions) -> Result<(), StartError> {
    let stdin = |error| StartError::Environment {
        what: "standard input",
        error,
    };
    process::end_with_parent().map_err(stdin)?;
    let cluster = Cluster::builder(options.cluster)
        .bind("127.0.0.1:0")
        .role(kind::WORKER)
        .security(Security::insecure_plaintext())
        .fast_profile()
        .config(|config| config.limits.entity_id_bytes_max = kind::ID_BYTES_MAX)
        .start()
        .await?;
    let root: Arc<Path> = Arc::from(options.root);
    let node = u32::try_from(options.index).unwrap_or(u32::MAX);
    let make = move |_: EntityContext| File {
        root: Arc::clone(&root),
        node,
    };
    cluster.register(kind::files(), make).await?;
    match options.seed {
        Some(seed) => cluster.join([seed]).await?,
        None => cluster.join([cluster.address().address()]).await?,
    }
    announce(&cluster).map_err(|_| ClusterError::Stopped)?;
    cluster.terminated().await;
    Ok(())
}

fn announce(cluster: &Cluster) -> std::io::Result<()> {
    let mut out = std::io::stdout();
    writeln!(out, "{READY}{}", cluster.address().address())?;
    out.flush()
}

/// A file as an entity. It keeps nothing: wherever its shard is, the file is read again.
struct File {
    root: Arc<Path>,
    node: u32,
}

impl Entity for File {
    type Message = Question;
    type Reply = Told;

    async fn handle(&mut self, context: &EntityContext, question: Question) -> Told {
        let content = match question {
            Question::Where => Content::Unread,
            Question::Words => match files::resolve(&self.root, context.id().as_bytes()) {
                None => Content::Unreadable("the id is no path below the input".to_owned()),
                Some(path) => read(path).await,
            },
        };
        Told {
            node: self.node,
            content,
        }
    }
}

/// Reads on a thread that may block; at most [`READS_MAX`] do.
async fn read(path: PathBuf) -> Content {
    match tokio::task::spawn_blocking(move || words::count_file(&path)).await {
        Ok(Ok(words)) => Content::Words(words),
        Ok(Err(error)) => Content::Unreadable(error.to_string()),
        Err(error) => Content::Unreadable(error.to_string()),
    }
}
