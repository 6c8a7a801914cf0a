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
        let [limit, setting, _, past, counters] = cells[..] else {
            panic!("not five cells: {row}");
        };
        assert!(!past.is_empty(), "{limit}");
        for setting in quoted(setting) {
            assert!(
                documented.contains(&format!("| `{setting}` |")),
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
    settings.extend(keys("links/src/settings.rs", "LinkLimits", "links"));
    let missing: Vec<&String> = settings.difference(&named).collect();
    assert!(missing.is_empty(), "not in docs/limits.md: {missing:?}");
}
