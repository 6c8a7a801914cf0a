//! Which row of the catalogue of bad inputs is answered where, for each kind of adapter. Spec: reliability
//! 3c.

/// Where a row is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AnsweredBy {
    /// In the table of `every_bad_input_has_its_reaction`.
    Table,
    /// In the conformance test of this name.
    Test(&'static str),
    /// In a test of this name beside the code that answers it: it does not depend on the adapter.
    Elsewhere(&'static str),
    /// It cannot happen, for this reason.
    Never(&'static str),
}

use AnsweredBy::{Elsewhere, Never, Table, Test};

const SLOW: AnsweredBy = Test("half_a_frame_and_bytes_that_dribble_are_cut_off");
const PLAIN: AnsweredBy = Test("plain_bytes_on_a_protected_port_are_refused");
const NO_TLS: AnsweredBy = Never("a port without TLS takes plain bytes");
const NO_PLAIN: AnsweredBy = Never("a datagram that is no QUIC packet never reaches the adapter");
const FLOOD: AnsweredBy = Test("a_flood_of_connections_of_one_source_is_cut_off");
const FEW_STREAMS: AnsweredBy =
    Never("a peer may open four streams, and a stream is seen with its first bytes");

const KEYS: AnsweredBy = Test("wrong_empty_and_cut_proofs_and_recorded_sessions_are_refused_and_counted");
const CERTIFICATES: AnsweredBy = Test("nodes_with_wrong_certificates_are_refused_and_counted");
const ONLY_CERTIFICATES: AnsweredBy =
    Never("the ends prove themselves by certificates in fresh TLS 1.3 sessions");
const NO_CERTIFICATES: AnsweredBy = Never("a port without TLS asks for no certificate");

/// The columns of [`APPLICABILITY`].
pub const COLUMNS: [&str; 3] = ["TCP", "TCP with TLS", "QUIC"];

/// Every row up to B-58 and B-64, for an adapter over TCP, over TCP with TLS, and over QUIC.
pub const APPLICABILITY: &[(&str, [AnsweredBy; 3])] = &[
    ("B-01", [Table; 3]),
    ("B-02", [Table; 3]),
    ("B-03", [Table; 3]),
    ("B-04", [Table; 3]),
    ("B-05", [NO_TLS, PLAIN, NO_PLAIN]),
    ("B-06", [Table; 3]),
    ("B-07", [Table; 3]),
    ("B-08", [Table; 3]),
    ("B-09", [Table; 3]),
    ("B-10", [Table; 3]),
    ("B-11", [SLOW; 3]),
    ("B-12", [SLOW; 3]),
    ("B-13", [Table; 3]),
    ("B-14", [Table; 3]),
    (
        "B-15",
        [Elsewhere("b_15_every_flipped_bit_of_every_golden_frame"); 3],
    ),
    ("B-16", [SLOW; 3]),
    ("B-17", [Never("this wire has no varints"); 3]),
    ("B-18", [Table; 3]),
    ("B-19", [Table; 3]),
    ("B-20", [Table; 3]),
    ("B-21", [Table; 3]),
    ("B-22", [Table; 3]),
    ("B-23", [Table; 3]),
    ("B-24", [Table; 3]),
    ("B-25", [Table; 3]),
    ("B-26", [Table; 3]),
    ("B-27", [Never("this wire has no elements without bytes"); 3]),
    ("B-28", [Table; 3]),
    ("B-29", [Table; 3]),
    ("B-30", [Table; 3]),
    (
        "B-31",
        [Never("legal: two members may each have admitted one (docs/WIRE.md 5.2)"); 3],
    ),
    ("B-32", [Table; 3]),
    ("B-33", [Table; 3]),
    ("B-34", [Table; 3]),
    ("B-35", [Table; 3]),
    ("B-36", [Table; 3]),
    ("B-37", [Table; 3]),
    ("B-38", [Test("a_member_may_tell_a_node_that_it_is_down"); 3]),
    ("B-39", [Table; 3]),
    ("B-40", [Table; 3]),
    ("B-41", [Table; 3]),
    ("B-42", [Table; 3]),
    ("B-43", [Table; 3]),
    ("B-44", [Test("a_removed_incarnation_is_refused"); 3]),
    ("B-45", [Table; 3]),
    ("B-46", [Table; 3]),
    (
        "B-47",
        [Test("a_joiner_with_other_settings_is_told_and_stops"); 3],
    ),
    ("B-48", [Table; 3]),
    ("B-49", [Table; 3]),
    ("B-50", [Table; 3]),
    ("B-51", [Test("a_flood_of_gossip_is_dropped_and_then_cut_off"); 3]),
    ("B-52", [FLOOD, FLOOD, FEW_STREAMS]),
    ("B-53", [KEYS, ONLY_CERTIFICATES, ONLY_CERTIFICATES]),
    ("B-54", [KEYS, ONLY_CERTIFICATES, ONLY_CERTIFICATES]),
    ("B-55", [NO_CERTIFICATES, CERTIFICATES, CERTIFICATES]),
    ("B-56", [NO_CERTIFICATES, CERTIFICATES, CERTIFICATES]),
    // Dropped and counted, the link stays: a policy says what a member may do, and not that it is no member
    // any more.
    (
        "B-57",
        [Elsewhere("b_57_what_the_policy_refuses_a_member_is_dropped_and_another_request_passes"); 3],
    ),
    ("B-58", [Table; 3]),
    ("B-64", [Table; 3]),
];
