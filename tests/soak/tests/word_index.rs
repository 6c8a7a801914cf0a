//! The program `word_index` as users start it: what it says at the end.

use std::process::{Command, Output};

fn word_index(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_word_index"))
        .args(arguments)
        .output()
        .unwrap()
}

/// Over a part of the sources: all of them are for an optimised program.
#[test]
fn every_entry_is_right_although_a_node_is_killed_one_is_cut_off_and_one_joins() {
    let _alone = crate::alone();
    let input = concat!(env!("CARGO_MANIFEST_DIR"), "/src/likes");
    let output = word_index(&["--input", input, "--json"]);
    let said = String::from_utf8_lossy(&output.stderr);
    let text = String::from_utf8(output.stdout).unwrap();
    let result: serde_json::Value = serde_json::from_str(text.lines().last().unwrap_or_default())
        .unwrap_or_else(|error| panic!("{error}: {text}\n{said}"));
    assert!(output.status.success(), "{result}\n{said}");
    let count = |name: &str| result[name].as_u64().unwrap();
    assert_eq!(
        (count("wrong"), count("failed"), count("files")),
        (0, 0, 4),
        "{said}"
    );
    assert!(
        count("words") > count("entries") && count("entries") > 1_000,
        "{result}"
    );
    assert!(count("queries") > 100, "{result}");
    for happened in ["is killed", "copies again", "in the minority", "joins"] {
        assert!(said.contains(happened), "nobody {happened}:\n{said}");
    }
}
