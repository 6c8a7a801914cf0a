//! The figures in `docs/fail-over.md` are those of the configuration.

use std::fs;
use std::path::Path;
use std::time::Duration;

use quorate_core::config::{Config, ValidConfig};
use quorate_core::ident::ClusterName;

/// Members of the cluster that the page speaks of.
const MEMBERS: usize = 3;

fn figures(config: &ValidConfig) -> [(&'static str, Duration); 8] {
    let detector = &config.failure_detector;
    [
        ("failure_detector.heartbeat_interval", detector.heartbeat_interval),
        (
            "failure_detector.acceptable_heartbeat_pause",
            detector.acceptable_heartbeat_pause,
        ),
        ("failure_detector.min_std_deviation", detector.min_std_deviation),
        (
            "failure_detector.unreachable_nodes_reaper_interval",
            detector.unreachable_nodes_reaper_interval,
        ),
        ("membership.gossip_interval", config.membership.gossip_interval),
        (
            "membership.leader_actions_interval",
            config.membership.leader_actions_interval,
        ),
        (
            "downing.stable_after` for 3 members",
            config.stable_after(MEMBERS),
        ),
        (
            "downing.down_removal_margin` for 3 members",
            config.removal_margin(MEMBERS),
        ),
    ]
}

/// When a host that dies is found silent, at the earliest and at the latest.
fn silence(config: &ValidConfig) -> (Duration, Duration) {
    let detector = &config.failure_detector;
    // Phi is 8 at 5.23 standard deviations.
    let deviations = detector.min_std_deviation.mul_f64(5.23);
    let forgiven = detector.heartbeat_interval + detector.acceptable_heartbeat_pause + deviations;
    let earliest = forgiven - detector.heartbeat_interval;
    (earliest, forgiven + detector.unreachable_nodes_reaper_interval)
}

fn seconds(duration: Duration) -> String {
    format!("{:.1}", duration.as_secs_f64())
}

/// As the page writes it.
fn shown(duration: Duration) -> String {
    if duration < Duration::from_secs(1) {
        format!("{} ms", duration.as_millis())
    } else {
        format!("{} s", duration.as_secs_f64())
    }
}

#[test]
fn the_parts_of_a_fail_over_are_those_of_the_configuration() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/fail-over.md");
    let text = fs::read_to_string(&path).expect("the page is there");
    let name = ClusterName::new("docs").expect("a name");
    let valid = |config: Config| config.validate().expect("a preset is valid");
    let presets: [fn(ClusterName) -> Config; 3] = [Config::lan, Config::one_data_center, Config::fast];
    let presets = presets.map(|preset| valid(preset(name.clone())));
    let columns = presets.each_ref().map(figures);
    for (at, (key, _)) in columns[0].iter().enumerate() {
        let key = if key.contains('`') {
            format!("`{key}")
        } else {
            format!("`{key}`")
        };
        let [lan, center, fast] = columns.each_ref().map(|column| shown(column[at].1));
        let row = format!("| {key} | {lan} | {center} | {fast} |");
        assert!(text.contains(&row), "{row}");
    }
    let range = |(from, to)| format!("{} to {} s", seconds(from), seconds(to));
    let [lan, center, fast] = presets.each_ref().map(|preset| range(silence(preset)));
    let row = format!("| the host falls silent | {lan} | {center} | {fast} |");
    assert!(text.contains(&row), "{row}");
}
