//! What a sender has sent and nobody has confirmed: it is sent again in the order of its numbers, a limited
//! number at a time, at intervals that grow. The sender keeps [`AtLeastOnce::counter`] and what is
//! unconfirmed where it keeps its state, and gives both back when it has recovered. Spec: sharding 1.15,
//! S-247, S-248.

use alloc::vec::Vec;
use core::time::Duration;

use super::{BadSetting, ensure, grown};
use crate::ordered::OrderedMap;
use crate::time::Instant;

/// Settings of a sender.
#[derive(Clone, Debug, PartialEq)]
pub struct AtLeastOnceSettings {
    /// When what nobody has confirmed is sent for the second time (default 5 s, > 0). Mirrors
    /// `redeliver-interval`.
    pub redeliver_interval: Duration,
    /// Each further wait is so many times the one before (default 1.5, at least 1). Akka always waits as
    /// long: 1.
    pub interval_factor: f64,
    /// Longest wait (default 60 s, at least the first one).
    pub interval_max: Duration,
    /// Most that is sent again at once (default 10,000, >= 1). Mirrors `redelivery-burst-limit`.
    pub burst_max: usize,
    /// After so many attempts the sender is warned of a message, once (default 5, >= 1). Mirrors
    /// `warn-after-number-of-unconfirmed-attempts`.
    pub warn_after: u32,
    /// Most that may be unconfirmed (default 100,000, >= 1). Mirrors `max-unconfirmed-messages`.
    pub unconfirmed_max: usize,
}

impl Default for AtLeastOnceSettings {
    fn default() -> Self {
        Self {
            redeliver_interval: Duration::from_secs(5),
            interval_factor: 1.5,
            interval_max: Duration::from_secs(60),
            burst_max: 10_000,
            warn_after: 5,
            unconfirmed_max: 100_000,
        }
    }
}

impl AtLeastOnceSettings {
    /// Whether the numbers are in their ranges.
    ///
    /// # Errors
    /// [`BadSetting`] names the first that is not.
    pub fn check(&self) -> Result<(), BadSetting> {
        ensure(!self.redeliver_interval.is_zero(), "the interval", "above zero")?;
        ensure(
            self.interval_factor >= 1.0 && self.interval_factor <= 1_000.0,
            "the interval's factor",
            "1 to 1,000",
        )?;
        ensure(
            self.interval_max >= self.redeliver_interval,
            "the longest interval",
            "at least the first one",
        )?;
        ensure(self.burst_max >= 1, "the burst", "at least 1")?;
        ensure(
            self.warn_after >= 1,
            "the attempts before a warning",
            "at least 1",
        )?;
        ensure(
            self.unconfirmed_max >= 1,
            "the unconfirmed messages",
            "at least 1",
        )
    }
}

/// There are as many unconfirmed messages as there may be. The message was not taken, and no number was used
/// up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("too many messages are unconfirmed; try again later")]
pub struct TooManyUnconfirmed;

/// A message nobody has confirmed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnconfirmedDelivery<M> {
    /// The message, with where it goes.
    pub message: M,
    /// How often it was sent.
    pub attempts: u32,
    /// When it was sent last; `None`: not since the sender recovered.
    sent_at: Option<Instant>,
    /// How long is waited for a confirmation of that.
    wait: Duration,
}

impl<M> UnconfirmedDelivery<M> {
    /// How long is waited for a confirmation before it is sent again.
    #[must_use]
    pub const fn wait(&self) -> Duration {
        self.wait
    }
}

/// What is to be sent again, by number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Redelivery {
    /// To be sent, in this order.
    pub send: Vec<u64>,
    /// Those of them that have now been sent as often as the settings' `warn_after` says.
    pub warn: Vec<u64>,
}

/// A sender's unconfirmed messages.
#[derive(Clone, Debug)]
pub struct AtLeastOnce<M> {
    settings: AtLeastOnceSettings,
    counter: u64,
    unconfirmed: OrderedMap<u64, UnconfirmedDelivery<M>>,
    is_recovering: bool,
}

impl<M> AtLeastOnce<M> {
    /// A sender that has sent nothing and does not recover.
    ///
    /// # Errors
    /// [`BadSetting`] for settings out of range.
    pub fn new(settings: AtLeastOnceSettings) -> Result<Self, BadSetting> {
        settings.check()?;
        Ok(Self {
            settings,
            counter: 0,
            unconfirmed: OrderedMap::new(),
            is_recovering: false,
        })
    }

    /// A sender as it was kept: its counter, and what was unconfirmed. What follows is replayed with
    /// [`Self::deliver`] and [`Self::confirm`], and nothing is sent before [`Self::on_recovered`].
    ///
    /// # Errors
    /// [`BadSetting`] for settings out of range.
    pub fn recover(
        settings: AtLeastOnceSettings,
        counter: u64,
        unconfirmed: impl IntoIterator<Item = (u64, M)>,
    ) -> Result<Self, BadSetting> {
        let mut sender = Self::new(settings)?;
        sender.is_recovering = true;
        sender.counter = counter;
        for (id, message) in unconfirmed {
            sender.counter = sender.counter.max(id);
            let unsent = sender.unsent(message);
            sender.unconfirmed.insert(id, unsent);
        }
        Ok(sender)
    }

    /// Takes a message; its number, which goes with it. It is to be sent now, unless the sender recovers.
    ///
    /// # Errors
    /// [`TooManyUnconfirmed`]: not taken.
    pub fn deliver(&mut self, now: Instant, message: M) -> Result<u64, TooManyUnconfirmed> {
        if self.unconfirmed.len() >= self.settings.unconfirmed_max {
            return Err(TooManyUnconfirmed);
        }
        self.counter += 1;
        let mut entry = self.unsent(message);
        if !self.is_recovering {
            entry.attempts = 1;
            entry.sent_at = Some(now);
        }
        self.unconfirmed.insert(self.counter, entry);
        Ok(self.counter)
    }

    /// Somebody has confirmed a message; whether that is news.
    pub fn confirm(&mut self, id: u64) -> bool {
        self.unconfirmed.remove(&id).is_some()
    }

    /// The sender has recovered: what is unconfirmed is to be sent.
    pub fn on_recovered(&mut self, now: Instant) -> Redelivery {
        self.is_recovering = false;
        self.redeliver(now)
    }

    /// What is to be sent again now. Called at least every half of the first interval. Linear in what is
    /// unconfirmed.
    pub fn redeliver(&mut self, now: Instant) -> Redelivery {
        let mut due = Redelivery {
            send: Vec::new(),
            warn: Vec::new(),
        };
        if self.is_recovering {
            return due;
        }
        let settings = &self.settings;
        for (id, entry) in &mut self.unconfirmed {
            if due.send.len() >= settings.burst_max {
                break;
            }
            match entry.sent_at {
                Some(at) if now.since(at) < entry.wait => continue,
                Some(_) => entry.wait = grown(entry.wait, settings.interval_factor, settings.interval_max),
                None => {}
            }
            entry.sent_at = Some(now);
            entry.attempts = entry.attempts.saturating_add(1);
            due.send.push(*id);
            if entry.attempts == settings.warn_after {
                due.warn.push(*id);
            }
        }
        due
    }

    /// An unconfirmed message.
    #[must_use]
    pub fn get(&self, id: u64) -> Option<&UnconfirmedDelivery<M>> {
        self.unconfirmed.get(&id)
    }

    /// What is unconfirmed, by number; with [`Self::counter`] all that has to be kept.
    pub fn unconfirmed(&self) -> impl Iterator<Item = (u64, &M)> {
        self.unconfirmed.iter().map(|(id, entry)| (*id, &entry.message))
    }

    /// Whether so many more messages would be taken.
    #[must_use]
    pub fn has_room_for(&self, messages: usize) -> bool {
        self.settings
            .unconfirmed_max
            .saturating_sub(self.unconfirmed.len())
            >= messages
    }

    /// Whether everything is confirmed.
    #[must_use]
    pub fn is_all_confirmed(&self) -> bool {
        self.unconfirmed.is_empty()
    }

    /// The last number that was given.
    #[must_use]
    pub const fn counter(&self) -> u64 {
        self.counter
    }

    /// How long is waited for the confirmation of a message that is sent for the first time.
    #[must_use]
    pub const fn redeliver_interval(&self) -> Duration {
        self.settings.redeliver_interval
    }

    /// The longest that is waited for any confirmation at present; `None` if there is none to wait for. Looks
    /// at all of them.
    #[must_use]
    pub fn longest_wait(&self) -> Option<Duration> {
        self.unconfirmed.values().map(UnconfirmedDelivery::wait).max()
    }

    /// How often [`Self::redeliver`] should be called.
    #[must_use]
    pub fn tick(&self) -> Duration {
        self.settings.redeliver_interval / 2
    }

    const fn unsent(&self, message: M) -> UnconfirmedDelivery<M> {
        UnconfirmedDelivery {
            message,
            attempts: 0,
            sent_at: None,
            wait: self.settings.redeliver_interval,
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::from_millis(millis)
    }

    fn settings() -> AtLeastOnceSettings {
        AtLeastOnceSettings {
            interval_factor: 1.0,
            ..AtLeastOnceSettings::default()
        }
    }

    #[test]
    fn s_247_what_nobody_confirms_is_sent_again_in_order_and_warned_of_once() {
        let mut sender = AtLeastOnce::new(settings()).unwrap();
        assert_eq!(sender.tick(), Duration::from_millis(2_500));
        assert_eq!(
            [sender.deliver(at(0), 'a'), sender.deliver(at(100), 'b')],
            [Ok(1), Ok(2)]
        );
        assert_eq!(sender.redeliver(at(2_500)).send, []);
        assert_eq!(sender.redeliver(at(5_000)).send, [1]);
        assert_eq!(sender.redeliver(at(7_500)).send, [2]);
        assert!(sender.confirm(1) && !sender.confirm(1) && !sender.confirm(9));
        let mut warned = Vec::new();
        for tick in 4..20 {
            let due = sender.redeliver(at(tick * 2_500));
            warned.extend(due.warn.iter().map(|id| (*id, sender.get(*id).unwrap().attempts)));
        }
        assert_eq!(warned, [(2, 5)]);
    }

    #[test]
    fn s_247_no_more_than_the_burst_is_sent_at_once_and_no_more_than_the_limit_is_taken() {
        let mut sender = AtLeastOnce::new(AtLeastOnceSettings {
            burst_max: 2,
            unconfirmed_max: 3,
            ..settings()
        })
        .unwrap();
        for id in 1..=3 {
            assert_eq!(sender.deliver(at(0), ()), Ok(id));
        }
        assert_eq!(sender.deliver(at(0), ()), Err(TooManyUnconfirmed));
        assert!(sender.has_room_for(0) && !sender.has_room_for(1) && !sender.is_all_confirmed());
        assert_eq!(sender.redeliver(at(5_000)).send, [1, 2]);
        assert_eq!(sender.redeliver(at(5_001)).send, [3]);
        assert!(sender.confirm(2));
        assert_eq!(
            sender.deliver(at(6_000), ()),
            Ok(4),
            "a refused one has used up no number"
        );
    }

    #[test]
    fn s_248_while_it_recovers_nothing_is_sent_and_afterwards_all_of_it_is() {
        let mut sender = AtLeastOnce::recover(settings(), 7, [(3, 'c'), (7, 'g')]).unwrap();
        assert_eq!(sender.deliver(at(0), 'h'), Ok(8));
        assert!(sender.confirm(3));
        assert_eq!(sender.redeliver(at(60_000)).send, []);
        assert_eq!(sender.on_recovered(at(60_000)).send, [7, 8]);
        assert_eq!(sender.get(7).unwrap().attempts, 1);
        assert_eq!(sender.redeliver(at(64_999)).send, []);
        assert_eq!(sender.redeliver(at(65_000)).send, [7, 8]);
        assert_eq!(
            sender.unconfirmed().collect::<Vec<_>>(),
            vec![(7, &'g'), (8, &'h')]
        );
        assert_eq!(sender.counter(), 8);
    }

    #[test]
    fn the_wait_grows_with_each_attempt_up_to_its_limit() {
        let mut sender = AtLeastOnce::new(AtLeastOnceSettings {
            interval_factor: 2.0,
            interval_max: Duration::from_secs(15),
            ..AtLeastOnceSettings::default()
        })
        .unwrap();
        sender.deliver(at(0), ()).unwrap();
        let sent: Vec<u64> = (0..100)
            .filter(|s| !sender.redeliver(at(s * 1_000)).send.is_empty())
            .collect();
        assert_eq!(sent, [5, 15, 30, 45, 60, 75, 90]);
    }

    #[test]
    fn settings_out_of_range_are_refused() {
        for spoil in [
            |s: &mut AtLeastOnceSettings| s.redeliver_interval = Duration::ZERO,
            |s: &mut AtLeastOnceSettings| s.interval_factor = 0.5,
            |s: &mut AtLeastOnceSettings| s.interval_factor = f64::NAN,
            |s: &mut AtLeastOnceSettings| s.interval_max = Duration::from_secs(1),
            |s: &mut AtLeastOnceSettings| s.burst_max = 0,
            |s: &mut AtLeastOnceSettings| s.warn_after = 0,
            |s: &mut AtLeastOnceSettings| s.unconfirmed_max = 0,
        ] {
            let mut settings = AtLeastOnceSettings::default();
            spoil(&mut settings);
            assert!(AtLeastOnce::<()>::new(settings).is_err());
        }
    }
}
