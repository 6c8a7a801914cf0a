//! The limits of links and of what waits for them: settings with a reason each. Their ranges are checked
//! once, against the frames that the core's limits allow. What nobody needs to change is [`crate::limits`].
//! Spec: reliability 3b; what counts against each: `docs/limits.md`.

use alloc::sync::Arc;
use core::ops::Deref;
use core::time::Duration;

use quorate_core::config::ranges::{at_least_one, ensure, positive, within};
use quorate_core::config::{ConfigError, Limits};

/// Below it nodes do little else than shaking hands.
const LINK_AGE_MIN: Duration = Duration::from_secs(1);

/// Beyond it a certificate that was taken back would do for months.
const LINK_AGE_MAX: Duration = Duration::from_secs(30 * 86_400);

/// Bounds that protect a node's memory and time from whoever opens links to it, and its peers' queues from
/// its own callers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkLimits {
    /// How long a new link may take to finish its handshake (default 5 s); also, how long the link of a node
    /// that is no member stays open without asking to join.
    pub handshake_timeout: Duration,
    /// Links that members may open to this node (default 4,096, 16 to 65,536): two each of a thousand peers,
    /// doubled while renewed, or three each of 680 with bulk data.
    pub links_max: usize,
    /// Links of all sources that have not finished their handshake (default 512, 16 to 65,536). They take no
    /// place from members; past it a random one of the largest source is closed.
    pub pending_handshakes_max: usize,
    /// The same from one source (default 16, 1 to 4,096), unless a member has a link from there.
    pub pending_handshakes_per_source_max: usize,
    /// Links of nodes that have finished their handshake and are no members (default 256, 16 to 65,536), with
    /// the same past it.
    pub stranger_links_max: usize,
    /// The same from one source (default 8, 1 to 4,096), unless a member has a link from there.
    pub stranger_links_per_source_max: usize,
    /// How long the link of a joiner that is not admitted stays open without a byte (default 60 s).
    pub stranger_idle_timeout: Duration,
    /// How old a link with certificates or keys may become (default 1 h, 1 s to 30 days). Before that its
    /// dialer replaces it without losing a message; one that could not be replaced goes on only while the
    /// peer's proof is valid. Costs a handshake per link and age. Links without proofs are not replaced.
    pub max_link_age: Duration,
    /// Bytes received and not used yet on all accepted links: read buffers and incomplete frames (default 48
    /// MiB, 1 MiB to 1 GiB, and at least twice the largest frame). Past it a link is not read until there is
    /// room.
    pub inbound_bytes_max: usize,
    /// Gossip frames per second from one peer, in bursts of at most one second's (default 200, 10 to
    /// 1,000,000). The excess is dropped.
    pub gossip_frames_per_second_max: u32,
    /// Control frames per second from one peer, in bursts of at most ten seconds' (default 2,000, 100 to
    /// 1,000,000): a sender's whole control queue passes. The excess is dropped; the last tenth is for
    /// heartbeats.
    pub control_frames_per_second_max: u32,
    /// Bytes of control and gossip frames per second from one peer, in bursts of at most one second's
    /// (default 64 MiB, 16 MiB to 1 GiB). The excess is dropped. Entity messages have back-pressure instead.
    pub control_bytes_per_second_max: usize,
    /// How long a peer may exceed a rate, without a second's pause, before its link is closed (default 10 s).
    pub rate_exceeded_patience: Duration,
    /// Frames with a wrong checksum within ten seconds that close a link (default 3, 1 to 1,000).
    pub checksum_failures_max: u32,
    /// Control messages that wait for one peer (default 20,000, >= 100). Past it its link is closed: it does
    /// not keep up with membership.
    pub control_queue_messages_max: usize,
    /// Gossip messages that wait for one peer (default 16, >= 1). Past it the oldest is dropped: a newer
    /// state is worth more.
    pub gossip_queue_messages_max: usize,
    /// Answers that wait for one peer (default 100,000, >= 1): as many as asks may be open. Past it the
    /// newest is dropped.
    pub reply_queue_messages_max: usize,
    /// Payload bytes of answers that wait for one peer (default 64 MiB, >= 1).
    pub reply_queue_bytes_max: usize,
    /// Messages to entities that wait for one peer (default 3,072, >= 2). From half of it senders are slowed
    /// down; past it the newest is rejected.
    pub user_queue_messages_max: usize,
    /// Payload bytes of messages to entities that wait for one peer (default 16 MiB, >= 2).
    pub user_queue_bytes_max: usize,
    /// Bulk messages that wait for one peer (default 1,024, >= 2): a round of replicated data. Past it the
    /// newest is given back to its sender, which sends it again later.
    pub bulk_queue_messages_max: usize,
    /// Payload bytes of bulk messages that wait for one peer (default 16 MiB, >= 2).
    pub bulk_queue_bytes_max: usize,
}

impl Default for LinkLimits {
    fn default() -> Self {
        Self {
            handshake_timeout: Duration::from_secs(5),
            links_max: 4_096,
            pending_handshakes_max: 512,
            pending_handshakes_per_source_max: 16,
            stranger_links_max: 256,
            stranger_links_per_source_max: 8,
            stranger_idle_timeout: Duration::from_secs(60),
            max_link_age: Duration::from_secs(3_600),
            inbound_bytes_max: 48 << 20,
            gossip_frames_per_second_max: 200,
            control_frames_per_second_max: 2_000,
            control_bytes_per_second_max: 64 << 20,
            rate_exceeded_patience: Duration::from_secs(10),
            checksum_failures_max: 3,
            control_queue_messages_max: 20_000,
            gossip_queue_messages_max: 16,
            reply_queue_messages_max: 100_000,
            reply_queue_bytes_max: 64 << 20,
            user_queue_messages_max: 3_072,
            user_queue_bytes_max: 16 << 20,
            bulk_queue_messages_max: 1_024,
            bulk_queue_bytes_max: 16 << 20,
        }
    }
}

/// [`LinkLimits`] whose ranges were checked. Cheap to clone. The defaults are legal with all that the core's
/// limits may be.
#[derive(Clone, Debug, Default)]
pub struct ValidLinkLimits(Arc<LinkLimits>);

impl Deref for ValidLinkLimits {
    type Target = LinkLimits;

    fn deref(&self) -> &LinkLimits {
        &self.0
    }
}

impl LinkLimits {
    /// Checks every limit, for a node with those of the core.
    ///
    /// # Errors
    /// [`ConfigError`] for the first one outside its range.
    pub fn validate(self, frames: &Limits) -> Result<ValidLinkLimits, ConfigError> {
        self.check_places()?;
        self.check_bytes_and_rates(frames)?;
        self.check_queues()?;
        Ok(ValidLinkLimits(Arc::new(self)))
    }

    fn check_places(&self) -> Result<(), ConfigError> {
        positive("links.handshake_timeout", self.handshake_timeout)?;
        within("links.links_max", self.links_max, (16, 65_536), "16 to 65536")?;
        for (key, value) in [
            ("links.pending_handshakes_max", self.pending_handshakes_max),
            ("links.stranger_links_max", self.stranger_links_max),
        ] {
            within(key, value, (16, 65_536), "16 to 65536")?;
        }
        for (key, value) in [
            (
                "links.pending_handshakes_per_source_max",
                self.pending_handshakes_per_source_max,
            ),
            (
                "links.stranger_links_per_source_max",
                self.stranger_links_per_source_max,
            ),
        ] {
            within(key, value, (1, 4_096), "1 to 4096")?;
        }
        positive("links.stranger_idle_timeout", self.stranger_idle_timeout)?;
        let age = self.max_link_age;
        let legal = (LINK_AGE_MIN..=LINK_AGE_MAX).contains(&age);
        ensure(legal, "links.max_link_age", &age, "1 s to 30 days")
    }

    fn check_bytes_and_rates(&self, frames: &Limits) -> Result<(), ConfigError> {
        let largest = frames
            .control_frame_bytes_max
            .max(frames.gossip_frame_bytes_max)
            .max(frames.user_frame_bytes_max)
            .max(frames.bulk_frame_bytes_max);
        within(
            "links.inbound_bytes_max",
            self.inbound_bytes_max,
            ((largest * 2).max(1 << 20), 1 << 30),
            "1048576 to 1073741824 bytes, and at least twice the largest frame",
        )?;
        let rate = |key, value: u32, min: u32, range| {
            let legal = (min..=1_000_000).contains(&value);
            ensure(legal, key, &value, range)
        };
        let gossip = self.gossip_frames_per_second_max;
        rate("links.gossip_frames_per_second_max", gossip, 10, "10 to 1000000")?;
        let control = self.control_frames_per_second_max;
        rate(
            "links.control_frames_per_second_max",
            control,
            100,
            "100 to 1000000",
        )?;
        within(
            "links.control_bytes_per_second_max",
            self.control_bytes_per_second_max,
            (16 << 20, 1 << 30),
            "16777216 to 1073741824 bytes",
        )?;
        positive("links.rate_exceeded_patience", self.rate_exceeded_patience)?;
        let failures = self.checksum_failures_max;
        let legal = (1..=1_000).contains(&failures);
        ensure(legal, "links.checksum_failures_max", &failures, "1 to 1000")
    }

    fn check_queues(&self) -> Result<(), ConfigError> {
        let control = self.control_queue_messages_max;
        ensure(
            control >= 100,
            "links.control_queue_messages_max",
            &control,
            "at least 100",
        )?;
        for (key, value) in [
            ("links.gossip_queue_messages_max", self.gossip_queue_messages_max),
            ("links.reply_queue_messages_max", self.reply_queue_messages_max),
            ("links.reply_queue_bytes_max", self.reply_queue_bytes_max),
        ] {
            at_least_one(key, value)?;
        }
        for (key, value) in [
            ("links.user_queue_messages_max", self.user_queue_messages_max),
            ("links.user_queue_bytes_max", self.user_queue_bytes_max),
            ("links.bulk_queue_messages_max", self.bulk_queue_messages_max),
            ("links.bulk_queue_bytes_max", self.bulk_queue_bytes_max),
        ] {
            ensure(value >= 2, key, &value, "at least 2")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
