//! The result as a table for people and as one line for programs. Only formats.

use std::fmt::Write;

use crate::measure::{IN_FLIGHT, Size};

/// What came out for one system.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Figures {
    pub(crate) p50_us: f64,
    pub(crate) p99_us: f64,
    pub(crate) per_s: f64,
}

/// One system with one size of value.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row {
    pub(crate) system: &'static str,
    pub(crate) bytes: usize,
    pub(crate) figures: Figures,
}

/// Bytes sent per update.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bytes {
    pub(super) system: &'static str,
    pub(super) majority: f64,
    pub(super) local: f64,
}

/// All of one transport.
#[derive(Clone, Debug)]
pub(crate) struct Report {
    /// What is measured.
    what: &'static str,
    transport: &'static str,
    rounds: usize,
    /// How many calls were in flight while their times were taken.
    pub(crate) in_flight: usize,
    pub(crate) rows: Vec<Row>,
    pub(super) bytes: Vec<Bytes>,
}

/// What a system is compared with.
fn floor_of(system: &str) -> Option<&'static str> {
    match system {
        "Majority" => Some("bare, two peers"),
        "get" | "put" | "conditional put" => Some("bare, two of three peers"),
        "put, durable" | "conditional put, durable" => Some("bare, two of three, committed"),
        "Majority, durable" | "Local, durable" => Some("redb alone"),
        _ => None,
    }
}

/// Each figure's median over the rounds.
pub(crate) fn median<const N: usize>(rounds: &[[Row; N]]) -> Vec<Row> {
    let of = |at: usize, figure: fn(&Figures) -> f64| {
        let mut values: Vec<f64> = rounds.iter().map(|round| figure(&round[at].figures)).collect();
        values.sort_by(f64::total_cmp);
        values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
    };
    let row = |(at, row): (usize, &Row)| Row {
        figures: Figures {
            p50_us: of(at, |f| f.p50_us),
            p99_us: of(at, |f| f.p99_us),
            per_s: of(at, |f| f.per_s),
        },
        ..*row
    };
    let first = rounds.first().map_or(&[][..], |round| round);
    first.iter().enumerate().map(row).collect()
}

impl Report {
    pub(crate) const fn new(what: &'static str, transport: &'static str, size: Size) -> Self {
        Self {
            what,
            transport,
            rounds: size.rounds,
            in_flight: 1,
            rows: Vec::new(),
            bytes: Vec::new(),
        }
    }

    /// Latency and throughput as multiples of the floor's, of the same size in the same run.
    fn ratio(&self, row: &Row) -> Option<(f64, f64)> {
        let floor = floor_of(row.system)?;
        let mut rows = self.rows.iter();
        let floor = rows.find(|other| other.system == floor && other.bytes == row.bytes)?;
        Some((
            row.figures.p50_us / floor.figures.p50_us,
            row.figures.per_s / floor.figures.per_s,
        ))
    }

    /// For people.
    pub(crate) fn text(&self) -> String {
        let mut out = format!(
            "{}: {}, loopback, medians of {} rounds.\n\n",
            self.transport, self.what, self.rounds
        );
        let _ = writeln!(
            out,
            "| value | system | p50 / p99 us, {} in flight | calls/s, {IN_FLIGHT} in flight | p50, calls/s to the floor |\n|---|---|---|---|---|",
            self.in_flight
        );
        for row in &self.rows {
            let Figures {
                p50_us,
                p99_us,
                per_s,
            } = row.figures;
            let ratio = self.ratio(row).map_or_else(String::new, |(latency, rate)| {
                format!("{latency:.2}x, {:.1} %", 100.0 * rate)
            });
            let _ = writeln!(
                out,
                "| {} B | {} | {p50_us:.1} / {p99_us:.1} | {per_s:.0} | {ratio} |",
                row.bytes, row.system
            );
        }
        if self.bytes.is_empty() {
            return out;
        }
        let _ = writeln!(
            out,
            "\n| one more of 1000 elements of 16 B travels as | bytes per update, Majority | Local, spread |\n|---|---|---|"
        );
        for Bytes {
            system,
            majority,
            local,
        } in &self.bytes
        {
            let _ = writeln!(out, "| {system} | {majority:.0} | {local:.0} |");
        }
        out
    }
}

/// One object per transport.
pub(crate) fn json(reports: &[Report]) -> String {
    let row = |report: &Report, row: &Row| {
        let Figures {
            p50_us,
            p99_us,
            per_s,
        } = row.figures;
        let ratio = report.ratio(row).map_or_else(String::new, |(latency, rate)| {
            format!(",\"ratio\":{{\"p50\":{latency:.3},\"per_s\":{rate:.4}}}")
        });
        format!(
            "{{\"system\":\"{}\",\"value_bytes\":{},\"p50_us\":{p50_us:.2},\"p99_us\":{p99_us:.2},\"per_s\":{per_s:.0}{ratio}}}",
            row.system, row.bytes
        )
    };
    let bytes = |bytes: &Bytes| {
        format!(
            "{{\"system\":\"{}\",\"majority\":{:.0},\"local\":{:.0}}}",
            bytes.system, bytes.majority, bytes.local
        )
    };
    let object = |report: &Report| {
        let rows: Vec<String> = report.rows.iter().map(|each| row(report, each)).collect();
        let bytes: Vec<String> = report.bytes.iter().map(bytes).collect();
        format!(
            "{{\"transport\":\"{}\",\"rows\":[{}],\"bytes_per_update\":[{}]}}",
            report.transport,
            rows.join(","),
            bytes.join(",")
        )
    };
    let objects: Vec<String> = reports.iter().map(object).collect();
    format!("{{\"transports\":[{}]}}", objects.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_system_is_compared_with_the_floor_of_its_size() {
        let row = |system, bytes, p50_us| Row {
            system,
            bytes,
            figures: Figures {
                p50_us,
                p99_us: 9.0,
                per_s: 1.0,
            },
        };
        let mut report = Report::new("calls", "t", Size::QUICK);
        report.rows = vec![
            row("redb alone", 16, 2.0),
            row("redb alone", 1024, 4.0),
            row("Local, durable", 1024, 8.0),
            row("Local", 1024, 8.0),
        ];
        let ratios: Vec<_> = report.rows.iter().map(|row| report.ratio(row)).collect();
        assert_eq!(ratios, [None, None, Some((2.0, 1.0)), None]);
    }
}
