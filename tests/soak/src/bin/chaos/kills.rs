//! SIGKILL until the first answer: a node that hosts an entity, or the singleton, is killed, and the clock
//! runs until somebody has an answer of it again. Or it is told to leave (SIGTERM): then what counts is the
//! longest time in which one of the others had no answer, and that every ask of theirs ends, with an answer
//! or an error. Spec: reliability F-01, sharding 1.10.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use quorate_tokio::membership::ClusterName;

use crate::node::micros;
use crate::nodes::{Layout, Nodes};
use crate::options::{KillOptions, Preset};
use crate::{say, seconds};

const NODES: usize = 5;
/// How long anything may take that is waited for.
const LIMIT: Duration = Duration::from_secs(120);

/// What clusters have found together.
#[derive(Default)]
struct Found {
    /// Until the first answer, and until the last entity answers.
    times: Vec<Duration>,
    all: Vec<Duration>,
    asked: u64,
    lost: usize,
    /// Why asks of nodes that stayed ended with an error, and how often.
    reasons: BTreeMap<String, u64>,
    /// How many of nodes that were leaving did.
    leavers: u64,
    is_wrong: bool,
}

pub(crate) fn run(options: &KillOptions) -> Result<bool, String> {
    let left = AtomicU32::new(options.runs);
    let found = Mutex::new(Found::default());
    let aim = aim(options);
    if options.leave {
        say("| run | leaves | longest time without an answer | the next instance's first answer |");
    } else {
        say("| run | killed | first answer again | all entities again |");
    }
    say("|---|---|---|---|");
    let outcome = thread::scope(|scope| {
        let clusters = (0..options.side_by_side).map(|number| {
            let (left, found) = (&left, &found);
            scope.spawn(move || cluster(options, number, left, found))
        });
        let clusters: Vec<_> = clusters.collect();
        let ended = clusters.into_iter().map(|cluster| cluster.join());
        ended
            .map(|ended| ended.unwrap_or_else(|_| Err("a thread panicked".to_owned())))
            .collect()
    });
    let outcome: Vec<Result<(), String>> = outcome;
    let mut found = found.into_inner().unwrap_or_default();
    found.times.sort_unstable();
    found.all.sort_unstable();
    if let Some(error) = outcome.into_iter().find_map(Result::err) {
        return Err(error);
    }
    let Some(&worst) = found.times.last() else {
        return Ok(true);
    };
    let median = found.times[found.times.len() / 2];
    say(&format!(
        "{} runs, {:?}, {NODES} nodes: first answer median {}, worst {} (aim: at most {}); all again median {}, worst {}",
        found.times.len(),
        options.profile,
        precisely(median),
        precisely(worst),
        seconds(aim),
        precisely(found.all[found.all.len() / 2]),
        precisely(found.all.last().copied().unwrap_or_default())
    ));
    if options.leave {
        let errors: u64 = found.reasons.values().sum();
        say(&format!(
            "{} asks, {errors} of nodes that stayed with an error {:?}, {} of nodes that left; {} without answer or error",
            found.asked, found.reasons, found.leavers, found.lost
        ));
    } else {
        let (least, most) = waits(options)?;
        say(&format!(
            "the configured waits are {} to {} together",
            seconds(least),
            seconds(most)
        ));
    }
    Ok(!found.is_wrong && found.lost == 0 && worst <= aim)
}

/// What a run may take.
const fn aim(options: &KillOptions) -> Duration {
    Duration::from_secs(
        match (options.leave, options.profile.preset, options.profile.stable) {
            (false, _, Some(stable)) => 2 * stable + 16,
            (false, Preset::Fast, None) => 6,
            (false, Preset::OneDataCenter, None) => 9,
            (false, Preset::Lan, None) => 30,
            (true, Preset::Fast, _) => 2,
            // An ask waits so long.
            (true, Preset::OneDataCenter | Preset::Lan, _) => 5,
        },
    )
}

/// What the settings have everybody wait for until a dead node's work is taken over: at least, and at most.
/// `docs/fail-over.md` explains the sum.
fn waits(options: &KillOptions) -> Result<(Duration, Duration), String> {
    /// Of the deviation of heartbeats' intervals that phi accrual forgives, in tenths.
    const DEVIATIONS_TENTHS: u32 = 52;
    let cluster = ClusterName::new("chaos").map_err(|error| error.to_string())?;
    let config = options
        .profile
        .config(cluster)
        .validate()
        .map_err(|error| error.to_string())?;
    let detector = &config.failure_detector;
    let silence = detector.acceptable_heartbeat_pause + detector.min_std_deviation * DEVIATIONS_TENTHS / 10;
    let stable = config.stable_after(NODES);
    let least = silence + stable + config.removal_margin(NODES);
    // A heartbeat and a look at the detector, the resolver's look, two rounds of gossip and the leader's
    // tick.
    let looks =
        detector.heartbeat_interval + detector.unreachable_nodes_reaper_interval + Duration::from_secs(1);
    let rounds = config.membership.gossip_interval * 2 + config.membership.leader_actions_interval;
    Ok((least, least + looks + rounds))
}

/// Disturbs one cluster until that was done often enough.
fn cluster(options: &KillOptions, number: u32, left: &AtomicU32, found: &Mutex<Found>) -> Result<(), String> {
    let addresses = (0..NODES).map(|node| format!("127.0.0.1:{}", 28_100 + number as usize * 10 + node));
    let mut nodes = Nodes::start(Layout {
        addresses: addresses.collect(),
        prefixes: vec![Vec::new(); NODES],
        first: 2,
        profile: options.profile,
        logs: options.logs,
        work: options.work,
        book: None,
    })?;
    let mut next = number as usize % NODES;
    let mut leaving = Vec::new();
    loop {
        let take = |left: u32| left.checked_sub(1);
        let Ok(left) = left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take) else {
            break;
        };
        let begun = micros();
        let (victim, first, all) = end_one(&mut nodes, &mut next, options.leave)?;
        leaving.push((victim, begun..micros()));
        say(&format!(
            "| {} | node {} | {} | {} |",
            options.runs - left + 1,
            victim + 1,
            precisely(first),
            precisely(all)
        ));
        if let Ok(mut found) = found.lock() {
            found.times.push(first);
            found.all.push(all);
        }
        nodes.launch(victim)?;
        nodes.restore(LIMIT)?;
    }
    // What is open at the end has this long to end.
    let open_until = micros();
    nodes.wait(LIMIT, |_| micros() > open_until + 10_000_000);
    let lost = nodes.lost();
    let heard = nodes.heard();
    let judged = heard.ledger.judge();
    for line in judged.two_sided.iter().chain(&judged.wrong).take(10) {
        say(&format!("  WRONG: {line}"));
    }
    if let Ok(mut found) = found.lock() {
        found.is_wrong |= !judged.is_clean();
        found.asked += heard.asked;
        found.lost += lost;
        for error in &heard.ledger.unanswered {
            let left = |(node, time): &(usize, Range<u64>)| *node == error.asker && time.contains(&error.at);
            if leaving.iter().any(left) {
                found.leavers += 1;
            } else {
                *found.reasons.entry(error.reason.clone()).or_default() += 1;
            }
        }
    }
    Ok(())
}

fn precisely(time: Duration) -> String {
    format!("{:.3} s", time.as_secs_f64())
}

/// Kills the next node that hosts an entity. Yields it, the time until the first answer of one of its
/// entities that was handled elsewhere, and until the first answer of the last of them. Or has it leave: then
/// the longest time in which one of the others had no answer, and the time until the first one that was
/// handled elsewhere.
fn end_one(nodes: &mut Nodes, next: &mut usize, leave: bool) -> Result<(usize, Duration, Duration), String> {
    let limit = LIMIT;
    let mut chosen = None;
    let mut from = *next;
    // A node that has just come back gets shards with the next balance.
    let found = nodes.wait(limit, |nodes| {
        let hosted = hosted_by(nodes, from);
        if hosted.is_empty() {
            from = (from + 1) % NODES;
            return false;
        }
        chosen = Some((from, hosted));
        true
    });
    let Some((victim, hosted)) = chosen.filter(|_| found) else {
        return Err("no node hosts anything".to_owned());
    };
    *next = (victim + 1) % NODES;
    let killed = micros();
    if leave {
        nodes.signal(victim, "TERM")?;
    } else {
        nodes.kill(victim);
    }
    let mut first = None;
    let mut again = std::collections::BTreeSet::new();
    let mut seen = nodes.heard().ledger.answers.len();
    let address = nodes.address(victim).to_owned();
    let served = nodes.wait(limit, |nodes| {
        let heard = nodes.heard();
        for answer in &heard.ledger.answers[seen..] {
            if hosted.contains(&answer.entity) && answer.handled > killed && answer.host() != address {
                first.get_or_insert(answer.came);
                again.insert(answer.entity);
            }
        }
        seen = heard.ledger.answers.len();
        again.len() == hosted.len()
    });
    let Some(first) = first.filter(|_| served) else {
        return Err(format!("no answer again within {limit:?}: {}", nodes.describe()));
    };
    let since = |at: u64| Duration::from_micros(at.saturating_sub(killed));
    if !leave {
        return Ok((victim, since(first), since(micros())));
    }
    if !nodes.wait(limit, |nodes| nodes.ended(victim).is_some()) {
        return Err(format!("node {} does not end: {}", victim + 1, nodes.describe()));
    }
    let others: Vec<usize> = (0..NODES).filter(|node| *node != victim).collect();
    let gap = nodes.heard().ledger.silence(&others, killed, micros());
    Ok((victim, gap, since(first)))
}

/// The entities whose latest answer this node gave within the last second.
fn hosted_by(nodes: &Nodes, node: usize) -> Vec<u32> {
    let (address, since) = (nodes.address(node).to_owned(), micros().saturating_sub(1_000_000));
    let heard = nodes.heard();
    let mut latest = std::collections::BTreeMap::new();
    for answer in heard
        .ledger
        .answers
        .iter()
        .rev()
        .take_while(|answer| answer.came > since)
    {
        let entry = latest
            .entry(answer.entity)
            .or_insert((answer.handled, answer.host()));
        *entry = (*entry).max((answer.handled, answer.host()));
    }
    let here = latest.into_iter().filter(|(_, (_, host))| *host == address);
    here.map(|(entity, _)| entity).collect()
}
