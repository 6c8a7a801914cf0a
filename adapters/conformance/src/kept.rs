//! The macros for what adapters keep in the stores of their nodes. What they run is in `durable`, `reminders`, `stored_homes`, `remembered`,
//! `minorities` and `deliveries`.

/// The same as [`crate::conformance`] for durable entities, and for what kinds keep of their own: homes, remembered ids.
#[macro_export]
macro_rules! conformance_of_durable_entities {
    ($adapter:ty, $security:expr, $block_on:expr) => {
        $crate::conformance!(@ $adapter, $security, $block_on,
            durable_entities_outlive_their_nodes_and_count_every_command_once,
            durable_entities_are_found_on_the_stores_of_the_nodes_after_all_were_killed,
            a_kind_of_durable_entities_needs_a_store_that_all_its_nodes_read,
            s_248_a_durable_entity_delivers_what_nobody_has_confirmed_after_a_restart,
            a_reminder_wakes_its_entity_and_counts_once,
            reminders_wake_entities_after_all_nodes_were_stopped,
            reminders_wake_entities_of_a_node_that_has_died,
            what_wakes_entities_runs_on_where_it_moves,
            messages_that_nobody_has_confirmed_wake_their_sender,
            homes_are_found_again_after_all_nodes_were_killed,
            remembered_entities_run_again_after_all_were_killed_and_once_with_other_shards,
            entities_remembered_as_events_run_again_after_all_were_killed_and_once_with_other_shards,
            s_10_23_a_new_shard_is_served_while_one_of_three_nodes_is_dead,
        );
    };
}

/// The same for reliable delivery.
#[macro_export]
macro_rules! conformance_of_deliveries {
    ($adapter:ty, $security:expr, $block_on:expr) => {
        $crate::conformance!(@ $adapter, $security, $block_on,
            deliveries_keep_their_order_and_number_while_shards_move,
            what_a_dead_node_has_not_confirmed_is_delivered_to_the_next_incarnation,
            s_238_64_mib_arrive_in_parts_over_links_that_break,
            s_244_a_durable_producer_sends_what_nobody_has_confirmed_after_a_restart,
            jobs_of_workers_that_die_are_done_by_others,
            a_durable_work_queue_outlives_who_holds_it,
        );
    };
}
