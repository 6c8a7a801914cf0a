//! Strangers against three members whose links have to be renewed all the time: nobody may become
//! unreachable, a fourth node has to be taken in, all links that are cut have to be replaced, every ask
//! answered, the large ones beside halves of frames too, and memory has to return. Spec: reliability 3b
//! (F-29, B-52), ADR 9.

use std::marker::PhantomData;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use quorate_driver::spi::Adapter;
use quorate_driver::{
    Cluster, ClusterBuilder, EntityContext, Events, Kind, security::DevCa, stats::LinkStats,
};
use quorate_tokio::{Address, Event, Status, events::MembershipEvent, membership::MembershipChange};
use quorate_tokio::{ClusterEvent, Security, security::Psk};

use crate::cut::{Cuttable, cut_all};
use crate::knocks::Knocks;
use crate::strangers::Strangers;
use crate::{Asks, CLUSTER, HEAP, KIND, Result, SHARDS, halves};

const MEMBERS: usize = 3;
/// How soon the fourth node has to be Up.
const JOIN_MAX: Duration = Duration::from_secs(5);
/// So short that every link is renewed several times during the attack.
const LINK_AGE: Duration = Duration::from_secs(2);
const HANDSHAKE_LIMIT: Duration = Duration::from_secs(2);
/// Asks that begin so soon after all links were cut wait for new ones.
const AFTER_CUT: Duration = Duration::from_secs(2);
const LARGE_BYTES: usize = 1_000_000;
/// How soon after the strangers have gone the members have to hold none of their handshakes. Those that QUIC
/// gave up linger.
const FORGOTTEN_MAX: Duration = Duration::from_secs(10);
/// What live memory may have grown by when all is over: queues and tables keep the size that a flood needed,
/// those of QUIC for four times as many connections as may be in their handshake. A second siege adds nothing
/// to it.
const GROWTH_BYTES_MAX: usize = MEMBERS * (2 << 20);
/// Entities that are asked through each node, in turns: they live on, and are no part of what a flood costs.
const ENTITIES: u64 = 64;

/// What the strangers do, and how often.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Siege {
    pub(crate) held: usize,
    /// So many have to be opened before it is over; without it they go on for `length`.
    pub(crate) total: Option<u64>,
    pub(crate) sources: usize,
    pub(crate) length: Duration,
    /// The cluster is besieged so often, one siege after the other: memory has to return each time.
    pub(crate) rounds: u32,
    /// Strangers with a certificate or the key that hold half a frame.
    pub(crate) halves: u64,
}

async fn start<A: Adapter>(security: Security, seed: Option<&Address>) -> Result<Cluster> {
    let builder = ClusterBuilder::on::<A>(CLUSTER)
        .bind("127.0.0.1:0")
        .link_limits(|limits| {
            limits.max_link_age = LINK_AGE;
            limits.handshake_timeout = HANDSHAKE_LIMIT;
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
    let until = quorate_driver::spi::Runtime::now(&runtime).mono + length;
    quorate_driver::spi::Runtime::sleep_until(&runtime, until).await;
    Ok(())
}

/// What this process, which is the members, holds.
#[derive(Clone, Copy, Debug)]
struct Memory {
    /// Allocated and not freed.
    live: usize,
    /// What the system has given; the allocator may keep what was freed.
    resident_kib: u64,
}

impl Memory {
    fn now() -> Result<Self> {
        let status = std::fs::read_to_string("/proc/self/status")?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let number = line.and_then(|line| line.split_whitespace().next());
        Ok(Self {
            live: HEAP.allocated(),
            resident_kib: number.ok_or("no VmRSS")?.parse()?,
        })
    }
}

impl std::fmt::Display for Memory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} KiB live ({} resident)", self.live >> 10, self.resident_kib)
    }
}

/// What a siege did to the members' memory.
#[derive(Debug)]
struct Held {
    before: Memory,
    /// When it was most.
    during: Memory,
    /// Handshakes that were pending then.
    pending: u64,
    after: Memory,
}

impl Held {
    fn new() -> Result<Self> {
        let now = Memory::now()?;
        Ok(Self {
            before: now,
            during: now,
            pending: 0,
            after: now,
        })
    }

    fn look(&mut self, pending: u64) -> Result<()> {
        let now = Memory::now()?;
        if now.live > self.during.live {
            (self.during, self.pending) = (now, pending);
        }
        Ok(())
    }

    fn is_back(&self) -> bool {
        self.after.live <= self.before.live + GROWTH_BYTES_MAX
    }
}

impl std::fmt::Display for Held {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let grown = u64::try_from(self.during.live.saturating_sub(self.before.live)).unwrap_or(0);
        write!(
            f,
            "before {}, with {} handshakes pending {}, so {} B each, after {}",
            self.before,
            self.pending,
            self.during,
            grown / self.pending.max(1),
            self.after
        )
    }
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
            let entity = format!("{number}-{}", self.answered % ENTITIES);
            match region.entity(entity.as_str()).ask(vec![7; bytes]).await {
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

/// What became of links, over all members.
struct Renewals;

impl Renewals {
    const fn of(links: &LinkStats) -> [u64; 6] {
        [
            links.refused_too_many,
            links.links_renewed,
            links.renewals_failed,
            links.renewals_cut_short,
            links.links_kept,
            links.links_expired,
        ]
    }

    fn between(before: [u64; 6], after: [u64; 6]) -> String {
        let mut grown = after
            .into_iter()
            .zip(before)
            .map(|(after, before)| after.saturating_sub(before));
        let mut next = || grown.next().unwrap_or(0);
        format!(
            "{} links displaced, {} renewed, {} renewals failed, {} cut short, {} links kept, {} expired",
            next(),
            next(),
            next(),
            next(),
            next(),
            next()
        )
    }
}

/// What makes a node one of ours: members have it, and those strangers who hold halves of frames.
#[derive(Clone)]
pub(crate) enum Trust {
    Authority(Arc<DevCa>),
    Key(Psk),
}

impl Trust {
    fn new(transport: &str) -> Result<Self> {
        Ok(if transport == "tokio-psk" {
            Self::Key(Psk::new("a key of this program, and no other")?)
        } else {
            Self::Authority(Arc::new(DevCa::new("flood.cluster.internal")?))
        })
    }

    /// For one node more.
    pub(crate) fn security(&self) -> Result<Security> {
        Ok(match self {
            Self::Authority(authority) => Security::mtls(authority.mtls()?),
            Self::Key(psk) => Security::psk(psk.clone()),
        })
    }
}

/// The members under siege, and what they share.
struct Besieged<A: Adapter> {
    trust: Trust,
    nodes: Vec<Cluster>,
    regions: Vec<Asks>,
    events: Vec<Events>,
    adapter: PhantomData<A>,
}

impl<A: Adapter> Besieged<A> {
    async fn new(transport: &str) -> Result<Self> {
        let mut this = Self {
            trust: Trust::new(transport)?,
            nodes: Vec::new(),
            regions: Vec::new(),
            events: Vec::new(),
            adapter: PhantomData,
        };
        for _ in 0..MEMBERS {
            this.start_one().await?;
        }
        for node in &this.nodes {
            let kind = Kind::<Vec<u8>, ()>::new(KIND).shards(SHARDS);
            let region = node
                .entities(kind)
                .start_fn(async |_: EntityContext, _: Vec<u8>| ());
            this.regions.push(region.await?);
        }
        let up = |node: &Cluster| {
            let members = node.members();
            members
                .iter()
                .filter(|member| member.status == Status::Up)
                .count()
        };
        while this.nodes.iter().any(|node| up(node) < MEMBERS) {
            pause::<A>(Duration::from_millis(50)).await?;
        }
        this.events = this.nodes.iter().map(Cluster::events).collect();
        Ok(this)
    }

    async fn start_one(&mut self) -> Result<()> {
        let seed = self.nodes.first().map(|node| node.address().address().clone());
        self.nodes
            .push(start::<A>(self.trust.security()?, seed.as_ref()).await?);
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

    /// Waits until a cut has been noticed by everybody: an ask that is written to a link that is cut already
    /// may have been handled or not, and nobody can know.
    async fn cut(&self) -> Result<()> {
        let cut = cut_all();
        while !cut.is_noticed() {
            pause::<A>(Duration::from_millis(1)).await?;
        }
        // What the links' tasks have said of their end the nodes have heard after a turn, which one answer
        // may lie within.
        for node in self.nodes.iter().chain(&self.nodes) {
            node.stats().await?;
        }
        Ok(())
    }

    async fn pending(&self) -> Result<u64> {
        let [pending] = self.counted(|links| [links.handshakes_pending]).await?;
        Ok(pending)
    }

    /// Until none of the strangers' handshakes is left, and a fourth node, which then leaves.
    async fn calm_down(&mut self) -> Result<()> {
        let begun = Instant::now();
        while self.pending().await? > 0 && begun.elapsed() < FORGOTTEN_MAX {
            pause::<A>(Duration::from_millis(100)).await?;
        }
        while self.nodes.len() > MEMBERS {
            if let Some(guest) = self.nodes.pop() {
                guest.leave().await?;
            }
        }
        // What a handshake that was given up leaves behind in QUIC, and links to who has left.
        pause::<A>(HANDSHAKE_LIMIT * 3).await
    }

    /// Strangers, while a fourth node joins and then all links are cut.
    async fn idle(&mut self, transport: &str, siege: Siege) -> Result<bool> {
        let mut held = Held::new()?;
        let before = self.counted(Renewals::of).await?;
        let ports = self.nodes.iter().map(|node| node.address().address().port());
        let knocks = Knocks {
            held: siege.held,
            total: siege.total.unwrap_or(u64::MAX),
            sources: siege.sources,
            to: ports
                .map(|port| SocketAddr::from((Ipv4Addr::LOCALHOST, port)))
                .collect(),
        };
        let strangers = Strangers::start(transport, &knocks)?;
        let (begun, mut joined) = (Instant::now(), None);
        let mut asked = Asked::default();
        let is_over = |cut: Option<Instant>, opened: u64| {
            let settled = cut.is_some_and(|cut: Instant| cut.elapsed() >= AFTER_CUT);
            settled && siege.total.is_none_or(|total| opened >= total)
        };
        while begun.elapsed() < siege.length || !is_over(asked.cut, strangers.opened()) {
            let longest = asked.ask_all(&self.regions, 1_000).await;
            if asked.cut.is_some_and(|cut| cut.elapsed() < longest + AFTER_CUT) {
                asked.after_cut = asked.after_cut.max(longest);
            }
            pause::<A>(Duration::from_millis(20)).await?;
            if joined.is_none() {
                held.look(self.pending().await?)?;
            }
            if joined.is_none() && begun.elapsed() >= siege.length / 2 {
                let started = Instant::now();
                self.start_one().await?;
                joined = Some(started.elapsed());
            }
            if asked.cut.is_none() && joined.is_some() && begun.elapsed() >= siege.length * 3 / 4 {
                self.cut().await?;
                asked.cut = Some(Instant::now());
            }
        }
        let (opened, took) = (strangers.opened(), begun.elapsed());
        drop(strangers);
        let unreachable = self.unreachable().await;
        let after = self.counted(Renewals::of).await?;
        self.calm_down().await?;
        held.after = Memory::now()?;
        let joined = joined.unwrap_or(Duration::MAX);
        println!(
            "{transport}: {opened} connections from {} sources, {:.0} a second; {asked}, right after all links were cut {:?}; a \
             fourth node was Up after {joined:?}; unreachable {unreachable}; {}; {held}",
            siege.sources,
            opened as f64 / took.as_secs_f64(),
            asked.after_cut,
            Renewals::between(before, after),
        );
        Ok(asked.failed == 0
            && unreachable == 0
            && joined <= JOIN_MAX
            && asked.cut.is_some()
            && held.is_back())
    }

    /// Large asks beside halves of frames.
    async fn large(&mut self, transport: &str, siege: Siege) -> Result<bool> {
        let (over, held) = (
            Arc::new(AtomicBool::new(false)),
            Arc::new(halves::Held::default()),
        );
        let to: Vec<Address> = self
            .nodes
            .iter()
            .map(|node| node.address().address().clone())
            .collect();
        let (stop, count, trust) = (Arc::clone(&over), Arc::clone(&held), self.trust.clone());
        let strangers = thread::spawn(move || halves::besiege::<A>(siege.halves, &to, &trust, &stop, &count));
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
    let mut well = true;
    for _ in 0..siege.rounds {
        well &= besieged.idle(transport, siege).await?;
    }
    if siege.halves > 0 {
        well &= besieged.large(transport, siege).await?;
    }
    for node in besieged.nodes {
        node.stop().await;
    }
    Ok(well)
}
