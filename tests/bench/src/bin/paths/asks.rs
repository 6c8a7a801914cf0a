//! A routed ask of a path beside an ask of an entity, from one node to another, in turns: one instance and
//! one entity with the same code, the same message and the same answer.

use std::time::{Duration, Instant};

use quorate_bench::payload::Bytes;
use quorate_tokio::{Ask, Entity, EntityContext, EntityRef, Kind, Path};
use tokio::task::JoinSet;

use super::nodes::{HOST, PATIENCE, start, wait};
use super::{Failure, median};

/// Bytes of a message.
const PAYLOAD: usize = 16;
/// Asks at once when their rate is measured.
const IN_FLIGHT: usize = 100;

/// Answers with what it is asked.
struct Echo;

impl Entity for Echo {
    type Message = Bytes;
    type Reply = Bytes;

    async fn handle(&mut self, _: &EntityContext, message: Bytes) -> Bytes {
        message
    }
}

/// Who is asked.
#[derive(Clone)]
enum Asked {
    Entity(EntityRef<Bytes, Bytes>),
    Path(Path<Bytes, Bytes>),
}

impl Asked {
    fn ask(&self, message: Bytes) -> Ask<Bytes> {
        match self {
            Self::Entity(entity) => entity.ask(message),
            Self::Path(path) => path.ask(message),
        }
    }
}

/// By who is asked: the median of an ask in microseconds, and asks per second.
#[derive(Default)]
struct Figures {
    p50_us: [Vec<f64>; 2],
    per_s: [Vec<f64>; 2],
}

pub(super) async fn measure(quick: bool) -> Result<String, Failure> {
    let (rounds, single, each) = if quick {
        (1, 500, Duration::from_millis(200))
    } else {
        (11, 5_000, Duration::from_secs(1))
    };
    let nodes = start(2, 1, 0).await?;
    let [host, asker] = &nodes[..] else {
        return Err("not two nodes".into());
    };
    let kind = || Kind::new("echo").shards(16).role(HOST);
    host.entities(kind()).start(|_| Echo).await?;
    host.instances("bench/echo").role(HOST).start(|_| Echo).await?;
    let entity = asker.entities(kind()).proxy().await?.entity("one");
    let contestants = [
        Asked::Entity(entity),
        Asked::Path(asker.path::<Bytes, Bytes>("bench/echo")?),
    ];
    let begun = Instant::now();
    for asked in &contestants {
        while asked.ask(message()).await.is_err() {
            wait(begun, "both answer").await?;
        }
    }
    let mut figures = Figures::default();
    for _ in 0..rounds {
        for (at, asked) in contestants.iter().enumerate() {
            figures.p50_us[at].push(one_in_flight(asked, single).await?);
            figures.per_s[at].push(many_in_flight(asked, each).await?);
        }
    }
    for node in nodes {
        node.stop().await;
    }
    let Figures { p50_us, per_s } = figures;
    let middle = |measured: [Vec<f64>; 2]| measured.map(|measured| median(measured).unwrap_or(f64::NAN));
    let ([entity_us, path_us], [entity_per_s, path_per_s]) = (middle(p50_us), middle(per_s));
    println!("ask of {PAYLOAD} B, elsewhere | entity | path | path to entity");
    println!(
        "p50, us               | {entity_us:.1} | {path_us:.1} | {:.2}x",
        path_us / entity_us
    );
    println!(
        "asks/s, {IN_FLIGHT} in flight  | {entity_per_s:.0} | {path_per_s:.0} | {:.2}x",
        path_per_s / entity_per_s
    );
    Ok(format!(
        "\"asks\":{{\"entity_p50_us\":{entity_us:.2},\"path_p50_us\":{path_us:.2},\"entity_per_s\":{entity_per_s:.0},\"path_per_s\":{path_per_s:.0}}}"
    ))
}

fn message() -> Bytes {
    Bytes(vec![1; PAYLOAD])
}

async fn one_in_flight(asked: &Asked, asks: usize) -> Result<f64, Failure> {
    let mut times = Vec::with_capacity(asks);
    for _ in 0..asks {
        let begun = Instant::now();
        asked.ask(message()).await?;
        times.push(begun.elapsed().as_secs_f64() * 1e6);
    }
    median(times).ok_or_else(|| "nothing was asked".into())
}

async fn many_in_flight(asked: &Asked, each: Duration) -> Result<f64, Failure> {
    let begun = Instant::now();
    let mut askers = JoinSet::new();
    for _ in 0..IN_FLIGHT {
        let asked = asked.clone();
        askers.spawn(async move {
            let mut answers = 0_u32;
            while begun.elapsed() < each {
                asked.ask(message()).timeout(PATIENCE).await?;
                answers += 1;
            }
            Ok::<_, quorate_tokio::AskError>(answers)
        });
    }
    let mut answers = 0;
    while let Some(asker) = askers.join_next().await {
        answers += asker??;
    }
    Ok(f64::from(answers) / begun.elapsed().as_secs_f64())
}
