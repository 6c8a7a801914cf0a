//! `SECURITY.md` names only counters, settings, events, functions and tests that exist.

use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn sources(folder: &Path, out: &mut String) {
    for entry in fs::read_dir(folder).expect("a folder of sources") {
        let path = entry.expect("an entry").path();
        if path.is_dir() && !path.ends_with("target") {
            sources(&path, out);
        } else if path.extension().is_some_and(|end| end == "rs") {
            out.push_str(&fs::read_to_string(&path).expect("a source file"));
        }
    }
}

#[test]
fn what_the_security_document_names_exists() {
    let text = fs::read_to_string(root().join("SECURITY.md")).expect("SECURITY.md");
    let mut code = String::new();
    for folder in [
        "core/src",
        "core/tests",
        "adapters",
        "examples/src",
        "tests/src",
        "tests/soak/src",
        "tests/tests",
    ] {
        sources(&root().join(folder), &mut code);
    }
    let mut checked = 0;
    for quoted in text.split('`').skip(1).step_by(2) {
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        for name in quoted.split(|c| !is_name(c)).filter(|name| name.contains('_')) {
            assert!(code.contains(name), "SECURITY.md: no `{name}` in the sources");
            checked += 1;
        }
    }
    assert!(
        checked > 30,
        "only {checked} names: is the document still in this form?"
    );
    for heading in [
        "## Forged state",
        "## Not in the threat model",
        "## Reporting a vulnerability",
    ] {
        assert!(text.contains(heading), "no {heading}");
    }
}

/// The first cells of the rows of a table below a heading.
fn kinds(text: &str, heading: &str) -> Vec<String> {
    let section = text.lines().skip_while(|line| *line != heading).skip(1);
    let section = section.take_while(|line| !line.starts_with('#'));
    let rows = section.filter(|line| line.starts_with("| ") && !line.contains("*reserved*"));
    let cells = rows.filter_map(|row| Some(row.split('|').nth(1)?.trim().to_owned()));
    cells
        .filter(|cell| cell.starts_with(|first: char| first.is_ascii_digit()))
        .collect()
}

#[test]
fn i_100_every_kind_of_message_has_a_row_that_says_what_a_lying_member_gains_by_it() {
    let read = |name: &str| fs::read_to_string(root().join(name)).expect("a readable page");
    let (wire, security) = (read("docs/WIRE.md"), read("SECURITY.md"));
    let heading = "## What each kind of message is worth to a lying member";
    let stated = kinds(&wire, "## 4. Messages");
    assert!(stated.len() > 30, "{stated:?}");
    assert_eq!(
        kinds(&security, heading),
        stated,
        "kinds in SECURITY.md and in docs/WIRE.md"
    );
    let rows = security.lines().skip_while(|line| *line != heading);
    let rows = rows.filter(|line| stated.iter().any(|kind| line.starts_with(&format!("| {kind} |"))));
    for row in rows {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        assert!(cells.len() == 6 && cells[3].len() > 8, "says too little: {row}");
        assert!(
            cells[4].contains("the liar") || cells[4].contains('`'),
            "no test: {row}"
        );
    }
}
