//! One node process: hosts files, reads them when asked, ends with the demo. Never reads a file on the node's
//! loop.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use async_lock::Semaphore;
use quorate_driver::{Cluster, ClusterBuilder, ClusterError, Entity, EntityContext, Security, StartError};

use super::kind::{self, Content, Question, Told};
use super::options::NodeOptions;
use crate::hosts::Host;
use crate::{files, process, trust, words};

/// Files a node reads at the same time. Two keep a disk and a core busy and leave the other threads to the
/// node's loop, which has to answer heartbeats.
const READS_MAX: usize = 2;

/// What a node's first line begins with when it listens, and when it cannot.
pub(crate) const READY: &str = "ready ";

/// Runs until the demo ends, or the node does.
pub(crate) fn run<H: Host>(options: NodeOptions) -> ExitCode {
    let failed = |error: &dyn std::fmt::Display| {
        println!("{error}");
        ExitCode::FAILURE
    };
    let security = match process::introduction().map(|told| trust::introduced(&told)) {
        Ok(Ok(security)) => security,
        Ok(Err(error)) => return failed(&error),
        Err(error) => return failed(&error),
    };
    if let Err(error) = process::end_with_parent() {
        return failed(&error);
    }
    match H::block_on(host::<H>(options, security)) {
        Ok(Ok(())) => ExitCode::SUCCESS,
        Ok(Err(error)) => failed(&error),
        Err(error) => failed(&error),
    }
}

async fn host<H: Host>(options: NodeOptions, security: Security) -> Result<(), StartError> {
    let cluster = ClusterBuilder::on::<H::Adapter>(options.cluster)
        .bind("127.0.0.1:0")
        .role(kind::WORKER)
        .security(security)
        .fast_profile()
        .config(|config| config.limits.entity_id_bytes_max = kind::ID_BYTES_MAX)
        .start()
        .await?;
    let root: Arc<Path> = Arc::from(options.root);
    let node = u32::try_from(options.index).unwrap_or(u32::MAX);
    let reads = Arc::new(Semaphore::new(READS_MAX));
    let make = move |_: EntityContext| File {
        root: Arc::clone(&root),
        reads: Arc::clone(&reads),
        node,
    };
    cluster.entities(kind::files()).start(make).await?;
    match options.seed {
        Some(seed) => cluster.join([seed]).await?,
        None => cluster.form().await?,
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
    reads: Arc<Semaphore>,
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
                Some(path) => {
                    let _turn = self.reads.acquire().await;
                    read(path).await
                }
            },
        };
        Told {
            node: self.node,
            content,
        }
    }
}

/// Reads on a thread that may block.
async fn read(path: PathBuf) -> Content {
    match blocking::unblock(move || words::count_file(&path)).await {
        Ok(words) => Content::Words(words),
        Err(error) => Content::Unreadable(error.to_string()),
    }
}
