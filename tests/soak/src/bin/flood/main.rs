//! A node under a flood: eight peers say as much as they can, first what can be read, then what cannot, while
//! two other members ask it questions. Ends with 0 if the node's memory grew by at most 64 MiB, nobody became
//! unreachable, every ask was answered, and the node was back to normal within a minute. Spec: reliability
//! 3b, F-26, I-91, I-94.
#![forbid(unsafe_code)]

mod attack;
mod cut;
mod half_open;
mod halves;
mod knocks;
mod siege;
mod strangers;
mod victim;

use std::ffi::OsString;
use std::fmt::Display;
use std::io::BufRead;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use attack::{Attack, Flood, Said};
use cap::Cap;
use lexopt::prelude::*;
use quorate_core::ident::UniqueAddress;
use quorate_demo::process::{ChildProcess, first_line};
use quorate_tokio::{Address, Event, Status, events::MembershipEvent, membership::MembershipChange};
use quorate_tokio::{Cluster, ClusterEvent, Kind, Region, Security};

/// Counts what is allocated: resident memory alone says as much about the allocator as about this program.
#[global_allocator]
static HEAP: Cap<std::alloc::System> = Cap::new(std::alloc::System, usize::MAX);

const HELP: &str = "\
Floods a node with valid and with invalid frames, and checks that it minds neither.

Usage: flood [OPTIONS]

Options:
      --seconds N  length of each of the two floods (default 10)
      --peers N    peers that flood, each on two links (default 8)
      --strangers T  instead: unfinished handshakes against three members over tokio-tls, smol-tls,
                   tokio-psk or quic, whose links are renewed all the time and once all cut, and
                   a fourth that joins; then asks of 1 MB beside halves of frames
      --held N     connections that strangers hold at once (default 4096)
      --total N    go on until strangers have opened so many (default: for the seconds)
      --rounds N   sieges of the same cluster, one after the other (default 1)
      --halves N   strangers with a certificate or the key that hold half a frame (default 300)
      --sources N  addresses of 127.0.0.0/8 that they come from (default: 1, then 4096)
  -h, --help       print this

Prints one line per flood or siege; memory of the members only, for strangers have a process of
their own: bytes that are allocated, and what the system counts. Exit code 0 if memory grew by at most 64 MiB, no member became
unreachable, no ask failed, and the node was back to normal within a minute of each flood; 2 for a mistake in the options.
";

const CLUSTER: &str = "flood";
const KIND: &str = "flooded";
const SHARDS: u32 = 16;

/// What the node's memory may grow by.
const GROWTH_KIB_MAX: u64 = 64 << 10;
/// How soon the node has to be as before.
const RECOVERY_MAX: Duration = Duration::from_secs(60);
/// Links and bytes of other nodes come and go a little.
const BYTES_HELD_IDLE: u64 = 2 << 20;

/// Connections that strangers open at once.
pub(crate) const AT_ONCE: usize = 64;

type Asks = Region<Vec<u8>, ()>;
type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

fn kind() -> Kind<Vec<u8>, ()> {
    Kind::new(KIND).shards(SHARDS)
}

fn main() -> ExitCode {
    match parse() {
        Ok(Some(options)) if options.besiege.is_some() => match besiege(&options) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => fail(error),
        },
        Ok(Some(options)) => {
            let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
            let done = runtime.map_err(Into::into).and_then(|runtime| {
                runtime.block_on(async {
                    if let Some(transport) = &options.strangers {
                        siege(&options, transport).await
                    } else if options.victim {
                        victim::run().await.map(|()| true)
                    } else {
                        run(&options).await
                    }
                })
            });
            match done {
                Ok(true) => ExitCode::SUCCESS,
                Ok(false) => ExitCode::FAILURE,
                Err(error) => fail(error),
            }
        }
        Ok(None) => {
            print!("{HELP}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("flood: {error}; try --help");
            ExitCode::from(2)
        }
    }
}

fn fail(error: impl Display) -> ExitCode {
    eprintln!("flood: {error}");
    ExitCode::FAILURE
}

struct Options {
    seconds: u64,
    peers: u64,
    victim: bool,
    strangers: Option<String>,
    held: usize,
    total: Option<u64>,
    sources: Option<usize>,
    halves: u64,
    rounds: u32,
    /// What this process does, if it is the strangers': against which transport, and at which ports.
    besiege: Option<String>,
    ports: String,
}

/// What strangers may be sent against.
const TRANSPORTS: [&str; 4] = ["tokio-tls", "smol-tls", "tokio-psk", "quic"];

fn transport(parser: &mut lexopt::Parser) -> std::result::Result<String, lexopt::Error> {
    let name = parser.value()?.string()?;
    if TRANSPORTS.contains(&&*name) {
        Ok(name)
    } else {
        Err(format!("no transport `{name}`").into())
    }
}

/// This process is the strangers'.
fn besiege(options: &Options) -> Result<()> {
    let knocks = knocks::Knocks {
        held: options.held,
        total: options.total.unwrap_or(u64::MAX),
        sources: options.sources.unwrap_or(1).max(1),
        to: Vec::new(),
    };
    strangers::run(
        options.besiege.as_deref().unwrap_or_default(),
        &options.ports,
        knocks,
    )
}

/// Strangers from one source, which is the members' own, then from many.
async fn siege(options: &Options, transport: &str) -> Result<bool> {
    let mut well = true;
    let sources = options
        .sources
        .map_or_else(|| vec![1, 4_096], |sources| vec![sources]);
    for sources in sources {
        let siege = siege::Siege {
            held: options.held,
            total: options.total,
            sources: sources.max(1),
            length: Duration::from_secs(options.seconds),
            rounds: options.rounds,
            halves: options.halves,
        };
        well &= match transport {
            "tokio-tls" | "tokio-psk" => siege::run::<quorate_tokio::Tokio>(transport, siege).await?,
            "smol-tls" => siege::run::<quorate_smol::Smol>(transport, siege).await?,
            "quic" => siege::run::<quorate_quinn::Quinn>(transport, siege).await?,
            other => return Err(format!("no transport `{other}`; try --help").into()),
        };
    }
    Ok(well)
}

fn parse() -> std::result::Result<Option<Options>, lexopt::Error> {
    let mut options = Options {
        seconds: 10,
        peers: 8,
        victim: false,
        strangers: None,
        held: 4_096,
        total: None,
        sources: None,
        halves: 300,
        rounds: 1,
        besiege: None,
        ports: String::new(),
    };
    let mut parser = lexopt::Parser::from_env();
    while let Some(argument) = parser.next()? {
        #[expect(
            clippy::wildcard_enum_match_arm,
            reason = "a string is matched, and there is always another one"
        )]
        match argument {
            Short('h') | Long("help") => return Ok(None),
            Long("seconds") => options.seconds = parser.value()?.parse()?,
            Long("peers") => options.peers = parser.value()?.parse()?,
            Long("strangers") => options.strangers = Some(transport(&mut parser)?),
            Long("held") => options.held = parser.value()?.parse()?,
            Long("total") => options.total = Some(parser.value()?.parse()?),
            Long("rounds") => options.rounds = parser.value()?.parse()?,
            Long("besiege") => options.besiege = Some(parser.value()?.string()?),
            Long("ports") => options.ports = parser.value()?.string()?,
            Long("sources") => options.sources = Some(parser.value()?.parse()?),
            Long("halves") => options.halves = parser.value()?.parse()?,
            Long("victim") => options.victim = true,
            _ => return Err(argument.unexpected()),
        }
    }
    Ok(Some(options))
}

/// The victim's newest line about itself.
#[derive(Clone, Copy, Debug, Default)]
struct Figures {
    links_open: u64,
    bytes_held: u64,
    unreachable: u64,
    frames: u64,
    beyond_rate: u64,
    closed: u64,
    refused: u64,
    waits: u64,
}

impl Figures {
    fn parse(line: &str) -> Option<Self> {
        let mut numbers = line.split(' ').map(str::parse);
        let mut next = || numbers.next()?.ok();
        Some(Self {
            links_open: next()?,
            bytes_held: next()?,
            unreachable: next()?,
            frames: next()?,
            beyond_rate: next()?,
            closed: next()?,
            refused: next()?,
            waits: next()?,
        })
    }
}

/// The victim as its parent sees it.
struct Victim {
    process: ChildProcess,
    address: UniqueAddress,
    figures: Arc<Mutex<Figures>>,
}

impl Victim {
    fn start() -> Result<Self> {
        let mut process = ChildProcess::start([OsString::from("--victim")])?;
        let mut output = process.output().ok_or("a child has an output")?;
        let line = first_line(&mut output)?;
        let (address, uid) = line.split_once(' ').ok_or("the victim did not start")?;
        let address = UniqueAddress::new(address.parse::<Address>()?, uid.parse()?);
        let figures = Arc::new(Mutex::new(Figures::default()));
        let newest = Arc::clone(&figures);
        std::thread::spawn(move || {
            for line in output.lines().map_while(std::io::Result::ok) {
                if let Some(found) = Figures::parse(&line) {
                    *newest.lock().unwrap_or_else(PoisonError::into_inner) = found;
                }
            }
        });
        Ok(Self {
            process,
            address,
            figures,
        })
    }

    fn figures(&self) -> Figures {
        *self.figures.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Resident memory.
    fn kib(&self) -> Result<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.process.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let number = line.and_then(|line| line.split_whitespace().next());
        Ok(number.ok_or("no VmRSS in /proc")?.parse()?)
    }
}

async fn run(options: &Options) -> Result<bool> {
    let victim = Victim::start()?;
    let mut members = Vec::new();
    for _ in 0..2 {
        let builder = quorate_tokio::builder(CLUSTER).bind("127.0.0.1:0");
        let builder = builder.security(Security::insecure_plaintext());
        let node = builder.seeds([victim.address.address()]).start().await?;
        node.up().await?;
        members.push(node);
    }
    let mut regions = Vec::new();
    for node in &members {
        let mut events = node.events();
        while node
            .members()
            .iter()
            .filter(|member| member.status == Status::Up)
            .count()
            < 3
        {
            events.next().await.ok_or("a member has ended")?;
        }
        regions.push(node.entities(kind()).proxy().await?);
    }
    let mut well = true;
    for flood in [Flood::Valid, Flood::Invalid] {
        well &= one(options, &victim, &members, &regions, flood).await?;
    }
    Ok(well)
}

/// Asks until it is over: how many were answered, how many were not, and the longest wait.
async fn ask(region: Asks, over: Arc<AtomicBool>) -> (u64, u64, Duration) {
    let (mut answered, mut failed, mut longest) = (0, 0, Duration::ZERO);
    while !over.load(Ordering::Relaxed) {
        let begun = Instant::now();
        match region.entity("asked").ask(Vec::new()).await {
            Ok(()) => answered += 1,
            Err(_) => failed += 1,
        }
        longest = longest.max(begun.elapsed());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    (answered, failed, longest)
}

async fn one(
    options: &Options,
    victim: &Victim,
    members: &[Cluster],
    regions: &[Asks],
    flood: Flood,
) -> Result<bool> {
    for region in regions {
        region.entity("asked").ask(Vec::new()).await?;
    }
    tokio::time::sleep(Duration::from_millis(500)).await;
    let (before, kib_before) = (victim.figures(), victim.kib()?);
    let over = Arc::new(AtomicBool::new(false));
    let mut events: Vec<_> = members.iter().map(Cluster::events).collect();
    let asking: Vec<_> = regions
        .iter()
        .map(|region| tokio::spawn(ask(region.clone(), Arc::clone(&over))))
        .collect();
    let said = Arc::new(Said::default());
    let attack = Arc::new(Attack {
        to: victim.address.clone(),
        flood,
        over: Arc::clone(&over),
        said: Arc::clone(&said),
    });
    let threads: Vec<_> = (1..=options.peers)
        .flat_map(|peer| Arc::clone(&attack).start(peer))
        .collect();

    let (mut kib_most, mut unreachable) = (kib_before, 0);
    let end = Instant::now() + Duration::from_secs(options.seconds);
    while Instant::now() < end {
        tokio::time::sleep(Duration::from_millis(50)).await;
        kib_most = kib_most.max(victim.kib()?);
        unreachable += victim.figures().unreachable;
    }
    over.store(true, Ordering::Relaxed);
    let ended = Instant::now();
    for thread in threads {
        thread.join().map_err(|_| "an attacker panicked")?;
    }
    let (mut answered, mut failed, mut longest) = (0, 0, Duration::ZERO);
    for task in asking {
        let (some, none, wait) = task.await?;
        (answered, failed, longest) = (answered + some, failed + none, longest.max(wait));
    }
    let normal = loop {
        let now = victim.figures();
        if now.links_open <= before.links_open && now.bytes_held <= before.bytes_held + BYTES_HELD_IDLE {
            break true;
        }
        if ended.elapsed() > RECOVERY_MAX {
            break false;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    let recovered = ended.elapsed();
    kib_most = kib_most.max(victim.kib()?);
    for events in &mut events {
        while let Ok(Some(event)) = tokio::time::timeout(Duration::ZERO, events.next()).await {
            if let ClusterEvent::Event(Event::Membership(MembershipEvent::Changed {
                change: MembershipChange::Unreachable(_),
                ..
            })) = event
            {
                unreachable += 1;
            }
        }
    }
    let after = victim.figures();
    let growth = kib_most.saturating_sub(kib_before);
    println!(
        "{flood:?}: {} links said {} MiB in {} s; the node took {} frames, dropped {} beyond the rate, closed {} links, \
         refused {}, let {} wait; {growth} KiB more than the {kib_before} before; {answered} asks answered, {failed} not, \
         longest {longest:?}; unreachable {unreachable}; as before after {recovered:?}",
        said.links.load(Ordering::Relaxed),
        said.bytes.load(Ordering::Relaxed) >> 20,
        options.seconds,
        after.frames - before.frames,
        after.beyond_rate - before.beyond_rate,
        after.closed - before.closed,
        after.refused - before.refused,
        after.waits - before.waits,
    );
    Ok(growth <= GROWTH_KIB_MAX && unreachable == 0 && failed == 0 && normal)
}
