//! Each short program runs to its end and says what it should.

use std::path::PathBuf;
use std::process::Command;

/// Where one is built: examples are, with the tests, beside their folder.
pub(crate) fn built(name: &str) -> PathBuf {
    let tests = std::env::current_exe().unwrap();
    let folder = tests.parent().unwrap().parent().unwrap().join("examples");
    let built = folder.join(name);
    assert!(
        built.exists(),
        "`cargo test -p quorate-demo` builds {name}, `--test all` does not"
    );
    built
}

/// Runs one; what it said.
fn run(name: &str, arguments: &[&str]) -> String {
    let output = Command::new(built(name)).args(arguments).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{name}: {said}{errors}");
    said
}

fn says(name: &str, lines: &[&str]) {
    let said = run(name, &[]);
    for line in lines {
        assert!(said.contains(line), "{name} does not say {line}: {said}");
    }
}

#[test]
fn hello_greets() {
    says(
        "hello",
        &["ada greets Grace, number 1", "ada greets Edsger, number 2"],
    );
}

#[test]
fn sharded_counters_begin_again_elsewhere() {
    says("sharded_counter", &["three nodes are up", "their sum is 1000"]);
}

#[test]
fn a_scheduler_goes_on_elsewhere() {
    let said = run("scheduler", &[]);
    let homes: Vec<&str> = said
        .lines()
        .filter(|line| line.starts_with("it ticks on "))
        .collect();
    let [before, after] = homes[..] else {
        panic!("{said}")
    };
    assert_ne!(before.split(',').next(), Some(after), "{said}");
}

#[test]
fn likes_count_on_every_node() {
    says("likes", &["(\"hello\", 4)", "ada", "grace", "edsger"]);
}

#[test]
fn workers_do_every_job() {
    says("work_pulling", &["20 jobs are done", "the workers say 20"]);
}

#[test]
fn what_is_delivered_is_confirmed_wherever_the_basket_lives() {
    says("delivery", &["[1, 2, 3", "everything is confirmed"]);
}

#[test]
fn an_account_has_its_balance_when_it_is_started_again() {
    let file =
        PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("account-{}.redb", std::process::id()));
    let place = file.to_str().unwrap();
    let said: Vec<String> = (0..2).map(|_| run("durable_account", &[place])).collect();
    assert!(
        said[0].contains("was 0") && said[0].contains("is 7"),
        "{}",
        said[0]
    );
    assert!(
        said[1].contains("was 7") && said[1].contains("is 14"),
        "{}",
        said[1]
    );
}

#[test]
fn an_account_has_its_balance_in_a_server_too() {
    let Ok(server) = std::env::var("QUORATE_POSTGRES") else {
        quorate_programs::skipped("QUORATE_POSTGRES does not name a PostgreSQL server");
        return;
    };
    let before = run("durable_account", &[&server]);
    let after = run("durable_account", &[&server]);
    let balance = |said: &str| -> u64 {
        let line = said.lines().find_map(|line| line.strip_prefix("the balance is "));
        line.unwrap().parse().unwrap()
    };
    assert_eq!(balance(&after), balance(&before) + 7, "{before}{after}");
}

/// A user copies one: it has to be short.
#[test]
fn no_short_program_is_long() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("examples");
    for program in std::fs::read_dir(folder).unwrap().flatten() {
        let text = std::fs::read_to_string(program.path()).unwrap();
        assert!(text.lines().count() <= 120, "{:?}", program.path());
    }
}
