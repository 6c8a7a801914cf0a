//! The demo from end to end, as a user starts it.
#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a test")]

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;

use quorate_programs::{Directory, Ended, Program, turn};
use serde_json::Value;

const DEMO: &str = env!("CARGO_BIN_EXE_demo");

/// Files of every sort, and how many there are and how many words they have.
fn files(name: &str) -> (Directory, u64, u64) {
    let directory = Directory::new(name);
    let root = &directory.0;
    fs::create_dir_all(root.join(".hidden/deep")).unwrap();
    fs::create_dir_all(root.join("empty")).unwrap();
    for number in 0..200 {
        let text = "word ".repeat(number);
        fs::write(root.join(format!("file-{number}")), text).unwrap();
    }
    fs::write(root.join(".hidden/deep/.file"), "three more words\n").unwrap();
    fs::write(root.join(OsStr::from_bytes(b"odd \xff\n name")), "two\x0cwords").unwrap();
    fs::write(root.join("nothing"), "").unwrap();
    fs::write(root.join("large"), "a b\n".repeat(500_000)).unwrap();
    std::os::unix::fs::symlink(root.join("large"), root.join("link")).unwrap();
    std::os::unix::fs::symlink(root, root.join("empty/loop")).unwrap();
    (directory, 204, (0..200).sum::<u64>() + 3 + 2 + 1_000_000)
}

fn run(arguments: &[&str]) -> Ended {
    Program::start(DEMO, arguments).end()
}

/// Runs the demo on `files`, checks what must hold whatever is killed, and gives the JSON back.
fn count(name: &str, kill: &str, nodes: u64) -> Value {
    count_over("tokio", name, kill, nodes)
}

fn count_over(transport: &str, name: &str, kill: &str, nodes: u64) -> Value {
    let _turn = turn();
    let (directory, files, words) = files(name);
    let program = Program::start(
        DEMO,
        &[
            "--input",
            directory.path(),
            "--kill",
            kill,
            "--nodes",
            &nodes.to_string(),
            "--transport",
            transport,
            "--json",
        ],
    );
    let cluster = format!("demo-{}", program.id());
    let ended = program.end();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    #[cfg(target_os = "linux")]
    assert_eq!(
        quorate_programs::processes_with_argument(&cluster),
        [0_u32; 0],
        "orphans of {cluster}"
    );
    let json: Value = serde_json::from_str(ended.stdout.last().unwrap()).unwrap();
    for (key, expected) in [
        ("nodes", nodes),
        ("files", files),
        ("words", words),
        ("expected", words),
    ] {
        assert_eq!(json[key], expected, "{key} in {json}\n{}", ended.stderr);
    }
    assert!(json["formed_ms"].as_u64().is_some_and(|ms| ms > 0), "{json}");
    assert!(json["asks_retried"].is_u64(), "{json}");
    json
}

fn expect_failover(json: &Value, nodes: u64) {
    let ms = |key: &str| json[key].as_u64().unwrap_or_else(|| panic!("{key} in {json}"));
    assert!(
        ms("unreachable_ms") > 0 && ms("unreachable_ms") <= ms("removed_ms"),
        "{json}"
    );
    assert!(ms("failover_ms") > 0, "{json}");
    assert_eq!(
        json["members"], nodes,
        "the reader and the nodes that are left: {json}"
    );
}

#[test]
fn the_oldest_node_is_killed_and_no_answer_is_lost() {
    expect_failover(&count("oldest", "oldest", 3), 3);
}

#[test]
fn the_youngest_node_is_killed_and_no_answer_is_lost() {
    expect_failover(&count("youngest", "youngest", 2), 2);
}

/// What the demo does over a transport that features of its package choose: without them it says how to build
/// it.
fn over(transport: &str, features: &str, is_built: bool) {
    if is_built {
        return expect_failover(&count_over(transport, transport, "oldest", 2), 2);
    }
    let ended = run(&["--transport", transport]);
    let command = format!("cargo run --release --features {features} -- --transport {transport}");
    assert_eq!((ended.code, ended.stdout.len()), (Some(2), 0), "{}", ended.stderr);
    assert_eq!(ended.stderr.lines().count(), 1, "{}", ended.stderr);
    assert!(ended.stderr.trim_end().ends_with(&command), "{}", ended.stderr);
}

#[test]
fn over_tls_a_node_is_killed_and_no_answer_is_lost() {
    over("tokio-tls", "tls", cfg!(feature = "tls"));
}

#[test]
fn on_smol_a_node_is_killed_and_no_answer_is_lost() {
    over("smol", "smol", cfg!(feature = "smol"));
}

#[test]
fn on_smol_over_tls_a_node_is_killed_and_no_answer_is_lost() {
    let is_built = cfg!(all(feature = "smol", feature = "tls"));
    over("smol-tls", "smol,tls", is_built);
}

#[test]
fn over_quic_a_node_is_killed_and_no_answer_is_lost() {
    over("quinn", "quinn", cfg!(feature = "quinn"));
}

#[test]
fn without_a_kill_nothing_fails_over() {
    let json = count("none", "none", 1);
    for key in ["unreachable_ms", "removed_ms", "failover_ms"] {
        assert!(json[key].is_null(), "{key} in {json}");
    }
    assert_eq!(
        (&json["members"], &json["asks_retried"]),
        (&Value::from(2), &Value::from(0)),
        "{json}"
    );
}

#[test]
fn one_file_is_enough_to_lose_a_node() {
    let _turn = turn();
    let directory = Directory::new("one");
    fs::write(directory.0.join("only"), "one two three").unwrap();
    let ended = run(&["--input", directory.path(), "--json"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let json: Value = serde_json::from_str(ended.stdout.last().unwrap()).unwrap();
    assert_eq!(
        (&json["files"], &json["words"]),
        (&Value::from(1), &Value::from(3)),
        "{json}"
    );
    expect_failover(&json, 3);
}

#[test]
fn without_json_the_result_is_a_table_on_standard_output() {
    let _turn = turn();
    let (directory, ..) = files("table");
    let ended = run(&["--input", directory.path(), "--kill", "none", "--nodes", "2"]);
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));
    let text = ended.stdout.join("\n");
    for part in ["fast timing profile", "is Up", "node 2", "one thread", "Equal"] {
        assert!(text.contains(part), "{part} in {text}");
    }
    assert!(
        !text.contains('\x1b'),
        "no cursor movements without a terminal: {text}"
    );
}

#[test]
fn mistakes_are_one_line_and_exit_code_2() {
    let empty = Directory::new("no-files");
    fs::create_dir_all(empty.0.join("still/empty")).unwrap();
    std::os::unix::fs::symlink("/etc/hostname", empty.0.join("link")).unwrap();
    let cases: [&[&str]; 10] = [
        &["--transport", "pigeons"],
        &["--transport", "tokio", "--dev-certs"],
        &["--input", "/no/such/path"],
        &["--input", empty.path()],
        &["--nodes", "0"],
        &["--nodes", "1"],
        &["--nodes", "1", "--kill", "youngest"],
        &["--kill", "everybody"],
        &["--unknown"],
        &["node-process"],
    ];
    for arguments in cases {
        let ended = run(arguments);
        assert_eq!(ended.code, Some(2), "{arguments:?}: {}", ended.stderr);
        assert_eq!(ended.stderr.lines().count(), 1, "{arguments:?}: {}", ended.stderr);
        assert!(ended.stdout.is_empty(), "{arguments:?}: {:?}", ended.stdout);
    }
}

/// Starts the demo and waits until its nodes are up.
#[cfg(target_os = "linux")]
fn started(directory: &Directory) -> (Program, String) {
    let mut program = Program::start(DEMO, &["--input", directory.path()]);
    let cluster = format!("demo-{}", program.id());
    program.line("node that is up", |line| line.contains("is Up"));
    assert_eq!(
        quorate_programs::processes_with_argument(&cluster).len(),
        3,
        "the test can see the nodes"
    );
    (program, cluster)
}

#[cfg(target_os = "linux")]
#[test]
fn an_interrupted_demo_has_ended_its_nodes_when_it_returns() {
    let _turn = turn();
    let (directory, ..) = files("interrupted");
    for signal in ["INT", "TERM"] {
        let (program, cluster) = started(&directory);
        program.signal(signal);
        let ended = program.end();
        assert_eq!(quorate_programs::processes_with_argument(&cluster), [0_u32; 0]);
        assert_eq!(
            (ended.code, ended.stderr.lines().count()),
            (Some(130), 1),
            "{}",
            ended.stderr
        );
    }
}

#[cfg(target_os = "linux")]
#[test]
fn the_nodes_of_a_killed_demo_end_by_themselves() {
    let _turn = turn();
    let (directory, ..) = files("killed");
    let (program, cluster) = started(&directory);
    program.signal("KILL");
    assert_eq!(program.end().code, None);
    let deadline = std::time::Instant::now() + quorate_programs::DEADLINE;
    while !quorate_programs::processes_with_argument(&cluster).is_empty() {
        assert!(std::time::Instant::now() < deadline, "orphans of {cluster}");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}
