//! The result as a table for people and as one line for programs. Only formats.

use std::fmt::Write;

use crate::measure::{Figures, IN_FLIGHT, Size};

/// Where the entities are, and what stands beside them.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Where {
    /// In the other process; a bare link.
    Peer,
    /// In the asking process; bare channels.
    Here,
}

impl Where {
    const fn names(self) -> [&'static str; 2] {
        match self {
            Self::Peer => ["sharded entities", "bare link"],
            Self::Here => ["entities of this node", "bare channels"],
        }
    }

    const fn word(self) -> &'static str {
        match self {
            Self::Peer => "peer",
            Self::Here => "here",
        }
    }
}

/// Both systems with one size of payload.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row {
    pub(crate) bytes: usize,
    pub(crate) place: Where,
    pub(crate) ours: Figures,
    pub(crate) bare: Figures,
}

/// All rows of one transport.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    pub(crate) transport: &'static str,
    pub(crate) rows: Vec<Row>,
}

impl Table {
    /// For people.
    pub(crate) fn text(&self, size: Size) -> String {
        text(self.transport, &self.rows, size)
    }
}

fn text(transport: &str, rows: &[Row], size: Size) -> String {
    let mut out = format!(
        "{transport}: medians of {} rounds, two processes, loopback.\n\n",
        size.rounds
    );
    let head = format!("asks/s, {IN_FLIGHT} in flight");
    let _ = writeln!(
        out,
        "| payload | system | ask p50 / p99 us, 1 in flight | {head} | one-way/s | arrived |\n|---|---|---|---|---|---|"
    );
    for row in rows {
        for (name, f) in row.place.names().into_iter().zip([row.ours, row.bare]) {
            let _ = writeln!(
                out,
                "| {} B | {name} | {:.1} / {:.1} | {:.0} | {:.0} | {:.1} % |",
                row.bytes,
                f.ask_p50_us,
                f.ask_p99_us,
                f.asks_per_s,
                f.tells_per_s,
                100.0 * f.tells_arrived
            );
        }
        let ratio = ratios(row);
        let _ = writeln!(
            out,
            "| {} B | ratio | {:.2}x | {:.1} % | {:.1} % | |",
            row.bytes,
            ratio.ask_p50,
            100.0 * ratio.asks,
            100.0 * ratio.tells
        );
    }
    out
}

/// One object per transport and payload.
pub(crate) fn json(tables: &[Table]) -> String {
    let figures = |f: Figures| {
        format!(
            "{{\"ask_p50_us\":{:.2},\"ask_p99_us\":{:.2},\"asks_per_s\":{:.0},\"tells_per_s\":{:.0},\"tells_arrived\":{:.4}}}",
            f.ask_p50_us, f.ask_p99_us, f.asks_per_s, f.tells_per_s, f.tells_arrived
        )
    };
    let rows = tables
        .iter()
        .flat_map(|table| table.rows.iter().map(|row| (table.transport, row)));
    let objects: Vec<String> = rows
        .map(|(transport, row)| {
            let ratio = ratios(row);
            format!(
                "{{\"transport\":\"{transport}\",\"payload_bytes\":{},\"where\":\"{}\",\"sharded\":{},\"bare\":{},\"ratio\":{{\"ask_p50\":{:.3},\"asks_per_s\":{:.4},\
                 \"tells_per_s\":{:.4}}}}}",
                row.bytes,
                row.place.word(),
                figures(row.ours),
                figures(row.bare),
                ratio.ask_p50,
                ratio.asks,
                ratio.tells
            )
        })
        .collect();
    format!("{{\"rows\":[{}]}}", objects.join(","))
}

struct Ratios {
    ask_p50: f64,
    asks: f64,
    tells: f64,
}

fn ratios(row: &Row) -> Ratios {
    Ratios {
        ask_p50: row.ours.ask_p50_us / row.bare.ask_p50_us,
        asks: row.ours.asks_per_s / row.bare.asks_per_s,
        tells: row.ours.tells_per_s / row.bare.tells_per_s,
    }
}
