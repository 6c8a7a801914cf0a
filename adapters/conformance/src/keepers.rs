//! The macros for what stands beside adapters: lease keepers, stores. What they run is in `leases`, `stores`,
//! `shared_stores`, `store_faults` and `durable_faults`.

/// Makes a `#[test]` of every test for a lease keeper. `$keeper` is an expression evaluated per test: the
/// keeper, and a function that lets so much of the keeper's time pass (`std::thread::sleep` if it goes by
/// real time).
///
/// ```ignore
/// quorate_conformance::lease_conformance!((MyLeases::new(), std::thread::sleep));
/// ```
#[macro_export]
macro_rules! lease_conformance {
    ($keeper:expr) => {
        $crate::lease_conformance!(@ $keeper,
            one_holder_at_a_time,
            a_lease_given_back_is_free_and_its_token_grows,
            a_stopped_holder_does_not_block_for_ever_and_a_resumed_one_has_lost_it,
            renewing_keeps_a_lease,
            a_token_shown_by_another_holder_renews_nothing,
            leases_of_different_names_do_not_meet,
            one_of_many_who_ask_at_once_gets_the_lease,
        );
    };
    (@ $keeper:expr, $($test:ident,)+) => {
        $(
            #[test]
            fn $test() {
                let (keeper, pass) = $keeper;
                $crate::$test(&keeper, &pass);
            }
        )+
    };
}

/// Makes a `#[test]` of every test for a store. `$reopen` is an expression evaluated per test: a closure that
/// returns the store as `Box<dyn Store>`, not opened; each time it is called it is the same store, and the
/// one before was dropped. `None` instead of a closure skips the test: where the database is not there.
///
/// ```ignore
/// quorate_conformance::store_conformance!({
///     let directory = temporary_directory();
///     Some(move || Box::new(MyStore::at(&directory)) as Box<dyn Store>)
/// });
/// ```
#[macro_export]
macro_rules! store_conformance {
    ($reopen:expr) => {
        $crate::store_conformance!(@ $reopen,
            i_84_a_store_keeps_what_it_acknowledged_and_counts_its_lives,
            a_batch_is_atomic_and_bytes_come_back_as_they_were,
            a_refused_order_does_not_spoil_its_group,
            a_range_is_ordered_bounded_and_of_one_space,
            appends_are_fenced_by_token_and_expected_sequence,
            a_snapshot_and_what_is_behind_it_survive,
        );
    };
    (@ $reopen:expr, $($test:ident,)+) => {
        $(
            #[test]
            fn $test() {
                if let Some(mut reopen) = $reopen {
                    $crate::$test(&mut reopen);
                }
            }
        )+
    };
}

/// The same for stores that several machines share. `$machines` is two closures as above, for the two
/// machines.
#[macro_export]
macro_rules! shared_store_conformance {
    ($machines:expr) => {
        #[test]
        fn logs_follow_the_token_between_machines_and_keys_stay_at_home() {
            if let Some((mut here, mut there)) = $machines {
                let mut again = here.clone();
                $crate::logs_follow_the_token_between_machines_and_keys_stay_at_home(
                    &mut here, &mut there, &mut again,
                );
            }
        }

        #[test]
        fn an_entity_goes_from_machine_to_machine_and_the_stale_one_is_refused() {
            if let Some((mut here, mut there)) = $machines {
                $crate::an_entity_goes_from_machine_to_machine_and_the_stale_one_is_refused(
                    &mut here, &mut there,
                );
            }
        }

        #[test]
        fn of_two_that_race_one_is_refused() {
            if let Some((mut here, mut there)) = $machines {
                $crate::of_two_that_race_one_is_refused(&mut here, &mut there);
            }
        }
    };
}

/// The same for stores that write to something like a file: `$make` is a function that puts one onto a
/// [`FaultyDisk`](crate::FaultyDisk), without opening it.
#[macro_export]
macro_rules! store_faults {
    ($make:expr) => {
        $crate::store_faults!(@ $make,
            i_80_whatever_was_acknowledged_survives_a_power_failure_at_any_write,
            i_80_damaged_bytes_are_never_given_out,
            i_81_a_failed_fsync_acknowledges_nothing_until_the_store_was_opened_again,
            i_82_a_full_disk_refuses_cleanly_and_writes_resume,
            i_83_a_disk_that_stalls_for_five_seconds_delays_no_heartbeat,
            i_80_no_acknowledged_event_of_an_entity_is_lost_and_none_counts_twice,
            i_82_an_entity_goes_on_when_its_disk_is_well_again,
        );
    };
    (@ $make:expr, $($test:ident,)+) => {
        $(
            #[test]
            fn $test() {
                $crate::$test(&$make);
            }
        )+
    };
}
