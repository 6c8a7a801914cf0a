//! Nodes that come and go on async-std for so many minutes (default 10), beside three that stay: `cargo run --release
//! -p quorate-async-std --example churn -- 10`. Exit code 0 if the process holds no more than a tenth more
//! at the end than after a tenth of the time.

use std::process::ExitCode;
use std::time::Duration;

use quorate_async_std::{AsyncStd, Security};
use quorate_conformance::{again_with_one_arena, churn};

fn main() -> ExitCode {
    let minutes = std::env::args().nth(1).map_or(Ok(10.0), |text| text.parse());
    let length = minutes
        .ok()
        .and_then(|minutes: f64| Duration::try_from_secs_f64(minutes * 60.0).ok());
    let Some(length) = length else {
        eprintln!("churn: not a number of minutes");
        return ExitCode::FAILURE;
    };
    match again_with_one_arena() {
        Ok(None) => {}
        Ok(Some(ended)) if ended.success() => return ExitCode::SUCCESS,
        Ok(Some(_)) | Err(_) => return ExitCode::FAILURE,
    }
    let security = Security::insecure_plaintext();
    let churned = async_std::task::block_on(churn::<AsyncStd>(&security, length, || 0));
    println!(
        "async-std: {} changes; base {}; end {}",
        churned.changes, churned.base, churned.end
    );
    if churned.is_back {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
