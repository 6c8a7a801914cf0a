//! How many lines one cause may write to the log. Decides nothing else. Spec: reliability 3b (logs).

use quorate_core::time::Instant;

/// Lets a few lines per second through: whoever can make a node log can otherwise fill its disk.
#[derive(Debug)]
pub(crate) struct LogLimit {
    lines_max: u32,
    second: u64,
    lines: u32,
    left_out: u64,
    /// Lines that were left out since the node started.
    pub(crate) left_out_ever: u64,
}

impl LogLimit {
    pub(crate) const fn new(lines_max: u32) -> Self {
        Self {
            lines_max,
            second: 0,
            lines: 0,
            left_out: 0,
            left_out_ever: 0,
        }
    }

    /// Whether a line may be written, and how many were left out before it.
    pub(crate) fn take_line(&mut self, now: Instant) -> Option<u64> {
        let second = now.as_micros() / 1_000_000;
        if second != self.second {
            (self.second, self.lines) = (second, 0);
        }
        if self.lines >= self.lines_max {
            self.left_out += 1;
            self.left_out_ever += 1;
            return None;
        }
        self.lines += 1;
        Some(std::mem::take(&mut self.left_out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_gets_ten_lines_per_second_and_the_number_left_out() {
        let mut log = LogLimit::new(10);
        let lines = (0..100)
            .filter(|_| log.take_line(Instant::from_millis(1)).is_some())
            .count();
        assert_eq!(lines, 10);
        assert_eq!(log.take_line(Instant::from_millis(1_001)), Some(90));
        assert_eq!(log.left_out_ever, 90);
    }
}
