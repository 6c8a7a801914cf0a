//! The keyed store of the simulated nodes: two buckets on all of them, one in memory and one that outlives
//! processes. Everybody calls their keys, somebody moves their ranges all the time. Brings it about; what
//! must hold is in `checks` and in the checkers of histories. Spec: sharding 5.6, 10.19; reliability I-70 to
//! I-75.

mod checks;
mod ending;
mod late;
pub(crate) mod logs;
mod sloppy;
pub mod steps;
mod work;

use core::time::Duration;

use quorate_core::config::Config;
use quorate_core::input::Command;
use quorate_core::journal::state::StoreId;
use quorate_core::kv::protocol::{Command as KvCommand, Event as KvEvent};
use quorate_core::kv::state::bucket::BucketName;
use quorate_core::kv::state::level::Level;
use quorate_core::kv::state::settings::BucketSettings;
use quorate_core::kv::state::table::RangeId;

use self::checks::Watched;
use self::ending::Endings;
use self::logs::Logs;
use super::chance::{Chance, Purpose};
use super::engine::Sim;
use super::history::ProcessId;
use super::plan::SECOND;
use super::process::Open;
pub(crate) use crate::histories::books::CallPlace;
use crate::histories::books::{Books, Told};

/// One of the buckets.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BucketKind {
    pub(crate) name: &'static str,
    pub(crate) is_durable: bool,
}

/// All of them.
pub(crate) const BUCKETS: [BucketKind; 2] = [
    BucketKind {
        name: "carts",
        is_durable: false,
    },
    BucketKind {
        name: "kept",
        is_durable: true,
    },
];

/// In half of the seeds what was deleted is remembered for so long: longer than anything lasts here, pauses
/// and the difference of clocks included.
const GRACE: Duration = Duration::from_secs(18);
/// What of that is sure, by one clock for all.
const GRACE_SURE: u64 = 12 * SECOND;

/// How often owners compare what they hold: often in the seconds that a run has.
const COMPARE: Duration = Duration::from_secs(2);

/// Ranges of a bucket: few, so that each has several keys.
const RANGES: u16 = 4;
/// N, and R and W by quorum.
const COPIES: u8 = 3;

impl BucketKind {
    pub(crate) fn bucket(&self) -> BucketName {
        BucketName::new(self.name).expect("invariant: a short name is legal")
    }

    pub(crate) fn settings(&self) -> BucketSettings {
        BucketSettings {
            copies: COPIES,
            read_least: Level::Quorum,
            write_least: Level::Quorum,
            ranges: RANGES,
            merge: None,
            is_durable: self.is_durable,
            is_sloppy: false,
            role: None,
        }
    }
}

fn ranges() -> impl Iterator<Item = (usize, RangeId)> {
    (0..BUCKETS.len()).flat_map(|bucket| (0..RANGES).map(move |range| (bucket, RangeId(range))))
}

impl Sim {
    /// Whether most of those are there who keep who owns what, if anybody does, because without them nobody
    /// coordinates; and enough owners of every durable range to read what it holds, which nobody but an
    /// operator may give up.
    fn can_be_whole(&self) -> bool {
        let running = || {
            self.running_processes()
                .map(|process| &self.processes[process as usize])
        };
        let voters = running().find_map(|host| host.node.journals().voters());
        let voters = voters.map_or(0, <[_]>::len);
        let there = running().filter(|host| host.node.journals().votes()).count();
        let has_voters = voters == 0 || 2 * there > voters;
        let can_be_read = |(bucket, range): (usize, RangeId)| {
            let stores = self.stores_of(bucket);
            let is_enough = |owners: &[StoreId]| {
                let there = owners.iter().filter(|owner| stores.contains(owner));
                there.count() > usize::from(COPIES) / 2
            };
            self.present(bucket, range).is_none_or(|latest| {
                let (from, to) = latest.owners.sets();
                is_enough(from) && to.is_none_or(is_enough)
            })
        };
        has_voters
            && ranges()
                .filter(|(bucket, _)| BUCKETS[*bucket].is_durable)
                .all(can_be_read)
    }
}

/// Every second seed forgets what was deleted within the run.
fn forgets(seed: u64) -> bool {
    seed.is_multiple_of(2)
}

/// Every third seed has voters that keep who owns what: what is promised holds there whatever happens.
pub(crate) const fn has_voters(seed: u64) -> bool {
    seed % 3 == 2
}

/// In half of these processes that have ended come back only after what was deleted meanwhile could have been
/// forgotten.
pub(crate) fn is_away_for_long(seed: u64) -> bool {
    forgets(seed) && seed.is_multiple_of(4)
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Keyed {
    /// Whether nodes open buckets.
    pub(crate) enabled: bool,
    /// The quiet phase: nobody moves anything.
    calm: bool,
    forgets: bool,
    /// Processes that have ended stay away for long.
    is_long: bool,
    /// The bucket that is sloppy.
    sloppy: Option<usize>,
    /// Of that one: a store in memory is gone.
    is_hint_lost: bool,
    /// Hints that came back after the grace, once all was at rest.
    late_hints: u64,
    chance: Chance,
    next_move: u64,
    /// The keys that are called now, by place in the books.
    current: Vec<usize>,
    pub(crate) books: Books,
    /// The bucket of each key in the books.
    buckets: Vec<usize>,
    pub(crate) watched: Watched,
    pub(crate) logs: Logs,
    endings: Endings,
    /// What was said first about moves since this was cleared, in order.
    said: Vec<&'static str>,
}

impl Keyed {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            enabled: false,
            calm: false,
            forgets: false,
            is_long: false,
            sloppy: sloppy::sloppy(seed),
            is_hint_lost: false,
            late_hints: 0,
            chance: Chance::new(seed, Purpose::Keyed),
            next_move: 0,
            current: Vec::new(),
            books: Books::default(),
            buckets: Vec::new(),
            watched: Watched::default(),
            logs: Logs::new(seed),
            endings: Endings::default(),
            said: Vec::new(),
        }
    }

    /// Timings that are met within a run.
    pub(crate) fn configure(&mut self, config: &mut Config, (seed, nodes): (u64, usize)) {
        if has_voters(seed) {
            config.journal.voters = nodes / 2 + 1;
        }
        self.forgets = forgets(seed);
        self.is_long = is_away_for_long(seed);
        config.kv.compare_interval = COMPARE;
        if self.forgets {
            config.kv.tombstone_grace = GRACE;
        }
    }

    /// How long what was deleted is remembered, as far as a run is concerned.
    fn grace(&self) -> Option<u64> {
        self.forgets.then_some(GRACE_SURE)
    }

    /// The quiet phase begins.
    pub(crate) fn calm_down(&mut self) {
        self.calm = true;
    }

    /// What happened, for the report.
    pub(crate) fn branches(&self) -> [(&'static str, u64); 21] {
        let (books, seen, logs) = (self.books.counts, self.watched.counts, self.logs.counts);
        [
            ("gets of keys answered", books.found),
            ("gets that found siblings", books.siblings),
            ("puts of keys acknowledged", books.written),
            ("conditional puts that took effect", books.decided),
            ("conditional puts that met another version", books.conflicts),
            ("calls of keys with an unknown outcome", books.unknown),
            ("calls of keys that failed", books.refused),
            ("histories of keys judged", books.judged),
            (
                "histories of keys cut because too many copies were lost",
                books.excused,
            ),
            ("logs in a bucket taken over", logs.claimed),
            ("records of logs in a bucket acknowledged", logs.appended),
            ("writers of a log that were refused", logs.fenced),
            ("values that ended by themselves", self.endings.ended()),
            ("of these forgotten after the grace", self.endings.forgotten()),
            ("epochs of ranges", seen.epochs),
            (
                "acknowledged puts whose copies were counted",
                seen.copies_looked_at,
            ),
            ("ranges that had all their copies again", seen.whole_again),
            ("stores that were away for longer than the grace", seen.behind),
            ("runs in which owners became alike by themselves", seen.alike),
            ("runs in which all owners of ranges were alike", seen.rested),
            ("hints that came back after the grace", self.late_hints),
        ]
    }

    /// Calls that wait for an answer of a process that runs.
    pub(crate) const fn open(&self) -> usize {
        self.books.open()
    }
}

impl Sim {
    /// Nodes have buckets from now on.
    pub(crate) fn enable_keyed(&mut self) {
        self.keyed.enabled = true;
        for bucket in 0..BUCKETS.len() {
            for use_of in work::USES {
                let key = self.new_key(bucket, use_of);
                self.keyed.current.push(key);
            }
        }
    }

    /// A new process opens all buckets.
    pub(crate) fn open_buckets(&mut self, process: ProcessId) {
        if !self.keyed.enabled {
            return;
        }
        for (at, kind) in BUCKETS.iter().enumerate() {
            let bucket = kind.bucket();
            let settings = BucketSettings {
                is_sloppy: self.is_sloppy(at),
                ..kind.settings()
            };
            let command = KvCommand::Open { bucket, settings };
            self.command(process, Open::Command("open bucket"), Command::Kv(command));
        }
    }

    /// A process has ended: what it was asked is answered by nobody, and what its memory held is gone.
    pub(crate) fn keyed_caller_is_gone(&mut self, process: ProcessId) {
        let open = self.processes[process as usize].open.values();
        let places: Vec<CallPlace> = open
            .filter_map(|open| {
                if let Open::Keyed(place) = open {
                    Some(*place)
                } else {
                    None
                }
            })
            .collect();
        for place in places {
            self.keyed.books.end(place, self.now, Told::Unknown);
        }
        self.keyed.logs.writer_is_gone(process);
        self.lose_copies(process);
    }

    /// A node said something about a bucket.
    pub(crate) fn on_kv_event(&mut self, process: ProcessId, bucket: &BucketName, event: &KvEvent) {
        // A liar says that it has opened it otherwise, and may be believed.
        let is_its_own = matches!(event, KvEvent::RefusedOn { node, .. } if self.history.is_liar(node));
        let is_lie = is_its_own || self.liars.is_on();
        if let KvEvent::RefusedOn { .. } | KvEvent::Refused { .. } = event
            && !is_lie
        {
            let what = format!("bucket {bucket}: {event:?}, although all are the same");
            self.violated("kv", process, what);
        }
    }
}
