//! The behaviour of the driver over one adapter: tokio, TCP, plain text.

use quorate_tokio::{Security, Tokio};

fn block_on(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build();
    runtime.expect("a runtime").block_on(test);
}

/// A `#[test]` of each, in a module of the group's name.
macro_rules! over_tokio {
    ($($group:ident { $($test:ident,)+ })+) => {
        $(
            mod $group {
                $(
                    #[test]
                    fn $test() {
                        let security = super::Security::insecure_plaintext();
                        // Boxed: an unoptimised runtime moves the future through a dozen frames, and test
                        // threads have small stacks.
                        let test = quorate_driver_tests::$test::<super::Tokio>(&security);
                        super::block_on(Box::pin(test));
                    }
                )+
            }
        )+
    };
}

over_tokio! {
    asking {
        a_cycle_of_asks_is_refused_where_it_would_close,
        an_entity_sees_how_long_somebody_waits,
    }
    daemons {
        daemons_run_once_each_while_nodes_die_and_their_number_changes,
    }
    data {
        i_63_replicated_data_is_on_every_node_and_outlives_one,
    }
    deliveries {
        deliveries_keep_their_order_and_number_while_shards_move,
        what_a_dead_node_has_not_confirmed_is_delivered_to_the_next_incarnation,
        s_244_a_durable_producer_sends_what_nobody_has_confirmed_after_a_restart,
        jobs_of_workers_that_die_are_done_by_others,
        a_durable_work_queue_outlives_who_holds_it,
    }
    durable {
        durable_entities_move_with_their_logs_in_a_bucket,
        durable_entities_outlive_their_nodes_and_count_every_command_once,
        durable_entities_are_found_on_the_stores_of_the_nodes_after_all_were_killed,
        a_kind_of_durable_entities_needs_a_store_that_all_its_nodes_read,
    }
    envelopes {
        envelopes_find_their_entities,
        a_function_of_ones_own_places_entities,
    }
    kv {
        s_332_a_bucket_is_read_and_written_from_every_node,
        of_two_conditional_puts_one_takes_effect_and_a_later_one_names_it,
        b_62_what_no_bucket_can_take_is_refused,
        s_10_11_a_bucket_with_another_role_is_refused_from_any_member,
        a_range_moves_by_command,
        missing_copies_and_waiting_calls_are_told,
        others_stand_in_for_an_owner_of_a_sloppy_bucket,
        a_durable_bucket_needs_a_store_on_its_owners,
        keys_are_there_after_all_nodes_were_killed,
        i_70_keys_outlive_an_owner_and_go_over_to_a_newcomer,
    }
    kv_many {
        many_keys_are_put_and_read_with_an_outcome_each,
        keys_are_listed_page_by_page_from_every_node,
        changes_of_keys_are_heard_on_every_node,
    }
    life {
        an_answer_may_be_given_later,
        an_entity_has_timers_and_notices_when_no_message_comes,
        an_entity_that_panics_is_made_anew_and_loses_no_other_message,
        the_kind_decides_what_becomes_of_an_entity_that_gives_up,
    }
    load {
        a_node_measures_its_load_and_the_others_hear_of_it,
    }
    minorities {
        s_10_23_a_new_shard_is_served_while_one_of_three_nodes_is_dead,
    }
    outside {
        a_downed_member_begins_nothing_more_and_a_restart_at_its_address_is_another_one,
        m_429_a_removed_member_is_gone_at_once_and_ends,
        a_member_leaves_that_another_one_tells_to,
        m_220_all_members_get_ready_for_a_shutdown_and_nothing_starts_any_more,
        m_428_auto_down_removes_whoever_is_silent,
        s_154_the_instance_of_a_downed_node_ends_and_stays_elsewhere_after_a_restart,
    }
    parting {
        entities_handle_the_stop_message_of_their_kind_last,
    }
    passivation {
        a_passivated_entity_gets_its_last_message_and_its_next_incarnation_the_rest,
        entities_that_nobody_needs_are_taken_out_of_memory,
    }
    paths {
        every_way_to_an_instance_leads_there,
        an_ordered_slot_moves_under_load_and_keeps_the_order,
        a_stateful_slot_takes_its_state_along,
        names_below_a_subtree_lead_to_its_instances,
        paths_that_cannot_be_are_refused_and_unknown_ones_fail_at_once,
        what_a_mailbox_has_kept_is_handled_in_order_although_its_host_dies_in_a_move,
        a_mailbox_is_refused_where_it_could_not_keep_its_word,
    }
    placement {
        s_050_a_shard_goes_where_it_is_wanted_from_outside,
        a_strategy_of_ones_own_may_take_its_time,
        a_proxy_heeds_wishes_and_the_client_timeout_ends_one_that_no_majority_hears,
        what_cannot_be_placed_from_outside_is_refused,
        an_explanation_says_who_wants_a_shard_where_and_why_it_is_not_there,
    }
    regions {
        a_region_is_shut_down_on_a_node_that_stays,
        a_watch_ends_with_its_entity_and_with_no_move_or_sleep,
        a_watch_ends_with_the_node_that_is_removed,
        a_region_whose_entity_does_not_stop_is_shut_down_in_time,
    }
    remembered {
        remembered_entities_run_again_after_all_were_killed_and_once_with_other_shards,
        entities_remembered_as_events_run_again_after_all_were_killed_and_once_with_other_shards,
    }
    reminders {
        a_reminder_wakes_its_entity_and_counts_once,
        reminders_wake_entities_after_all_nodes_were_stopped,
        reminders_wake_entities_of_a_node_that_has_died,
        what_wakes_entities_runs_on_where_it_moves,
    }
    shard_leases {
        s_144_s_145_a_shard_runs_while_its_node_has_the_lease,
        a_kind_has_leases_on_all_its_hosts_or_on_none,
    }
    shutdown {
        a_node_calls_back_when_it_is_up_and_when_it_is_removed,
        a_node_that_is_downed_runs_its_tasks_without_waiting,
        a_node_that_is_made_to_leave_runs_its_phases,
        a_node_that_is_stopped_runs_no_task,
        m_220_five_nodes_prepare_and_stop_together_without_a_hand_over,
        tasks_that_hang_or_panic_are_named_and_the_rest_goes_on,
        the_phases_of_a_node_that_leaves_follow_each_other,
    }
    singletons {
        s_151_a_singleton_is_handed_over_when_its_node_leaves,
        s_152_a_singleton_is_taken_over_when_its_node_dies,
        s_171_messages_wait_at_a_proxy_until_there_is_an_instance,
        asks_of_a_singleton_say_what_became_of_them,
        settings_of_a_singleton_that_cannot_be_are_refused,
        a_singleton_is_stopped_on_a_node_that_stays,
        a_token_outlives_the_whole_cluster,
        s_161_a_singleton_waits_for_its_lease_and_gives_it_back,
        a_node_without_the_role_reaches_a_singleton,
    }
    stored_homes {
        homes_are_found_again_after_all_nodes_were_killed,
    }
    surveys {
        a_kind_is_surveyed_from_any_node,
        s_114_regions_whose_entities_are_busy_answer_a_survey,
        an_entity_is_explained_the_same_from_every_node,
    }
    transfers {
        s_248_a_durable_entity_delivers_what_nobody_has_confirmed_after_a_restart,
        messages_that_nobody_has_confirmed_wake_their_sender,
    }
}
