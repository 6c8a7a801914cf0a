//! Updates of replicated data on three nodes, each a process: how many per second, how long each takes, how
//! many bytes it costs. In turns with bare links to the two others, and with redb's own commit in the same
//! folder.

mod disk;
mod load;
mod node;
mod report;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use quorate_demo::process::{self, ChildProcess};
use quorate_demo::trust::Authority;
use quorate_driver::data::{Data, Write};
use quorate_driver::spi::{Adapter, Transport};
use quorate_driver::{Cluster, Security};

pub(crate) use disk::Disk;
pub(crate) use node::{Place, serve};
pub(crate) use report::{Figures, Report, Row, json, median};

use crate::measure::{self, Asked, Size};
use crate::{Failure, Options, PAYLOADS, Stage, floor};
use load::{Registers, TwoPeers};

/// The hidden subcommand of a process with another replica.
pub(crate) const SERVER: &str = "data-process";

const QUICK: Size = Size {
    rounds: 1,
    single: 50,
    each: Duration::from_millis(200),
};
const FULL: Size = Size {
    rounds: 5,
    single: 2_000,
    each: Duration::from_secs(1),
};
/// A commit takes a disk's time.
const FULL_DURABLE: Size = Size {
    rounds: 5,
    single: 200,
    each: Duration::from_secs(1),
};

/// A cluster of three: this process's node, and two others that end with this.
struct Three {
    cluster: Cluster,
    servers: [ChildProcess; 2],
    floors: [String; 2],
}

/// A folder that goes with this.
pub(crate) struct Folder(pub(crate) PathBuf);

impl Folder {
    pub(crate) fn new(parent: Option<&Path>) -> Result<Self, Failure> {
        let parent = parent.map_or_else(std::env::temp_dir, Path::to_path_buf);
        let path = parent.join(format!("quorate-bench-{}", std::process::id()));
        std::fs::create_dir_all(&path)?;
        Ok(Self(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What is left behind is a few megabytes in a folder for such things.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

pub(crate) async fn run<A: Adapter>(stage: &Stage, options: &Options) -> Result<Report, Failure>
where
    <A::Transport as Transport>::Listener: Sync,
{
    let folder = Folder::new(options.store.as_deref())?;
    let (size, durable) = if options.quick {
        (QUICK, QUICK)
    } else {
        (FULL, FULL_DURABLE)
    };
    let authority = Authority::new(stage.has_certificates)?;
    let security = authority.own()?;
    let three = start::<A>(stage, &authority, &security, &folder.0.join("deltas"), true).await?;
    let [one, two] = &three.floors;
    let bare = TwoPeers(
        floor::Client::<A>::connect(one, &security).await?,
        floor::Client::<A>::connect(two, &security).await?,
    );
    let bare = Arc::new(bare);
    let mut report = Report::new("replicated data on three processes", stage.name, size);
    for bytes in PAYLOADS {
        let (data, file) = (three.cluster.data(), folder.0.join(format!("alone-{bytes}.redb")));
        let mut rounds: Vec<[Row; 6]> = Vec::new();
        for _ in 0..size.rounds {
            rounds.push(round::<A>(&data, &bare, &file, bytes, (size, durable)).await?);
        }
        report.rows.extend(median(&rounds));
    }
    report
        .bytes
        .push(load::bytes::<A>(&three.cluster, "deltas", options.quick).await?);
    three.end().await?;
    let whole = start::<A>(stage, &authority, &security, &folder.0.join("whole"), false).await?;
    report
        .bytes
        .push(load::bytes::<A>(&whole.cluster, "whole values", options.quick).await?);
    whole.end().await?;
    Ok(report)
}

/// The systems take turns, so that a slow moment of the machine meets all.
async fn round<A: Adapter>(
    data: &Data,
    bare: &Arc<TwoPeers<A>>,
    file: &Path,
    bytes: usize,
    (size, durable): (Size, Size),
) -> Result<[Row; 6], Failure>
where
    <A::Transport as Transport>::Listener: Sync,
{
    let registers = |prefix: &str, level| Arc::new(Registers::new(data, prefix, level));
    let row = |system, figures| Row {
        system,
        bytes,
        figures,
    };
    let file = file.to_owned();
    let redb = blocking::unblock(move || disk::figures(&file, bytes, durable));
    Ok([
        row("bare, two peers", figures::<A, _>(bare, bytes, size).await?),
        row(
            "Majority",
            figures::<A, _>(&registers("kept", Write::Majority), bytes, size).await?,
        ),
        row(
            "Local",
            figures::<A, _>(&registers("kept", Write::Local), bytes, size).await?,
        ),
        row("redb alone", redb.await?),
        row(
            "Majority, durable",
            figures::<A, _>(&registers("durable", Write::Majority), bytes, durable).await?,
        ),
        row(
            "Local, durable",
            figures::<A, _>(&registers("durable", Write::Local), bytes, durable).await?,
        ),
    ])
}

async fn figures<A: Adapter, S: Asked>(
    system: &Arc<S>,
    bytes: usize,
    size: Size,
) -> Result<Figures, Failure> {
    let runtime = A::runtime()?;
    let (p50_us, p99_us) = measure::one_in_flight(&runtime, system, bytes, size).await?;
    let per_s = measure::many_in_flight(&runtime, system, bytes, size)
        .await?
        .per_s;
    Ok(Figures {
        p50_us,
        p99_us,
        per_s,
    })
}

async fn start<A: Adapter>(
    stage: &Stage,
    authority: &Authority,
    security: &Security,
    folder: &Path,
    deltas: bool,
) -> Result<Three, Failure> {
    let place = |number, seed| Place {
        file: folder.join(format!("{number}.redb")),
        deltas,
        seed,
    };
    let cluster = node::start::<A>(&place(1, None), security).await?;
    let seed = cluster.address().address().to_string();
    let other = async |number| {
        let arguments: Vec<OsString> = [SERVER.into(), stage.name.into()]
            .into_iter()
            .chain(place(number, Some(seed.clone())).arguments())
            .collect();
        let mut server = ChildProcess::start_introduced(arguments, &authority.introduction()?)?;
        let mut output = server.output().ok_or("a process has no output")?;
        let floor = blocking::unblock(move || process::first_line(&mut output)).await?;
        Ok::<_, Failure>((server, floor))
    };
    let ((one, first), (two, second)) = (other(2).await?, other(3).await?);
    node::replicas::<A>(&cluster, 3).await?;
    Ok(Three {
        cluster,
        servers: [one, two],
        floors: [first, second],
    })
}

impl Three {
    async fn end(self) -> Result<(), Failure> {
        drop(self.servers);
        self.cluster.stop().await;
        Ok(())
    }
}
