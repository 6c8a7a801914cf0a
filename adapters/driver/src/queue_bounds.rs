//! How large an event may be, and how much durable producers and work queues may keep, by the limits of logs
//! and frames. Decides nothing else. Spec: sharding 1.14, 10.7.

use quorate_core::config::Config;

/// The bytes of one event: far above what an event says that a person could read, and four of them fit into
/// what a command may write.
pub const EVENT_BYTES_MAX: usize = 1024 * 1024;

/// Largest message that is kept: a record, less what is written beside it (an id of a kibibyte, numbers).
const MESSAGE_BYTES_MAX: usize = EVENT_BYTES_MAX - OVERHEAD_MAX;

/// What is written beside a message at most.
const OVERHEAD_MAX: usize = 2_048;

/// What stands around the records of an append on its way: names, tokens and numbers, with those of a record.
const FRAME_OVERHEAD: usize = 4_096;

/// The bounds of a queue, from those of its log. Of eight parts of a log unconfirmed messages take four at
/// most, and what is confirmed two more until it is deleted. One is for an append, and one for what is
/// written anew.
#[derive(Clone, Copy, Debug)]
pub(crate) struct QueueBounds {
    pub(crate) log_bytes_max: usize,
    pub(crate) append_bytes_max: usize,
}

impl QueueBounds {
    pub(crate) const fn of(config: &Config) -> Self {
        Self {
            log_bytes_max: config.journal.log_bytes_max,
            append_bytes_max: config.limits.bulk_frame_bytes_max,
        }
    }

    /// Largest message.
    pub(crate) fn message_bytes_max(self) -> usize {
        let frame = self.append_bytes_max.saturating_sub(FRAME_OVERHEAD);
        let part = (self.log_bytes_max / 8).saturating_sub(OVERHEAD_MAX);
        MESSAGE_BYTES_MAX.min(frame).min(part)
    }

    /// Bytes of messages that nobody has confirmed.
    pub(crate) const fn live_bytes_max(self) -> usize {
        self.log_bytes_max / 2
    }

    /// Bytes that are written together, if it is more than one message.
    pub(crate) fn batch_bytes(self) -> usize {
        let frame = self.append_bytes_max.saturating_sub(FRAME_OVERHEAD);
        (self.log_bytes_max / 16).min(EVENT_BYTES_MAX).min(frame)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s_1_14_a_message_is_as_large_as_a_frame_and_an_eighth_of_a_log_allow() {
        let bounds = |log_bytes_max, append_bytes_max| {
            QueueBounds {
                log_bytes_max,
                append_bytes_max,
            }
            .message_bytes_max()
        };
        assert_eq!(bounds(64 << 20, 4 << 20), MESSAGE_BYTES_MAX);
        assert_eq!(bounds(64 << 20, 64 << 10), (64 << 10) - FRAME_OVERHEAD);
        assert_eq!(bounds(64 << 10, 4 << 20), (8 << 10) - OVERHEAD_MAX);
    }
}
