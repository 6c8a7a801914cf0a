//! The program `mailboxes` as users start it: what it says at the end, and that mistakes end with one line.

use std::process::{Command, Output};

fn mailboxes(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_mailboxes"))
        .args(arguments)
        .output()
        .unwrap()
}

#[test]
fn what_was_kept_is_handled_in_order_although_old_hosts_are_killed_in_the_middle_of_moves() {
    let _turn = quorate_programs::turn();
    let output = mailboxes(&["--seconds", "12", "--json"]);
    let text = String::from_utf8(output.stdout).unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    let result: serde_json::Value = serde_json::from_str(text.lines().last().unwrap_or_default())
        .unwrap_or_else(|error| panic!("{error}: {text}\n{said}"));
    assert!(output.status.success(), "{result}\n{said}");
    let count = |name: &str| result[name].as_u64().unwrap();
    for nothing in ["lost", "reordered", "unmarked", "stale", "denied"] {
        assert_eq!(count(nothing), 0, "{result}\n{said}");
    }
    assert!(count("kills") >= 2, "{result}");
    assert!(count("kept") > 100 && count("sent") >= count("kept"), "{result}");
}

#[test]
fn mistakes_end_with_one_line_and_exit_code_2() {
    quorate_programs::refuses(mailboxes, &quorate_programs::MISTAKES);
}
