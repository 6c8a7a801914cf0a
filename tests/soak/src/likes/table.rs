//! How the nodes stand, as the user sees it: a table on a terminal, one line elsewhere.

use super::fleet::Shown;
use quorate_demo::screen::Screen;

/// What each node shows, and a note.
pub(super) fn show(screen: &mut Screen, rows: &[(Shown, &'static str)]) {
    screen.show(|| table(rows), || line(rows));
}

fn line(rows: &[(Shown, &'static str)]) -> String {
    let likes: Vec<String> = rows
        .iter()
        .map(|(shown, note)| format!("{}{}{note}", shown.likes, if note.is_empty() { "" } else { " " }))
        .collect();
    let acknowledged: u64 = rows.iter().map(|(shown, _)| shown.acknowledged).sum();
    let likes = likes.join(" | ");
    format!("likes seen by node: {likes}; {acknowledged} acknowledged")
}

fn table(rows: &[(Shown, &'static str)]) -> String {
    let mut table = String::from("  node    updates  acknowledged     likes  followers  replica\n");
    for (index, (shown, note)) in rows.iter().enumerate() {
        table += &format!(
            "  {:<4} {:>10} {:>13} {:>9} {:>10}  {:<8.8} {note}\n",
            index + 1,
            shown.updates,
            shown.acknowledged,
            shown.likes,
            shown.fans,
            shown.digest
        );
    }
    table
}
