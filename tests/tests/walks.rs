//! The four walks of ARCHITECTURE.md pass functions that are where it says, and one that is passed twice says
//! why.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The sources behind the first part of a path.
fn sources(house: &str) -> &'static str {
    match house {
        "core" => "core/src",
        "links" => "links/src",
        "driver" => "adapters/driver/src",
        other => panic!("{other} is no house"),
    }
}

/// A step: the file, the function, and what is said of it; `None` if the line is none.
fn step(line: &str) -> Option<(&str, &str, &str)> {
    let (number, rest) = line.split_once(". `")?;
    number.parse::<usize>().ok()?;
    let (file, rest) = rest.split_once("` `")?;
    let (function, said) = rest.split_once("`: ")?;
    Some((file, function, said))
}

#[test]
fn every_function_of_a_walk_is_where_it_says() {
    let text = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let (_, walks) = text.split_once("## Four walks\n").expect("the section");
    let walks = walks.split("\n## ").next().unwrap();
    let walks: Vec<&str> = walks.split("\n### ").skip(1).collect();
    assert_eq!(walks.len(), 4);
    for walk in walks {
        let name = walk.lines().next().unwrap();
        let mut passed = BTreeSet::new();
        for (file, function, said) in walk.lines().filter_map(step) {
            let (house, below) = file.split_once('/').expect("a path");
            let path = root().join(sources(house)).join(below);
            let source = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{file}: {error}"));
            let is_there = [format!("fn {function}("), format!("fn {function}<")];
            assert!(
                is_there.iter().any(|head| source.contains(head)),
                "{name}: no {function} in {file}"
            );
            let is_new = passed.insert((file, function));
            assert_eq!(
                !is_new,
                said.starts_with("again, because"),
                "{name}: {file} {function}"
            );
        }
        assert!(passed.len() >= 15, "{name}: {} steps", passed.len());
    }
}
