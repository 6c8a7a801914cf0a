//! Exact numbers of the accrual detector.

use super::*;

fn at(ms: u64) -> Instant {
    // An origin that is no multiple of anything, so that a mistake about "since the start" shows.
    Instant::from_millis(777_777 + ms)
}

fn settings(pause_ms: u64) -> PhiSettings {
    PhiSettings {
        acceptable_heartbeat_pause: Duration::from_millis(pause_ms),
        ..PhiSettings::default()
    }
}

fn fed(settings: PhiSettings, beats_ms: impl IntoIterator<Item = u64>) -> PhiAccrual {
    let mut detector = PhiAccrual::new(settings);
    for beat in beats_ms {
        detector.heartbeat(at(beat));
    }
    detector
}

fn close(found: f64, expected: f64) {
    assert!(
        (found - expected).abs() <= 6e-6 * expected.abs(),
        "found {found}, expected {expected}"
    );
}

/// First whole millisecond after `from_ms` at which the detector gives the peer up.
fn first_unavailable(detector: &PhiAccrual, from_ms: u64) -> u64 {
    (0..100_000)
        .find(|ms| !detector.is_available(at(from_ms + ms)))
        .unwrap()
}

#[test]
fn m_262_nothing_heard_means_available_and_not_monitored() {
    let detector = PhiAccrual::new(PhiSettings::default());
    assert_eq!(detector.phi(at(1_000_000)), 0.0);
    assert!(detector.is_available(at(1_000_000)));
    assert!(!detector.is_monitoring());
    assert_eq!(detector.last_heartbeat(), None);
    let mut heard = detector;
    heard.heartbeat(at(1));
    assert!(heard.is_monitoring());
}

#[test]
fn m_263_one_heartbeat_starts_from_the_estimate() {
    let detector = fed(settings(0), [0]);
    assert_eq!((detector.mean_ms(), detector.std_deviation_ms()), (1000.0, 250.0));
    for (silence, expected) in [
        (500, 0.009_998_76),
        (1000, core::f64::consts::LOG10_2),
        (1250, 0.799_508),
        (1500, 1.642_83),
        (1750, 2.909_48),
        (2000, 4.736_69),
        (2500, 10.7826),
        (3000, 21.2416),
    ] {
        close(detector.phi(at(silence)), expected);
    }
    assert_eq!(first_unavailable(&detector, 0), 2307);
}

#[test]
fn default_settings_give_up_at_the_documented_millisecond() {
    let after = |threshold: f64, beats: u64| {
        let beats = (0..beats).map(|beat| beat * 1000);
        let last = beats.clone().next_back().unwrap();
        first_unavailable(
            &fed(
                PhiSettings {
                    threshold,
                    ..PhiSettings::default()
                },
                beats,
            ),
            last,
        )
    };
    assert_eq!(after(8.0, 1200), 4523);
    assert_eq!(after(10.0, 1200), 4580);
    assert_eq!(after(12.0, 1200), 4630);
    assert_eq!(after(3.0, 1200), 4306);
    assert_eq!(after(8.0, 1), 5307);
}

#[test]
fn m_271_an_early_second_heartbeat_joins_the_history() {
    let mut detector = fed(settings(0), [0]);
    close(detector.phi(at(100)), 5.130_21e-5);
    detector.heartbeat(at(200));
    assert!(detector.history().intervals_ms().eq([750, 1250, 200]));
    close(detector.phi(at(300)), 0.031_512_3);
}

#[test]
fn m_272_a_long_silence_is_noticed() {
    let detector = fed(
        PhiSettings {
            threshold: 3.0,
            ..settings(0)
        },
        [0, 1000, 1100],
    );
    assert!(detector.is_available(at(1200)));
    assert!((detector.phi(at(1200)) - 0.0257).abs() < 5e-5);
    assert!(!detector.is_available(at(8200)));
}

#[test]
fn m_274_an_outage_ends_but_its_gap_is_not_learned() {
    let mut detector = fed(settings(3000), [0, 1000, 2000, 3000]);
    close(detector.phi(at(7000)), core::f64::consts::LOG10_2);
    assert!(detector.is_available(at(7000)));
    detector.heartbeat(at(8000));
    assert!(detector.is_available(at(9000)));
    assert!(detector.history().intervals_ms().all(|interval| interval != 5000));
    assert_eq!(detector.history().len(), 5);
}

#[test]
fn m_275_a_silence_longer_than_the_pause_is_an_outage() {
    let mut detector = fed(settings(3000), [0, 1000, 2000, 3000, 4000, 5000]);
    assert!(detector.is_available(at(5500)));
    detector.heartbeat(at(6000));
    assert!(!detector.is_available(at(11_000)));
    close(detector.phi(at(11_000)), 21.2416);
}

#[test]
fn m_277_m_278_irregular_heartbeats_widen_the_window() {
    let beats = |count: u64| (0..=count).map(|beat| beat / 2 * 2000 + beat % 2 * 800);
    let long = fed(settings(3000), beats(199));
    assert!(
        (long.std_deviation_ms() - 200.556).abs() < 1e-3,
        "{}",
        long.std_deviation_ms()
    );
    assert_eq!(first_unavailable(&long, beats(199).next_back().unwrap()), 5048);

    let short = fed(settings(0), beats(8));
    assert!(
        (short.std_deviation_ms() - 210.950).abs() < 1e-3,
        "{}",
        short.std_deviation_ms()
    );
    let last = beats(8).next_back().unwrap();
    for (silence, expected) in [
        (500, 0.003_830_46),
        (1500, 2.056_45),
        (2000, 6.553_74),
        (2500, 15.9519),
    ] {
        close(short.phi(at(last + silence)), expected);
    }
}

#[test]
fn i_19_a_peer_that_comes_and_goes_is_borne_no_longer_than_the_largest_deviation_says() {
    // Heard every 200 ms, but for three gaps that were forgiven.
    let beats = || (0..30).map(|beat| beat * 200 + beat / 8 * 1300);
    let last = beats().next_back().unwrap();
    let settings = |max_std_deviation| PhiSettings {
        max_std_deviation,
        first_heartbeat_estimate: Duration::from_millis(200),
        ..settings(1500)
    };
    let patient = fed(settings(Duration::MAX), beats());
    let bounded = fed(settings(Duration::from_millis(200)), beats());
    assert!(patient.std_deviation_ms() > 350.0);
    let mean = patient.mean_ms() as u64;
    assert!(first_unavailable(&patient, last) > mean + 1500 + 1046 + 800);
    assert_eq!(
        first_unavailable(&bounded, last).abs_diff(mean + 1500 + 1046) / 5,
        0
    );
    // The lower limit counts, if it is higher.
    let higher = PhiSettings {
        min_std_deviation: Duration::from_millis(400),
        ..settings(Duration::from_millis(200))
    };
    let higher = first_unavailable(&fed(higher, beats()), last);
    assert_eq!(higher.abs_diff(mean + 1500 + 2092) / 5, 0);
}

#[test]
fn m_279_an_interval_of_two_thirds_of_the_pause_is_worth_a_warning() {
    let mut detector = fed(settings(3000), [0]);
    assert_eq!(detector.heartbeat(at(1999)), None);
    assert_eq!(detector.heartbeat(at(3999)), Some(Duration::from_millis(2000)));
    let mut impatient = fed(settings(0), [0]);
    assert_eq!(impatient.heartbeat(at(1000)), None);
}

#[test]
fn m_285_settings_out_of_range_are_refused() {
    let default = PhiSettings::default();
    assert_eq!(default.validate(), Ok(()));
    for threshold in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        assert_eq!(
            PhiSettings { threshold, ..default }.validate(),
            Err(PhiSettingsError::Threshold)
        );
    }
    let least = PhiSettings {
        max_sample_size: SAMPLES_MAX,
        min_std_deviation: Duration::from_micros(1),
        first_heartbeat_estimate: Duration::from_millis(1),
        ..default
    };
    assert_eq!(least.validate(), Ok(()));
    for max_sample_size in [0, SAMPLES_MAX + 1] {
        let refused = PhiSettings {
            max_sample_size,
            ..default
        }
        .validate();
        assert_eq!(refused, Err(PhiSettingsError::MaxSampleSize));
    }
    let no_deviation = PhiSettings {
        min_std_deviation: Duration::ZERO,
        ..default
    };
    assert_eq!(no_deviation.validate(), Err(PhiSettingsError::MinStdDeviation));
    let no_estimate = PhiSettings {
        first_heartbeat_estimate: Duration::ZERO,
        ..default
    };
    assert_eq!(
        no_estimate.validate(),
        Err(PhiSettingsError::FirstHeartbeatEstimate)
    );
}

#[test]
fn s_8_5_a_shift_forgives_exactly_the_pause() {
    let mut paused = fed(PhiSettings::default(), (0..10).map(|beat| beat * 1000));
    let mut steady = paused.clone();
    paused.shift(Duration::from_secs(30));
    assert_eq!(paused.phi(at(43_000)).to_bits(), steady.phi(at(13_000)).to_bits());
    assert_eq!(paused.heartbeat(at(40_000)), None);
    steady.heartbeat(at(10_000));
    assert_eq!(paused.mean_ms().to_bits(), steady.mean_ms().to_bits());
    let mut silent = PhiAccrual::new(PhiSettings::default());
    silent.shift(Duration::from_secs(1));
    assert!(!silent.is_monitoring());
}

#[test]
fn a_clock_that_stands_still_or_an_old_query_is_harmless() {
    let mut detector = fed(settings(0), [5000, 5000, 4000]);
    assert_eq!(detector.phi(at(0)), detector.phi(at(4000)));
    detector.heartbeat(Instant::MAX);
    assert!(detector.phi(Instant::MAX).is_finite());
}
