//! The table of a thousand paths: its bytes in a gossip, and what merging it takes beside comparing and
//! copying as many bytes.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use quorate_core::config::Limits;
use quorate_core::ident::{Address, UniqueAddress};
use quorate_core::membership::gossip::{Gossip, GossipParts};
use quorate_core::message::{GossipEnvelope, MembershipMsg, Message};
use quorate_core::paths::state::name::PathName;
use quorate_core::paths::state::options::HandoffOptions;
use quorate_core::paths::state::settings::PathSettings;
use quorate_core::paths::state::table::{MoveStatus, PathEntry, PathEpoch, PathRecord, PathTable, SlotMove};
use quorate_core::wire::Encoder;

use super::{Failure, median};

const PATHS: usize = 1_000;
/// Members that host them.
const HOSTS: usize = 10;
/// The hidden runs that callgrind looks at.
const FEW: usize = 2;
const MORE: usize = 12;

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Tables that are equal and share nothing.
    Equal,
    /// The other table is older by one path.
    Older,
    /// The other table is newer by one path.
    Newer,
    /// Each is newer by a path: the result is written anew.
    Both,
    /// As many bytes compared with equal ones.
    Compare,
    /// As many bytes copied.
    Copy,
}

impl Step {
    const ALL: [Self; 6] = [
        Self::Equal,
        Self::Older,
        Self::Newer,
        Self::Both,
        Self::Compare,
        Self::Copy,
    ];

    /// By the name that it has among the arguments.
    pub(super) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|step| step.name() == name)
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Equal => "merge-equal",
            Self::Older => "merge-older",
            Self::Newer => "merge-newer",
            Self::Both => "merge-both",
            Self::Compare => "compare",
            Self::Copy => "copy",
        }
    }
}

struct Tables {
    held: Arc<PathTable>,
    equal: Arc<PathTable>,
    newer: Arc<PathTable>,
    newer_elsewhere: Arc<PathTable>,
    bytes: Vec<u8>,
    equal_bytes: Vec<u8>,
}

impl Tables {
    fn new() -> Result<Self, Failure> {
        let held = table(None)?;
        let bytes = in_gossip(&held, &plain())?.checked_sub(in_gossip(&Arc::default(), &plain())?);
        let bytes = vec![7; bytes.ok_or("the table takes no room")?];
        Ok(Self {
            held,
            equal: table(None)?,
            newer: table(Some(17))?,
            newer_elsewhere: table(Some(700))?,
            equal_bytes: bytes.clone(),
            bytes,
        })
    }

    /// Runs a step once; the number keeps the compiler from leaving it out.
    fn run(&self, step: Step) -> usize {
        match step {
            Step::Equal => self.held.merged(black_box(&self.equal)).entries().len(),
            Step::Older => self.newer.merged(black_box(&self.held)).entries().len(),
            Step::Newer => self.held.merged(black_box(&self.newer)).entries().len(),
            Step::Both => self
                .newer_elsewhere
                .merged(black_box(&self.newer))
                .entries()
                .len(),
            Step::Compare => usize::from(black_box(&self.bytes) == black_box(&self.equal_bytes)),
            Step::Copy => black_box(black_box(&self.bytes).clone()).len(),
        }
    }
}

/// The hidden run.
pub(super) fn repeat(step: Step, times: usize) -> Result<(), Failure> {
    let tables = Tables::new()?;
    for _ in 0..times {
        black_box(tables.run(step));
    }
    Ok(())
}

pub(super) fn measure(quick: bool, instructions: bool) -> Result<String, Failure> {
    let tables = Tables::new()?;
    let names: usize = tables
        .held
        .entries()
        .iter()
        .map(|entry| entry.name.as_str().len())
        .sum();
    let empty = Arc::default();
    let beside_name = |limits: &Limits| -> Result<f64, Failure> {
        let bytes = in_gossip(&tables.held, limits)? as f64 - in_gossip(&empty, limits)? as f64;
        Ok((bytes - names as f64) / PATHS as f64)
    };
    let (written, deflated) = (beside_name(&plain())?, beside_name(&Limits::default())?);
    let with_names = deflated + names as f64 / PATHS as f64;
    println!(
        "{PATHS} paths of one slot: {written:.1} B each beside its name; deflated {with_names:.1} B with it"
    );
    let (rounds, times) = if quick { (3, 3) } else { (41, 100) };
    let mut measured = Step::ALL.map(|_| Vec::new());
    for _ in 0..rounds {
        for (step, measured) in Step::ALL.into_iter().zip(&mut measured) {
            let begun = Instant::now();
            for _ in 0..times {
                black_box(tables.run(step));
            }
            measured.push(begun.elapsed().as_secs_f64() * 1e6 / f64::from(times));
        }
    }
    let mut json = Vec::new();
    for (step, measured) in Step::ALL.into_iter().zip(measured) {
        let us = median(measured).unwrap_or(f64::NAN);
        let counted = instructions.then(|| counted(step)).flatten();
        let counted = counted.map_or_else(String::new, |count| format!("{count:10} instructions"));
        println!("  {:<12} {us:9.2} us {counted}", step.name());
        json.push(format!("\"{}_us\":{us:.3}", step.name()));
    }
    Ok(format!(
        "\"table\":{{\"paths\":{PATHS},\"bytes_beside_name\":{written:.2},\"deflated_bytes\":{with_names:.2},{}}}",
        json.join(",")
    ))
}

/// Instructions of a step; `None` where valgrind is not installed or fails.
fn counted(step: Step) -> Option<u64> {
    let run = |times: usize| quorate_bench::instructions(["--step", step.name(), &times.to_string()]);
    Some(run(MORE)?.checked_sub(run(FEW)?)? / (MORE - FEW) as u64)
}

fn node(at: usize) -> Result<UniqueAddress, Failure> {
    let address = Address::new(&format!("10.0.0.{at}"), 2551)?;
    Ok(UniqueAddress::new(address, at as u64 + 1))
}

/// A table in which every path has one slot that was placed once; the leader has changed one of them later.
fn table(changed: Option<usize>) -> Result<Arc<PathTable>, Failure> {
    let leader = node(0)?;
    let mut entries = Vec::with_capacity(PATHS);
    let last = PATHS as u64 + 1;
    for at in 0..PATHS {
        let name = PathName::new(&format!("bench/path-{at:04}"))?;
        let host = node(at % HOSTS)?;
        let is_changed = changed == Some(at);
        let epoch = PathEpoch {
            counter: if is_changed { last } else { at as u64 + 1 },
            leader: leader.clone(),
        };
        let placed = SlotMove {
            id: PathEpoch {
                counter: at as u64 + 1,
                leader: leader.clone(),
            },
            status: MoveStatus::Applied,
            from: None,
            to: Some(host.clone()),
            options: HandoffOptions::ORDERED,
        };
        entries.push(Arc::new(PathEntry {
            record: PathRecord {
                epoch,
                settings: Some(Arc::new(PathSettings::new(name.clone()))),
                scale: 0,
                hosts: vec![Some(host)],
            },
            name,
            moves: vec![Some(placed)],
        }));
    }
    Ok(Arc::new(PathTable::new(last, None, entries)?))
}

/// Bytes of a frame with a state that has this table.
fn in_gossip(table: &Arc<PathTable>, limits: &Limits) -> Result<usize, Failure> {
    let gossip = Gossip::from_parts(GossipParts {
        paths: Arc::clone(table),
        ..GossipParts::default()
    })?;
    let message = Message::Membership(MembershipMsg::Gossip(GossipEnvelope {
        to: node(0)?,
        gossip: Arc::new(gossip).into(),
    }));
    let mut frame = Vec::new();
    Encoder::new().encode(&message, 0, limits, &mut frame)?;
    Ok(frame.len())
}

/// Compression off.
fn plain() -> Limits {
    Limits {
        compress_from_bytes: usize::MAX,
        ..Limits::default()
    }
}
