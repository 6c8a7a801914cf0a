//! The public API, as `docs/api/` has it: the user's root stays small, everything that a signature names can
//! be named, and every crate that is published comes with what a registry shows. That the files are those of
//! the sources, `tests/public_api.sh` compares.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Names in the root of what applications use.
const ROOT_NAMES_MAX: usize = 60;

/// What methods for hosts take or give, and applications need not name.
const OF_HOSTS: [&str; 3] = [
    "quorate_core::downing::view::Standpoint",
    "quorate_core::membership::gossip::Gossip",
    "quorate_core::wire::Reaction",
];

/// The words of a machine's `protocol`: exported with the machine's name before them.
const WORDS: [&str; 6] = [
    "Answer",
    "CommandError",
    "Command",
    "Counters",
    "Event",
    "Rejection",
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn api(name: &str) -> Vec<String> {
    let path = root().join("docs/api").join(format!("{name}.txt"));
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    text.lines().map(ToOwned::to_owned).collect()
}

/// Paths of types of the core and the links that a text names: `quorate_core::ident::Address`.
fn types(text: &str) -> BTreeSet<String> {
    let mut types = BTreeSet::new();
    for word in text.split(|c: char| !c.is_alphanumeric() && c != '_' && c != ':') {
        if !word.starts_with("quorate_core::") && !word.starts_with("quorate_links::") {
            continue;
        }
        let mut path: Vec<&str> = Vec::new();
        for segment in word.split("::") {
            path.push(segment);
            if segment.starts_with(char::is_uppercase) {
                types.insert(path.join("::"));
                break;
            }
        }
    }
    types
}

/// The name by which the driver exports a type.
fn exported_as(path: &str) -> String {
    let segments: Vec<&str> = path.split("::").collect();
    let last = segments.last().copied().unwrap_or_default();
    if segments.contains(&"protocol") && WORDS.contains(&last) {
        let machine = match segments[1] {
            "paths" => "path",
            other => other,
        };
        return machine[..1].to_uppercase() + &machine[1..] + last;
    }
    last.to_owned()
}

/// An item's path, and what stands after it.
fn item(line: &str) -> Option<(&str, &str)> {
    let begins = line.find("quorate_")?;
    let is_item = !line.starts_with("pub use") && !line.starts_with("impl") && !line.starts_with("pub mod");
    let rest = &line[begins..];
    let ends = rest
        .find(|c: char| !c.is_alphanumeric() && c != '_' && c != ':')
        .unwrap_or(rest.len());
    let (path, rest) = rest.split_at(ends);
    is_item.then_some((path.trim_end_matches(':'), rest))
}

#[test]
fn the_root_of_what_applications_use_is_small_and_has_no_module_core() {
    let mut names = BTreeSet::new();
    for line in api("quorate-driver") {
        assert!(!line.starts_with("pub mod quorate_driver::core"), "{line}");
        let path = line
            .strip_prefix("pub use ")
            .or_else(|| item(&line).map(|(path, _)| path));
        let Some(path) = path else { continue };
        let mut segments = path.split("::").skip(1);
        let (Some(name), inner) = (segments.next(), segments.next()) else {
            continue;
        };
        if inner.is_none() || name.starts_with(char::is_uppercase) {
            names.insert(name.to_owned());
        }
    }
    assert!(
        names.contains("Cluster") && names.contains("TIMEOUT_DEFAULT"),
        "{names:?}"
    );
    assert!(names.len() < ROOT_NAMES_MAX, "{}: {names:?}", names.len());
}

#[test]
fn everything_that_a_signature_names_can_be_named() {
    let driver = api("quorate-driver");
    let exported: BTreeSet<&str> = driver
        .iter()
        .filter_map(|line| line.strip_prefix("pub use quorate_driver::"))
        .filter_map(|path| path.split("::").last())
        .collect();
    assert!(exported.len() > 150, "the file was read");
    let is_named = |path: &str| {
        // Modules that are exported whole.
        let whole = ["crdt", "admission", "telling", "ordered"];
        let in_module = path.split("::").any(|segment| whole.contains(&segment));
        in_module || OF_HOSTS.contains(&path) || exported.contains(exported_as(path).as_str())
    };
    let mut missing: BTreeMap<String, String> = BTreeMap::new();
    for line in &driver {
        if !line.starts_with("pub use") && !line.starts_with("impl") {
            let unnamed = types(line).into_iter().filter(|path| !is_named(path));
            missing.extend(unnamed.map(|path| (path, line.clone())));
        }
    }
    // And what the exported types of core and links name in turn.
    for line in api("quorate-core").into_iter().chain(api("quorate-links")) {
        let Some((path, rest)) = item(&line) else { continue };
        let Some(owner) = types(path).into_iter().next() else {
            continue;
        };
        if exported.contains(exported_as(&owner).as_str()) {
            let unnamed = types(rest).into_iter().filter(|path| !is_named(path));
            missing.extend(unnamed.map(|path| (path, line.clone())));
        }
    }
    assert!(missing.is_empty(), "{missing:#?}");
}

#[test]
fn every_published_crate_has_what_a_registry_shows_and_its_api_as_a_file() {
    let script = fs::read_to_string(root().join("tests/public_api.sh")).unwrap();
    let mut published = 0;
    let mut manifests = vec![root().join("core/Cargo.toml"), root().join("links/Cargo.toml")];
    for adapter in fs::read_dir(root().join("adapters")).unwrap().flatten() {
        manifests.push(adapter.path().join("Cargo.toml"));
    }
    for manifest in manifests {
        let text = fs::read_to_string(&manifest).unwrap();
        if text.contains("publish = false") {
            continue;
        }
        published += 1;
        let shown = manifest.display();
        for wanted in [
            "description",
            "keywords",
            "license",
            "repository",
            "[package.metadata.docs.rs]",
        ] {
            assert!(text.contains(wanted), "{shown} has no {wanted}");
        }
        assert!(
            manifest.with_file_name("README.md").exists(),
            "{shown} has no README"
        );
        let name = text
            .lines()
            .find_map(|line| line.strip_prefix("name = \"quorate-"))
            .unwrap();
        let name = name.trim_end_matches('"');
        assert!(!api(&format!("quorate-{name}")).is_empty(), "{name}");
        assert!(
            script.contains(&format!(" {name} "))
                || script.contains(&format!("({name} "))
                || script.contains(&format!(" {name})")),
            "tests/public_api.sh does not compare {name}"
        );
    }
    assert!(published > 10, "the walk found the crates");
}
