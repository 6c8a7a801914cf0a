//! Every number that sources and documents cite (`membership 2.8`, `M-064`, `s_098_…`, `I-44`) is defined in
//! `docs/protocol/` (excluded cases: `tests/coverage/`), and nothing cites a document that is not in the
//! repository.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Pages whose sections are cited by number.
const PAGES: [&str; 3] = ["membership", "sharding", "reliability"];
/// Kinds of cases that are cited by a letter and a number.
const LETTERS: [&str; 8] = ["M", "S", "I", "B", "F", "PF", "P", "U"];
/// Words that, followed by a number, named documents which only the authors had.
const FOREIGN: [&str; 6] = [
    "architecture",
    "conventions",
    "performance",
    "dependencies",
    "style",
    "issue",
];
/// Folders whose sources and documents are read.
const FOLDERS: [&str; 6] = ["core", "adapters", "tests", "examples", "fuzz", "docs"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn files(below: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(below).expect("readable folder") {
        let path = entry.expect("readable entry").path();
        let name = path
            .file_name()
            .map(|n| n.to_string_lossy().into_owned())
            .unwrap_or_default();
        if path.is_dir() {
            if name != "target" && name != "corpus" && name != "golden" && !name.starts_with('.') {
                files(&path, found);
            }
        } else if name.ends_with(".rs") || name.ends_with(".md") {
            found.push(path);
        }
    }
}

/// The number a heading or a line of a list begins with: `2`, `2.8`, `3a`.
fn leading_number(text: &str) -> Option<&str> {
    let end = text
        .find(|c: char| !c.is_ascii_alphanumeric() && c != '.')
        .unwrap_or(text.len());
    let number = text[..end].trim_end_matches('.');
    is_section(number).then_some(number)
}

/// Digits, then parts of digits, then at most one letter.
fn is_section(text: &str) -> bool {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_lowercase());
    text.len() - digits.len() <= 1
        && !digits.is_empty()
        && digits
            .split('.')
            .all(|part| !part.is_empty() && part.len() <= 2 && part.bytes().all(|b| b.is_ascii_digit()))
}

/// The sections of a page: headings, and the points of a list right below a heading of one number.
fn sections(page: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut chapter = None;
    for line in page.lines() {
        if line.starts_with('#') {
            let number = leading_number(line.trim_start_matches('#').trim_start());
            found.extend(number.map(str::to_owned));
            chapter = number.filter(|_| line.starts_with("## ")).map(str::to_owned);
        } else if let (Some(chapter), Some((point, _))) = (&chapter, line.split_once(". "))
            && !point.is_empty()
            && point.bytes().all(|b| b.is_ascii_digit())
        {
            found.insert(format!("{chapter}.{point}"));
        }
    }
    found
}

/// The ids (`M-064`) that stand in a text.
fn ids(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let bytes = text.as_bytes();
    for letter in LETTERS {
        let sign = format!("{letter}-");
        for (at, _) in text.match_indices(&sign) {
            let begins =
                at == 0 || !(bytes[at - 1].is_ascii_alphanumeric() || b"-_/".contains(&bytes[at - 1]));
            let number: String = text[at + sign.len()..]
                .chars()
                .take_while(char::is_ascii_digit)
                .collect();
            let after = text[at + sign.len() + number.len()..].chars().next();
            let ends = after.is_none_or(|c| !c.is_ascii_alphanumeric() && c != '-' && c != '_');
            if begins && ends && !number.is_empty() && number.len() <= 3 {
                found.insert(format!("{letter}-{number}"));
            }
        }
    }
    found
}

/// The ids that a line defines: those in front of the colon of a point (`* M-029 to M-037: ...`).
fn defined_by(line: &str) -> BTreeSet<String> {
    let head = line.strip_prefix("* ").and_then(|point| point.split_once(": "));
    let head = head.map_or("", |(head, _)| head);
    let mut found = ids(head);
    let number = |id: &str| {
        id.split_once('-')
            .and_then(|(_, digits)| digits.parse::<u16>().ok())
    };
    if let Some((first, last)) = head.split_once(" to ")
        && let (Some(letter), Some(first), Some(last)) =
            (first.split('-').next(), number(first), number(last))
    {
        found.extend((first..last).map(|number| format!("{letter}-{number:03}")));
    }
    let is_list = head
        .replace(" to ", ", ")
        .split(", ")
        .all(|id| found.contains(id));
    if is_list { found } else { BTreeSet::new() }
}

/// The ids that the name of a test carries: `m_064`, `i_23`.
fn ids_of_name(name: &str) -> BTreeSet<String> {
    let words: Vec<&str> = name.split('_').collect();
    let cases = [("m", 3), ("s", 3), ("i", 2), ("b", 2)];
    words
        .windows(2)
        .filter_map(|pair| {
            let (letter, digits) = cases.iter().find(|(letter, _)| *letter == pair[0])?;
            (pair[1].len() == *digits && pair[1].bytes().all(|b| b.is_ascii_digit()))
                .then(|| format!("{}-{}", letter.to_uppercase(), pair[1]))
        })
        .collect()
}

/// The sections that a text cites of one page: `membership 2.1, 2.2 and 8.10`.
fn cited_sections(text: &str, page: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for (at, _) in text.match_indices(page) {
        let mut rest = &text[at + page.len()..];
        while let Some(next) = [" §", " ", ", §", ", ", " and ", " to ", "-"]
            .iter()
            .find_map(|between| {
                rest.strip_prefix(between)
                    .filter(|rest| leading_number(rest).is_some())
            })
        {
            let number = leading_number(next).unwrap_or_default();
            // A plain number behind a word is prose ("membership 3 nodes later") unless a sign ends it.
            rest = &next[number.len()..];
            let is_prose = !number.contains('.') && rest.starts_with(' ') && !rest.starts_with(" (");
            if !is_prose {
                found.insert(number.to_owned());
            }
        }
    }
    found
}

fn is_comment_or_prose(path: &Path, line: &str) -> bool {
    path.extension().is_some_and(|e| e == "md") || line.trim_start().starts_with("//")
}

struct Defined {
    sections: BTreeMap<&'static str, BTreeSet<String>>,
    ids: BTreeSet<String>,
}

fn defined() -> Defined {
    let folder = root().join("docs/protocol");
    let sections = PAGES
        .iter()
        .map(|page| (*page, sections(&read(&folder.join(format!("{page}.md"))))))
        .collect();
    let mut defined = BTreeSet::new();
    let mut pages = Vec::new();
    files(&folder, &mut pages);
    for page in pages {
        for line in read(&page).lines() {
            defined.extend(defined_by(line));
        }
    }
    // Cases without a test stand with their reason in the tables that `coverage` checks.
    for table in ["m_cases", "s_cases"] {
        let text = read(&root().join(format!("tests/coverage/{table}.md")));
        let (_, excluded) = text.split_once("\n## Excluded\n").expect("what is excluded");
        let cells = excluded
            .lines()
            .filter_map(|row| row.strip_prefix("| ")?.split(" |").next());
        defined.extend(cells.flat_map(ids));
    }
    Defined {
        sections,
        ids: defined,
    }
}

fn check(path: &Path, text: &str, defined: &Defined) -> Vec<String> {
    let mut faults = Vec::new();
    let mut fault = |number: usize, what: String| {
        faults.push(format!("{}:{}: {what}", path.display(), number + 1));
    };
    for (number, line) in text.lines().enumerate() {
        if let Some((_, name)) = line.split_once("fn ") {
            let name = name.split('(').next().unwrap_or_default();
            for id in ids_of_name(name).difference(&defined.ids) {
                fault(number, format!("{id} is defined nowhere"));
            }
        }
        if !is_comment_or_prose(path, line) {
            continue;
        }
        for id in ids(line).difference(&defined.ids) {
            fault(number, format!("{id} is defined nowhere"));
        }
        for page in PAGES {
            for section in cited_sections(line, page).difference(&defined.sections[page]) {
                fault(number, format!("{page} {section} is defined nowhere"));
            }
        }
        for word in FOREIGN {
            if line.contains("Spec:") && !cited_sections(line, word).is_empty() {
                fault(
                    number,
                    format!("cites \"{word}\", which is not in the repository"),
                );
            }
        }
    }
    faults
}

#[test]
fn every_number_that_is_cited_is_defined_in_the_protocol() {
    let defined = defined();
    let mut sources = Vec::new();
    for folder in FOLDERS {
        files(&root().join(folder), &mut sources);
    }
    let protocol = root().join("docs/protocol");
    let faults: Vec<String> = sources
        .iter()
        .filter(|path| !path.starts_with(&protocol) && !path.ends_with("tests/protocol.rs"))
        .flat_map(|path| check(path, &read(path), &defined))
        .collect();
    assert!(
        faults.is_empty(),
        "{} faults:\n{}",
        faults.len(),
        faults.join("\n")
    );
}

#[test]
fn a_number_without_a_definition_is_found() {
    let defined = defined();
    let path = Path::new("x.rs");
    let faults = |line: &str| check(path, line, &defined).len();
    assert_eq!(
        faults("//! Spec: membership 2.8, 8.5 and 3.6; sharding 10.14; reliability 3b, I-44."),
        0
    );
    assert_eq!(faults("//! Spec: membership 2.99."), 1);
    assert_eq!(faults("//! Spec: membership 2.8, 8.77; I-999."), 2);
    assert_eq!(faults("fn m_064_and_s_999_hold() {}"), 1);
    assert_eq!(faults("//! Spec: architecture 4."), 1);
    assert_eq!(faults("let membership = 2.99; // not cited"), 0);
}

#[test]
fn a_point_defines_what_stands_before_its_colon() {
    let of = |line: &str| defined_by(line).into_iter().collect::<Vec<String>>().join(" ");
    assert_eq!(of("* M-007: as I-44 says: no"), "M-007");
    assert_eq!(of("* M-029 to M-031: each"), "M-029 M-030 M-031");
    assert_eq!(of("* S-010, S-011: both"), "S-010 S-011");
    assert_eq!(of("* as I-44 says: no"), "");
    assert_eq!(of("M-007: not a point"), "");
}
