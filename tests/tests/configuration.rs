//! The table of `docs/configuration.md` is what the sources say about their settings, and every setting is
//! read by somebody. `QUORATE_BLESS=1` writes the table anew.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

const BEGIN: &str = "<!-- settings: from the sources, see tests/tests/configuration.rs -->\n";
const END: &str = "<!-- end of settings -->";

struct Setting {
    key: String,
    field: String,
    about: String,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The fields of a struct with their documentation.
fn settings_of(path: &str, name: &str, prefix: &str) -> Vec<Setting> {
    let text = read(path);
    let body = text
        .split_once(&format!("pub struct {name} {{\n"))
        .and_then(|(_, rest)| rest.split_once("\n}"))
        .unwrap_or_else(|| panic!("no struct {name} in {path}"))
        .0;
    let mut found = Vec::new();
    let mut about = String::new();
    for line in body.lines().map(str::trim) {
        if let Some(words) = line.strip_prefix("///") {
            about.push_str(words);
        } else if let Some((field, _)) = line.strip_prefix("pub ").and_then(|rest| rest.split_once(':')) {
            found.push(Setting {
                key: format!("{prefix}{field}"),
                field: field.to_owned(),
                about: core::mem::take(&mut about).trim().to_owned(),
            });
        }
    }
    found
}

fn settings() -> Vec<Setting> {
    let (main, downing, limits) = (
        "core/src/config/mod.rs",
        "core/src/config/downing/mod.rs",
        "core/src/config/limits.rs",
    );
    let sections = [
        "membership",
        "failure_detector",
        "downing",
        "sharding",
        "singleton",
        "journal",
        "shutdown",
        "executor",
        "load",
        "paths",
        "kv",
        "ddata",
        "limits",
    ];
    let mut all = settings_of(main, "Config", "");
    all.retain(|setting| !sections.contains(&setting.field.as_str()));
    all.extend(settings_of(
        "core/src/config/membership.rs",
        "MembershipConfig",
        "membership.",
    ));
    all.extend(settings_of(
        "core/src/config/detector.rs",
        "FailureDetectorConfig",
        "failure_detector.",
    ));
    all.extend(settings_of(downing, "DowningConfig", "downing."));
    all.extend(settings_of(downing, "LeaseMajorityConfig", "downing.strategy."));
    all.extend(settings_of(
        "core/src/config/sharding.rs",
        "ShardingConfig",
        "sharding.",
    ));
    all.extend(settings_of(
        "core/src/config/singleton.rs",
        "SingletonConfig",
        "singleton.",
    ));
    all.extend(settings_of(
        "core/src/config/journal.rs",
        "JournalConfig",
        "journal.",
    ));
    all.extend(settings_of(
        "core/src/config/shutdown.rs",
        "ShutdownConfig",
        "shutdown.",
    ));
    all.extend(settings_of(
        "core/src/config/executor.rs",
        "ExecutorConfig",
        "executor.",
    ));
    all.extend(settings_of("core/src/config/load.rs", "LoadConfig", "load."));
    all.extend(settings_of("core/src/config/paths.rs", "PathsConfig", "paths."));
    all.extend(settings_of("core/src/config/kv.rs", "KvConfig", "kv."));
    all.extend(settings_of("core/src/config/ddata.rs", "DdataConfig", "ddata."));
    all.extend(settings_of(limits, "Limits", "limits."));
    all.extend(settings_of("links/src/settings/mod.rs", "LinkLimits", "links."));
    all
}

/// A point of a list, in lines of 110 columns. What would begin something else at a line's beginning
/// (`> 0`: a quotation) stays behind the word before it.
fn wrapped(point: &str) -> String {
    let mut words: Vec<String> = Vec::new();
    for word in point.split(' ') {
        let begins_something = word.starts_with(['>', '#', '|', '+', '-']);
        match words.last_mut().filter(|_| begins_something) {
            Some(last) => *last += &format!(" {word}"),
            None => words.push(word.to_owned()),
        }
    }
    let (mut lines, mut column) = (String::new(), 0);
    for word in words {
        let width = word.chars().count();
        if column > 0 && column + 1 + width > 110 {
            lines.push_str("\n  ");
            column = 2;
        } else if column > 0 {
            lines.push(' ');
            column += 1;
        }
        lines.push_str(&word);
        column += width;
    }
    lines + "\n"
}

/// The points of a list between two marks, each in one line.
fn points_between(text: &str, begin: &str, end: &str) -> Vec<String> {
    let list = between(text, begin, end).replace("\n  ", " ");
    list.lines()
        .filter_map(|line| Some(line.strip_prefix("* ")?.to_owned()))
        .collect()
}

#[test]
fn the_documented_settings_are_those_of_the_sources() {
    let mut table = String::new();
    for Setting { key, field, about } in settings() {
        assert!(about.len() > 10, "{key} is not documented");
        // The name of Akka's setting says nothing new where it is the same.
        let akkas = field.replace('_', "-");
        let same = ["", ".", "failure-detector."].map(|section| format!(" Mirrors `{section}{akkas}`"));
        let (about, mark) = match same.iter().find_map(|same| about.split_once(same.as_str())) {
            Some((about, "." | "")) => (about.to_owned(), "†"),
            Some((about, rest)) if rest.starts_with(". ") => (format!("{about}{}", &rest[1..]), "†"),
            _ => (about, ""),
        };
        table.push_str(&wrapped(&format!("* `{key}`{mark}: {about}")));
    }
    let path = root().join("docs/configuration.md");
    let text = read("docs/configuration.md");
    let (before, rest) = text.split_once(BEGIN).expect("the table's beginning is marked");
    let (found, after) = rest.split_once(END).expect("the table's end is marked");
    if std::env::var_os("QUORATE_BLESS").is_some() {
        fs::write(path, format!("{before}{BEGIN}{table}{END}{after}")).expect("the document can be written");
        return;
    }
    assert!(
        found == table,
        "docs/configuration.md is not what the sources say: run with QUORATE_BLESS=1"
    );
}

fn sources(folder: &Path, out: &mut String) {
    for entry in fs::read_dir(folder).expect("a folder of sources") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
        if path.is_dir() && !["config", "tests"].contains(&name.unwrap_or_default().as_str()) {
            sources(&path, out);
        } else if path.extension().is_some_and(|end| end == "rs")
            && !path.ends_with("tests.rs")
            && !path.ends_with("links/src/settings/mod.rs")
        {
            out.push_str(&fs::read_to_string(&path).expect("a source file"));
        }
    }
}

#[test]
fn no_setting_exists_that_nothing_reads() {
    let mut text = String::new();
    for folder in ["core/src", "links/src", "adapters/driver/src"] {
        sources(&root().join(folder), &mut text);
    }
    // What the strategies are made of and what all nodes must share is read where the configuration is turned
    // into them.
    text.push_str(&read("core/src/config/downing/mod.rs"));
    let ddata = read("core/src/config/ddata.rs");
    text.push_str(ddata.split("fn check(").next().unwrap_or_default());
    text.push_str(
        read("core/src/config/validate/mod.rs")
            .split("impl Config {")
            .next()
            .unwrap_or_default(),
    );
    let product = |field: &str| {
        let wanted = format!(".{field}");
        let uses = text.match_indices(&wanted);
        uses.filter(|(at, found)| {
            let next = text[at + found.len()..].chars().next().unwrap_or(' ');
            !next.is_alphanumeric() && next != '_'
        })
        .count()
    };
    for Setting { key, field, .. } in settings() {
        // Checking a range is not reading.
        let own = ["roles", "data_center"].contains(&field.as_str());
        assert!(own || product(&field) >= 1, "nothing reads {key}");
    }
}

/// The first column of the rows between two marks.
fn rows_between<'a>(text: &'a str, begin: &str, end: &str) -> Vec<&'a str> {
    let (_, rest) = text.split_once(begin).expect("the table's beginning is marked");
    let (table, _) = rest.split_once(end).expect("the table's end is marked");
    let rows = table.lines().filter_map(|line| line.strip_prefix("| `"));
    rows.filter_map(|row| row.split('`').next()).collect()
}

#[test]
fn every_setting_that_is_compared_on_join_is_documented_with_a_reason() {
    const BEGIN: &str = "<!-- compared on join: from core/src/membership/tests/machine/settings.rs, see tests/tests/configuration.rs -->";
    let document = read("docs/configuration.md");
    let mut documented = rows_between(&document, BEGIN, "<!-- end of compared on join -->");
    // That this table is complete the core's own tests show.
    let source = read("core/src/membership/tests/machine/settings.rs");
    let table = source
        .split_once("const TABLE")
        .and_then(|(_, rest)| rest.split_once("\n];"));
    let (table, _) = table.expect("the table of settings");
    let keys = table.lines().filter_map(|line| line.strip_prefix("        \""));
    let mut compared: Vec<&str> = keys.filter_map(|line| line.strip_suffix("\",")).collect();
    compared.retain(|key| key.contains('.') && !key.contains("-*") && *key != "0.5");
    documented.sort_unstable();
    compared.sort_unstable();
    assert_eq!(documented, compared);
}

/// Every key of Akka for sharding (sharding 4.1), in its order.
const KEYS_OF_SHARDING: &[&str] = &[
    "guardian-name",
    "role",
    "remember-entities",
    "remember-entities-store",
    "state-store-mode",
    "coordinator-failure-backoff",
    "retry-interval",
    "buffer-size",
    "handoff-timeout",
    "shard-start-timeout",
    "shard-failure-backoff",
    "entity-restart-backoff",
    "rebalance-interval",
    "journal-plugin-id",
    "snapshot-plugin-id",
    "snapshot-after",
    "keep-nr-of-batches",
    "least-shard-allocation-strategy.rebalance-threshold",
    "least-shard-allocation-strategy.max-simultaneous-rebalance",
    "least-shard-allocation-strategy.rebalance-absolute-limit",
    "least-shard-allocation-strategy.rebalance-relative-limit",
    "external-shard-allocation-strategy.client-timeout",
    "waiting-for-state-timeout",
    "updating-state-timeout",
    "shard-region-query-timeout",
    "entity-recovery-strategy",
    "entity-recovery-constant-rate-strategy.frequency",
    "entity-recovery-constant-rate-strategy.number-of-entities",
    "coordinator-state.write-majority-plus",
    "coordinator-state.read-majority-plus",
    "event-sourced-remember-entities-store.max-updates-per-write",
    "distributed-data.majority-min-cap",
    "distributed-data.durable.keys",
    "distributed-data.max-delta-elements",
    "distributed-data.prefer-oldest",
    "coordinator-singleton",
    "coordinator-singleton-role-override",
    "use-dispatcher",
    "passivation.strategy",
    "passivation.default-strategy",
    "use-lease",
    "lease-retry-interval",
    "verbose-debug-logging",
    "fail-on-invalid-entity-state-transition",
    "healthcheck.names",
    "healthcheck.timeout",
    "healthcheck.disabled-after",
    "sharded-daemon-process.keep-alive-interval",
    "number-of-shards",
];

/// Every source file of the crates and their tests.
fn all_sources() -> String {
    fn collect(folder: &Path, out: &mut String) {
        for entry in fs::read_dir(folder).expect("a folder of sources") {
            let path = entry.expect("an entry").path();
            if path.is_dir() && !path.ends_with("target") {
                collect(&path, out);
            } else if path.extension().is_some_and(|end| end == "rs") {
                out.push_str(&fs::read_to_string(&path).expect("a source file"));
            }
        }
    }
    let mut text = String::new();
    for folder in ["core/src", "adapters", "tests/tests", "tests/driver"] {
        collect(&root().join(folder), &mut text);
    }
    text
}

#[test]
fn every_key_of_sharding_changes_what_a_named_test_shows_or_is_rejected_with_a_reason() {
    let document = read("docs/configuration.md");
    let (begin, end) = ("<!-- keys of sharding:", "<!-- end of keys of sharding -->");
    let points = points_between(&document, begin, end);
    let keys = points
        .iter()
        .filter_map(|point| point.strip_prefix('`')?.split('`').next());
    assert_eq!(keys.collect::<Vec<&str>>(), KEYS_OF_SHARDING);
    let sources = all_sources();
    let settings: Vec<String> = settings().into_iter().map(|setting| setting.key).collect();
    for point in points {
        let (_, here) = point.split_once(": ").expect("a key and what it is here");
        match here.strip_prefix("rejected: ") {
            Some(reason) => assert!(reason.len() > 20, "a reason: {point}"),
            None => {
                let shown = here
                    .rsplit_once(" (`")
                    .and_then(|(_, test)| test.strip_suffix("`)"));
                let test = shown.unwrap_or_else(|| panic!("nothing shows what it does: {point}"));
                let is_there = ["fn {}()", "fn {}<"].map(|form| sources.contains(&form.replace("{}", test)));
                assert!(is_there.contains(&true), "there is no test {test}");
            }
        }
        for named in here.split('`').filter(|word| word.starts_with("sharding.")) {
            assert!(settings.iter().any(|key| key == named), "no setting {named}");
        }
    }
}

/// The part of the document between two marks.
fn between<'t>(text: &'t str, begin: &str, end: &str) -> &'t str {
    let rest = text.split_once(begin).expect("the table's beginning is marked").1;
    rest.split_once(end).expect("the table's end is marked").0
}

#[test]
fn the_documented_settings_of_a_kind_are_those_of_the_core_and_can_be_said_of_a_kind() {
    let document = read("docs/configuration.md");
    let table = between(
        &document,
        "<!-- settings of a kind: see tests/tests/configuration.rs -->",
        "<!-- end of settings of a kind -->",
    );
    let builder = read("adapters/driver/src/kind_config.rs") + &read("adapters/driver/src/kind.rs");
    let node = settings_of("core/src/config/sharding.rs", "ShardingConfig", "sharding.");
    let of_kind = settings_of("core/src/config/kind.rs", "KindConfig", "sharding.");
    let points: Vec<&str> = table.split("* ").skip(1).collect();
    let [compared, own, coordinators] = points[..] else {
        panic!("three points: {table}");
    };
    let names = |point: &str| -> Vec<String> {
        let quoted = point.split('`').skip(1).step_by(2);
        quoted
            .filter(|name| !name.contains('.'))
            .map(str::to_owned)
            .collect()
    };
    let mut own = names(own);
    own.retain(|name| !["allocation", "passivation"].contains(&&**name));
    let fields: Vec<&String> = of_kind.iter().map(|setting| &setting.field).collect();
    assert_eq!(
        own.iter().collect::<BTreeSet<_>>(),
        fields.iter().copied().collect()
    );
    for Setting { key, field, .. } in &of_kind {
        assert!(builder.contains(&format!("fn {field}(")), "Kind::{field}");
        assert!(
            node.iter().any(|setting| setting.key == *key),
            "the node has no {key}"
        );
    }
    for name in names(coordinators) {
        assert!(name == "allocation" || own.contains(&name), "{name}");
    }
    // What is compared: `every_field_that_is_compared_is_refused_and_what_is_not_is_each_nodes_own` of the
    // core.
    for name in [
        "shards",
        "role",
        "extractor",
        "store_mode",
        "remember_entities",
        "lease",
    ] {
        assert!(names(compared).iter().any(|compared| compared == name), "{name}");
    }
}
