//! Strangers with nothing but connections, against three members whose links have to be renewed all the time: nobody may become
//! unreachable, a fourth node has to be taken in, every ask answered. The strangers live on a thread of their own.
//! Spec: reliability 3b (F-29, B-52), ADR 9.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use quorate_driver::{Adapter, Cluster, DevCa, EntityContext, Kind};
use quorate_tokio::core::{Address, Event, MembershipChange, MembershipEvent, Status};
use quorate_tokio::{ClusterEvent, Psk, Region, Security};
use tokio::net::{TcpSocket, TcpStream};

use crate::{CLUSTER, KIND, Result, SHARDS};

/// How soon the fourth node has to be Up.
const JOIN_MAX: Duration = Duration::from_secs(5);
/// So short that every link is renewed several times during the attack.
const LINK_AGE: Duration = Duration::from_secs(2);
const HANDSHAKE_LIMIT: Duration = Duration::from_secs(2);
/// Connections that are opened at once.
const AT_ONCE: usize = 64;

/// What the strangers do.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Siege {
    /// Connections that are held at once; one that is closed is opened anew.
    pub(crate) held: usize,
    /// Connections in all, after which no more are opened.
    pub(crate) total: u64,
    /// Addresses of the loopback network that they come from.
    pub(crate) sources: usize,
    pub(crate) length: Duration,
}

/// A connection that says nothing, or the first bytes of a TLS record, until the other side closes it.
async fn knock(from: SocketAddr, to: SocketAddr) -> std::io::Result<()> {
    let socket = TcpSocket::new_v4()?;
    socket.bind(from)?;
    let stream: TcpStream = socket.connect(to).await?;
    let _ = stream.try_write(&[0x16, 0x03, 0x01]);
    let mut rest = [0; 64];
    loop {
        stream.readable().await?;
        match stream.try_read(&mut rest) {
            Ok(0) => return Ok(()),
            Ok(_) => {}
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
}

fn besiege(
    siege: Siege,
    to: Vec<SocketAddr>,
    over: Arc<AtomicBool>,
    knocks: Arc<AtomicU64>,
) -> std::io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let mut tasks = tokio::task::JoinSet::new();
        while !over.load(Ordering::Relaxed) {
            for _ in 0..AT_ONCE {
                let number = knocks.load(Ordering::Relaxed);
                if tasks.len() >= siege.held || number >= siege.total {
                    break;
                }
                knocks.fetch_add(1, Ordering::Relaxed);
                let index = usize::try_from(number).unwrap_or(0);
                let source = u32::try_from(index % siege.sources).unwrap_or(0);
                // The first source is the members' own.
                let from = Ipv4Addr::from(u32::from(Ipv4Addr::LOCALHOST) + source);
                tasks.spawn(knock(SocketAddr::from((from, 0)), to[index % to.len()]));
            }
            while tasks.try_join_next().is_some() {}
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
    Ok(())
}

async fn start<A: Adapter>(security: Security, seed: Option<&Address>) -> Result<Cluster<A>> {
    let builder = Cluster::<A>::builder(CLUSTER)
        .bind("127.0.0.1:0")
        .config(|config| {
            config.limits.max_link_age = LINK_AGE;
            config.limits.handshake_timeout = HANDSHAKE_LIMIT;
        });
    let node = builder.security(security).seeds(seed).start().await?;
    if seed.is_none() {
        node.join([node.address().address()]).await?;
    }
    node.up().await?;
    Ok(node)
}

async fn pause<A: Adapter>(length: Duration) -> Result<()> {
    let runtime = A::runtime()?;
    let until = quorate_driver::Runtime::now(&runtime).mono + length;
    quorate_driver::Runtime::sleep_until(&runtime, until).await;
    Ok(())
}

/// Resident memory of this process, strangers included.
fn kib() -> Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    Ok(line
        .and_then(|line| line.split_whitespace().next())
        .ok_or("no VmRSS")?
        .parse()?)
}

/// One siege of one transport; says whether everything went well.
pub(crate) async fn run<A: Adapter>(transport: &str, siege: Siege) -> Result<bool> {
    let authority = DevCa::new("flood.cluster.internal")?;
    let psk = Psk::new("a key of this program, and no other")?;
    let security = || -> Result<Security> {
        Ok(match transport {
            "tokio-psk" => Security::psk(psk.clone()),
            _ => Security::mtls(authority.mtls()?),
        })
    };
    let mut nodes: Vec<Cluster<A>> = Vec::new();
    for _ in 0..3 {
        let seed = nodes.first().map(|node| node.address().address().clone());
        nodes.push(start(security()?, seed.as_ref()).await?);
    }
    let kind = || Kind::<Vec<u8>, ()>::new(KIND).shards(SHARDS);
    let mut regions: Vec<Region<Vec<u8>, ()>> = Vec::new();
    for node in &nodes {
        regions.push(
            node.register_fn(kind(), async |_: EntityContext, _: Vec<u8>| ())
                .await?,
        );
    }
    let up = |node: &Cluster<A>| {
        node.members()
            .iter()
            .filter(|member| member.status == Status::Up)
            .count()
    };
    while nodes.iter().any(|node| up(node) < 3) {
        pause::<A>(Duration::from_millis(50)).await?;
    }
    let mut events: Vec<_> = nodes.iter().map(Cluster::events).collect();
    let before = kib()?;
    let (over, knocks) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let to = nodes
        .iter()
        .map(|node| SocketAddr::from((Ipv4Addr::LOCALHOST, node.address().address().port())));
    let (to, stop, count) = (to.collect(), Arc::clone(&over), Arc::clone(&knocks));
    let strangers = thread::spawn(move || besiege(siege, to, stop, count));

    let (begun, mut joined) = (Instant::now(), None);
    let (mut answered, mut failed, mut longest) = (0_u64, 0_u64, Duration::ZERO);
    while begun.elapsed() < siege.length {
        for (number, region) in regions.iter().enumerate() {
            let asked = Instant::now();
            match region
                .entity(format!("{number}-{answered}").as_str())
                .ask(&vec![7; 1_000])
                .await
            {
                Ok(()) => answered += 1,
                Err(_) => failed += 1,
            }
            longest = longest.max(asked.elapsed());
        }
        pause::<A>(Duration::from_millis(20)).await?;
        if joined.is_none() && begun.elapsed() >= siege.length / 2 {
            let (seed, asked) = (nodes[0].address().address().clone(), Instant::now());
            let fourth = start::<A>(security()?, Some(&seed)).await?;
            joined = Some(asked.elapsed());
            nodes.push(fourth);
        }
    }
    let most = kib()?;
    over.store(true, Ordering::Relaxed);
    strangers.join().map_err(|_| "the strangers panicked")??;
    let mut unreachable = 0;
    for events in &mut events {
        while let Some(Some(event)) = futures_lite::future::poll_once(events.next()).await {
            if let ClusterEvent::Event(Event::Membership(MembershipEvent::Changed {
                change: MembershipChange::Unreachable(_),
                ..
            })) = event
            {
                unreachable += 1;
            }
        }
    }
    let mut totals = [0; 5];
    for node in &nodes {
        let links = node.stats().await?.links;
        let counted = [
            links.refused_too_many,
            links.links_renewed,
            links.renewals_failed,
            links.links_kept,
            links.links_expired,
        ];
        totals
            .iter_mut()
            .zip(counted)
            .for_each(|(total, counted)| *total += counted);
    }
    let [displaced, renewed, failures, kept, expired] = totals;
    pause::<A>(HANDSHAKE_LIMIT * 2).await?;
    let joined = joined.unwrap_or(Duration::MAX);
    println!(
        "{transport}: {} connections from {} sources, {displaced} displaced; {answered} asks answered, {failed} not, longest \
         {longest:?}; a fourth node was Up after {joined:?}; unreachable {unreachable}; links renewed {renewed}, failures {failures}, \
         kept {kept}, expired {expired}; {before} KiB before, {most} during, {} after",
        knocks.load(Ordering::Relaxed),
        siege.sources,
        kib()?,
    );
    for node in nodes {
        node.stop().await;
    }
    Ok(failed == 0 && unreachable == 0 && joined <= JOIN_MAX)
}
