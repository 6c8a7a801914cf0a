//! When entities have to be woken that may not run: which clock keeps an entity's time, what a clock has to
//! keep, and whom it wakes next. Values without a machine: a clock is a durable entity of a kind beside that
//! of the entities, and its shard is its number. Never sends and never reads a clock: it is told the time.
//! Spec: sharding 1.15, issue "reminders"; `docs/adr/0016`.
//!
//! An entity is woken too often rather than not at all. A time that is kept is made earlier by anybody, and
//! later only by whoever was woken under its newest version: what an entity says that has not heard of the
//! newest one changes nothing.

mod known;
mod seeing;

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::str;
use core::time::Duration;

pub use known::KnownWakeup;
pub use seeing::ClockWatch;

use crate::ordered::{OrderedMap, OrderedSet};
use crate::sharding::state::extractor::ShardExtractor;
use crate::sharding::state::ids::{EntityId, Payload};
use crate::store::limits::VALUE_BYTES_MAX;

/// Clocks of a kind. Which one keeps an entity's time is in stores, so this never changes: enough that their
/// logs are not what a kind waits for, few enough to look at all of them whenever a node was lost.
pub const CLOCKS: u32 = 16;

/// The bytes of what one clock keeps: a snapshot of it fits into a store, also if every number in it takes
/// its most bytes.
pub const BYTES_MAX: usize = 3 * 1_024 * 1_024;

const _: () = assert!(BYTES_MAX + BYTES_MAX / 4 < VALUE_BYTES_MAX);

/// What an entity takes of [`BYTES_MAX`] beside its id: two numbers and the length of the id.
const ENTRY_BYTES: usize = 24;

/// One that was woken and says nothing is woken again after so long, then after twice as long each time:
/// longer than most handlers run.
const RETRY_MIN: Duration = Duration::from_secs(5);

/// The longest of these pauses.
const RETRY_MAX: Duration = Duration::from_secs(60);

/// One that has just been woken is not woken again before, whatever it says: the wall clocks of two nodes may
/// differ.
const BREATH: Duration = Duration::from_secs(1);

/// The name of the kind of a kind's clocks. In stores, so it never changes; nobody else's kinds begin like
/// that.
#[must_use]
pub fn clocks_of(kind: &str) -> String {
    format!("wake-ups-of-{kind}")
}

/// Which clock keeps the time of an entity.
#[must_use]
pub fn clock_of(entity: &EntityId) -> EntityId {
    clock(u32::try_from(entity.hash64() % u64::from(CLOCKS)).unwrap_or(0))
}

/// All clocks of a kind.
pub fn clocks() -> impl Iterator<Item = EntityId> {
    (0..CLOCKS).map(clock)
}

fn clock(index: u32) -> EntityId {
    EntityId::new(format!("{index}").as_bytes())
}

/// The number of a clock; `None` for what is none.
#[must_use]
pub fn index_of(clock_id: &EntityId) -> Option<u32> {
    let index = str::from_utf8(clock_id.as_bytes()).ok()?.parse().ok()?;
    (index < CLOCKS && clock(index) == *clock_id).then_some(index)
}

/// Each clock in the shard of its number.
#[must_use]
pub fn extractor() -> ShardExtractor {
    ShardExtractor::custom("clock-index", |entity, _| index_of(entity).unwrap_or(0))
}

/// What a clock tells an entity that it wakes, under this version. Goes as an ask of
/// [`AskChain::of_a_clock`](crate::sharding::chain::AskChain::of_a_clock): what is asked otherwise is a
/// user's message, whatever bytes it has.
#[must_use]
pub fn call(version: u64) -> Payload {
    Payload::from(version.to_le_bytes())
}

/// Under which version a wake-up wakes; `None` if it does not say so.
#[must_use]
pub fn version_of(call: &[u8]) -> Option<u64> {
    call.try_into().ok().map(u64::from_le_bytes)
}

/// When an entity is to be woken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WakeUp {
    /// In milliseconds since 1970.
    pub at_ms: u64,
    /// Another one with each change: of two of one clock the higher is the later.
    pub version: u64,
}

/// What becomes of an entity's time, once that is durable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WakeupChange {
    /// The entity.
    pub entity: EntityId,
    /// When it is to be woken; `None`: no more.
    pub at_ms: Option<u64>,
}

/// A clock keeps as much as it may.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the wake-up clock is full: it keeps at most {BYTES_MAX} bytes")]
pub struct ClockFull;

/// What a clock keeps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WakeUps {
    all: OrderedMap<EntityId, WakeUp>,
    version: u64,
    bytes: usize,
}

impl WakeUps {
    /// What was kept: the last version that was given, and all that are to be woken.
    #[must_use]
    pub fn restored(version: u64, all: impl IntoIterator<Item = (EntityId, WakeUp)>) -> Self {
        let all: OrderedMap<_, _> = all.into_iter().collect();
        let bytes = all.keys().map(bytes_of).sum();
        let newest = all.values().map(|wake_up| wake_up.version).max();
        Self {
            version: version.max(newest.unwrap_or(0)),
            all,
            bytes,
        }
    }

    /// An entity is to be woken at this time or before.
    ///
    /// # Errors
    /// [`ClockFull`]: nothing is to be kept.
    pub fn wanted(&self, entity: EntityId, at_ms: u64) -> Result<WakeupChange, ClockFull> {
        let before = self.all.get(&entity);
        if before.is_none() && self.bytes.saturating_add(bytes_of(&entity)) > BYTES_MAX {
            return Err(ClockFull);
        }
        // Never later: whoever asks may not know what else its log says.
        let at_ms = before.map_or(at_ms, |before| before.at_ms.min(at_ms));
        Ok(WakeupChange {
            entity,
            at_ms: Some(at_ms),
        })
    }

    /// An entity that was woken under this version has done what was due, and says when it is to be woken
    /// next. `None` if it was not the newest version: something may have been wanted since of which it has
    /// not heard.
    #[must_use]
    pub fn handled(&self, entity: EntityId, version: u64, next_ms: Option<u64>) -> Option<WakeupChange> {
        let newest = self.all.get(&entity)?.version;
        (newest == version).then_some(WakeupChange {
            entity,
            at_ms: next_ms,
        })
    }

    /// A change is durable, or was read.
    pub fn apply(&mut self, WakeupChange { entity, at_ms }: WakeupChange) {
        self.version += 1;
        let bytes = bytes_of(&entity);
        let version = self.version;
        let before = match at_ms {
            Some(at_ms) => {
                self.bytes += bytes;
                self.all.insert(entity, WakeUp { at_ms, version })
            }
            None => self.all.remove(&entity),
        };
        if before.is_some() {
            self.bytes -= bytes;
        }
    }

    /// When an entity is to be woken.
    #[must_use]
    pub fn get(&self, entity: &EntityId) -> Option<WakeUp> {
        self.all.get(entity).copied()
    }

    /// All that are to be woken, by id.
    pub fn iter(&self) -> impl Iterator<Item = (&EntityId, WakeUp)> {
        self.all.iter().map(|(entity, wake_up)| (entity, *wake_up))
    }

    /// The last version that was given.
    #[must_use]
    pub const fn version(&self) -> u64 {
        self.version
    }

    /// How many are to be woken.
    #[must_use]
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// Whether nobody is.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }
}

fn bytes_of(entity: &EntityId) -> usize {
    entity.as_bytes().len().saturating_add(ENTRY_BYTES)
}

/// One that is to be woken now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DueWakeup {
    /// Who.
    pub entity: EntityId,
    /// Under which version.
    pub version: u64,
    /// When it is woken again if it says nothing.
    pub again_in: Duration,
}

#[derive(Clone, Copy, Debug)]
struct WaitingEntity {
    version: u64,
    due_ms: u64,
    woken_ms: Option<u64>,
    attempts: u32,
}

/// In which order a clock wakes: what is due comes in the order of its time, and one that does not answer
/// holds nobody up. Not durable.
#[derive(Clone, Debug, Default)]
pub struct WakeupSchedule {
    all: OrderedMap<EntityId, WaitingEntity>,
    by_time: OrderedSet<(u64, EntityId)>,
}

impl WakeupSchedule {
    /// What a clock has kept.
    #[must_use]
    pub fn of(kept: &WakeUps) -> Self {
        let mut schedule = Self::default();
        for (entity, wake_up) in kept.iter() {
            schedule.put(entity, Some(wake_up));
        }
        schedule
    }

    /// This is kept of an entity now.
    pub fn put(&mut self, entity: &EntityId, kept: Option<WakeUp>) {
        let woken_ms = self.all.remove(entity).and_then(|before| {
            self.by_time.remove(&(before.due_ms, entity.clone()));
            before.woken_ms
        });
        let Some(WakeUp { at_ms, version }) = kept else {
            return;
        };
        let not_before = woken_ms.map_or(0, |woken| woken.saturating_add(millis(BREATH)));
        let waiting = WaitingEntity {
            version,
            due_ms: at_ms.max(not_before),
            woken_ms,
            attempts: 0,
        };
        self.enter(entity.clone(), waiting);
    }

    fn enter(&mut self, entity: EntityId, waiting: WaitingEntity) {
        self.by_time.insert((waiting.due_ms, entity.clone()));
        self.all.insert(entity, waiting);
    }

    /// Those to be woken now, at most so many. They are due again later, unless something else is kept of
    /// them by then.
    pub fn take_due(&mut self, now_ms: u64, most: usize) -> Vec<DueWakeup> {
        let mut due = Vec::new();
        while due.len() < most && self.next_ms().is_some_and(|next| next <= now_ms) {
            let Some((_, entity)) = self.by_time.pop_first() else {
                break;
            };
            let Some(waiting) = self.all.remove(&entity) else {
                continue;
            };
            let doubled = RETRY_MIN.saturating_mul(1 << waiting.attempts.min(8));
            let again_in = doubled.min(RETRY_MAX);
            let next = WaitingEntity {
                due_ms: now_ms.saturating_add(millis(again_in)),
                woken_ms: Some(now_ms),
                attempts: waiting.attempts.saturating_add(1),
                ..waiting
            };
            self.enter(entity.clone(), next);
            due.push(DueWakeup {
                entity,
                version: waiting.version,
                again_in,
            });
        }
        due
    }

    /// When the next is due, in milliseconds since 1970.
    #[must_use]
    pub fn next_ms(&self) -> Option<u64> {
        self.by_time.first().map(|(due_ms, _)| *due_ms)
    }

    /// Whether nobody is to be woken.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;

    fn id(name: &str) -> EntityId {
        EntityId::from(name)
    }

    #[test]
    fn a_wake_up_says_its_version_and_nothing_else() {
        assert_eq!(version_of(&call(u64::MAX - 1)), Some(u64::MAX - 1));
        assert_eq!(call(1)[..], [1, 0, 0, 0, 0, 0, 0, 0]);
        for other in [&[][..], &[0; 7], &[0; 9]] {
            assert_eq!(version_of(other), None);
        }
    }

    fn want(kept: &mut WakeUps, name: &str, at_ms: u64) -> WakeUp {
        let change = kept.wanted(id(name), at_ms).unwrap();
        kept.apply(change);
        kept.get(&id(name)).unwrap()
    }

    fn handled(kept: &mut WakeUps, name: &str, version: u64, next: Option<u64>) -> bool {
        let change = kept.handled(id(name), version, next);
        let is_newest = change.is_some();
        change.into_iter().for_each(|change| kept.apply(change));
        is_newest
    }

    #[test]
    fn clocks_are_where_they_were_for_ever() {
        let names: Vec<EntityId> = clocks().collect();
        assert_eq!(names.len(), 16);
        assert!((names[0] == id("0")) && (names[15] == id("15")));
        for (index, name) in (0..).zip(&names) {
            assert_eq!(index_of(name), Some(index));
        }
        for other in ["16", "007", "+1", "", "a", "-1"] {
            assert_eq!(index_of(&id(other)), None, "{other}");
        }
        let of = |name: &str| index_of(&clock_of(&id(name)));
        assert_eq!([of("tea"), of("egg"), of("7")], [Some(6), Some(9), Some(4)]);
        assert_eq!(clocks_of("alarm"), "wake-ups-of-alarm");
    }

    #[test]
    fn a_time_is_made_earlier_by_anybody_and_later_only_by_who_has_heard_of_the_newest() {
        let mut kept = WakeUps::default();
        let first = want(&mut kept, "a", 100);
        let earlier = want(&mut kept, "a", 50);
        assert!(earlier.at_ms == 50 && earlier.version > first.version);
        let as_before = want(&mut kept, "a", 70);
        assert!(as_before.at_ms == 50 && as_before.version > earlier.version);
        // It says that nothing is left, and has not heard of what was wanted since.
        for version in [first.version, earlier.version, as_before.version + 1] {
            assert!(!handled(&mut kept, "a", version, None));
        }
        assert!(handled(&mut kept, "a", as_before.version, Some(500)));
        let later = kept.get(&id("a")).unwrap();
        assert!(later.at_ms == 500 && later.version > as_before.version);
        assert!(!handled(&mut kept, "a", as_before.version, None), "said twice");
        assert!(handled(&mut kept, "a", later.version, None));
        assert!(kept.is_empty() && kept.bytes == 0);
        assert!(!handled(&mut kept, "a", later.version, Some(9)), "it is gone");
        let anew = want(&mut kept, "a", 7);
        assert!(anew.version > later.version, "no version comes twice");
    }

    #[test]
    fn what_was_kept_is_restored_and_no_version_is_given_again() {
        let mut kept = WakeUps::default();
        want(&mut kept, "a", 100);
        let gone = want(&mut kept, "b", 200);
        assert!(handled(&mut kept, "b", gone.version, None));
        let all: Vec<_> = kept.iter().map(|(entity, at)| (entity.clone(), at)).collect();
        let restored = WakeUps::restored(kept.version(), all);
        assert_eq!(restored, kept);
        assert_eq!((kept.len(), kept.version()), (1, 3));
    }

    #[test]
    fn a_clock_is_full_by_bytes_and_those_it_has_go_on() {
        let long = |number: usize| EntityId::new(format!("{number:1000}").as_bytes());
        let mut kept = WakeUps::default();
        let mut entities = 0;
        while let Ok(change) = kept.wanted(long(entities), 1) {
            kept.apply(change);
            entities += 1;
            assert!(entities < 10_000);
        }
        assert!(entities > 3_000 && kept.bytes <= BYTES_MAX);
        assert!(kept.wanted(long(0), 0).is_ok(), "it has a place");
        let version = kept.get(&long(0)).unwrap().version;
        let change = kept.handled(long(0), version, None).unwrap();
        kept.apply(change);
        assert!(kept.wanted(long(entities), 1).is_ok());
    }

    fn taken(schedule: &mut WakeupSchedule, now: u64, most: usize) -> Vec<(EntityId, u64)> {
        let due = schedule.take_due(now, most);
        due.into_iter().map(|due| (due.entity, due.version)).collect()
    }

    #[test]
    fn who_is_due_is_woken_in_order_and_again_ever_more_rarely_until_it_says_something() {
        let mut kept = WakeUps::default();
        for (name, at) in [("c", 30), ("a", 10), ("b", 20)] {
            want(&mut kept, name, at);
        }
        let mut schedule = WakeupSchedule::of(&kept);
        assert_eq!(schedule.next_ms(), Some(10));
        assert_eq!(taken(&mut schedule, 9, 9), []);
        assert_eq!(taken(&mut schedule, 25, 1), [(id("a"), 2)]);
        assert_eq!(
            taken(&mut schedule, 30, 9),
            [(id("b"), 3), (id("c"), 1)],
            "nobody waits for one that says nothing"
        );
        assert_eq!(schedule.next_ms(), Some(5_025));
        let mut pauses = vec![];
        let mut now = 5_025;
        while pauses.len() < 6 {
            let due = schedule.take_due(now, 1);
            if let [DueWakeup { entity, again_in, .. }] = &due[..]
                && *entity == id("a")
            {
                pauses.push(again_in.as_secs());
            }
            now = now.max(schedule.next_ms().unwrap());
        }
        assert_eq!(pauses, [10, 20, 40, 60, 60, 60]);
    }

    #[test]
    fn what_is_kept_since_counts_and_nobody_is_woken_without_a_breath() {
        let mut kept = WakeUps::default();
        let first = want(&mut kept, "a", 10);
        let mut schedule = WakeupSchedule::of(&kept);
        assert_eq!(taken(&mut schedule, 10, 9), [(id("a"), first.version)]);
        // By its own clock it is not due yet.
        assert!(handled(&mut kept, "a", first.version, Some(10)));
        let second = kept.get(&id("a"));
        schedule.put(&id("a"), second);
        assert_eq!(schedule.next_ms(), Some(1_010));
        let version = second.unwrap().version;
        assert_eq!(taken(&mut schedule, 1_010, 9), [(id("a"), version)]);
        assert!(handled(&mut kept, "a", version, None));
        schedule.put(&id("a"), kept.get(&id("a")));
        assert!(schedule.is_empty() && schedule.next_ms().is_none());
    }

    #[test]
    fn what_was_kept_last_counts_also_where_it_is_newer_than_the_number_beside_it() {
        let wake_up = WakeUp { at_ms: 9, version: 7 };
        let mut restored = WakeUps::restored(2, [(id("a"), wake_up)]);
        assert_eq!(restored.version(), 7);
        assert_eq!(want(&mut restored, "b", 1).version, 8);
    }
}
