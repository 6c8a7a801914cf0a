//! The result: the table and the line of JSON. Only formats.

use std::fmt::Write;
use std::time::Duration;

/// What one node did.
#[derive(Clone, Debug)]
pub(crate) struct NodeResult {
    pub(crate) name: String,
    pub(crate) address: String,
    pub(crate) files: u64,
    pub(crate) words: u64,
    pub(crate) shards: usize,
    pub(crate) note: &'static str,
}

/// What the demo found out.
#[derive(Clone, Debug, Default)]
pub(crate) struct Report {
    pub(crate) nodes: usize,
    pub(crate) files: usize,
    pub(crate) words: u64,
    pub(crate) expected: u64,
    pub(crate) formed: Duration,
    pub(crate) unreachable: Option<Duration>,
    pub(crate) removed: Option<Duration>,
    pub(crate) failover: Option<Duration>,
    pub(crate) asks_retried: u64,
    pub(crate) members: usize,
    pub(crate) per_node: Vec<NodeResult>,
    /// How long the cluster took for the files.
    pub(crate) cluster_took: Duration,
    /// How long one thread took for the same files.
    pub(crate) thread_took: Duration,
    /// Files that could not be read, by the nodes and by the thread.
    pub(crate) unreadable: (u64, u64),
}

impl Report {
    /// Whether both counts agree.
    pub(crate) const fn is_right(&self) -> bool {
        self.words == self.expected
    }

    /// The table and the verdict, for people.
    pub(crate) fn table(&self) -> String {
        let mut out = String::new();
        let mut row = |name: &str, address: &str, files: &str, shards: &str, words: &str, note: &str| {
            let line = format!("  {name:<18} {address:<21} {files:>9} {shards:>7} {words:>15}  {note}");
            let _ = writeln!(out, "{}", line.trim_end());
        };
        row("", "address", "files", "shards", "words", "");
        for node in &self.per_node {
            let (files, shards) = (grouped(node.files), node.shards.to_string());
            row(
                &node.name,
                &node.address,
                &files,
                &shards,
                &grouped(node.words),
                node.note,
            );
        }
        let files = grouped(self.files as u64);
        let shards: usize = self.per_node.iter().map(|node| node.shards).sum();
        let took = |took: Duration| format!("{:.2} s", took.as_secs_f64());
        let (cluster, thread) = (took(self.cluster_took), took(self.thread_took));
        row(
            "the cluster",
            "",
            &files,
            &shards.to_string(),
            &grouped(self.words),
            &cluster,
        );
        row(
            "one thread, after",
            "",
            &files,
            "",
            &grouped(self.expected),
            &thread,
        );
        out.push('\n');
        self.facts(&mut out);
        let verdict = if self.is_right() {
            "Equal: no answer was lost."
        } else {
            "NOT EQUAL."
        };
        out.push_str(verdict);
        out
    }

    fn facts(&self, out: &mut String) {
        let ms = |time: Duration| time.as_millis();
        let _ = writeln!(out, "Formed {} ms after the start.", ms(self.formed));
        if let (Some(unreachable), Some(removed), Some(failover)) =
            (self.unreachable, self.removed, self.failover)
        {
            let _ = writeln!(
                out,
                "After the kill: unreachable {} ms, removed {} ms, first answer from one of its shards {} ms.",
                ms(unreachable),
                ms(removed),
                ms(failover)
            );
        }
        let _ = writeln!(
            out,
            "{} asks got no answer and were asked again.",
            grouped(self.asks_retried)
        );
        if self.unreadable != (0, 0) {
            let (nodes, thread) = self.unreadable;
            let _ = writeln!(
                out,
                "Unreadable, counted as 0 words: {nodes} for the nodes, {thread} for the thread."
            );
        }
    }

    /// One object with integers, on one line.
    pub(crate) fn json(&self) -> String {
        let null_or = |time: Option<Duration>| match time {
            Some(time) => time.as_millis().to_string(),
            None => "null".to_owned(),
        };
        format!(
            "{{\"nodes\":{},\"files\":{},\"words\":{},\"expected\":{},\"formed_ms\":{},\"unreachable_ms\":{},\
             \"removed_ms\":{},\"failover_ms\":{},\"asks_retried\":{},\"members\":{}}}",
            self.nodes,
            self.files,
            self.words,
            self.expected,
            self.formed.as_millis(),
            null_or(self.unreachable),
            null_or(self.removed),
            null_or(self.failover),
            self.asks_retried,
            self.members,
        )
    }
}

/// Digits in groups of three.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_grouped() {
        let shown: Vec<String> = [0, 999, 1_000, 12_345_678].into_iter().map(grouped).collect();
        assert_eq!(shown, ["0", "999", "1,000", "12,345,678"]);
    }

    #[test]
    fn the_json_is_one_line_of_integers_and_nulls() {
        let report = Report {
            nodes: 3,
            removed: Some(Duration::from_micros(1_500)),
            ..Report::default()
        };
        assert_eq!(
            report.json(),
            "{\"nodes\":3,\"files\":0,\"words\":0,\"expected\":0,\"formed_ms\":0,\"unreachable_ms\":null,\
             \"removed_ms\":1,\"failover_ms\":null,\"asks_retried\":0,\"members\":0}"
        );
    }
}
