//! Settings whose values are types of the core, said with what this adapter alone exports.

use std::time::Duration;

use quorate_smol::{
    Config,
    config::{DetectorImplementation, DownAllWhenUnstable},
    downing::IndirectRule,
    membership::AppVersion,
};

fn change(config: &mut Config) {
    config.app_version = AppVersion::new("1.2.3").unwrap();
    config.failure_detector.implementation = DetectorImplementation::Deadline;
    config.downing.rule = IndirectRule::Classic;
    config.downing.down_all_when_unstable = DownAllWhenUnstable::After(Duration::from_secs(30));
}

#[test]
fn settings_of_the_cores_own_types_are_set_through_this_adapter() {
    drop(quorate_smol::builder("settings").config(change));
}
