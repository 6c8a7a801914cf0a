//! The rows of the table: what is done to five nodes, and what must come of it. Whatever happens, no entity
//! answers on two sides at once, nobody ends who should not, and once all is well again and the ended ones
//! are started again, all five are up and served. Spec: membership 3, reliability F-05, F-09, F-10, F-12.

use std::str::FromStr;
use std::thread;
use std::time::{Duration, Instant};

use crate::net::Net;
use crate::node::micros;
use crate::nodes::{Layout, Nodes};
use crate::options::SplitOptions;
use crate::work::Work;
use crate::{say, seconds};

const NODES: usize = 5;
/// The lowest address leads; the node that formed the cluster is the oldest and hosts the coordinator.
const LEADER: usize = 0;
const COORDINATOR: usize = 2;
/// How long a flapping link is cut, and then open.
const FLAP: Duration = Duration::from_secs(2);

/// A row of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Row {
    /// Nodes 4 and 5 are cut off from the other three.
    Cut,
    /// Nothing from node 4 reaches node 5.
    OneWay,
    /// The link between nodes 4 and 5 comes and goes.
    Flap,
    /// The leader stands still.
    StopLeader,
    /// The node of the coordinator stands still.
    StopCoordinator,
}

impl Row {
    pub(crate) const ALL: [Self; 5] = [
        Self::Cut,
        Self::OneWay,
        Self::Flap,
        Self::StopLeader,
        Self::StopCoordinator,
    ];

    const fn name(self) -> &'static str {
        match self {
            Self::Cut => "cut",
            Self::OneWay => "one-way",
            Self::Flap => "flap",
            Self::StopLeader => "stop-leader",
            Self::StopCoordinator => "stop-coordinator",
        }
    }

    const fn title(self) -> &'static str {
        match self {
            Self::Cut => "cut 3\\|2",
            Self::OneWay => "cut one way, 4 to 5",
            Self::Flap => "link 4-5 flapping, 2 s",
            Self::StopLeader => "SIGSTOP of the leader, 1",
            Self::StopCoordinator => "SIGSTOP of the coordinator, 3",
        }
    }

    /// Those who may end because of it.
    const fn may_end(self) -> &'static [usize] {
        match self {
            Self::Cut | Self::OneWay | Self::Flap => &[3, 4],
            Self::StopLeader => &[LEADER],
            Self::StopCoordinator => &[COORDINATOR],
        }
    }

    /// Whether all of those must end.
    const fn must_end(self) -> bool {
        matches!(self, Self::Cut | Self::StopLeader | Self::StopCoordinator)
    }
}

impl FromStr for Row {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|row| row.name() == text);
        found.ok_or_else(|| format!("there is no row `{text}`"))
    }
}

pub(crate) fn run(options: &SplitOptions) -> Result<bool, String> {
    if !Net::is_inside() {
        return match Net::enter()? {
            0 => Ok(true),
            1 => Ok(false),
            _ => Err("see above".to_owned()),
        };
    }
    let net = Net::new(NODES)?;
    say(
        "| fault | ended, after | longest silence for the others | all five up and served after its end | answers | unanswered | two-sided | wrong |",
    );
    say("|---|---|---|---|---|---|---|---|");
    let mut clean = true;
    for row in &options.rows {
        clean &= play(*row, &net, options)?;
    }
    Ok(clean)
}

/// What was seen of a row.
struct Seen {
    ended: Vec<(usize, Duration)>,
    /// The longest that one of the others waited for a further answer of an entity.
    silence: Duration,
    complaints: Vec<String>,
}

fn play(row: Row, net: &Net, options: &SplitOptions) -> Result<bool, String> {
    let mut nodes = Nodes::start(Layout {
        addresses: (0..NODES).map(Net::address).collect(),
        prefixes: (0..NODES).map(Net::prefix).collect(),
        first: COORDINATOR,
        profile: options.profile,
        logs: options.logs,
        work: Work::Counters,
        book: None,
    })?;
    let begun = micros();
    disturb(row, net, &nodes, true)?;
    let mut seen = watch(row, net, &mut nodes, begun, options.lasting)?;
    disturb(row, net, &nodes, false)?;
    let healed = micros();
    let back = come_back(row, &mut nodes, begun, &mut seen);
    let back = match back {
        Ok(()) => since(healed),
        Err(error) => {
            seen.complaints.push(error);
            "never".to_owned()
        }
    };
    let heard = nodes.heard();
    let judged = heard.ledger.judge();
    let ended: Vec<String> = seen
        .ended
        .iter()
        .map(|(node, after)| format!("{} {}", node + 1, seconds(*after)))
        .collect();
    say(&format!(
        "| {}, {} | {} | {} | {back} | {} | {} | {} | {} |",
        row.title(),
        seconds(options.lasting),
        if ended.is_empty() {
            "nobody".to_owned()
        } else {
            ended.join(", ")
        },
        seconds(seen.silence),
        heard.ledger.answers.len(),
        heard.ledger.unanswered.len(),
        judged.two_sided.len(),
        judged.wrong.len()
    ));
    let complaints = seen
        .complaints
        .iter()
        .chain(&judged.two_sided)
        .chain(&judged.wrong);
    let mut clean = true;
    for complaint in complaints.take(10) {
        say(&format!("  WRONG: {complaint}"));
        clean = false;
    }
    Ok(clean)
}

fn disturb(row: Row, net: &Net, nodes: &Nodes, begin: bool) -> Result<(), String> {
    let stop = if begin { "STOP" } else { "CONT" };
    match row {
        Row::Cut => net.split(&[3, 4], begin),
        Row::OneWay if begin => net.cut(3, 4),
        Row::OneWay => net.open(3, 4),
        Row::Flap => Ok(()),
        Row::StopLeader => nodes.signal(LEADER, stop),
        Row::StopCoordinator => nodes.signal(COORDINATOR, stop),
    }
}

/// Lets the fault last, and sees who ends and how long the others had to wait for answers.
fn watch(row: Row, net: &Net, nodes: &mut Nodes, begun: u64, lasting: Duration) -> Result<Seen, String> {
    let end = Instant::now() + lasting;
    let others: Vec<usize> = (0..NODES).filter(|node| !row.may_end().contains(node)).collect();
    let mut seen = Seen {
        ended: Vec::new(),
        silence: Duration::ZERO,
        complaints: Vec::new(),
    };
    let mut flapped = Instant::now();
    let mut is_cut = false;
    while Instant::now() < end {
        if row == Row::Flap && flapped <= Instant::now() {
            flap(net, &mut is_cut)?;
            flapped += FLAP;
        }
        note_ends(nodes, begun, &mut seen);
        thread::sleep(Duration::from_millis(20));
    }
    if is_cut {
        flap(net, &mut is_cut)?;
    }
    let until = micros();
    seen.silence = nodes.heard().ledger.silence(&others, begun, until);
    if !nodes.are_served(&others, until.saturating_sub(5_000_000)) {
        seen.complaints
            .push("the others were not served at the end".to_owned());
    }
    Ok(seen)
}

fn flap(net: &Net, is_cut: &mut bool) -> Result<(), String> {
    for (from, to) in [(3, 4), (4, 3)] {
        if *is_cut {
            net.open(from, to)?;
        } else {
            net.cut(from, to)?;
        }
    }
    *is_cut = !*is_cut;
    Ok(())
}

fn note_ends(nodes: &mut Nodes, begun: u64, seen: &mut Seen) {
    for node in nodes.all_ended() {
        if seen.ended.iter().all(|(known, _)| *known != node) {
            let at = nodes.ended(node).unwrap_or(begun);
            seen.ended
                .push((node, Duration::from_micros(at.saturating_sub(begun))));
        }
    }
}

/// Who had to end, ends; who ended is started again; and then all five are up and served.
fn come_back(row: Row, nodes: &mut Nodes, begun: u64, seen: &mut Seen) -> Result<(), String> {
    let may_end = row.may_end();
    if row.must_end() {
        // A stopped process learns only now what became of it.
        nodes.wait(Duration::from_secs(30), |nodes| {
            nodes.all_ended().len() >= may_end.len()
        });
    }
    note_ends(nodes, begun, seen);
    for (node, _) in &seen.ended {
        if !may_end.contains(node) {
            seen.complaints
                .push(format!("node {} ended: {}", node + 1, nodes.describe()));
        }
    }
    if row.must_end() && seen.ended.len() < may_end.len() {
        seen.complaints
            .push(format!("not all who had to end did: {}", nodes.describe()));
    }
    for (node, _) in &seen.ended {
        nodes.launch(*node)?;
    }
    nodes.settle(Duration::from_secs(120))
}

fn since(begun: u64) -> String {
    seconds(Duration::from_micros(micros().saturating_sub(begun)))
}
