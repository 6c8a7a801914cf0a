//! Strangers with nothing but connections, against three members whose links have to be renewed all the time: nobody may become
//! unreachable, a fourth node has to be taken in, all links that are cut have to be replaced, every ask answered, the large ones
//! beside halves of frames too. The strangers live on a thread of their own.
//! Spec: reliability 3b (F-29, B-52), ADR 9.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use quorate_driver::{Adapter, Cluster, DevCa, EntityContext, Events, Kind, LinkStats};
use quorate_tokio::core::{Address, Event, MembershipChange, MembershipEvent, Status};
use quorate_tokio::{ClusterEvent, Psk, Security};
use tokio::net::{TcpSocket, TcpStream};

use crate::cut::{Cuttable, cut_all};
use crate::halves::{self, Held};
use crate::{Asks, CLUSTER, KIND, Result, SHARDS, half_open};

/// How soon the fourth node has to be Up.
const JOIN_MAX: Duration = Duration::from_secs(5);
/// So short that every link is renewed several times during the attack.
const LINK_AGE: Duration = Duration::from_secs(2);
const HANDSHAKE_LIMIT: Duration = Duration::from_secs(2);
/// Asks that begin so soon after all links were cut wait for new ones.
const AFTER_CUT: Duration = Duration::from_secs(2);
const LARGE_BYTES: usize = 1_000_000;
/// Connections that are opened at once.
pub(crate) const AT_ONCE: usize = 64;

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
    /// Strangers with a certificate that hold half a frame.
    pub(crate) halves: u64,
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

fn besiege(siege: Siege, to: &[SocketAddr], over: &AtomicBool, knocks: &AtomicU64) -> Result<()> {
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

/// What became of asks.
#[derive(Debug, Default)]
struct Asked {
    answered: u64,
    failed: u64,
    longest: Duration,
    /// When all links were cut.
    cut: Option<Instant>,
    /// The longest of those that began right after the cut.
    after_cut: Duration,
}

impl Asked {
    /// Asks an entity through every node, one after the other.
    async fn ask_all(&mut self, regions: &[Asks], bytes: usize) -> Duration {
        let mut longest = Duration::ZERO;
        for (number, region) in regions.iter().enumerate() {
            let begun = Instant::now();
            let entity = format!("{number}-{}", self.answered);
            match region.entity(entity.as_str()).ask(&vec![7; bytes]).await {
                Ok(()) => self.answered += 1,
                Err(error) => {
                    let since_cut = self.cut.map(|cut| begun.duration_since(cut));
                    let took = begun.elapsed();
                    eprintln!("not answered after {took:?}, begun {since_cut:?} after the cut: {error}");
                    self.failed += 1;
                }
            }
            longest = longest.max(begun.elapsed());
        }
        self.longest = self.longest.max(longest);
        longest
    }
}

impl std::fmt::Display for Asked {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            answered,
            failed,
            longest,
            ..
        } = self;
        write!(f, "{answered} asks answered, {failed} not, longest {longest:?}")
    }
}

/// The members under siege, and what they share.
struct Besieged<A: Adapter> {
    authority: Arc<DevCa>,
    psk: Option<Psk>,
    nodes: Vec<Cluster<A>>,
    regions: Vec<Asks>,
    events: Vec<Events>,
}

impl<A: Adapter> Besieged<A> {
    async fn new(transport: &str) -> Result<Self> {
        let psk = Psk::new("a key of this program, and no other")?;
        let mut this = Self {
            authority: Arc::new(DevCa::new("flood.cluster.internal")?),
            psk: (transport == "tokio-psk").then_some(psk),
            nodes: Vec::new(),
            regions: Vec::new(),
            events: Vec::new(),
        };
        for _ in 0..3 {
            this.start_one().await?;
        }
        for node in &this.nodes {
            let kind = Kind::<Vec<u8>, ()>::new(KIND).shards(SHARDS);
            let region = node.register_fn(kind, async |_: EntityContext, _: Vec<u8>| ());
            this.regions.push(region.await?);
        }
        let up = |node: &Cluster<A>| {
            let members = node.members();
            members
                .iter()
                .filter(|member| member.status == Status::Up)
                .count()
        };
        while this.nodes.iter().any(|node| up(node) < 3) {
            pause::<A>(Duration::from_millis(50)).await?;
        }
        this.events = this.nodes.iter().map(Cluster::events).collect();
        Ok(this)
    }

    async fn start_one(&mut self) -> Result<()> {
        let seed = self.nodes.first().map(|node| node.address().address().clone());
        let security = match &self.psk {
            Some(psk) => Security::psk(psk.clone()),
            None => Security::mtls(self.authority.mtls()?),
        };
        self.nodes.push(start(security, seed.as_ref()).await?);
        Ok(())
    }

    async fn unreachable(&mut self) -> u64 {
        let mut unreachable = 0;
        for events in &mut self.events {
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
        unreachable
    }

    async fn counted<const N: usize>(&self, which: impl Fn(&LinkStats) -> [u64; N]) -> Result<[u64; N]> {
        let mut totals = [0; N];
        for node in &self.nodes {
            let counted = which(&node.stats().await?.links);
            totals
                .iter_mut()
                .zip(counted)
                .for_each(|(total, counted)| *total += counted);
        }
        Ok(totals)
    }

    /// Idle strangers, while a fourth node joins and then all links are cut.
    async fn idle(&mut self, transport: &str, siege: Siege) -> Result<bool> {
        let before = kib()?;
        let (over, knocks) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let ports = self.nodes.iter().map(|node| node.address().address().port());
        let to: Vec<SocketAddr> = ports
            .map(|port| SocketAddr::from((Ipv4Addr::LOCALHOST, port)))
            .collect();
        let (stop, count) = (Arc::clone(&over), Arc::clone(&knocks));
        let knocking = match transport {
            "quic" => half_open::besiege,
            _ => besiege,
        };
        let strangers = thread::spawn(move || knocking(siege, &to, &stop, &count));
        let (begun, mut joined) = (Instant::now(), None);
        let mut asked = Asked::default();
        let is_over = |cut: Option<Instant>| cut.is_some_and(|cut| cut.elapsed() >= AFTER_CUT);
        while begun.elapsed() < siege.length || !is_over(asked.cut) {
            let longest = asked.ask_all(&self.regions, 1_000).await;
            if asked.cut.is_some_and(|cut| cut.elapsed() < longest + AFTER_CUT) {
                asked.after_cut = asked.after_cut.max(longest);
            }
            pause::<A>(Duration::from_millis(20)).await?;
            if joined.is_none() && begun.elapsed() >= siege.length / 2 {
                let started = Instant::now();
                self.start_one().await?;
                joined = Some(started.elapsed());
            }
            if asked.cut.is_none() && joined.is_some() && begun.elapsed() >= siege.length * 3 / 4 {
                cut_all();
                asked.cut = Some(Instant::now());
                pause::<A>(Duration::from_millis(100)).await?;
            }
        }
        let most = kib()?;
        over.store(true, Ordering::Relaxed);
        strangers.join().map_err(|_| "the strangers panicked")??;
        let unreachable = self.unreachable().await;
        let counted = |links: &LinkStats| {
            [
                links.refused_too_many,
                links.links_renewed,
                links.renewals_failed,
                links.links_kept,
                links.links_expired,
            ]
        };
        let [displaced, renewed, failures, kept, expired] = self.counted(counted).await?;
        pause::<A>(HANDSHAKE_LIMIT * 2).await?;
        let joined = joined.unwrap_or(Duration::MAX);
        println!(
            "{transport}: {} connections from {} sources, {displaced} links displaced; {asked}, right after all links were cut \
             {:?}; a fourth node was Up after {joined:?}; unreachable {unreachable}; links renewed {renewed}, failures \
             {failures}, kept {kept}, expired {expired}; {before} KiB before, {most} during, {} after",
            knocks.load(Ordering::Relaxed),
            siege.sources,
            asked.after_cut,
            kib()?,
        );
        Ok(asked.failed == 0 && unreachable == 0 && joined <= JOIN_MAX && asked.cut.is_some())
    }

    /// Large asks beside halves of frames.
    async fn large(&mut self, transport: &str, siege: Siege) -> Result<bool> {
        let (over, held) = (Arc::new(AtomicBool::new(false)), Arc::new(Held::default()));
        let to: Vec<Address> = self
            .nodes
            .iter()
            .map(|node| node.address().address().clone())
            .collect();
        let (stop, count, authority) = (Arc::clone(&over), Arc::clone(&held), Arc::clone(&self.authority));
        let strangers =
            thread::spawn(move || halves::besiege::<A>(siege.halves, &to, &authority, &stop, &count));
        let (begun, mut asked) = (Instant::now(), Asked::default());
        while begun.elapsed() < siege.length {
            asked.ask_all(&self.regions, LARGE_BYTES).await;
            pause::<A>(Duration::from_millis(20)).await?;
        }
        over.store(true, Ordering::Relaxed);
        strangers.join().map_err(|_| "the strangers panicked")??;
        let unreachable = self.unreachable().await;
        let counted = |links: &LinkStats| [links.stranger_frames_skipped, links.strangers_displaced];
        let [skipped, displaced] = self.counted(counted).await?;
        println!(
            "{transport}, 1 MB asks: {} strangers held {} halves of frames, {} MiB; {skipped} of them thrown away, {displaced} \
             strangers displaced; {asked}; unreachable {unreachable}",
            siege.halves,
            held.links.load(Ordering::Relaxed),
            held.bytes.load(Ordering::Relaxed) >> 20,
        );
        Ok(asked.failed == 0 && unreachable == 0)
    }
}

/// One siege of one transport; says whether everything went well.
pub(crate) async fn run<A: Adapter>(transport: &str, siege: Siege) -> Result<bool> {
    let mut besieged = Besieged::<Cuttable<A>>::new(transport).await?;
    let mut well = besieged.idle(transport, siege).await?;
    // Without the key nobody gets as far as a frame.
    if besieged.psk.is_none() && siege.halves > 0 {
        well &= besieged.large(transport, siege).await?;
    }
    for node in besieged.nodes {
        node.stop().await;
    }
    Ok(well)
}
