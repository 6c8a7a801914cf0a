//! Calls of the keyed store: gets, puts and conditional puts of a node that owns nothing, at (3, 2, 2), to
//! three that own everything, each a process, in memory and in redb stores. In turns with bare links to the
//! three, of which one kind commits to redb before it answers, and with asks of an entity there.

mod load;
mod node;

use std::ffi::OsString;
use std::sync::Arc;
use std::time::Duration;

use quorate_demo::process::{self, ChildProcess};
use quorate_demo::trust::Authority;
use quorate_driver::kv::Kv;
use quorate_driver::spi::{Adapter, Transport};

pub(crate) use node::{Place, serve};

use crate::data::{Figures, Folder, Report, Row, median};
use crate::measure::{self, Asked, IN_FLIGHT, Size};
use crate::payload::Bytes;
use crate::sharded::Entities;
use crate::{Failure, Options, PAYLOADS, Stage, floor};
use load::{Gets, Puts, PutsIf, ThreePeers};

/// The hidden subcommand of a process that owns.
pub(crate) const SERVER: &str = "kv-process";

/// Owners, and copies of each value.
const OWNERS: usize = 3;

const QUICK: Size = Size {
    rounds: 1,
    single: 0,
    each: Duration::from_millis(200),
};
/// Every put is of a key of its own, which three processes keep until the end.
const FULL: Size = Size {
    rounds: 5,
    single: 0,
    each: Duration::from_millis(500),
};

pub(crate) async fn run<A: Adapter>(stage: &Stage, options: &Options) -> Result<Report, Failure>
where
    <A::Transport as Transport>::Listener: Sync,
{
    let size = if options.quick { QUICK } else { FULL };
    let authority = Authority::new(stage.has_certificates)?;
    let security = authority.own()?;
    let folder = Folder::new(options.store.as_deref())?;
    let mut servers: Vec<ChildProcess> = Vec::new();
    let (mut plain, mut committed) = (Vec::new(), Vec::new());
    let mut seed: Option<String> = None;
    for number in 0..OWNERS {
        let arguments: [OsString; 4] = [
            SERVER.into(),
            stage.name.into(),
            folder.0.join(number.to_string()).into(),
            seed.clone().unwrap_or_default().into(),
        ];
        let mut server = ChildProcess::start_introduced(arguments, &authority.introduction()?)?;
        let mut output = server.output().ok_or("a process has no output")?;
        let line = blocking::unblock(move || process::first_line(&mut output)).await?;
        let [node, at, committing_at] = *line.split(' ').collect::<Vec<_>>() else {
            return Err(format!("a process did not start: {line}").into());
        };
        plain.push(floor::Client::<A>::connect(at, &security).await?);
        committed.push(floor::Client::<A>::connect(committing_at, &security).await?);
        seed.get_or_insert_with(|| node.to_owned());
        servers.push(server);
    }
    let seed = seed.ok_or("no process")?;
    let (cluster, [memory, durable]) = node::caller::<A>(&seed, &security).await?;
    let entities = Arc::new(Entities::of(&cluster).await?);
    let three = |bare: Vec<_>| {
        let bare: Result<[floor::Client<A>; OWNERS], _> = bare.try_into();
        let bare = bare.map_err(|_| "a process is missing")?;
        Ok::<_, Failure>(Arc::new(ThreePeers(bare)))
    };
    let (plain, committed) = (three(plain)?, three(committed)?);
    let mut report = Report::new("calls of the keyed store, 3 copies, R = W = 2", stage.name, size);
    report.in_flight = IN_FLIGHT;
    for bytes in PAYLOADS {
        let gets = Arc::new(Gets::new(&memory, bytes).await?);
        let puts = |bucket| Arc::new(Puts::new(bucket, bytes));
        let puts_if = |bucket| Arc::new(PutsIf::new(bucket, bytes));
        let (in_memory, kept) = (puts(&memory), puts(&durable));
        let (in_memory_if, kept_if) = (puts_if(&memory), puts_if(&durable));
        let mut rounds: Vec<[Row; 8]> = Vec::new();
        for _ in 0..size.rounds {
            // The systems take turns, so that a slow moment of the machine meets all.
            rounds.push([
                row::<A, _>("bare, two of three peers", &plain, bytes, size).await?,
                row::<A, _>("ask of an entity", &entities, bytes, size).await?,
                row::<A, _>("get", &gets, bytes, size).await?,
                row::<A, _>("put", &in_memory, bytes, size).await?,
                row::<A, _>("conditional put", &in_memory_if, bytes, size).await?,
                row::<A, _>("bare, two of three, committed", &committed, bytes, size).await?,
                row::<A, _>("put, durable", &kept, bytes, size).await?,
                row::<A, _>("conditional put, durable", &kept_if, bytes, size).await?,
            ]);
        }
        report.rows.extend(median(&rounds));
    }
    drop(servers);
    cluster.stop().await;
    Ok(report)
}

async fn row<A: Adapter, S: Asked>(
    system: &'static str,
    asked: &Arc<S>,
    bytes: usize,
    size: Size,
) -> Result<Row, Failure> {
    let mut measured = measure::many_in_flight(&A::runtime()?, asked, bytes, size).await?;
    let (p50_us, p99_us) = measured.percentiles();
    let figures = Figures {
        p50_us,
        p99_us,
        per_s: measured.per_s,
    };
    Ok(Row {
        system,
        bytes,
        figures,
    })
}

/// The bucket that is measured.
type Bucket = Kv<Bytes>;
