//! Every bad input of the catalogue is answered for every adapter, by a test that exists. Spec: reliability
//! 3c.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use quorate_conformance::{APPLICABILITY, AnsweredBy, COLUMNS, rows_of_the_table};

/// Which column holds for which adapter, and the test file that has to run it.
const ADAPTERS: [(&str, &str, &str); 7] = [
    ("tokio", "TCP", "tokio/tests/conformance.rs"),
    ("tokio", "TCP with TLS", "tokio/tests/conformance.rs"),
    ("smol", "TCP", "smol/tests/conformance.rs"),
    ("smol", "TCP with TLS", "smol/tests/tls.rs"),
    ("async-std", "TCP", "async-std/tests/conformance.rs"),
    ("quinn", "QUIC", "quinn/tests/conformance.rs"),
    ("quinn on smol", "QUIC", "quinn/tests/smol.rs"),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
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
fn every_row_up_to_58_is_answered_and_every_answer_exists() {
    let mut text = String::new();
    for folder in ["core", "adapters", "tests/tests", "tests/driver"] {
        sources(&root().join(folder), &mut text);
    }
    let exists = |name: &str| text.contains(&format!("fn {name}"));
    let rows: Vec<&str> = APPLICABILITY.iter().map(|(row, _)| *row).collect();
    let numbers = (1..=58).chain([64]).map(|number| format!("B-{number:02}"));
    assert!(numbers.eq(rows.iter().copied()), "{rows:?}");
    let mut in_table = BTreeSet::new();
    for (row, answers) in APPLICABILITY {
        for (answer, column) in answers.iter().zip(COLUMNS) {
            match answer {
                AnsweredBy::Table => {
                    in_table.insert(*row);
                }
                AnsweredBy::Test(name) | AnsweredBy::Elsewhere(name) => {
                    assert!(exists(name), "{row} on {column}: no test {name}");
                }
                AnsweredBy::Never(why) => assert!(!why.is_empty(), "{row} on {column}"),
                _ => panic!("{row} on {column}"),
            }
        }
    }
    let known = rows_of_the_table();
    assert!(in_table.is_subset(&known), "{:?}", in_table.difference(&known));
}

#[test]
fn every_adapter_runs_the_suite_of_its_column() {
    for (adapter, column, file) in ADAPTERS {
        assert!(COLUMNS.contains(&column), "{adapter}");
        let text = fs::read_to_string(root().join("adapters").join(file)).expect("a test file");
        for suite in ["conformance!(", "bad_inputs!("] {
            assert!(text.contains(suite), "{adapter}: {file}: {suite}");
        }
        let proofs = match column {
            "TCP" => "conformance_of_keys!(",
            _ => "conformance_of_certificates!(",
        };
        assert!(text.contains(proofs), "{adapter}: {file}: {proofs}");
        let connections = text.contains("conformance_of_connections!");
        assert_eq!(connections, column != "QUIC", "{adapter}: {file}");
    }
}
