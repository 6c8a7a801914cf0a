//! Five nodes split in every way, and a singleton that writes into a book that all of them reach: whatever is
//! cut, no lower token is accepted and no two instances acknowledge work at the same one. Two-sided splits:
//! each node alone, each pair alone. One way: each node hears nobody, each is heard by nobody. Spec: sharding
//! 10.7, reliability I-33.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::thread;
use std::time::{Duration, Instant};

use crate::audit::Audit;
use crate::book::Book;
use crate::net::Net;
use crate::node::micros;
use crate::nodes::{Layout, Nodes};
use crate::options::TokenOptions;
use crate::work::Work;
use crate::{say, seconds};

const NODES: usize = 5;
/// The node that forms the cluster: the first oldest.
const FIRST: usize = 2;
/// How long the nodes may take to be five again.
const PATIENCE: Duration = Duration::from_secs(180);
/// How long what a process said before its end may take to be heard.
const DRAIN: Duration = Duration::from_secs(1);
/// Where `tests/with_postgres.sh` says how its server is reached by a socket in a folder, which no network
/// namespace hides.
const SERVER: &str = "QUORATE_POSTGRES_SOCKET";

/// A way to split five nodes. Numbers are of nodes, from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Split {
    /// One against four.
    Alone(usize),
    /// Two against three.
    Pair(usize, usize),
    /// What others send does not reach it.
    Deaf(usize),
    /// What it sends reaches nobody.
    Mute(usize),
}

impl Split {
    /// Every way.
    pub(crate) fn all() -> Vec<Self> {
        let nodes = || 1..=NODES;
        let pairs = nodes().flat_map(|one| (one + 1..=NODES).map(move |other| Self::Pair(one, other)));
        let alone = nodes().map(Self::Alone).chain(pairs);
        alone
            .chain(nodes().map(Self::Deaf))
            .chain(nodes().map(Self::Mute))
            .collect()
    }

    fn apply(self, net: &Net, cut: bool) -> Result<(), String> {
        let way = |from: usize, to: usize| {
            if cut {
                net.cut(from, to)
            } else {
                net.open(from, to)
            }
        };
        let others = |node: usize| (0..NODES).filter(move |other| *other != node);
        match self {
            Self::Alone(node) => net.split(&[node - 1], cut),
            Self::Pair(one, other) => net.split(&[one - 1, other - 1], cut),
            Self::Deaf(node) => others(node - 1).try_for_each(|other| way(other, node - 1)),
            Self::Mute(node) => others(node - 1).try_for_each(|other| way(node - 1, other)),
        }
    }
}

impl fmt::Display for Split {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Alone(node) => write!(f, "alone-{node}"),
            Self::Pair(one, other) => write!(f, "pair-{one}-{other}"),
            Self::Deaf(node) => write!(f, "deaf-{node}"),
            Self::Mute(node) => write!(f, "mute-{node}"),
        }
    }
}

impl FromStr for Split {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::all().into_iter().find(|split| split.to_string() == text);
        found.ok_or_else(|| format!("there is no split `{text}`"))
    }
}

pub(crate) fn run(options: &TokenOptions) -> Result<bool, String> {
    let server = std::env::var(SERVER);
    let server = server
        .map_err(|_| format!("{SERVER} is not set: tests/chaos/tokens.sh starts a PostgreSQL server"))?;
    if !Net::is_inside() {
        return match Net::enter()? {
            0 => Ok(true),
            1 => Ok(false),
            _ => Err("see above".to_owned()),
        };
    }
    let net = Net::new(NODES)?;
    let stores = Folder::new()?;
    let layout = Layout {
        addresses: (0..NODES).map(Net::address).collect(),
        prefixes: (0..NODES).map(Net::prefix).collect(),
        first: FIRST,
        profile: options.profile,
        logs: options.logs,
        work: Work::Book,
        book: Some((server.clone(), stores.0.clone())),
    };
    let addresses = layout.addresses.clone();
    let mut nodes = Nodes::start(layout)?;
    say(
        "| split | ended, after | instances that began | longest time without an acknowledgement | acknowledged | refused |",
    );
    say("|---|---|---|---|---|---|");
    let mut complaints = Vec::new();
    for split in &options.splits {
        complaints.extend(play(*split, &net, &mut nodes, options.lasting)?);
    }
    // What is acknowledged after the book was read would be missing in it.
    (0..NODES).for_each(|node| nodes.kill(node));
    thread::sleep(DRAIN);
    let book = Book::new(&server, "audit")?.records()?;
    let (audit, refused) = {
        let heard = nodes.heard();
        (Audit::of(&heard.ledger, &book, &addresses), heard.ledger.refused)
    };
    say(&format!(
        "{} splits of {}: {} instances, {} acknowledged, {} records; {refused} refused, lower tokens accepted {}, tokens of two instances {}, \
         missing {}, doubled {}",
        options.splits.len(),
        seconds(options.lasting),
        audit.instances,
        audit.acknowledged,
        audit.records,
        audit.lower_tokens,
        audit.shared_tokens,
        audit.missing,
        audit.doubled
    ));
    for complaint in &complaints {
        say(&format!("  WRONG: {complaint}"));
    }
    let happened = audit.acknowledged > 0 && audit.instances > 1;
    Ok(audit.is_clean() && complaints.is_empty() && happened)
}

/// Splits, waits, heals, and has all five work again. What went wrong besides tokens.
fn play(split: Split, net: &Net, nodes: &mut Nodes, lasting: Duration) -> Result<Option<String>, String> {
    let (begun, before) = (micros(), figures(nodes));
    split.apply(net, true)?;
    let end = Instant::now() + lasting;
    let mut ended: Vec<(usize, u64)> = Vec::new();
    while Instant::now() < end {
        for node in nodes.all_ended() {
            if ended.iter().all(|(known, _)| *known != node) {
                ended.push((node, nodes.ended(node).unwrap_or(begun)));
            }
        }
        thread::sleep(Duration::from_millis(20));
    }
    let silence = gap(nodes, begun, micros());
    split.apply(net, false)?;
    let back = nodes.restore(PATIENCE);
    let after = figures(nodes);
    let ended: Vec<String> = ended
        .iter()
        .map(|(node, at)| {
            format!(
                "{} {}",
                node + 1,
                seconds(Duration::from_micros(at.saturating_sub(begun)))
            )
        })
        .collect();
    say(&format!(
        "| {split} | {} | {} | {} | {} | {} |",
        if ended.is_empty() {
            "nobody".to_owned()
        } else {
            ended.join(", ")
        },
        after[0] - before[0],
        seconds(silence),
        after[1] - before[1],
        after[2] - before[2]
    ));
    Ok(back.err().map(|error| format!("{split}: {error}")))
}

/// Instances, acknowledgements and refusals so far.
fn figures(nodes: &Nodes) -> [u64; 3] {
    let heard = nodes.heard();
    let ledger = &heard.ledger;
    [
        ledger.opened.len() as u64,
        ledger.answers.len() as u64,
        ledger.refused,
    ]
}

/// The longest time in which nobody had an answer.
fn gap(nodes: &Nodes, from: u64, until: u64) -> Duration {
    let heard = nodes.heard();
    let came = heard.ledger.answers.iter().map(|answer| answer.came);
    let mut came: Vec<u64> = came.filter(|came| (from..until).contains(came)).collect();
    came.extend([from, until]);
    came.sort_unstable();
    let longest = came.windows(2).map(|pair| pair[1] - pair[0]).max();
    Duration::from_micros(longest.unwrap_or_default())
}

/// Of the nodes' own stores; gone with the value.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Result<Self, String> {
        let path = std::env::temp_dir().join(format!("quorate-tokens-{}", std::process::id()));
        std::fs::create_dir_all(&path).map_err(|error| format!("{}: {error}", Path::display(&path)))?;
        Ok(Self(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What is left behind is in the system's folder for that.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_is_there_once_and_has_a_name() {
        let all = Split::all();
        assert_eq!(all.len(), 25, "15 in two, 10 one way");
        for split in &all {
            assert_eq!(split.to_string().parse(), Ok(*split));
            assert_eq!(all.iter().filter(|other| *other == split).count(), 1);
        }
    }
}
