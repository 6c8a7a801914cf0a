//! Every limit outside its range is refused, by its key.

use core::time::Duration;

use quorate_core::config::Limits;

use super::LinkLimits;

type Spoil = fn(&mut LinkLimits);

#[test]
fn a_limit_outside_its_range_is_refused_by_its_key() {
    let spoiled: &[(&str, Spoil)] = &[
        ("links.handshake_timeout", |l| {
            l.handshake_timeout = Duration::ZERO
        }),
        ("links.links_max", |l| l.links_max = 15),
        ("links.pending_handshakes_max", |l| l.pending_handshakes_max = 15),
        ("links.stranger_links_max", |l| l.stranger_links_max = 65_537),
        ("links.stranger_links_per_source_max", |l| {
            l.stranger_links_per_source_max = 0
        }),
        ("links.pending_handshakes_per_source_max", |l| {
            l.pending_handshakes_per_source_max = 0
        }),
        ("links.stranger_idle_timeout", |l| {
            l.stranger_idle_timeout = Duration::ZERO
        }),
        ("links.max_link_age", |l| {
            l.max_link_age = Duration::from_millis(999)
        }),
        ("links.max_link_age", |l| {
            l.max_link_age = Duration::from_secs(30 * 86_400 + 1)
        }),
        ("links.inbound_bytes_max", |l| l.inbound_bytes_max = (8 << 20) - 1),
        ("links.gossip_frames_per_second_max", |l| {
            l.gossip_frames_per_second_max = 9
        }),
        ("links.control_frames_per_second_max", |l| {
            l.control_frames_per_second_max = 99
        }),
        ("links.control_bytes_per_second_max", |l| {
            l.control_bytes_per_second_max = (16 << 20) - 1
        }),
        ("links.rate_exceeded_patience", |l| {
            l.rate_exceeded_patience = Duration::ZERO
        }),
        ("links.checksum_failures_max", |l| l.checksum_failures_max = 0),
        ("links.control_queue_messages_max", |l| {
            l.control_queue_messages_max = 99
        }),
        ("links.gossip_queue_messages_max", |l| {
            l.gossip_queue_messages_max = 0
        }),
        ("links.reply_queue_messages_max", |l| {
            l.reply_queue_messages_max = 0
        }),
        ("links.reply_queue_bytes_max", |l| l.reply_queue_bytes_max = 0),
        ("links.user_queue_messages_max", |l| l.user_queue_messages_max = 1),
        ("links.user_queue_bytes_max", |l| l.user_queue_bytes_max = 1),
        ("links.bulk_queue_messages_max", |l| l.bulk_queue_messages_max = 1),
        ("links.bulk_queue_bytes_max", |l| l.bulk_queue_bytes_max = 1),
    ];
    for (key, spoil) in spoiled {
        let mut limits = LinkLimits::default();
        spoil(&mut limits);
        let error = limits.validate(&Limits::default()).unwrap_err();
        assert_eq!(error.key, *key);
        assert!(!error.value.is_empty() && !error.legal.is_empty(), "{key}");
    }
}

#[test]
fn two_of_the_largest_frames_fit_what_links_may_hold() {
    let frames = |bytes| Limits {
        user_frame_bytes_max: bytes,
        ..Limits::default()
    };
    let holding = |bytes| LinkLimits {
        inbound_bytes_max: bytes,
        ..LinkLimits::default()
    };
    assert!(holding(16 << 20).validate(&frames(8 << 20)).is_ok());
    let error = holding((16 << 20) - 1).validate(&frames(8 << 20)).unwrap_err();
    assert_eq!(error.key, "links.inbound_bytes_max");
    // What is given without a word is legal with the largest frames.
    assert!(LinkLimits::default().validate(&frames(16 << 20)).is_ok());
}
