//! The program `liars` as users start it: a few lies of each kind, and what it says at the end.

use std::process::{Command, Output};

fn liars(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_liars"))
        .args(arguments)
        .output()
        .unwrap()
}

#[test]
fn i_100_a_member_that_lies_ends_nobody_fills_no_memory_and_keeps_no_cluster_from_forming() {
    let _turn = quorate_programs::turn();
    let output = liars(&[
        "--messages",
        "20",
        "--seconds",
        "3",
        "--transport",
        "tokio-tls",
        "--json",
    ]);
    let text = String::from_utf8(output.stdout).unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let result: serde_json::Value = serde_json::from_str(text.lines().last().unwrap_or_default())
        .unwrap_or_else(|error| panic!("{error}: {text}\n{said}"));
    assert!(output.status.success(), "{result}\n{said}");
    let count = |name: &str| result[name].as_u64().unwrap();
    assert_eq!((count("ended"), &result["formed"]), (0, &true.into()), "{result}");
    assert!(count("kinds") > 70 && count("messages") >= 20, "{result}");
    assert!(count("sent") >= count("kinds") * 20, "{result}");
    let growth: Vec<u64> = result["growth"]
        .as_array()
        .unwrap()
        .iter()
        .map(|of| of.as_u64().unwrap())
        .collect();
    assert!(
        growth.len() == 3 && growth.iter().all(|of| *of < 64 << 20),
        "{result}"
    );
}

#[test]
fn mistakes_end_with_one_line_and_exit_code_2() {
    let help = quorate_programs::refuses(liars, &quorate_programs::MISTAKES);
    assert!(help.contains("--messages"));
    quorate_programs::refuses(liars, &[&["--messages", "0"], &["--messages"], &["--bytes", "1"]]);
}
