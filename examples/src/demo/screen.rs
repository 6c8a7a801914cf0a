//! What the user of the demo sees below its lines: how far it is, and what each node does. Knows no cluster.

use crate::screen::Screen;

/// Cells of the bar; with its numbers a line stays below 80 columns.
const BAR_CELLS: usize = 40;

/// One row of the block: a node.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) files: u64,
    pub(crate) shards: usize,
    pub(crate) note: &'static str,
}

/// How far it is. `rows` is only asked for when something is drawn.
pub(crate) fn progress(screen: &mut Screen, done: usize, all: usize, rows: impl Fn() -> Vec<Row>) {
    screen.show(|| block(done, all, &rows()), || line(done, all, &rows()));
}

fn line(done: usize, all: usize, rows: &[Row]) -> String {
    let node = |row: &Row| {
        format!(
            "{}{} {} files {} shards",
            row.name, row.note, row.files, row.shards
        )
    };
    let nodes: Vec<String> = rows.iter().map(node).collect();
    let percent = percent(done, all);
    format!("{done} of {all} files ({percent} %); {}", nodes.join(", "))
}

fn block(done: usize, all: usize, rows: &[Row]) -> String {
    let full = BAR_CELLS * done / all.max(1);
    let (bar, rest) = ("#".repeat(full), ".".repeat(BAR_CELLS - full));
    let mut block = format!(
        "[{bar}{rest}] {:>3} %  {done} of {all} files\n",
        percent(done, all)
    );
    for row in rows {
        block += &format!(
            "  {:<8} {:>8} files {:>5} shards{}\n",
            row.name, row.files, row.shards, row.note
        );
    }
    block
}

fn percent(done: usize, all: usize) -> usize {
    100 * done / all.max(1)
}
