//! The programs `entities` and `rebalance` measure something, and say so in one line.

use std::process::Command;

fn last_line(program: &str, arguments: &[&str]) -> serde_json::Value {
    let output = Command::new(program).args(arguments).output().unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let text = String::from_utf8(output.stdout).unwrap();
    serde_json::from_str(text.lines().last().unwrap()).unwrap()
}

#[test]
fn entities_are_counted_and_run_again() {
    let _turn = quorate_programs::turn();
    let entities = |arguments: &[&str]| last_line(env!("CARGO_BIN_EXE_entities"), arguments);
    let result = entities(&["--only", "memory", "--entities", "3000", "--json"]);
    let idle = result["memory"]["idle_bytes"].as_f64().unwrap();
    assert!((100.0..1_400.0).contains(&idle), "{result}");
    let result = entities(&["--only", "recovery", "--remembered", "300", "--json"]);
    assert_eq!(result["recovery"]["entities"].as_u64(), Some(300), "{result}");
}

#[test]
fn every_strategy_leaves_as_many_entities_as_may_run() {
    let _turn = quorate_programs::turn();
    let arguments = [
        "--only",
        "passivation",
        "--entities",
        "2000",
        "--limit",
        "600",
        "--json",
    ];
    let result = last_line(env!("CARGO_BIN_EXE_entities"), &arguments);
    let rows = result["passivation"]["strategies"].as_array().unwrap();
    assert_eq!(rows.len(), 7, "{result}");
    for row in rows {
        let [before, after, passivated] =
            ["before", "after", "passivated"].map(|key| row[key].as_u64().unwrap());
        assert_eq!((before, before - after), (2_000, passivated), "{row}");
        // Each of a hundred shards has its part of 200 per node, rounded down.
        assert!((500..=600).contains(&after), "{row}");
        assert!(row["passivated_meanwhile"].as_u64().unwrap() >= 1_400, "{row}");
    }
}

#[test]
fn every_strategy_comes_to_rest() {
    let _turn = quorate_programs::turn();
    let arguments = ["--only", "choices", "--shards", "500", "--json"];
    let result = last_line(env!("CARGO_BIN_EXE_rebalance"), &arguments);
    let rows = result["choices"].as_array().unwrap();
    assert_eq!(rows.len(), 20);
    for row in rows {
        assert!(row["rounds"].as_u64().unwrap() < 100_000, "{row}");
    }
    let limited = |row: &&serde_json::Value| row["strategy"].as_str().unwrap().starts_with("limits");
    for row in rows.iter().filter(limited) {
        let [most, least] = ["most", "least"].map(|key| row[key].as_u64().unwrap());
        assert!(most <= least + 1, "{row}");
    }
}

#[test]
fn real_hand_offs_end_where_the_choices_end() {
    let _turn = quorate_programs::turn();
    let arguments = ["--only", "hand-offs", "--shards", "90", "--json"];
    let result = last_line(env!("CARGO_BIN_EXE_rebalance"), &arguments);
    let rows = result["hand_offs"].as_array().unwrap();
    // 45 on each of two nodes become 30 on each of three, but where nothing moves below a threshold of 100,
    // and where the ring decides.
    let expected = [
        ("limits 100, 0.1", Some((4, 30, (30, 30)))),
        ("limits 1000, 1.0", Some((1, 30, (30, 30)))),
        ("threshold 1, 3 at once", Some((30, 30, (30, 30)))),
        ("threshold 100, 100 at once", Some((0, 0, (45, 0)))),
        ("consistent hashing", None),
    ];
    assert_eq!(rows.len(), expected.len(), "{result}");
    for (row, (strategy, end)) in rows.iter().zip(expected) {
        let number = |key: &str| row[key].as_u64().unwrap();
        assert_eq!(row["strategy"].as_str(), Some(strategy), "{row}");
        assert_eq!((number("at_home"), number("twice")), (90, 0), "{row}");
        assert_eq!(number("completed"), number("moved"), "{row}");
        let is = (
            number("rounds"),
            number("moved"),
            (number("most"), number("least")),
        );
        match end {
            Some(end) => assert_eq!(is, end, "{row}"),
            None => assert!(is.0 == 1 && is.1 > 0 && is.2.1 > 0, "{row}"),
        }
    }
}
