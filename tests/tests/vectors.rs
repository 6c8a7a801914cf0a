//! The conformance vectors that live beside this test all pass, and the runner tells failures and bad files
//! apart.

use std::path::{Path, PathBuf};
use std::process::Command;

use quorate_tests::vectors::{self, KeyReport};
use serde_json::Value;

const SHARED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/vectors/membership-vectors.json");

/// Sharding, distributed data and more; keys nobody runs yet are skipped.
const SHARDING: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/vectors/sharding-vectors.json");

fn reports(text: &str) -> Vec<KeyReport> {
    vectors::run(text).expect("a well-formed file")
}

fn counts(text: &str) -> Vec<(String, Option<(usize, usize)>)> {
    let count = |report: KeyReport| {
        (
            report.key,
            report.result.map(|result| (result.passed, result.failed)),
        )
    };
    reports(text).into_iter().map(count).collect()
}

/// Runs the program on a file of this text; exit code, standard output, standard error.
fn program(name: &str, text: &[u8]) -> (Option<i32>, String, String) {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&path, text).expect("the target directory can be written");
    run_on(&path)
}

fn run_on(path: &Path) -> (Option<i32>, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_vectors"))
        .arg(path)
        .output()
        .expect("the program starts");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("plain text");
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[test]
fn every_shared_vector_passes() {
    let text = std::fs::read_to_string(SHARED).expect("the vectors are part of the repository");
    for report in reports(&text) {
        assert!(!report.has_failed(), "{report}");
    }
    let expected = [
        ("convergence_leader", Some((125, 0))),
        ("phi", Some((100, 0))),
        ("reachability", Some((125, 0))),
        ("ring", Some((60, 0))),
        ("sbr", Some((294, 0))),
        ("vector_clock", Some((150, 0))),
    ];
    assert_eq!(
        counts(&text),
        expected.map(|(key, count)| (key.to_owned(), count))
    );
}

#[test]
fn every_shared_vector_of_hand_overs_of_singletons_passes() {
    let text = std::fs::read_to_string(SHARDING).expect("the vectors are part of the repository");
    for report in reports(&text) {
        assert!(!report.has_failed(), "{report}");
    }
    let mut found = counts(&text);
    found.retain(|(key, _)| ["handover", "singleton_retries"].contains(&key.as_str()));
    let expected = [("handover", 90), ("singleton_retries", 45)];
    assert_eq!(
        found,
        expected.map(|(key, passed)| (key.to_owned(), Some((passed, 0))))
    );
}

#[test]
fn every_shared_vector_of_distributed_data_passes() {
    let text = std::fs::read_to_string(SHARDING).expect("the vectors are part of the repository");
    for report in reports(&text) {
        assert!(!report.has_failed(), "{report}");
    }
    let expected = [
        ("crdt_flag", 30),
        ("crdt_gcounter", 40),
        ("crdt_gset", 30),
        ("crdt_lwwmap", 50),
        ("crdt_lwwregister", 40),
        ("crdt_ormap", 60),
        ("crdt_ormultimap", 60),
        ("crdt_orset", 120),
        ("crdt_pncounter", 40),
        ("crdt_pncountermap", 50),
        ("gossip_slice", 35),
        ("quorum", 130),
        ("status_chunks", 47),
    ];
    let mut found = counts(&text);
    let run_here = ["gossip_slice", "quorum", "status_chunks"];
    found.retain(|(key, _)| key.starts_with("crdt_") || run_here.contains(&key.as_str()));
    assert_eq!(
        found,
        expected.map(|(key, passed)| (key.to_owned(), Some((passed, 0))))
    );
}

/// The keys of allocation, passivation, delivery, placement and load, and how many cases they have.
const OF_SHARDING: [(&str, usize); 24] = [
    ("allocation_new", 120),
    ("allocation_old", 100),
    ("at_least_once", 50),
    ("capacity", 40),
    ("chord", 60),
    ("ewma", 40),
    ("flow_control", 50),
    ("instance_count", 80),
    ("metric_moves", 60),
    ("nrw", 120),
    ("passivation_composite", 80),
    ("passivation_idle", 40),
    ("passivation_lfu", 50),
    ("passivation_lfu_aging", 50),
    ("passivation_lru", 40),
    ("passivation_mru", 40),
    ("passivation_slru", 60),
    ("placement_balance", 50),
    ("placement_evacuation", 50),
    ("placement_initial", 50),
    ("placement_joins", 40),
    ("placement_more", 50),
    ("scale", 60),
    ("weights", 50),
];

#[test]
fn every_shared_vector_of_allocation_passivation_delivery_and_placement_passes() {
    let text = std::fs::read_to_string(SHARDING).expect("the vectors are part of the repository");
    for report in reports(&text) {
        assert!(!report.has_failed(), "{report}");
    }
    let mut found = counts(&text);
    found.retain(|(key, _)| OF_SHARDING.iter().any(|(of, _)| of == key));
    let expected = OF_SHARDING.map(|(key, passed)| (key.to_owned(), Some((passed, 0))));
    assert_eq!(found, expected);
}

/// Every place in a case of these keys that says what is expected.
#[test]
fn every_expectation_of_allocation_passivation_delivery_and_placement_is_checked() {
    let text = std::fs::read_to_string(SHARDING).expect("the vectors are part of the repository");
    let file: Value = serde_json::from_str(&text).expect("JSON");
    for (key, _) in OF_SHARDING {
        for (name, _) in expectations(key) {
            let mut cases = file[key].clone();
            let (mut total, mut spoilt) = (0, 0);
            for case in cases.as_array_mut().expect("a list") {
                total += 1;
                // Null says that it is not checked. A list of rounds that is empty could only get an
                // ill-formed one.
                let is_empty = name == &"rounds" && case[name] == serde_json::json!([]);
                if !case[name].is_null() && !is_empty {
                    spoil_inside(&mut case[name]);
                    spoilt += 1;
                }
            }
            let found = counts(&serde_json::json!({ key: cases }).to_string());
            assert_eq!(
                found,
                [(key.to_owned(), Some((total - spoilt, spoilt)))],
                "{key}/{name}"
            );
            assert!(spoilt * 10 > total, "{key}/{name} is mostly empty");
        }
    }
}

/// Makes the last list inside of lists longer or shorter; anything else as [`spoil`] does.
fn spoil_inside(value: &mut Value) {
    let Some(list) = value.as_array_mut() else {
        return spoil(value);
    };
    if let Some(inner) = list.iter().rposition(Value::is_array) {
        spoil_inside(&mut list[inner]);
    } else if list.pop().is_none() {
        list.push(Value::from(7));
    }
}

#[test]
fn odd_cases_of_allocation_passivation_delivery_and_placement_are_run_or_refused_and_never_panic() {
    let text = std::fs::read_to_string(SHARDING).expect("the vectors are part of the repository");
    let file: Value = serde_json::from_str(&text).expect("JSON");
    let odd = [
        Value::Null,
        Value::from(-1),
        Value::from(0),
        Value::from(u64::MAX),
        Value::from(0.5),
        Value::from(1e300),
        Value::from("lru"),
        Value::from(true),
        serde_json::json!([]),
        serde_json::json!([[]]),
        serde_json::json!({}),
    ];
    let mut run = 0;
    for (key, _) in OF_SHARDING {
        for case in file[key].as_array().expect("a list").iter().take(3) {
            for path in paths(case, "") {
                for odd in &odd {
                    let mut case = case.clone();
                    *case.pointer_mut(&path).expect("it is there") = odd.clone();
                    let result = vectors::run(&serde_json::json!({ key: [case] }).to_string());
                    assert!(result.is_err() || result.is_ok_and(|reports| reports.len() == 1));
                    run += 1;
                }
            }
        }
    }
    assert!(run > 5_000, "{run}");
}

/// Some places in a case: all members, and the first items of lists.
fn paths(value: &Value, at: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut inside: Vec<(String, &Value)> = Vec::new();
    if let Some(object) = value.as_object() {
        inside.extend(object.iter().map(|(name, value)| (format!("{at}/{name}"), value)));
    }
    if let Some(list) = value.as_array() {
        let first = list.iter().take(4).enumerate();
        inside.extend(first.map(|(index, value)| (format!("{at}/{index}"), value)));
    }
    for (path, value) in inside {
        found.extend(paths(value, &path));
        found.push(path);
    }
    found
}

#[test]
fn every_expectation_of_distributed_data_is_checked_and_a_case_without_one_fails() {
    let text = std::fs::read_to_string(SHARDING).expect("the vectors are part of the repository");
    let file: Value = serde_json::from_str(&text).expect("JSON");
    let keys = file.as_object().expect("an object").iter();
    for (key, cases) in keys.filter(|(key, _)| key.starts_with("crdt_")) {
        let total = cases.as_array().expect("a list").len();
        let all_fail = |what: &str, change: &dyn Fn(&mut serde_json::Map<String, Value>)| {
            let mut cases = cases.clone();
            for case in cases.as_array_mut().expect("a list") {
                change(case.as_object_mut().expect("a case"));
            }
            let found = counts(&serde_json::json!({ key: cases }).to_string());
            assert_eq!(found, [(key.clone(), Some((0, total)))], "{key}: {what}");
        };
        all_fail("spoilt values", &|case| spoil(&mut case["values"]));
        all_fail("spoilt equal", &|case| spoil(&mut case["equal"]));
        for what in ["values", "equal"] {
            all_fail(what, &|case| {
                case.remove(what);
            });
            all_fail(what, &|case| case[what] = Value::Null);
        }
    }
}

#[test]
fn a_wrong_expectation_is_a_failure_with_the_difference() {
    let case = |a: &str| {
        format!(
            r#"{{"a": {a}, "b": {{}}, "cmp": "Same", "merge": {a}, "prune": "x", "a_pruned": {{}},
                "cmp_pruned_a_vs_b": "Same"}}"#
        )
    };
    let wrong = format!(r#"{{"vector_clock": [{}, {}]}}"#, case(r#"{"x": 1}"#), case("{}"));
    let (code, out, _) = program("wrong.json", wrong.as_bytes());
    assert_eq!(code, Some(1));
    assert!(
        out.starts_with("vector_clock: 1 passed, 1 failed\n  case 0: cmp: expected Same, found After\n"),
        "{out}"
    );
}

/// Another value of the same kind, so that the file stays well-formed and the expectation becomes wrong.
fn spoil(value: &mut Value) {
    *value = match value.take() {
        Value::Null => Value::from("nobody"),
        Value::Bool(flag) => Value::from(!flag),
        Value::Number(number) => match number.as_u64() {
            Some(whole) => Value::from(whole + 1),
            None => Value::from(number.as_f64().expect("a float") + 1.0),
        },
        Value::String(text) if text == "Same" => Value::from("After"),
        Value::String(text) if ["Before", "After", "Concurrent"].contains(&text.as_str()) => {
            Value::from("Same")
        }
        Value::String(_) => Value::Null,
        Value::Array(mut list) => {
            if list.pop().is_none() {
                list.push(Value::from("nobody"));
            }
            Value::from(list)
        }
        Value::Object(mut object) => {
            object.insert("nobody".to_owned(), Value::from(7));
            Value::from(object)
        }
    };
}

#[test]
fn every_expectation_of_every_case_is_checked() {
    let text = std::fs::read_to_string(SHARED).expect("the vectors are part of the repository");
    let file: Value = serde_json::from_str(&text).expect("JSON");
    for place in [
        "vector_clock/cmp",
        "vector_clock/merge",
        "vector_clock/a_pruned",
        "vector_clock/cmp_pruned_a_vs_b",
        "reachability/a/versions",
        "reachability/b/versions",
        "reachability/merged/versions",
        "reachability/merged/records",
        "reachability/unreachable",
        "reachability/unreachable_or_terminated",
        "ring/receivers",
        "phi/mean",
        "phi/std",
        "phi/first_unavailable_ms",
        "phi/queries_ms_after_last/0/1",
        "phi/queries_ms_after_last/0/2",
        "convergence_leader/convergence",
        "convergence_leader/leader",
        "sbr/decision",
        "sbr/down",
        "sbr/escalated_to_down_all",
    ] {
        let (key, inside) = place.split_once('/').expect("a key and a place");
        let mut cases = file[key].clone();
        let (mut total, mut spoilt) = (0, 0);
        for case in cases.as_array_mut().expect("a list") {
            total += 1;
            // An empty list of rows cannot lose one, and an invented row would make the file ill-formed.
            let target = case.pointer_mut(&format!("/{inside}")).expect(place);
            if !(inside.ends_with("records") && target.as_array().is_some_and(Vec::is_empty)) {
                spoil(target);
                spoilt += 1;
            }
        }
        let found = counts(&serde_json::json!({ key: cases }).to_string());
        assert_eq!(
            found,
            [(key.to_owned(), Some((total - spoilt, spoilt)))],
            "{place}"
        );
        assert!(spoilt > total / 2, "{place} is mostly empty");
    }
}

/// What a case of a key expects; everything else in it is made of. `true` where null is something to expect.
fn expectations(key: &str) -> &'static [(&'static str, bool)] {
    match key {
        "vector_clock" => &[
            ("cmp", false),
            ("merge", false),
            ("a_pruned", false),
            ("cmp_pruned_a_vs_b", false),
        ],
        "reachability" => &[
            ("a", false),
            ("b", false),
            ("merged", false),
            ("unreachable", false),
            ("unreachable_or_terminated", false),
        ],
        "ring" => &[("receivers", false)],
        "phi" => &[
            ("mean", false),
            ("std", false),
            ("queries_ms_after_last", false),
            ("first_unavailable_ms", false),
        ],
        "convergence_leader" => &[("convergence", false), ("leader", true)],
        "sbr" => &[
            ("decision", false),
            ("acquire_delay", true),
            ("down", false),
            ("escalated_to_down_all", false),
        ],
        "quorum" => &[("enough", false), ("required", true), ("remote_acks", true)],
        "gossip_slice" => &[("size", false), ("ticks", false)],
        "status_chunks" => &[
            ("total_chunks", false),
            ("messages_per_tick", false),
            ("chunks", false),
        ],
        "allocation_new" | "allocation_old" => &[
            ("order", false),
            ("allocate", true),
            ("good_time", false),
            ("rebalance", true),
            ("rounds", true),
        ],
        "passivation_composite" => &[
            ("evicted", false),
            ("active", false),
            ("final_proportion", true),
            ("adjustments", true),
        ],
        key if key.starts_with("passivation_") => &[("evicted", false), ("active", false)],
        "placement_initial" => &[
            ("slots", false),
            ("ordinals", false),
            ("loads", false),
            ("cursor", false),
        ],
        "placement_more" => &[("slots", false), ("next_cursor", false)],
        "placement_joins" => &[
            ("ordinal_map", false),
            ("new_ordinals", false),
            ("ordinals_before", false),
            ("ordinals_after", false),
            ("changes", false),
        ],
        "placement_balance" => &[("changes", false), ("table_after", false), ("loads", false)],
        "placement_evacuation" => &[("changes", false), ("table_after", false)],
        "instance_count" => &[("f_of_n", false), ("clamped", false), ("instances", false)],
        "scale" => &[("decision", false)],
        "flow_control" => &[("outputs", false)],
        "ewma" => &[("alpha", true), ("values", false)],
        "capacity" => &[
            ("heap_capacity", true),
            ("cpu_capacity", true),
            ("load_capacity", true),
            ("mix", true),
        ],
        "weights" => &[("weights", false), ("total", false), ("picks", false)],
        "chord" => &[("expected_distinct", false), ("seen", false)],
        "metric_moves" => &[("hot", true), ("cold", true), ("gap", true), ("move", true)],
        "at_least_once" => &[("results", false), ("unconfirmed", false)],
        key if key.starts_with("crdt_") => &[("values", false), ("equal", false)],
        _ => &[],
    }
}

#[test]
fn a_case_that_lacks_an_expectation_fails_and_one_that_lacks_an_input_is_refused() {
    let run = |key: &str, case: &Value| vectors::run(&serde_json::json!({ key: [case] }).to_string());
    let mut keys = 0;
    for path in [SHARED, SHARDING] {
        let text = std::fs::read_to_string(path).expect("the vectors are part of the repository");
        let file: Value = serde_json::from_str(&text).expect("JSON");
        for (key, cases) in file.as_object().expect("an object") {
            let expectations = expectations(key);
            if expectations.is_empty() {
                continue;
            }
            keys += 1;
            let case = &cases.as_array().expect("a list")[0];
            for name in case.as_object().expect("a case").keys() {
                let mut without = case.clone();
                without.as_object_mut().expect("a case").remove(name);
                let result = run(key, &without);
                let Some((_, or_null)) = expectations.iter().find(|(expected, _)| expected == name) else {
                    // Settings that only some cases have.
                    let of_others = ["quorum", "down_if_alone", "if_lease_denied", "clock", "removed"];
                    let of_others = of_others.contains(&name.as_str())
                        || ["count", "additional"].contains(&name.as_str());
                    assert!(result.is_err() || of_others, "{key} without {name}");
                    continue;
                };
                let failed = |result: &Result<Vec<KeyReport>, _>| {
                    let report = &result.as_ref().expect("a well-formed file")[0];
                    let result = report.result.as_ref().expect("it is run here");
                    (result.passed, result.failed) == (0, 1)
                };
                assert!(failed(&result), "{key} without {name}: {result:?}");
                if !or_null {
                    without[name] = Value::Null;
                    let result = run(key, &without);
                    assert!(failed(&result), "{key} with null for {name}: {result:?}");
                }
            }
        }
    }
    assert_eq!(keys, 42);
}

#[test]
fn a_case_for_the_lease_that_lacks_what_is_done_without_it_fails() {
    let text = std::fs::read_to_string(SHARED).expect("the vectors are part of the repository");
    let file: Value = serde_json::from_str(&text).expect("JSON");
    let lease = file["sbr"]
        .as_array()
        .expect("cases")
        .iter()
        .find(|case| !case["if_lease_denied"].is_null());
    let mut lease = lease.expect("one that asks for the lease").clone();
    lease.as_object_mut().expect("a case").remove("if_lease_denied");
    let text = serde_json::json!({ "sbr": [lease] }).to_string();
    assert_eq!(counts(&text), [("sbr".to_owned(), Some((0, 1)))]);
    let (code, out, _) = program("lacks.json", text.as_bytes());
    let told = "sbr: 0 passed, 1 failed\n  case 0: no expectation: `if_lease_denied` is missing\n";
    assert_eq!((code, out.as_str()), (Some(1), told));
}

#[test]
fn a_wrong_delay_and_a_wrong_list_without_the_lease_are_failures() {
    let case = |delay: &str, denied: &str| {
        format!(
            r#"{{"sbr": [{{"strategy": "lease", "role": null, "members": [["A", "Up", 1, []], ["B", "Up", 2, []]],
                "unreachable_pairs": [["B", "A"]], "seen": ["B"], "decision": "AcquireLeaseAndDownUnreachable",
                "acquire_delay": {delay}, "down": ["A"], "escalated_to_down_all": false,
                "if_lease_denied": {denied}}}]}}"#
        )
    };
    let passed = |delay, denied| counts(&case(delay, denied)) == [("sbr".to_owned(), Some((1, 0)))];
    assert!(passed("2.0", r#"["B"]"#));
    assert!(!passed("0", r#"["B"]"#));
    assert!(!passed("null", r#"["B"]"#));
    assert!(!passed("2.0", r#"["A", "B"]"#));
}

#[test]
fn keys_of_others_are_skipped_and_missing_keys_not_mentioned() {
    assert_eq!(counts("{}"), []);
    assert_eq!(
        counts(r#"{"later": 5, "ring": []}"#),
        [("later".to_owned(), None), ("ring".to_owned(), Some((0, 0)))]
    );
    let (code, out, _) = program("unknown.json", br#"{"later": [1, 2]}"#);
    assert_eq!((code, out.as_str()), (Some(0), "later: skipped\n"));
}

#[test]
fn an_expected_null_phi_means_infinite() {
    let case = |phi: &str| {
        format!(
            r#"{{"phi": [{{"threshold": 8.0, "max_sample": 10, "min_std": 100, "pause": 0, "first_estimate": 1000,
                "heartbeats": [0], "queries_ms_after_last": [[100000000, {phi}, false]], "mean": 1000, "std": 250,
                "first_unavailable_ms": 2307}}]}}"#
        )
    };
    assert_eq!(counts(&case("null")), [("phi".to_owned(), Some((1, 0)))]);
    assert_eq!(counts(&case("300.0")), [("phi".to_owned(), Some((0, 1)))]);
}

#[test]
fn files_that_cannot_be_run_end_with_one_line_and_exit_code_2() {
    let bad: [(&str, &[u8]); 16] = [
        (
            "no-replica",
            br#"{"crdt_flag": [{"replicas": ["a"], "steps": [["full", "a", "b"]]}]}"#,
        ),
        (
            "no-delta",
            br#"{"crdt_flag": [{"replicas": ["a"], "steps": [["delta", "a", "a", 0]]}]}"#,
        ),
        (
            "no-operation",
            br#"{"crdt_orset": [{"replicas": ["a"], "steps": [["op", "a", "put", "x"]]}]}"#,
        ),
        (
            "half-a-step",
            br#"{"crdt_orset": [{"replicas": ["a"], "steps": [["op", "a"]]}]}"#,
        ),
        ("empty", b""),
        ("text", b"hello"),
        ("list", b"[]"),
        ("binary", &[0xFF, 0xFE, 0x00]),
        ("no-list", br#"{"ring": 5}"#),
        ("no-object", br#"{"phi": [5]}"#),
        ("no-input", br#"{"vector_clock": [{"a": {}}]}"#),
        ("bad-host", br#"{"vector_clock": [{"a": {"": 1}, "b": {}}]}"#),
        ("bad-number", br#"{"vector_clock": [{"a": {"x": -1}, "b": {}}]}"#),
        (
            "bad-status",
            br#"{"convergence_leader": [{"members": [["a", "Removed", null, "default"]]}]}"#,
        ),
        (
            "bad-settings",
            br#"{"phi": [{"threshold": 0, "max_sample": 0, "min_std": 0, "pause": 0, "first_estimate": 0}]}"#,
        ),
        (
            "bad-tuple",
            br#"{"reachability": [{"common": [["a", "b"]], "branch_a": [], "branch_b": [], "allowed": []}]}"#,
        ),
    ];
    for (name, text) in bad {
        let (code, out, err) = program(&format!("{name}.json"), text);
        assert_eq!(
            (code, out.as_str(), err.lines().count()),
            (Some(2), "", 1),
            "{name}: {err}"
        );
    }
    let deep = "[".repeat(100_000);
    assert_eq!(program("deep.json", deep.as_bytes()).0, Some(2));
    for path in [
        PathBuf::from("/nowhere/at-all.json"),
        PathBuf::from(env!("CARGO_TARGET_TMPDIR")),
    ] {
        let (code, _, err) = run_on(&path);
        assert_eq!((code, err.lines().count()), (Some(2), 1), "{err}");
    }
}
