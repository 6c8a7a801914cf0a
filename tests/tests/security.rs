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
    for folder in ["core/src", "adapters", "examples/src", "tests/tests"] {
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
