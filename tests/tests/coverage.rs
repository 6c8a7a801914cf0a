//! The tables of the specification's cases (`coverage/m_cases.md`, `coverage/s_cases.md`) against the tests
//! that name them, both ways. It proves that a test carries the number, not that the test is good.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn number(text: &str) -> Option<u16> {
    text.get(..3)
        .filter(|t| t.bytes().all(|b| b.is_ascii_digit()))?
        .parse()
        .ok()
}

/// The numbers of a test's name: those written out, and those that a range spans.
fn named_by(name: &str, letter: &str) -> (BTreeSet<u16>, BTreeSet<u16>) {
    let (mut written, mut spanned) = (BTreeSet::new(), BTreeSet::new());
    let mut last = None;
    for part in name.split(&format!("{letter}_")).collect::<Vec<_>>().windows(2) {
        let Some(this) = number(part[1]) else { continue };
        if let Some(first) = last.filter(|_| part[0].ends_with("_to_")) {
            spanned.extend(first..this);
        }
        written.insert(this);
        last = Some(this);
    }
    (written, spanned)
}

fn tests_below(folder: &Path, names: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).expect("readable folder") {
        let path = entry.expect("readable entry").path();
        let name = path
            .file_name()
            .map(|n| n.to_string_lossy().into_owned())
            .unwrap_or_default();
        if path.is_dir() && name != "target" && !name.starts_with('.') {
            tests_below(&path, names);
        } else if name.ends_with(".rs") {
            let text = fs::read_to_string(&path).expect("readable file");
            // What the suite of all adapters shows is a test of each of them, made by its macros; what
            // `tests/driver` shows is one too.
            let is_suite = path.components().any(|part| part.as_os_str() == "conformance")
                || folder.ends_with("tests/driver/src")
                || folder
                    .parent()
                    .is_some_and(|above| above.ends_with("tests/driver/src"));
            let mut is_test = false;
            for line in text.lines().map(str::trim) {
                let is_shown = is_suite && (line.starts_with("pub fn ") || line.starts_with("pub async fn "));
                if is_shown && let Some((_, rest)) = line.split_once("fn ") {
                    names.insert(rest.split(['(', '<']).next().unwrap_or_default().to_owned());
                } else if line.starts_with("#[test]") || line.starts_with("#[tokio::test") {
                    is_test = true;
                } else if let Some((_, rest)) = line.split_once("fn ") {
                    if is_test {
                        names.insert(rest.split('(').next().unwrap_or_default().to_owned());
                    }
                    is_test = false;
                }
            }
        }
    }
}

/// The cases of one part of the table.
fn part(table: &str, title: &str) -> BTreeSet<u16> {
    let text = table
        .split("\n## ")
        .find(|p| p.starts_with(title))
        .expect("the table has this part");
    let mut cases = BTreeSet::new();
    for row in text.lines().filter(|l| l.starts_with("| ")) {
        let cell = row
            .split('|')
            .nth(if title == "Known" { 3 } else { 1 })
            .unwrap_or_default();
        for item in cell
            .split_whitespace()
            .map(|i| i.trim_start_matches("M-").trim_start_matches("S-"))
        {
            if let Some(first) = number(item) {
                cases.extend(first..=item.get(4..).and_then(number).unwrap_or(first));
            }
        }
    }
    cases
}

/// Checks one table. `is_whole`: it knows every case of its letter, so that a test may name no other.
fn check(letter: &str, known_min: usize, is_whole: bool) {
    let file = format!("tests/coverage/{letter}_cases.md");
    let table = fs::read_to_string(root().join(file)).expect("the table");
    let (known, excluded, open) = (
        part(&table, "Known"),
        part(&table, "Excluded"),
        part(&table, "Open"),
    );
    let mut names = BTreeSet::new();
    tests_below(&root(), &mut names);
    let (mut written, mut covered) = (BTreeSet::new(), BTreeSet::new());
    for name in &names {
        let (own, between) = named_by(name, letter);
        covered.extend(own.iter().chain(&between).copied());
        written.extend(own);
    }
    if !is_whole {
        written = &written & &known;
        covered = &covered & &known;
    }
    let untested: BTreeSet<u16> = &excluded | &open;
    assert!(
        known.len() >= known_min && !covered.is_empty(),
        "the table or the tests were not found"
    );
    assert_eq!(&excluded & &open, BTreeSet::new(), "in both tables");
    assert_eq!(
        &written - &known,
        BTreeSet::new(),
        "named by a test, unknown to the table"
    );
    assert_eq!(
        &untested - &known,
        BTreeSet::new(),
        "in a table, but not a known case"
    );
    assert_eq!(
        &(&known - &covered) - &untested,
        BTreeSet::new(),
        "neither tested nor in a table"
    );
    assert_eq!(
        &untested & &covered,
        BTreeSet::new(),
        "in a table although a test names it"
    );
}

#[test]
fn every_m_case_is_tested_or_stands_in_the_table() {
    check("m", 300, true);
}

/// The table knows the sections whose machines are built; more come with theirs.
#[test]
fn every_s_case_of_a_listed_section_is_tested_or_stands_in_the_table() {
    check("s", 49, false);
}

#[test]
fn a_range_spans_what_lies_between_and_a_pair_does_not() {
    let (written, spanned) = named_by("m_029_to_m_032_and_m_040_hold", "m");
    assert_eq!(written, BTreeSet::from([29, 32, 40]));
    assert_eq!(spanned, BTreeSet::from([29, 30, 31]));
}
