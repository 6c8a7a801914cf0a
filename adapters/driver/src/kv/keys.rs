//! Pages of the keys of a bucket: range after range, some of them at once. Which keys have a value is the
//! core's to find out. Spec: sharding 5.6.

use std::fmt;
use std::future::IntoFuture;
use std::sync::Arc;
use std::time::{Duration, Instant};

use quorate_core::ddata::state::key::{Key, Pattern};
use quorate_core::effect::{Answer, CommandError, KvOutcome};
use quorate_core::input::KvCommand;
use quorate_core::kv::state::level::Level;
use quorate_core::kv::state::listed::{KeyPage, KeysWanted, LISTED_KEYS_MAX, PageWanted};
use quorate_core::kv::state::table::RangeId;

use super::bucket::Bucket;
use super::errors::KvGetError;
use super::many::in_turn;
use crate::request::{Request, TIMEOUT_DEFAULT};

/// Ranges that one page asks for at once, when those before held few keys.
const RANGES_AT_ONCE_MAX: u16 = 16;

/// Bytes of the keys of one page, after which it takes no further one.
pub const PAGE_BYTES_MAX: usize = 128 << 10;

/// Keys of one page at most.
pub const PAGE_KEYS_MAX: usize = LISTED_KEYS_MAX as usize;

/// Some keys of a bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KvPage {
    /// Keys that have a value. Each range's are in their order, which is none of the whole bucket.
    pub keys: Vec<String>,
    /// Where to go on; `None`: there are no more. A page without keys may have one.
    pub next: Option<KvPlace>,
}

/// A place in the listing of a bucket. It stays good when ranges move and nodes come and go, and for callers
/// elsewhere: `to_bytes`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KvPlace {
    range: u16,
    after: Option<Key>,
}

/// Bytes that are no place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the bytes are no place in a listing of the keyed store")]
pub struct BadPlace;

impl KvPlace {
    /// Its bytes, for a caller elsewhere who is to hand them back: at most 257.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let after = self.after.as_ref().map_or("", Key::as_str);
        [&self.range.to_be_bytes()[..], after.as_bytes()].concat()
    }

    /// From [`Self::to_bytes`]'s bytes.
    ///
    /// # Errors
    /// [`BadPlace`] if they are none.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, BadPlace> {
        let (range, after) = bytes.split_first_chunk().ok_or(BadPlace)?;
        let range = u16::from_be_bytes(*range);
        let after = std::str::from_utf8(after).map_err(|_| BadPlace)?;
        let after = match after {
            "" => None,
            after => Some(Key::new(after).map_err(|_| BadPlace)?),
        };
        Ok(Self { range, after })
    }
}

/// A page of the keys of a bucket: await it. Begins then, with the bucket's least R and [`TIMEOUT_DEFAULT`]
/// unless it says otherwise.
///
/// # Errors
/// [`KvGetError`]; [`KvGetError::BadKey`] if no key can begin with the prefix.
///
/// # Cancel safety
/// Safe: it changes nothing but that stale owners are repaired.
#[must_use = "nothing happens before it is awaited"]
pub struct KvKeys<V> {
    bucket: Arc<Bucket<V>>,
    prefix: String,
    place: KvPlace,
    keys_max: usize,
    level: Level,
    timeout: Duration,
}

impl<V> KvKeys<V> {
    pub(super) fn new(bucket: Arc<Bucket<V>>) -> Self {
        Self {
            level: bucket.reads,
            bucket,
            prefix: String::new(),
            place: KvPlace::default(),
            keys_max: PAGE_KEYS_MAX,
            timeout: TIMEOUT_DEFAULT,
        }
    }

    /// Only keys that begin so.
    pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = prefix.into();
        self
    }

    /// Goes on behind the page that gave this place, which was asked for with the same prefix.
    pub fn from(mut self, place: KvPlace) -> Self {
        self.place = place;
        self
    }

    /// How many keys the page has at most, 1 to [`PAGE_KEYS_MAX`] (clamped; default the most).
    pub const fn limit(mut self, keys: usize) -> Self {
        self.keys_max = keys;
        self
    }

    /// R: how many owners of each range have to be heard, as of [`KvGet::level`](super::KvGet::level).
    pub const fn level(mut self, level: Level) -> Self {
        self.level = level;
        self
    }

    /// How long to wait for the page, 1 ms to 1 h (clamped).
    pub const fn timeout(mut self, limit: Duration) -> Self {
        self.timeout = limit;
        self
    }
}

impl<V: Send + Sync + 'static> IntoFuture for KvKeys<V> {
    type Output = Result<KvPage, KvGetError>;
    type IntoFuture = Request<Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Request::new(self.timeout, async move |timeout| self.page(timeout).await)
    }
}

impl<V> KvKeys<V> {
    async fn page(self, timeout: Duration) -> Result<KvPage, KvGetError> {
        let Ok(Pattern::Prefix(prefix)) = Pattern::below(&self.prefix) else {
            return Err(KvGetError::BadKey);
        };
        let begun = Instant::now();
        let mut draft = Draft {
            keys: Vec::new(),
            bytes: 0,
            keys_max: self.keys_max.clamp(1, PAGE_KEYS_MAX),
            place: self.place,
        };
        let mut at_once = 1;
        while draft.place.range < self.bucket.ranges && !draft.is_full() {
            let first = draft.place.range;
            let ranges = first..self.bucket.ranges.min(first.saturating_add(at_once));
            let keys_max = u16::try_from(draft.keys_max - draft.keys.len()).unwrap_or(LISTED_KEYS_MAX);
            let left = timeout.saturating_sub(begun.elapsed());
            let pages = ranges.map(|range| {
                let wanted = PageWanted {
                    range: RangeId(range),
                    keys: KeysWanted {
                        prefix: Arc::clone(&prefix),
                        after: draft.place.after.clone().filter(|_| range == first),
                        keys_max,
                    },
                    level: self.level,
                };
                self.bucket.list(wanted, left)
            });
            let pages = in_turn(pages, usize::from(RANGES_AT_ONCE_MAX)).await;
            at_once = (at_once * 2).min(RANGES_AT_ONCE_MAX);
            for page in pages {
                if !draft.take(page?) {
                    // More of this range comes first.
                    at_once = 1;
                    break;
                }
            }
        }
        let is_over = draft.place.range >= self.bucket.ranges;
        Ok(KvPage {
            keys: draft.keys,
            next: (!is_over).then_some(draft.place),
        })
    }
}

/// A page as far as it is known.
struct Draft {
    keys: Vec<String>,
    bytes: usize,
    keys_max: usize,
    place: KvPlace,
}

impl Draft {
    const fn is_full(&self) -> bool {
        self.keys.len() >= self.keys_max || self.bytes >= PAGE_BYTES_MAX
    }

    /// Takes in the next page of the range at its place. Whether that range is over.
    fn take(&mut self, page: KeyPage) -> bool {
        for key in page.keys {
            if self.is_full() {
                return false;
            }
            self.bytes += key.as_str().len();
            self.keys.push(key.as_str().to_owned());
            self.place.after = Some(key);
        }
        match page.next {
            Some(next) => {
                self.place.after = Some(next);
                false
            }
            None => {
                self.place = KvPlace {
                    range: self.place.range + 1,
                    after: None,
                };
                true
            }
        }
    }
}

impl<V> Bucket<V> {
    /// A page of one range.
    async fn list(&self, wanted: PageWanted, timeout: Duration) -> Result<KeyPage, KvGetError> {
        let command = KvCommand::List {
            bucket: self.name.clone(),
            wanted,
            timeout,
        };
        match self.shared.kv(command).await {
            Some(Answer::Kv(KvOutcome::Listed(listed))) => Ok(listed?),
            Some(Answer::Refused(CommandError::Stopped)) | None => Err(KvGetError::Stopped),
            Some(Answer::Refused(error)) => Err(KvGetError::Refused(error)),
            Some(
                Answer::Done
                | Answer::Asked(_)
                | Answer::Sharding(_)
                | Answer::Ddata(_)
                | Answer::Singleton(_)
                | Answer::Journal(_)
                | Answer::Kv(_),
            ) => Err(KvGetError::Stopped),
        }
    }
}

impl<V> fmt::Debug for KvKeys<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KvKeys")
            .field("prefix", &self.prefix)
            .field("place", &self.place)
            .field("timeout", &self.timeout)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};
    use std::future::poll_fn;
    use std::pin::Pin;

    use quorate_core::kv::state::bucket::BucketName;
    use quorate_core::kv::state::settings::BucketSettings;

    use super::*;
    use crate::commands::DataCommand;
    use crate::kv::Kv;
    use crate::shared::Commands;
    use crate::testing::{block_on, idle_node};

    fn bucket(ranges: u16) -> (Kv<u32>, Commands) {
        let (shared, commands) = idle_node(|_| {});
        let name = BucketName::new("b").unwrap();
        let settings = BucketSettings {
            ranges,
            ..BucketSettings::default()
        };
        (Kv::new(shared, name, &settings, None), commands)
    }

    /// What a range says of its keys, as the core does.
    fn listed(held: &BTreeSet<String>, wanted: &KeysWanted) -> KeyPage {
        let after = wanted.after.as_ref().map_or("", Key::as_str);
        let mut behind = held.iter().filter(|key| key.as_str() > after);
        let count = usize::from(wanted.keys_max);
        let keys = behind.by_ref().take(count).map(|key| Key::new(key).unwrap());
        let keys: Vec<Key> = keys.collect();
        let next = behind.next().and_then(|_| keys.last().cloned());
        KeyPage { keys, next }
    }

    /// A page, and how many ranges were asked.
    fn page(
        keys: KvKeys<u32>,
        commands: &Commands,
        held: &BTreeMap<u16, BTreeSet<String>>,
    ) -> (KvPage, usize) {
        let (mut request, mut asked) = (keys.into_future(), 0);
        let none = BTreeSet::new();
        let page = block_on(poll_fn(|cx| {
            let polled = Pin::new(&mut request).poll(cx);
            while let Ok(DataCommand::Keyed { command, reply }) = commands.data.try_recv() {
                let KvCommand::List { wanted, .. } = command else {
                    panic!("{command:?}")
                };
                asked += 1;
                let held = held.get(&wanted.range.0).unwrap_or(&none);
                reply.send(Answer::Kv(KvOutcome::Listed(Ok(listed(held, &wanted.keys)))));
            }
            polled
        }));
        (page.unwrap(), asked)
    }

    fn names(range: u16, count: usize) -> BTreeSet<String> {
        (0..count).map(|key| format!("{range:02} {key:05}")).collect()
    }

    #[test]
    fn pages_of_any_size_give_every_key_once() {
        let (bucket, commands) = bucket(40);
        let held = [(0, 3), (1, 2), (7, 1), (20, 2_500), (39, 1)];
        let held: BTreeMap<_, _> = held.map(|(range, count)| (range, names(range, count))).into();
        let all: Vec<String> = held.values().flatten().cloned().collect();
        for size in [1, 2, 7, PAGE_KEYS_MAX] {
            let (mut listed, mut place) = (Vec::new(), KvPlace::default());
            loop {
                let keys = bucket.keys().from(place).limit(size);
                let (page, asked) = page(keys, &commands, &held);
                assert!(page.keys.len() <= size && asked <= 41 + page.keys.len());
                listed.extend(page.keys);
                match page.next {
                    Some(next) => place = KvPlace::from_bytes(&next.to_bytes()).unwrap(),
                    None => break,
                }
            }
            assert_eq!(listed, all);
        }
    }

    #[test]
    fn a_page_ends_when_it_has_as_many_bytes_as_it_may() {
        let (bucket, commands) = bucket(1);
        let long = "k".repeat(250);
        let held = (0..PAGE_KEYS_MAX).map(|key| format!("{long}{key:05}")).collect();
        let (page, _) = page(bucket.keys(), &commands, &[(0, held)].into());
        assert_eq!(page.keys.len(), PAGE_BYTES_MAX.div_ceil(255));
        assert!(page.next.is_some());
    }

    #[test]
    fn places_come_back_from_their_bytes_and_nothing_else_is_one() {
        let after = Some(Key::new("a key").unwrap());
        for place in [KvPlace::default(), KvPlace { range: 4_095, after }] {
            assert_eq!(KvPlace::from_bytes(&place.to_bytes()), Ok(place));
        }
        let long = [&[0, 1][..], &[b'k'; 256]].concat();
        for bytes in [&[][..], &[1], &[0, 1, 0xff], &long] {
            assert_eq!(KvPlace::from_bytes(bytes), Err(BadPlace));
        }
    }

    #[test]
    fn what_cannot_be_listed_is_an_error() {
        let (bucket, commands) = bucket(1);
        let long = bucket.keys().prefix("k".repeat(256)).into_future();
        assert_eq!(block_on(long), Err(KvGetError::BadKey));
        assert!(commands.data.is_empty());
        drop(commands);
        let stopped = bucket.keys().into_future();
        assert_eq!(block_on(stopped), Err(KvGetError::Stopped));
    }
}
