//! SIGKILL until the first answer: a node that hosts an entity is killed, and the clock runs until somebody has an answer of
//! that entity again. Spec: reliability F-01.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use crate::node::micros;
use crate::nodes::{Layout, Nodes};
use crate::options::KillOptions;
use crate::{say, seconds};

const NODES: usize = 5;

pub(crate) fn run(options: &KillOptions) -> Result<bool, String> {
    let left = AtomicU32::new(options.runs);
    let results = Mutex::new((Vec::new(), true));
    let aim = Duration::from_secs(if options.fast { 6 } else { 30 });
    say("| run | killed | first answer again | all entities again |");
    say("|---|---|---|---|");
    let outcome = thread::scope(|scope| {
        let clusters = (0..options.side_by_side).map(|number| {
            let (left, results) = (&left, &results);
            scope.spawn(move || cluster(options, number, left, results))
        });
        let clusters: Vec<_> = clusters.collect();
        let ended = clusters.into_iter().map(|cluster| cluster.join());
        ended
            .map(|ended| ended.unwrap_or_else(|_| Err("a thread panicked".to_owned())))
            .collect()
    });
    let outcome: Vec<Result<(), String>> = outcome;
    let (mut times, clean) = results.into_inner().unwrap_or_default();
    times.sort_unstable();
    if let Some(error) = outcome.into_iter().find_map(Result::err) {
        return Err(error);
    }
    let Some(&worst) = times.last() else {
        return Ok(true);
    };
    let median = times[times.len() / 2];
    let profile = if options.fast { "fast" } else { "default" };
    say(&format!(
        "{} runs, {profile} profile, {NODES} nodes: median {}, worst {} (aim: at most {})",
        times.len(),
        seconds(median),
        seconds(worst),
        seconds(aim)
    ));
    Ok(clean && worst <= aim)
}

/// Runs kills against one cluster until enough were made.
fn cluster(
    options: &KillOptions,
    number: u32,
    left: &AtomicU32,
    results: &Mutex<(Vec<Duration>, bool)>,
) -> Result<(), String> {
    let addresses = (0..NODES).map(|node| format!("127.0.0.1:{}", 28_100 + number as usize * 10 + node));
    let mut nodes = Nodes::start(Layout {
        addresses: addresses.collect(),
        prefixes: vec![Vec::new(); NODES],
        first: 2,
        fast: options.fast,
        logs: options.logs,
    })?;
    let mut next = number as usize % NODES;
    loop {
        let take = |left: u32| left.checked_sub(1);
        let Ok(left) = left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take) else {
            break;
        };
        let (victim, first, all) = kill_one(&mut nodes, &mut next)?;
        say(&format!(
            "| {} | node {} | {} | {} |",
            options.runs - left + 1,
            victim + 1,
            seconds(first),
            seconds(all)
        ));
        if let Ok(mut results) = results.lock() {
            results.0.push(first);
        }
        nodes.launch(victim)?;
        nodes.settle(Duration::from_secs(120))?;
    }
    let judged = nodes.heard().ledger.judge();
    for line in judged.two_sided.iter().chain(&judged.wrong).take(10) {
        say(&format!("  WRONG: {line}"));
    }
    if let Ok(mut results) = results.lock() {
        results.1 &= judged.is_clean();
    }
    Ok(())
}

/// Kills the next node that hosts an entity. Yields it, the time until the first answer of one of its entities that was
/// handled elsewhere, and until the first answer of the last of them.
fn kill_one(nodes: &mut Nodes, next: &mut usize) -> Result<(usize, Duration, Duration), String> {
    let limit = Duration::from_secs(120);
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
    nodes.kill(victim);
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
    Ok((victim, since(first), since(micros())))
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
