//! Rules about the tree itself: what every file and manifest must keep, checked so that nobody has to
//! remember it.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Crates that may stand below the core. A budget, not a wish: each one was argued for.
const CORE_DEPENDENCIES: [&str; 8] = [
    "miniz_oxide",
    "rand_core",
    "heapless",
    "libm",
    "siphasher",
    "crc32fast",
    "thiserror",
    "quorate-core",
];
/// `quorate-tokio` with everything below it stays smaller than this.
const TOKIO_PACKAGES_MAX: usize = 60;
/// What `cargo run --release` compiles, the demo with everything below it, stays smaller than this.
const DEMO_PACKAGES_MAX: usize = 80;
/// Columns of a comment.
const COLUMNS_MAX: usize = 110;
/// Lines of a production file.
const FILE_LINES_MAX: usize = 500;

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("..")
        .canonicalize()
        .expect("the workspace exists")
}

fn rust_files(below: &Path, found: &mut Vec<PathBuf>) {
    files_named(below, ".rs", found);
}

fn files_named(below: &Path, end: &str, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(below)
        .expect("readable folder")
        .map(|e| e.expect("readable entry").path())
    {
        let name = entry
            .file_name()
            .map(|n| n.to_string_lossy().into_owned())
            .unwrap_or_default();
        if entry.is_dir() && name != "target" && !name.starts_with('.') {
            files_named(&entry, end, found);
        } else if name.ends_with(end) {
            found.push(entry);
        }
    }
}

fn cargo(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO"))
        .args(arguments)
        .current_dir(root())
        .output()
        .expect("cargo runs");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).expect("cargo prints text")
}

#[test]
fn every_crate_root_forbids_unsafe_code() {
    for krate in [
        "core",
        "links",
        "adapters/driver",
        "adapters/conformance",
        "adapters/tokio",
        "adapters/smol",
        "adapters/quinn",
        "adapters/store-redb",
        "adapters/store-postgres",
        "adapters/lease-etcd",
        "adapters/lease-postgres",
        "adapters/async-std",
        "examples",
        "examples/embedded",
        "examples/mio_host",
        "tests",
        "tests/driver",
        "tests/no_std",
        "tests/programs",
        "tests/soak",
    ] {
        let path = root().join(krate).join("src/lib.rs");
        let text = fs::read_to_string(&path).expect("a crate has a root");
        assert!(
            text.contains("#![forbid(unsafe_code)]"),
            "{krate} lacks #![forbid(unsafe_code)]"
        );
    }
}

#[test]
fn the_core_depends_on_nothing_that_was_not_argued_for() {
    let tree = cargo(&[
        "tree",
        "-p",
        "quorate-core",
        "--all-features",
        "--edges",
        "normal",
        "--depth",
        "1",
        "--prefix",
        "none",
    ]);
    let allowed: BTreeSet<&str> = CORE_DEPENDENCIES.into();
    for line in tree.lines() {
        let name = line.split(' ').next().unwrap_or_default();
        assert!(
            allowed.contains(name),
            "{name} is not an agreed dependency of the core"
        );
    }
}

#[test]
fn links_depend_on_the_core_and_on_nothing_that_the_core_does_without() {
    let tree = cargo(&[
        "tree",
        "-p",
        "quorate-links",
        "--all-features",
        "--edges",
        "normal",
        "--depth",
        "1",
        "--prefix",
        "none",
    ]);
    let allowed: BTreeSet<&str> = CORE_DEPENDENCIES.into();
    let names = tree.lines().filter_map(|line| line.split(' ').next());
    for name in names {
        let is_agreed = allowed.contains(name) || name == "quorate-links";
        assert!(is_agreed, "{name} is not an agreed dependency of the links");
    }
    let root = fs::read_to_string(root().join("links/src/lib.rs")).expect("the crate has a root");
    assert!(root.contains("#![no_std]"));
}

#[test]
fn core_and_tokio_stay_below_sixty_packages() {
    let tree = cargo(&[
        "tree",
        "-p",
        "quorate-tokio",
        "--edges",
        "normal",
        "--prefix",
        "none",
        "--no-dedupe",
    ]);
    let packages: BTreeSet<&str> = tree.lines().filter_map(|l| l.split(' ').next()).collect();
    let count = packages.len();
    assert!(
        count < TOKIO_PACKAGES_MAX,
        "{count} packages below quorate-tokio: {packages:?}"
    );
}

#[test]
fn the_first_command_compiles_the_demo_on_tokio_alone() {
    let tree = cargo(&[
        "tree",
        "-p",
        "quorate-demo",
        "--edges",
        "normal,build",
        "--prefix",
        "none",
        "--no-dedupe",
    ]);
    let packages: BTreeSet<&str> = tree.lines().filter_map(|l| l.split(' ').next()).collect();
    let count = packages.len();
    assert!(count < DEMO_PACKAGES_MAX, "{count} packages: {packages:?}");
    for other in [
        "quorate-conformance",
        "quorate-quinn",
        "quorate-smol",
        "quorate-store-redb",
        "regex-automata",
        "rustls",
    ] {
        assert!(!packages.contains(other), "the demo needs {other}");
    }
}

#[test]
fn every_file_of_tests_is_run() {
    let mut packages = Vec::new();
    for folder in ["adapters", "tests", "examples"] {
        files_named(&root().join(folder), "Cargo.toml", &mut packages);
    }
    let mut merged = 0;
    for manifest in packages {
        let text = fs::read_to_string(&manifest).expect("a manifest is text");
        if !text.contains("autotests = false") {
            continue;
        }
        merged += 1;
        let tests = manifest.with_file_name("tests");
        let roots =
            ["all.rs", "logged.rs"].map(|root| fs::read_to_string(tests.join(root)).unwrap_or_default());
        for file in fs::read_dir(&tests)
            .expect("tests")
            .flatten()
            .map(|entry| entry.path())
        {
            let name = file.file_stem().expect("a name").to_string_lossy().into_owned();
            let is_test = file.extension().is_some_and(|end| end == "rs") && name != "all";
            let named = roots
                .iter()
                .any(|root| root.lines().any(|line| line == format!("mod {name};")))
                || text.contains(&format!("path = \"tests/{name}.rs\""));
            assert!(
                !is_test || named,
                "{} is compiled by no test program",
                file.display()
            );
        }
    }
    assert!(merged > 10, "the walk found the packages");
}

/// Whether a line is a comment that could have been broken before its end; rows of tables, links and what has
/// no blank (a span of code, an address) cannot.
fn is_long_comment(line: &str) -> bool {
    let text = line.trim_start();
    let words = text.trim_start_matches(['/', '!']).trim_start();
    let has_row = words.starts_with('|') || words.starts_with('[');
    text.starts_with("//") && !has_row && line.chars().count() > COLUMNS_MAX && words.contains(' ')
}

#[test]
fn production_files_stay_readable() {
    let mut files = Vec::new();
    for folder in ["core", "links", "adapters", "examples", "tests"] {
        rust_files(&root().join(folder), &mut files);
    }
    assert!(files.len() > 50, "the walk found the tree");
    for file in files {
        let shown = file.to_string_lossy().into_owned();
        // In `tests/` are packages too, whose `src` is as any other.
        let below_tests = shown.rsplit_once("/tests/").map(|(_, below)| below);
        let is_test = below_tests.is_some_and(|below| !below.contains("src/")) || shown.ends_with("tests.rs");
        let text = fs::read_to_string(&file).expect("source is text");
        let lines = text.lines().count();
        assert!(is_test || lines <= FILE_LINES_MAX, "{shown} has {lines} lines");
        if let Some(line) = text.lines().find(|line| is_long_comment(line)) {
            panic!("a comment of {shown} goes beyond {COLUMNS_MAX} columns: {line}");
        }
        assert!(
            text.starts_with("//!"),
            "{shown} does not begin with what it decides"
        );
    }
}

/// A function takes a named struct where it would take more.
const PARAMETERS_MAX: usize = 5;

/// The parameters of each function of a source, with its name; a receiver is none.
fn parameters(text: &str) -> Vec<(&str, usize)> {
    let mut found = Vec::new();
    for (at, _) in text.match_indices("fn ") {
        let rest = &text[at + 3..];
        let name = rest.split(|c: char| !c.is_alphanumeric() && c != '_').next();
        let is_word = at == 0 || text[..at].ends_with([' ', '\n']);
        let Some(name) = name.filter(|name| !name.is_empty() && is_word) else {
            continue;
        };
        let (mut depth, mut angles, mut count, mut before, mut is_blank) = (0, 0, 0, ' ', true);
        let mut list = String::new();
        for c in rest[name.len()..].chars() {
            let is_arrow = before == '-' || before == '=';
            before = c;
            match c {
                '<' => angles += 1,
                '>' if !is_arrow => angles -= 1,
                // The list itself is one deep; what is generic comes before it.
                '(' | '[' | '{' if depth > 0 || angles == 0 => depth += 1,
                ')' | ']' | '}' if depth > 0 => depth -= 1,
                _ => {}
            }
            if depth > 0 && !c.is_whitespace() {
                list.push(c);
            }
            let is_between = depth == 1 && angles == 0 && c == ',';
            let is_end = depth == 0 && angles == 0 && c == ')';
            if is_between || is_end {
                count += usize::from(!is_blank);
                is_blank = true;
            } else if depth > 1 || (depth == 1 && c != '(' && !c.is_whitespace()) {
                is_blank = false;
            }
            if is_end {
                break;
            }
        }
        let receivers = ["(self", "(mutself", "(&self", "(&mutself", "(&'"];
        let has_receiver = receivers.iter().any(|form| list.starts_with(form));
        found.push((name, count - usize::from(has_receiver && count > 0)));
    }
    found
}

#[test]
fn no_function_takes_more_than_five_values() {
    assert_eq!(
        parameters("fn a<T: Fn(u8, u8)>(&mut self, (b, c): (B, C), d: Map<K, V>,\n) {"),
        [("a", 2)]
    );
    assert_eq!(
        parameters("fn a() {} fn b(c: fn(D, E) -> F) {"),
        [("a", 0), ("b", 1)]
    );
    let mut files = Vec::new();
    for folder in [
        "core/src",
        "links/src",
        "adapters",
        "examples",
        "tests/src",
        "tests/bench",
        "tests/programs",
        "tests/soak",
    ] {
        rust_files(&root().join(folder), &mut files);
    }
    for file in files {
        let text = fs::read_to_string(&file).expect("source is text");
        for (name, count) in parameters(&text) {
            let shown = file.display();
            assert!(count <= PARAMETERS_MAX, "{shown}: {name} takes {count} values");
        }
    }
}

#[test]
fn adapters_name_no_runtime_in_the_driver_and_no_socket_in_the_core() {
    let mut files = Vec::new();
    rust_files(&root().join("core/src"), &mut files);
    rust_files(&root().join("links/src"), &mut files);
    rust_files(&root().join("adapters/driver/src"), &mut files);
    for file in files {
        let shown = file.to_string_lossy().into_owned();
        let core = shown.contains("/core/src/") || shown.contains("/links/src/");
        let text = fs::read_to_string(&file).expect("source is text");
        let code = text.lines().filter(|l| !l.trim_start().starts_with("//"));
        for line in code {
            assert!(
                !line.contains("tokio::") && !line.contains("smol::"),
                "{shown}: {line}"
            );
            assert!(!core || !line.contains("std::net"), "{shown}: {line}");
        }
    }
}

#[test]
fn the_map_knows_every_room() {
    let map = fs::read_to_string(root().join("ARCHITECTURE.md")).expect("ARCHITECTURE.md exists");
    let rooms = |krate: &str| fs::read_dir(root().join(krate).join("src")).expect("the crate exists");
    for folder in rooms("core")
        .chain(rooms("links"))
        .chain(rooms("adapters/driver"))
    {
        let name = folder
            .expect("readable")
            .file_name()
            .to_string_lossy()
            .into_owned();
        let room = name.trim_end_matches(".rs");
        assert!(
            map.contains(&format!("`{room}")),
            "ARCHITECTURE.md does not mention `{room}`"
        );
    }
}

#[test]
fn no_rooms_import_each_other_and_no_arrow_points_up() {
    use quorate_tests::rooms::{HOUSES, Rooms, cycles};
    use std::collections::BTreeSet;

    for house in &HOUSES {
        let rooms = Rooms::read(house, &root()).expect("the sources can be read");
        assert!(rooms.arrows.len() > 20, "the walk found the rooms");
        for room in rooms.arrows.keys() {
            assert!(
                house.floor(room).is_some(),
                "{}: {room} stands on no floor",
                house.name
            );
        }
        for room in house.floors.iter().copied().flatten() {
            assert!(
                rooms.arrows.contains_key(*room),
                "{}: there is no {room}",
                house.name
            );
        }
        let none: [BTreeSet<String>; 0] = [];
        assert_eq!(
            cycles(&rooms.arrows),
            none,
            "cargo run -p quorate-tests --bin rooms"
        );
        assert_eq!(rooms.upward(house), [], "cargo run -p quorate-tests --bin rooms");
        let known: Vec<BTreeSet<String>> = house
            .circles
            .iter()
            .map(|circle| circle.iter().map(ToString::to_string).collect())
            .collect();
        assert_eq!(
            cycles(&rooms.parts),
            known,
            "cargo run -p quorate-tests --bin rooms"
        );
    }
}

/// What a peer asks of the membership is the core's to read: hosts hand it on with what the link has proved.
#[test]
fn the_driver_and_the_links_decode_no_membership_message() {
    let mut files = Vec::new();
    for folder in ["adapters/driver/src", "links/src"] {
        rust_files(&root().join(folder), &mut files);
    }
    assert!(files.len() > 50, "the sources were not found");
    for file in files {
        let name = file.file_name().map(|name| name.to_string_lossy().into_owned());
        let is_test = name.is_some_and(|name| name.ends_with("tests.rs"))
            || file.components().any(|part| {
                ["tests", "testing"]
                    .iter()
                    .any(|folder| part.as_os_str() == *folder)
            });
        if is_test {
            continue;
        }
        let text = fs::read_to_string(&file).expect("a source file");
        let production = text.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
        // What this node itself encoded and nobody sent is decoded to be handed back to the core.
        let own = file.ends_with("links/src/outbound/unsent.rs");
        for word in ["MembershipMsg", "decode_message"] {
            assert!(
                own && word == "decode_message" || !production.contains(word),
                "{}: {word}",
                file.display()
            );
        }
    }
}

#[test]
fn no_two_programs_of_the_workspace_share_a_name() {
    // They would be built into one file of the target folder, and whoever runs one may get the other.
    let metadata = cargo(&["metadata", "--no-deps", "--format-version", "1"]);
    let metadata: serde_json::Value = serde_json::from_str(&metadata).expect("cargo prints JSON");
    let packages = metadata["packages"].as_array().expect("there are packages");
    let targets = packages.iter().flat_map(|package| {
        let targets = package["targets"].as_array();
        targets.expect("a package has targets")
    });
    let mut seen = BTreeSet::new();
    for target in targets {
        let (kind, name) = (target["kind"][0].as_str(), target["name"].as_str());
        if let Some(kind @ ("bin" | "example")) = kind {
            assert!(seen.insert((kind, name)), "two programs of kind {kind}: {name:?}");
        }
    }
    assert!(!seen.is_empty());
}

/// A test that cannot run says so on the handle of standard error: what macros print, the harness keeps to
/// itself. The gate counts those lines.
#[test]
fn what_a_test_skips_is_said_past_the_capture() {
    let mut files = Vec::new();
    rust_files(&root(), &mut files);
    let mut said = 0;
    for file in files {
        let text = fs::read_to_string(&file).expect("a readable file");
        // Put together, so that this file is none of those that say it.
        for (at, _) in text.match_indices(concat!("\"skipped", ": ")) {
            said += 1;
            let before = text[..at].trim_end().trim_end_matches('(');
            let captured = ["print!", "println!", "eprint!", "eprintln!"];
            assert!(
                captured.iter().all(|name| !before.ends_with(name)),
                "{}: captured",
                file.display()
            );
        }
    }
    assert!(said > 10, "only {said} places say it");
}
