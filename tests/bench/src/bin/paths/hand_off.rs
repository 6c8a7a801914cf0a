//! Hand-offs of an instance that takes its state along, between two nodes, while a third asks it all the
//! time, and entities of both. Beside them the same bytes over a bare connection of the same transport, and
//! encoded and decoded once.

use std::error::Error;
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use quorate_bench::payload::Bytes;
use quorate_tokio::paths::HandoffOptions;
use quorate_tokio::{Cluster, Entity, EntityContext, Kind, Path, Region, Stateful};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::nodes::{HOST, PATIENCE, start, wait};
use super::{Failure, median};

/// Entities that are asked beside the instance, on both hosts.
const ENTITIES: usize = 16;
const PATH: &str = "bench/archive";
/// How long entities are asked while nothing moves.
const QUIET: Duration = Duration::from_secs(2);

/// When the last instance was asked for its state, and when the next one was made of it.
#[derive(Clone, Default)]
struct Moments(Arc<Mutex<[Option<Instant>; 2]>>);

impl Moments {
    fn note(&self, at: usize) {
        let mut moments = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        moments[at] = Some(Instant::now());
    }

    fn between(&self) -> Option<Duration> {
        let [left, taken] = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        taken?.checked_duration_since(left?)
    }
}

/// Says on which node it is.
struct Archive {
    node: usize,
    state: Bytes,
    moments: Moments,
}

impl Entity for Archive {
    type Message = ();
    type Reply = (usize, usize);

    async fn handle(&mut self, _: &EntityContext, (): ()) -> (usize, usize) {
        (self.node, self.state.0.len())
    }
}

impl Stateful for Archive {
    type State = Bytes;

    async fn into_state(self, _: &EntityContext) -> Result<Bytes, Box<dyn Error + Send + Sync>> {
        self.moments.note(0);
        Ok(self.state)
    }
}

struct Small;

impl Entity for Small {
    type Message = ();
    type Reply = ();

    async fn handle(&mut self, _: &EntityContext, (): ()) {}
}

#[derive(Default)]
struct Figures {
    /// From the old instance's last word to the new one's first.
    on_the_way: Vec<Duration>,
    /// The longest ask of the path.
    gap: Vec<Duration>,
    /// The longest ask of an entity meanwhile, and while nothing moves.
    beside: Vec<Duration>,
    quiet: Vec<Duration>,
    /// The same bytes over a bare connection.
    tcp: Vec<Duration>,
    /// The same bytes encoded and decoded.
    codec: Vec<Duration>,
}

pub(super) async fn measure(bytes: usize, rounds: usize) -> Result<String, Failure> {
    let nodes = start(3, 2, bytes).await?;
    let [hosts @ .., asker] = &nodes[..] else {
        return Err("no nodes".into());
    };
    let (moments, kind) = (Moments::default(), || {
        Kind::new("beside").shards(ENTITIES as u32).role(HOST)
    });
    for (node, host) in hosts.iter().enumerate() {
        let moments = moments.clone();
        let builder = host.instances(PATH).role(HOST).handoff(HandoffOptions::STATEFUL);
        let make = move |_: EntityContext, left: Option<Bytes>| {
            moments.note(1);
            Archive {
                node,
                state: left.unwrap_or_else(|| Bytes(vec![5; bytes])),
                moments: moments.clone(),
            }
        };
        builder.start_stateful(make).await?;
        host.entities(kind()).start(|_| Small).await?;
    }
    let entities = asker.entities(kind()).proxy().await?;
    let path = asker.path::<(), (usize, usize)>(PATH)?;
    let begun = Instant::now();
    while path.ask(()).await.is_err() {
        wait(begun, "an instance answers").await?;
    }
    longest_of_entities(&entities, &AtomicBool::new(true)).await?;
    let mut figures = Figures::default();
    for _ in 0..rounds {
        figures.codec.push(through_codec(bytes)?);
        figures.tcp.push(over_tcp(bytes).await?);
        figures.quiet.push(quiet(&entities).await?);
        one(&path, &entities, hosts, &moments, &mut figures).await?;
    }
    for node in nodes {
        node.stop().await;
    }
    Ok(figures.say(bytes))
}

/// One hand-off to the node where the instance is not, asked all the time.
async fn one(
    path: &Path<(), (usize, usize)>,
    entities: &Region<(), ()>,
    hosts: &[Cluster],
    moments: &Moments,
    figures: &mut Figures,
) -> Result<(), Failure> {
    let (before, bytes) = path.ask(()).await?;
    let to = hosts.get(1 - before).ok_or("no such host")?.address().clone();
    let is_over = Arc::new(AtomicBool::new(false));
    let asked = tokio::spawn({
        let (entities, is_over) = (entities.clone(), Arc::clone(&is_over));
        async move { longest_of_entities(&entities, &is_over).await }
    });
    path.move_slot(0, &to).await?;
    let (mut longest, begun) = (Duration::ZERO, Instant::now());
    loop {
        let asked = Instant::now();
        let (node, has) = path.ask(()).timeout(PATIENCE).await?;
        longest = longest.max(asked.elapsed());
        if has != bytes {
            return Err(format!("{has} of {bytes} bytes came over").into());
        }
        if node != before {
            break;
        }
        if begun.elapsed() > PATIENCE {
            return Err("the slot did not move".into());
        }
    }
    is_over.store(true, Ordering::Relaxed);
    figures.beside.push(asked.await??);
    figures.gap.push(longest);
    figures.on_the_way.extend(moments.between());
    // The next move may begin when this one is noted.
    let begun = Instant::now();
    while !is_at_rest(&hosts[before], &to).await? {
        wait(begun, "the move is over").await?;
    }
    Ok(())
}

async fn is_at_rest(node: &Cluster, host: &quorate_tokio::UniqueAddress) -> Result<bool, Failure> {
    let paths = node.paths_state().await?;
    let slot = paths.iter().find(|path| path.name.as_str() == PATH);
    let slot = slot.and_then(|path| path.slots.first());
    Ok(slot.is_some_and(|slot| {
        let moves = slot.last_move.as_ref().is_some_and(|change| change.is_pending());
        slot.host.as_ref() == Some(host) && !moves
    }))
}

/// Asks one entity after the other, each at least once; the longest that one took to answer.
async fn longest_of_entities(entities: &Region<(), ()>, is_over: &AtomicBool) -> Result<Duration, Failure> {
    let mut longest = Duration::ZERO;
    loop {
        for number in 0..ENTITIES {
            let asked = Instant::now();
            entities
                .entity(format!("entity-{number}"))
                .ask(())
                .timeout(PATIENCE)
                .await?;
            longest = longest.max(asked.elapsed());
        }
        if is_over.load(Ordering::Relaxed) {
            return Ok(longest);
        }
    }
}

async fn quiet(entities: &Region<(), ()>) -> Result<Duration, Failure> {
    let is_over = AtomicBool::new(false);
    let ends = async {
        tokio::time::sleep(QUIET).await;
        is_over.store(true, Ordering::Relaxed);
    };
    tokio::join!(longest_of_entities(entities, &is_over), ends).0
}

fn through_codec(bytes: usize) -> Result<Duration, Failure> {
    let state = Bytes(vec![5; bytes]);
    let begun = Instant::now();
    let written = postcard::to_allocvec(&state)?;
    drop(state);
    let read: Bytes = postcard::from_bytes(black_box(&written))?;
    black_box(read);
    Ok(begun.elapsed())
}

async fn over_tcp(bytes: usize) -> Result<Duration, Failure> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let to = listener.local_addr()?;
    let sent = vec![5; bytes];
    let mut sender = TcpStream::connect(to).await?;
    let (mut receiver, _) = listener.accept().await?;
    let begun = Instant::now();
    let sending = tokio::spawn(async move {
        sender.write_all(&sent).await?;
        sender.shutdown().await
    });
    let mut received = Vec::new();
    receiver.read_to_end(&mut received).await?;
    let took = begun.elapsed();
    sending.await??;
    if received.len() == bytes {
        Ok(took)
    } else {
        Err("not all bytes came over".into())
    }
}

impl Figures {
    fn say(self, bytes: usize) -> String {
        let rows = [
            ("hand_off", "hand-off, from instance to instance", self.on_the_way),
            ("gap", "longest ask of the path meanwhile", self.gap),
            ("beside", "longest ask of an entity meanwhile", self.beside),
            ("quiet", "longest ask of an entity, nothing moves", self.quiet),
            ("tcp", "the same bytes over a bare connection", self.tcp),
            ("codec", "the same bytes encoded and decoded", self.codec),
        ];
        println!("hand-off of {} MiB | ms", bytes >> 20);
        let mut json = vec![format!("\"bytes\":{bytes}")];
        for (name, says, measured) in rows {
            let ms = median(measured).map_or(f64::NAN, |took| took.as_secs_f64() * 1e3);
            println!("{says:<40} | {ms:.1}");
            json.push(format!("\"{name}_ms\":{ms:.3}"));
        }
        format!("\"hand_off\":{{{}}}", json.join(","))
    }
}
