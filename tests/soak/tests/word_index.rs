//! The program `word_index` as users start it: what it says at the end.

use std::process::{Command, Output};

fn word_index(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_word_index"))
        .args(arguments)
        .output()
        .unwrap()
}

fn index_of(input: &str) -> (serde_json::Value, String) {
    let output = word_index(&["--input", input, "--json"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let text = String::from_utf8(output.stdout).unwrap();
    let result: serde_json::Value = serde_json::from_str(text.lines().last().unwrap_or_default())
        .unwrap_or_else(|error| panic!("{error}: {text}\n{said}"));
    assert!(output.status.success(), "{result}\n{said}");
    (result, said)
}

/// Over a part of the sources: all of them are for an optimised program.
#[test]
fn every_entry_is_right_although_a_node_is_killed_one_is_cut_off_and_one_joins() {
    let _turn = quorate_programs::turn();
    let (result, said) = index_of(concat!(env!("CARGO_MANIFEST_DIR"), "/src/likes"));
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

/// Fewer files than nodes, one of them without a word, one with a word that no key can hold.
#[test]
fn a_few_words_are_indexed_as_well() {
    let _turn = quorate_programs::turn();
    let folder =
        std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("few-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let long = "w".repeat(5_000);
    for (name, text) in [("a", "to be or not to be"), ("b", ""), ("c", long.as_str())] {
        std::fs::write(folder.join(name), text).unwrap();
    }
    let (result, said) = index_of(folder.to_str().unwrap());
    let expected = [
        ("files", 3),
        ("words", 7),
        ("entries", 5),
        ("wrong", 0),
        ("failed", 0),
    ];
    for (name, count) in expected {
        assert_eq!(result[name], count, "{name}: {result}\n{said}");
    }
    std::fs::remove_dir_all(&folder).unwrap();
}
