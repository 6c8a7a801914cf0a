//! `docs/embedding.md` quotes hosts that are compiled and run by tests, and quotes them as they are.

use std::fs;
use std::path::Path;

fn read(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Lines without their indentation.
fn lines(text: &str) -> Vec<&str> {
    text.lines().map(str::trim).collect()
}

fn quotes(page: &str, quoted: &str, source: &str) -> bool {
    let (quoted, source) = (lines(quoted), lines(source));
    assert!(!quoted.is_empty(), "{page}: an empty quotation");
    source.windows(quoted.len()).any(|window| window == quoted)
}

#[test]
fn every_line_of_code_in_the_page_stands_in_a_host() {
    let page = read("docs/embedding.md");
    let mut found = 0;
    let mut rest = page.as_str();
    while let Some((before, after)) = rest.split_once("```rust") {
        let (quoted, after) = after.split_once("```").expect("the block has an end");
        let source = before
            .trim_end()
            .rsplit_once("<!-- quoted from ")
            .and_then(|(_, source)| source.strip_suffix(" -->"))
            .unwrap_or_else(|| panic!("no source: {quoted}"));
        let quoted = quoted.trim_matches('\n');
        assert!(
            quotes("embedding.md", quoted, &read(source)),
            "not in {source}:\n{quoted}"
        );
        found += 1;
        rest = after;
    }
    assert!(found > 10, "{found} quotations");
}

#[test]
fn a_line_that_was_changed_is_noticed() {
    assert!(quotes("", "a\n  b", "x\n    a\n    b\ny"));
    assert!(!quotes("", "a\nc", "a\nb\nc"));
}

#[test]
fn hosts_name_only_steps_that_the_page_has() {
    let page = read("docs/embedding.md");
    let hosts = [
        "examples/mio_host/src/host.rs",
        "examples/mio_host/src/entities.rs",
        "examples/mio_host/src/sockets.rs",
        "links/examples/custom_loop.rs",
        "links/examples/custom_loop/keeping.rs",
        "links/examples/custom_loop/working.rs",
        "examples/embedded/src/board/mod.rs",
        "examples/embedded/src/board/lines.rs",
        "examples/embedded/src/lamps.rs",
    ];
    let mut named = 0;
    for host in hosts {
        let text = read(host).to_lowercase();
        for after in text.split("step").skip(1) {
            let after = after.trim_start_matches('s').trim_start();
            let number: String = after.chars().take_while(char::is_ascii_digit).collect();
            if number.is_empty() {
                continue;
            }
            assert!(
                page.contains(&format!("### Step {number}: ")),
                "{host}: step {number}"
            );
            named += 1;
        }
    }
    assert!(named > 8, "{named} steps named");
}

/// The variants of an enum in the core.
fn variants(path: &str, name: &str) -> Vec<String> {
    let text = read(path);
    let body = text
        .split_once(&format!("pub enum {name}"))
        .and_then(|(_, rest)| rest.split_once("{\n")?.1.split_once("\n}"));
    let (body, _) = body.unwrap_or_else(|| panic!("no enum {name} in {path}"));
    let variant = |line: &str| {
        let rest = line.strip_prefix("    ")?;
        let is_variant = rest.starts_with(char::is_uppercase);
        is_variant.then(|| rest.chars().take_while(char::is_ascii_alphanumeric).collect())
    };
    body.lines().filter_map(variant).collect()
}

#[test]
fn every_input_and_every_effect_has_its_place_in_the_page() {
    let page = read("docs/embedding.md");
    for (path, name, shown) in [
        ("core/src/input.rs", "Input", "`{}`"),
        ("core/src/input.rs", "LinkEvent", "`Link({})`"),
        ("core/src/input.rs", "DropReason", "{}"),
        ("core/src/effect.rs", "Effect", "`{}`"),
        ("core/src/messaging/protocol/host.rs", "HostOrder", "`{}`"),
    ] {
        let variants = variants(path, name);
        assert!(variants.len() >= 3, "{name}: {variants:?}");
        for variant in variants {
            // Link events stand for `Input::Link`.
            let expected = match variant.as_str() {
                "Link" => "`Link(",
                other => &shown.replace("{}", other),
            };
            assert!(page.contains(expected), "{name}::{variant}");
        }
    }
}
