//! What every Quorate adapter, a third party's too, has to show, as tests that it calls: over real sockets,
//! every wait with a limit.
//!
//! ```ignore
//! quorate_conformance::conformance!(MyAdapter, Security::insecure_plaintext(), my_runtime::block_on);
//! ```
//!
//! stands in a test file of the adapter and makes one `#[test]` of each function here: the adapter, an
//! expression for the security (evaluated per test), and a function that runs a future to its end. They panic
//! when the adapter fails. What needs more is called by hand: [`adapters_form_one_cluster`],
//! [`nodes_of_different_security_do_not_meet`]. What no runtime, transport, store or lease keeper can break
//! is not here: `tests/driver` shows that over one adapter. [`support`] and [`billing`] are what both share.
//! Spec: reliability 3c. More macros. For every adapter, apart because they take some seconds or a test file
//! of their own: `bad_inputs!` (the catalogue of bad inputs; which is answered where says [`APPLICABILITY`]),
//! `conformance_of_blocking!` (handlers that block their threads), `conformance_of_data!` (a large state of
//! replicated data), `conformance_of_deliveries!`, `conformance_of_processes!`, `conformance_of_strangers!`,
//! `conformance_of_lanes!`. For some transports: `conformance_of_connections!` (every link is a connection of
//! its own), `conformance_of_keys!` (those that can ask for a pre-shared key), `conformance_of_certificates!`
//! (those with certificates). Beside adapters: `lease_conformance!` for lease keepers, `store_conformance!`,
//! `shared_store_conformance!` and `store_faults!` for stores.
#![forbid(unsafe_code)]

mod bad_inputs;
pub mod billing;
mod blocking;
mod breaking;
#[cfg(feature = "dev-certs")]
mod certificates;
mod churn;
mod cluster;
mod data;
mod deliveries;
mod disk;
mod durable_faults;
mod keepers;
mod keys;
mod lanes;
mod leases;
mod links;
pub mod moves;
mod paths;
#[cfg(unix)]
mod processes;
mod rotation;
mod runtime;
mod script;
mod shared_stores;
mod store_faults;
mod stores;
mod strangers;
pub mod support;

pub use quorate_driver::Security;

pub use bad_inputs::{
    APPLICABILITY, AnsweredBy, COLUMNS, a_flood_of_connections_of_one_source_is_cut_off,
    a_flood_of_gossip_is_dropped_and_then_cut_off, a_joiner_with_other_settings_is_told_and_stops,
    a_member_may_tell_a_node_that_it_is_down, a_removed_incarnation_is_refused,
    every_bad_input_has_its_reaction, half_a_frame_and_bytes_that_dribble_are_cut_off,
    half_a_frame_of_a_stranger_draws_nothing_from_the_members_bytes,
    half_done_handshakes_up_to_the_budget_keep_no_honest_node_out,
    plain_bytes_on_a_protected_port_are_refused, rows_of_the_table,
    strangers_who_ask_for_nothing_are_closed_within_the_handshakes_limit,
    violations_of_strangers_count_for_their_source,
};
pub use blocking::{
    a_node_whose_executor_stands_still_leaves, handlers_that_block_their_threads_harm_no_node,
};
#[cfg(feature = "dev-certs")]
pub use certificates::{
    a_certificate_need_not_name_the_host_if_it_is_told_so,
    certificates_and_their_authority_are_replaced_at_run_time,
    nodes_with_wrong_certificates_are_refused_and_counted,
};
pub use churn::{ChurnOutcome, HeldByProcess, again_with_one_arena, churn};
pub use cluster::{
    a_message_that_is_too_large_is_refused_and_the_next_one_passes, a_node_leaves_and_hands_over,
    a_restarted_node_is_a_new_member, adapters_form_one_cluster, messages_to_an_entity_keep_their_order,
    three_nodes_form_a_cluster_and_answer_for_each_other,
};
pub use data::a_large_state_crosses_beside_heartbeats_and_asks;
pub use deliveries::s_238_64_mib_arrive_in_parts_over_links_that_break;
pub use disk::FaultyDisk;
pub use durable_faults::*;
pub use keys::{
    an_acceptor_without_the_key_is_refused, nodes_of_two_keys_do_not_meet_nor_does_one_without,
    wrong_empty_and_cut_proofs_and_recorded_sessions_are_refused_and_counted,
};
pub use lanes::*;
pub use leases::{
    LEASE_TIME_TO_LIVE, a_lease_given_back_is_free_and_its_token_grows,
    a_stopped_holder_does_not_block_for_ever_and_a_resumed_one_has_lost_it,
    a_token_shown_by_another_holder_renews_nothing, leases_of_different_names_do_not_meet,
    one_holder_at_a_time, one_of_many_who_ask_at_once_gets_the_lease, renewing_keeps_a_lease,
};
pub use links::{CYCLES, a_link_carries_bytes_both_ways_and_ends, links_come_and_go_without_a_leak};
pub use paths::the_state_of_an_instance_goes_with_it_when_its_host_leaves;
#[cfg(unix)]
pub use processes::*;
pub use rotation::links_are_renewed_and_no_message_is_lost;
pub use runtime::{
    a_task_that_panics_harms_no_other, the_clock_never_goes_back, the_deadline_of_a_sleep_is_kept,
};
pub use script::a_script_of_inputs_has_the_same_effects_on_every_runtime;
pub use shared_stores::{
    logs_follow_the_token_between_machines_and_keys_stay_at_home, of_two_that_race_one_is_refused,
};
pub use store_faults::{
    OnDisk, i_80_damaged_bytes_are_never_given_out,
    i_80_whatever_was_acknowledged_survives_a_power_failure_at_any_write,
    i_81_a_failed_fsync_acknowledges_nothing_until_the_store_was_opened_again,
    i_82_a_full_disk_refuses_cleanly_and_writes_resume,
    i_83_a_disk_that_stalls_for_five_seconds_delays_no_heartbeat,
};
pub use stores::{
    Reopen, a_batch_is_atomic_and_bytes_come_back_as_they_were, a_range_is_ordered_bounded_and_of_one_space,
    a_refused_order_does_not_spoil_its_group, a_snapshot_and_what_is_behind_it_survive,
    appends_are_fenced_by_token_and_expected_sequence,
    i_84_a_store_keeps_what_it_acknowledged_and_counts_its_lives,
};
pub use strangers::{
    a_dialer_for_another_cluster_is_told_so, a_silent_dialer_is_cut_off,
    nodes_of_different_security_do_not_meet, strangers_do_not_delay_a_shutdown,
    strangers_who_speak_something_else_are_cut_off,
};

/// Makes a `#[test]` of every conformance test: the adapter, an expression of type [`crate::Security`], and a
/// function that runs a future to its end. See the crate's page.
#[macro_export]
macro_rules! conformance {
    ($adapter:ty, $security:expr, $block_on:expr) => {
        $crate::conformance!(@ $adapter, $security, $block_on,
            three_nodes_form_a_cluster_and_answer_for_each_other,
            a_node_leaves_and_hands_over,
            a_restarted_node_is_a_new_member,
            messages_to_an_entity_keep_their_order,
            a_message_that_is_too_large_is_refused_and_the_next_one_passes,
            the_state_of_an_instance_goes_with_it_when_its_host_leaves,
            a_link_carries_bytes_both_ways_and_ends,
            links_come_and_go_without_a_leak,
            a_dialer_for_another_cluster_is_told_so,
            a_silent_dialer_is_cut_off,
            strangers_do_not_delay_a_shutdown,
            strangers_who_speak_something_else_are_cut_off,
            a_script_of_inputs_has_the_same_effects_on_every_runtime,
            links_are_renewed_and_no_message_is_lost,
            a_task_that_panics_harms_no_other,
            the_clock_never_goes_back,
            the_deadline_of_a_sleep_is_kept,
        );
    };
    (@ $adapter:ty, $security:expr, $block_on:expr, $($test:ident,)+) => {
        $(
            #[test]
            fn $test() {
                let security: $crate::Security = $security;
                // Boxed: an unoptimised runtime moves the future through a dozen frames, and test threads
                // have small stacks.
                $block_on(::std::boxed::Box::pin($crate::$test::<$adapter>(&security)));
            }
        )+
    };
    (! $adapter:ty, $block_on:expr, $($test:ident,)+) => {
        $(
            #[test]
            fn $test() {
                $block_on(::std::boxed::Box::pin($crate::$test::<$adapter>()));
            }
        )+
    };
}

/// The same for the catalogue of bad inputs.
#[macro_export]
macro_rules! bad_inputs {
    ($adapter:ty, $security:expr, $block_on:expr) => {
        $crate::conformance!(@ $adapter, $security, $block_on,
            every_bad_input_has_its_reaction,
            half_a_frame_and_bytes_that_dribble_are_cut_off,
            a_flood_of_gossip_is_dropped_and_then_cut_off,
            a_joiner_with_other_settings_is_told_and_stops,
            a_removed_incarnation_is_refused,
            a_member_may_tell_a_node_that_it_is_down,
        );
    };
}

/// The same for handlers that block their threads: for a test file of its own, because whatever shares the
/// executor stands still with them.
#[macro_export]
macro_rules! conformance_of_blocking {
    ($adapter:ty, $security:expr, $block_on:expr) => {
        /// One after the other: each holds the whole executor.
        static TURN: ::std::sync::Mutex<()> = ::std::sync::Mutex::new(());

        $crate::conformance_of_blocking!(@ $adapter, $security, $block_on,
            handlers_that_block_their_threads_harm_no_node,
            a_node_whose_executor_stands_still_leaves,
        );
    };
    (@ $adapter:ty, $security:expr, $block_on:expr, $($test:ident,)+) => {
        $(
            #[test]
            fn $test() {
                let _turn = TURN.lock().unwrap_or_else(::std::sync::PoisonError::into_inner);
                let security: $crate::Security = $security;
                $block_on(::std::boxed::Box::pin($crate::$test::<$adapter>(&security)));
            }
        )+
    };
}

/// The same for what only transports show on which every link is a connection of its own: TCP, with TLS or
/// without.
#[macro_export]
macro_rules! conformance_of_connections {
    ($adapter:ty, $security:expr, $block_on:expr) => {
        $crate::conformance!(@ $adapter, $security, $block_on,
            a_flood_of_connections_of_one_source_is_cut_off,
            half_done_handshakes_up_to_the_budget_keep_no_honest_node_out,
            plain_bytes_on_a_protected_port_are_refused,
        );
    };
}

/// The same for a large state of replicated data.
#[macro_export]
macro_rules! conformance_of_data {
    ($adapter:ty, $security:expr, $block_on:expr) => {
        $crate::conformance!(@ $adapter, $security, $block_on,
            a_large_state_crosses_beside_heartbeats_and_asks,
        );
    };
}

/// The same for processes with a node, and how signals end them: for a test file of its own, which is its own
/// child program. Unix only: the tests send signals.
#[cfg(unix)]
#[macro_export]
macro_rules! conformance_of_processes {
    ($adapter:ty, $security:expr, $block_on:expr) => {
        $crate::conformance_of_processes!(@ $adapter, $security, $block_on,
            a_process_that_is_told_to_end_leaves_in_order,
            a_second_signal_ends_a_process_at_once,
            tasks_that_hang_or_panic_do_not_keep_a_process,
            a_process_that_takes_too_long_after_a_signal_is_stopped,
            a_process_whose_node_is_downed_ends_with_a_code_of_its_own,
            a_signal_that_nobody_waits_for_ends_the_process,
        );
    };
    (@ $adapter:ty, $security:expr, $block_on:expr, $($test:ident,)+) => {
        /// What the tests below start as a process of its own; nothing when it is run as a test.
        #[test]
        fn the_application_that_the_tests_start() {
            if let Some(script) = $crate::script_of_child() {
                let security: $crate::Security = $security;
                $block_on(::std::boxed::Box::pin($crate::run_child::<$adapter>(&script, &security)));
            }
        }

        $crate::conformance_of_processes!(! $($test,)+);
    };
    (! $($test:ident,)+) => {
        $(
            #[test]
            fn $test() {
                $crate::$test(concat!(module_path!(), "::the_application_that_the_tests_start"));
            }
        )+
    };
}

/// The same for several processes that form one cluster: beside `conformance_of_processes!`, where every
/// process has the same security.
#[cfg(unix)]
#[macro_export]
macro_rules! conformance_of_clusters_of_processes {
    () => {
        $crate::conformance_of_processes!(
            !m_220_five_processes_prepare_and_stop_together,
            s_115_a_stopped_process_of_five_is_named_in_the_statistics_of_every_other,
        );
    };
}

/// The same for lanes that do not wait for each other: some hundred megabytes cross, so once for each
/// transport.
#[macro_export]
macro_rules! conformance_of_lanes {
    ($adapter:ty, $security:expr, $block_on:expr) => {
        $crate::conformance!(@ $adapter, $security, $block_on,
            full_mailboxes_whose_handlers_await_majority_writes_go_on,
            a_full_buffer_has_callers_wait_and_loses_nothing,
        );
    };
}

/// The same for deliveries in parts, over links that break.
#[macro_export]
macro_rules! conformance_of_deliveries {
    ($adapter:ty, $security:expr, $block_on:expr) => {
        $crate::conformance!(@ $adapter, $security, $block_on,
            s_238_64_mib_arrive_in_parts_over_links_that_break,
        );
    };
}

/// The same for strangers who come as far as they get.
#[macro_export]
macro_rules! conformance_of_strangers {
    ($adapter:ty, $security:expr, $block_on:expr) => {
        $crate::conformance!(@ $adapter, $security, $block_on,
            half_a_frame_of_a_stranger_draws_nothing_from_the_members_bytes,
            strangers_who_ask_for_nothing_are_closed_within_the_handshakes_limit,
            violations_of_strangers_count_for_their_source,
        );
    };
}

/// The same for transports below which the driver can ask for a pre-shared key: those that carry bytes as
/// they are.
#[macro_export]
macro_rules! conformance_of_keys {
    ($adapter:ty, $block_on:expr) => {
        $crate::conformance!(
            !$adapter,
            $block_on,
            wrong_empty_and_cut_proofs_and_recorded_sessions_are_refused_and_counted,
            an_acceptor_without_the_key_is_refused,
            nodes_of_two_keys_do_not_meet_nor_does_one_without,
        );
    };
}

/// The same for transports with certificates (feature `dev-certs`).
#[macro_export]
macro_rules! conformance_of_certificates {
    ($adapter:ty, $block_on:expr) => {
        $crate::conformance!(
            !$adapter,
            $block_on,
            nodes_with_wrong_certificates_are_refused_and_counted,
            a_certificate_need_not_name_the_host_if_it_is_told_so,
            certificates_and_their_authority_are_replaced_at_run_time,
        );
    };
}
