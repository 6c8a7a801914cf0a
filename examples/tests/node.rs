//! Nodes run by hand: what they print, how they leave.
#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a test")]

use std::net::TcpListener;

use quorate_programs::{Program, turn};

const NODE: &str = env!("CARGO_BIN_EXE_node");

/// A port that was free a moment ago.
fn free_address() -> String {
    TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .to_string()
}

#[test]
fn two_nodes_form_a_cluster_and_one_leaves_on_sigterm() {
    let _turn = turn();
    let (first, second) = (free_address(), free_address());
    let mut a = Program::start(NODE, &["--bind", &first, "--seed", &first, "--fast"]);
    let line = |event: &str, address: &str| format!("{event} {address}");
    for expected in [line("joining", &first), line("up", &first)] {
        a.line(&expected, |found| found == expected);
    }
    let mut b = Program::start(
        NODE,
        &["--bind", &second, "--seed", &first, "--role", "extra", "--fast"],
    );
    for expected in [line("joining", &second), line("up", &second)] {
        a.line(&expected, |found| found == expected);
    }
    let up = line("up", &second);
    b.line(&up, |found| found == up);
    b.signal("TERM");
    let removed = line("removed", &second);
    a.line(&removed, |found| found == removed);
    let ended = b.end();
    assert_eq!(ended.code, Some(0), "{:?} {}", ended.stdout, ended.stderr);
    assert!(ended.stdout.contains(&line("up", &first)), "{:?}", ended.stdout);
    a.signal("INT");
    let ended = a.end();
    assert_eq!(ended.code, Some(0), "{:?} {}", ended.stdout, ended.stderr);
    assert!(
        ended.stdout.contains(&line("leader", &first)),
        "{:?}",
        ended.stdout
    );
    assert!(
        ended.stdout.contains(&line("leaving", &second)),
        "{:?}",
        ended.stdout
    );
}

#[test]
fn a_killed_node_is_unreachable_then_down_then_removed() {
    let _turn = turn();
    let addresses = [free_address(), free_address(), free_address()];
    let mut nodes: Vec<Program> = addresses
        .iter()
        .map(|bind| Program::start(NODE, &["--bind", bind, "--seed", &addresses[0], "--fast"]))
        .collect();
    let watcher = &mut nodes[0];
    for address in &addresses {
        let up = format!("up {address}");
        if !watcher.seen.contains(&up) {
            watcher.line(&up, |found| found == up);
        }
    }
    drop(nodes.pop());
    let watcher = &mut nodes[0];
    for event in ["unreachable", "down", "removed"] {
        let expected = format!("{event} {}", addresses[2]);
        watcher.line(&expected, |found| found == expected);
    }
}

#[cfg(unix)]
#[test]
fn sigusr1_makes_a_node_say_why_the_cluster_is_not_further() {
    let _turn = turn();
    let address = free_address();
    let mut node = Program::start(NODE, &["--bind", &address, "--seed", &address, "--fast"]);
    let up = format!("up {address}");
    node.line(&up, |found| found == up);
    node.signal("USR1");
    node.line("who says it", |found| {
        found.starts_with(&address) && found.ends_with("says:")
    });
    node.line("the leader", |found| found == "- This node is the leader.");
    node.line("convergence", |found| {
        found.starts_with("- All 1 members that count have seen this state")
    });
}

#[test]
fn sigusr1_names_the_stopped_member_that_keeps_the_leader_from_acting() {
    let _turn = turn();
    let (first, second) = (free_address(), free_address());
    let mut a = Program::start(NODE, &["--bind", &first, "--seed", &first, "--fast"]);
    // With the first line it must be safe to ask.
    a.line("joining", |found| found == format!("joining {first}"));
    a.signal("USR1");
    a.line("leader", |found| found == format!("leader {first}"));

    let b = Program::start(NODE, &["--bind", &second, "--seed", &first, "--fast"]);
    a.line("up", |found| found == format!("up {second}"));
    b.signal("STOP");
    a.line("unreachable", |found| found == format!("unreachable {second}"));
    a.signal("USR1");
    a.line("who blocks", |found| {
        found.starts_with(&format!("- {second}"))
            && found.contains(&format!("is unreachable for {first}"))
            && found.ends_with("The leader cannot act until it answers again or is down.")
    });
}

#[test]
fn mistakes_are_one_line_and_exit_code_2() {
    let busy = TcpListener::bind("127.0.0.1:0").unwrap();
    let busy = busy
        .local_addr()
        .map(|address| (address.to_string(), busy))
        .unwrap();
    let cases: [&[&str]; 7] = [
        &["--bind", &busy.0],
        &["--bind", "nonsense"],
        &["--bind", "127.0.0.1:0", "--seed", "nonsense"],
        &["--bind", "127.0.0.1:0", "--cluster", "not a name"],
        &["--bind", "127.0.0.1:0", "--role", "dc-x"],
        &["--unknown"],
        &["--seed"],
    ];
    for arguments in cases {
        let ended = Program::start(NODE, arguments).end();
        assert_eq!(ended.code, Some(2), "{arguments:?}: {}", ended.stderr);
        assert_eq!(ended.stderr.lines().count(), 1, "{arguments:?}: {}", ended.stderr);
        assert!(ended.stdout.is_empty(), "{arguments:?}: {:?}", ended.stdout);
    }
}
