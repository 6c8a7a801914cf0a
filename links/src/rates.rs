//! How much one peer may say on its control link: gossip frames, control frames and their bytes per second,
//! each a token bucket. What is beyond is dropped and counted; a peer that stays beyond for long loses its
//! link. Entity messages and answers have no rate: back-pressure and the open asks bound them. Spec:
//! reliability 3b, B-51.

use quorate_core::ident::UniqueAddress;
use quorate_core::message::{DetectorMsg, Lane, MessageTag};
use quorate_core::ordered::OrderedMap;
use quorate_core::time::Instant;

use crate::settings::LinkLimits;

/// Control frames may come in bursts of so many seconds' worth: a sender's whole queue after a pause.
const CONTROL_BURST_SECONDS: u64 = 10;

/// The share of the control burst that only heartbeats may use.
const HEARTBEAT_SHARE: u64 = 10;

/// A peer that was within its rates for so long begins anew.
const CALM_MICROS: u64 = 1_000_000;

/// Peers without a link whose meters are remembered, so that a new link is no new allowance.
const REMEMBERED_MAX: usize = 1_024;

/// Fewer are not looked through.
const REMEMBERED_MIN: usize = 16;

/// Tokens are counted in millionths, so that a refill is a product.
const TOKEN: u64 = 1_000_000;

#[derive(Clone, Copy, Debug)]
struct RateBucket {
    per_second: u64,
    capacity: u64,
    level: u64,
    at: Instant,
}

impl RateBucket {
    const fn full(per_second: u64, burst: u64, at: Instant) -> Self {
        let capacity = burst * TOKEN;
        Self {
            per_second,
            capacity,
            level: capacity,
            at,
        }
    }

    /// Takes `count` tokens if at least `reserve` are left after it.
    fn take(&mut self, count: u64, reserve: u64, now: Instant) -> bool {
        let micros = u64::try_from(now.since(self.at).as_micros()).unwrap_or(u64::MAX);
        let refill = micros.saturating_mul(self.per_second);
        self.level = self.level.saturating_add(refill).min(self.capacity);
        self.at = now;
        let wanted = count.saturating_add(reserve).saturating_mul(TOKEN);
        let enough = self.level >= wanted;
        if enough {
            self.level -= count * TOKEN;
        }
        enough
    }
}

/// What becomes of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RateVerdict {
    /// It is handled.
    Within,
    /// It is dropped.
    Beyond,
    /// It is dropped, and its link closed.
    TooLong,
}

/// One peer's buckets.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PeerMeter {
    gossip: RateBucket,
    control: RateBucket,
    bytes: RateBucket,
    /// Since when the peer has been beyond a rate, and when it last was.
    beyond: Option<(Instant, Instant)>,
}

impl PeerMeter {
    pub(crate) fn new(limits: &LinkLimits, now: Instant) -> Self {
        let control = u64::from(limits.control_frames_per_second_max);
        let gossip = u64::from(limits.gossip_frames_per_second_max);
        let bytes = limits.control_bytes_per_second_max as u64;
        Self {
            gossip: RateBucket::full(gossip, gossip, now),
            control: RateBucket::full(control, control * CONTROL_BURST_SECONDS, now),
            bytes: RateBucket::full(bytes, bytes, now),
            beyond: None,
        }
    }

    /// Counts a frame.
    pub(crate) fn count(
        &mut self,
        tag: MessageTag,
        bytes: usize,
        limits: &LinkLimits,
        now: Instant,
    ) -> RateVerdict {
        let bytes = bytes as u64;
        let within = match tag.lane {
            Lane::User | Lane::Reply | Lane::Bulk => true,
            Lane::Control if tag == DetectorMsg::HEARTBEAT || tag == DetectorMsg::HEARTBEAT_RSP => {
                self.control.take(1, 0, now)
            }
            Lane::Control => {
                let reserve = self.control.capacity / TOKEN / HEARTBEAT_SHARE;
                self.bytes.take(bytes, 0, now) && self.control.take(1, reserve, now)
            }
            Lane::Gossip => self.gossip.take(1, 0, now) && self.bytes.take(bytes, 0, now),
        };
        if within {
            return RateVerdict::Within;
        }
        let since = match self.beyond {
            Some((since, last)) if now.since(last).as_micros() < u128::from(CALM_MICROS) => since,
            Some(_) | None => now,
        };
        self.beyond = Some((since, now));
        if now.since(since) >= limits.rate_exceeded_patience {
            RateVerdict::TooLong
        } else {
            RateVerdict::Beyond
        }
    }
}

/// Meters of peers whose control link has ended.
#[derive(Debug, Default)]
pub(crate) struct RememberedMeters {
    meters: OrderedMap<UniqueAddress, PeerMeter>,
    /// From how many on those that nobody needs are looked for.
    look_at: usize,
}

impl RememberedMeters {
    pub(crate) fn take(&mut self, peer: &UniqueAddress) -> Option<PeerMeter> {
        self.meters.remove(peer)
    }

    /// Keeps a meter for the peer's next link. Those that have filled up again by now are forgotten, whenever
    /// there are twice as many as were left the last time.
    pub(crate) fn keep(&mut self, peer: UniqueAddress, meter: PeerMeter, now: Instant) {
        if self.meters.len() >= self.look_at {
            self.meters
                .retain(|_, meter| now.since(meter.control.at).as_secs() < CONTROL_BURST_SECONDS);
            self.look_at = (self.meters.len() * 2).clamp(REMEMBERED_MIN, REMEMBERED_MAX);
        }
        if self.meters.len() < REMEMBERED_MAX {
            self.meters.insert(peer, meter);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_core::message::{MembershipMsg, ShardingMsg};

    const GOSSIP: MessageTag = MembershipMsg::GOSSIP;
    const JOIN: MessageTag = MembershipMsg::JOIN;
    const HEARTBEAT: MessageTag = DetectorMsg::HEARTBEAT;

    fn meter() -> (PeerMeter, LinkLimits) {
        let limits = LinkLimits::default();
        (PeerMeter::new(&limits, Instant::from_millis(0)), limits)
    }

    fn admitted(meter: &mut PeerMeter, what: MessageTag, count: u32, millis: u64) -> u32 {
        let now = Instant::from_millis(millis);
        let limits = LinkLimits::default();
        (0..count)
            .map(|_| u32::from(meter.count(what, 100, &limits, now) == RateVerdict::Within))
            .sum()
    }

    #[test]
    fn b_51_a_second_holds_two_hundred_gossips_and_two_thousand_control_frames() {
        let (mut meter, _) = meter();
        assert_eq!(admitted(&mut meter, GOSSIP, 10_000, 0), 200);
        assert_eq!(admitted(&mut meter, GOSSIP, 10_000, 500), 100);
        assert_eq!(admitted(&mut meter, GOSSIP, 10_000, 60_000), 200);
        let (mut meter, _) = self::meter();
        assert_eq!(admitted(&mut meter, JOIN, 100_000, 0), 18_000);
        assert_eq!(admitted(&mut meter, JOIN, 100_000, 1_000), 2_000);
    }

    #[test]
    fn heartbeats_have_a_share_that_nothing_else_can_use_up() {
        let (mut meter, _) = meter();
        admitted(&mut meter, JOIN, 100_000, 0);
        assert_eq!(admitted(&mut meter, HEARTBEAT, 5_000, 0), 2_000);
    }

    #[test]
    fn peers_that_went_long_ago_are_forgotten_and_those_of_the_last_seconds_are_not() {
        let limits = LinkLimits::default();
        let peer = |uid: u64| {
            let address = quorate_core::ident::Address::new("h", 1).unwrap();
            UniqueAddress::new(address, uid)
        };
        let mut remembered = RememberedMeters::default();
        for second in 0..10_000 {
            let now = Instant::from_millis(second * 1_000);
            remembered.keep(peer(second), PeerMeter::new(&limits, now), now);
            assert!(remembered.meters.len() <= 2 * REMEMBERED_MIN);
        }
        for second in 9_990..10_000 {
            assert!(remembered.take(&peer(second)).is_some(), "{second}");
        }
    }

    #[test]
    fn bytes_are_counted_as_well() {
        let (mut meter, limits) = meter();
        let frame = 4 << 20;
        let passed = (0..200)
            .filter(|_| meter.count(GOSSIP, frame, &limits, Instant::from_millis(0)) == RateVerdict::Within);
        assert_eq!(passed.count(), 16);
        assert_eq!(
            meter.count(ShardingMsg::ENTITY, frame, &limits, Instant::from_millis(0)),
            RateVerdict::Within
        );
    }

    #[test]
    fn b_51_ten_seconds_beyond_a_rate_are_too_long_and_a_calm_second_begins_anew() {
        let (mut meter, limits) = meter();
        let mut flood = |from: u64, until: u64| {
            let mut last = RateVerdict::Within;
            for tenth in (from..until).map(|second| second * 10).flat_map(|t| t..t + 10) {
                for _ in 0..1_000 {
                    last = meter.count(GOSSIP, 100, &limits, Instant::from_millis(tenth * 100));
                }
            }
            last
        };
        assert_eq!(flood(0, 9), RateVerdict::Beyond);
        assert_eq!(flood(11, 20), RateVerdict::Beyond);
        assert_eq!(flood(20, 22), RateVerdict::TooLong);
    }
}
