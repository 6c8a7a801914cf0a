//! What every program's ledger counts: what clients sent and were told, and the longest time in which nobody
//! was told anything; and how it is said as one line. What has to hold of it is each program's. Knows no
//! process.

use std::fmt::Display;
use std::time::{Duration, Instant};

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) sent: u64,
    pub(crate) acknowledged: u64,
    last_at: Option<Instant>,
    pub(crate) longest_gap: Duration,
}

impl Counts {
    /// A client was told something that counts.
    pub(crate) fn acknowledged(&mut self, now: Instant) {
        self.acknowledged += 1;
        let gap = self
            .last_at
            .map_or(Duration::ZERO, |last| now.duration_since(last));
        self.longest_gap = self.longest_gap.max(gap);
        self.last_at = Some(now);
    }
}

/// A verdict as one line of JSON; a text has its quotes already.
pub(crate) fn line(fields: &[(&str, &dyn Display)]) -> String {
    let fields: Vec<String> = fields
        .iter()
        .map(|(name, value)| format!("\"{name}\":{value}"))
        .collect();
    format!("{{{}}}", fields.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_gap_lies_between_two_acknowledgements() {
        let begun = Instant::now();
        let mut counts = Counts::default();
        for seconds in [7, 9, 14, 15] {
            counts.acknowledged(begun + Duration::from_secs(seconds));
        }
        assert_eq!(
            (counts.acknowledged, counts.longest_gap),
            (4, Duration::from_secs(5))
        );
    }

    #[test]
    fn a_line_is_json() {
        assert_eq!(line(&[("a", &1), ("b", &"\"x\"")]), r#"{"a":1,"b":"x"}"#);
    }
}
