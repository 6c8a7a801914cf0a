//! `docs/limits.md` names every limit, and only settings and counters that exist.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

fn read(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The public fields of a struct.
fn fields(path: &str, name: &str) -> BTreeSet<String> {
    let text = read(path);
    let body = text
        .split_once(&format!("pub struct {name} {{"))
        .and_then(|(_, rest)| rest.split_once("\n}"));
    let (body, _) = body.unwrap_or_else(|| panic!("no struct {name} in {path}"));
    let field = |line: &str| Some(line.trim().strip_prefix("pub ")?.split_once(':')?.0.to_owned());
    body.lines().filter_map(field).collect()
}

/// What the core counts: the node itself, and each machine in its `protocol::counters`.
fn core_counters() -> BTreeSet<String> {
    quorate_core::stats::Stats::default()
        .iter()
        .map(|(name, _)| name.to_owned())
        .collect()
}

/// What stands in backquotes.
fn quoted(cell: &str) -> Vec<&str> {
    cell.split('`').skip(1).step_by(2).collect()
}

#[test]
fn every_limit_has_a_setting_and_a_counter_that_exist() {
    let text = read("docs/limits.md");
    let (_, rest) = text
        .split_once("<!-- limits: ")
        .expect("the tables' beginning is marked");
    let (tables, _) = rest
        .split_once("<!-- end of limits -->")
        .expect("the tables' end is marked");
    let core = core_counters();
    let mut host = fields("links/src/stats.rs", "LinkStats");
    host.extend(fields("adapters/driver/src/stats.rs", "HostStats"));
    let documented = read("docs/configuration.md");
    let mut named = BTreeSet::new();
    let rows = tables
        .lines()
        .filter(|line| line.starts_with("| ") && !line.starts_with("| limit |"));
    for row in rows {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        let [limit, setting, past, counters] = cells[..] else {
            panic!("not four cells: {row}");
        };
        assert!(!setting.is_empty() && !past.is_empty(), "{limit}");
        for setting in quoted(setting) {
            assert!(
                ["", "†"]
                    .iter()
                    .any(|mark| documented.contains(&format!("\n* `{setting}`{mark}: "))),
                "{limit}: no setting {setting}"
            );
            named.insert(setting.to_owned());
        }
        let counters = if counters == "as above" {
            Vec::new()
        } else {
            quoted(counters)
        };
        for counter in counters {
            assert!(
                core.contains(counter) || host.contains(counter),
                "{limit}: no counter {counter}"
            );
        }
    }
    let keys = |path, name, section: &str| {
        let fields = fields(path, name).into_iter();
        fields
            .map(|field| format!("{section}.{field}"))
            .collect::<BTreeSet<String>>()
    };
    let mut settings = keys("core/src/config/limits.rs", "Limits", "limits");
    settings.extend(keys("links/src/settings/mod.rs", "LinkLimits", "links"));
    let missing: Vec<&String> = settings.difference(&named).collect();
    assert!(missing.is_empty(), "not in docs/limits.md: {missing:?}");
}

/// What stands between two comments of `docs/limits.md`.
fn between<'t>(text: &'t str, begin: &str, end: &str) -> &'t str {
    let rest = text.split_once(begin).map(|(_, rest)| rest);
    let found = rest.and_then(|rest| rest.split_once(end));
    found.unwrap_or_else(|| panic!("no {begin}")).0
}

/// Names of tests below a folder.
fn tests_below(folder: &Path, found: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).expect("a readable folder") {
        let path = entry.expect("a readable entry").path();
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
        if path.is_dir() {
            if name.is_some_and(|name| name != "target") {
                tests_below(&path, found);
            }
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).unwrap_or_default();
            let lines = text.lines().map(str::trim);
            let name = |line: &str| Some(line.strip_prefix("fn ")?.split_once('(')?.0.to_owned());
            found.extend(lines.filter_map(name));
        }
    }
}

#[test]
fn i_100_every_number_that_only_grows_has_a_row_with_its_bounds_and_a_test() {
    let text = read("docs/limits.md");
    let rows = between(&text, "<!-- numbers: checked", "<!-- end of numbers -->");
    let mut tests = BTreeSet::new();
    for folder in [
        "core/src",
        "core/tests",
        "links",
        "adapters/driver/src",
        "tests/tests",
        "tests/driver",
    ] {
        tests_below(
            &Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(folder),
            &mut tests,
        );
    }
    let mut missing = Vec::new();
    for row in rows.lines().filter(|line| line.starts_with("| ")).skip(1) {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        assert_eq!(cells.len(), 6, "not six cells: {row}");
        assert!(cells.iter().all(|cell| !cell.is_empty()), "an empty cell: {row}");
        let named = quoted(cells[5]);
        assert!(!named.is_empty(), "no test: {row}");
        missing.extend(
            named
                .into_iter()
                .filter(|test| !tests.contains(*test))
                .map(str::to_owned),
        );
    }
    assert!(missing.is_empty(), "no such tests: {missing:#?}");
    // Each field of WIRE.md that is wide enough to count in is named here.
    let wire = read("docs/WIRE.md");
    let section = between(&text, "## Numbers that only grow", "\n## ");
    let known: BTreeSet<&str> = quoted(section).into_iter().collect();
    for field in quoted(&wire) {
        let Some((kind, name)) = field.split_once(' ') else {
            continue;
        };
        let is_wide = ["u32", "u64", "u128", "i64"].contains(&kind);
        // Rows that are made of declarations have spaces.
        let name = name.replace(' ', "_");
        let is_name = name.chars().all(|c| c.is_ascii_lowercase() || c == '_');
        assert!(
            !is_wide || !is_name || known.contains(&*name),
            "no row for {field}"
        );
    }
}
