//! What a profile changes of the simulator before a run: settings, and what nodes do; and where shards live
//! by now. Decides nothing about faults.

use std::collections::BTreeMap;

use quorate_core::sharding::CoordinatorPhase;
use quorate_core::sharding::fields::StoreMode;
use quorate_core::sharding::ids::{KindId, ShardId};

use super::engine::Sim;
use super::faults::FaultKind;
use super::plan::{Mix, Plan, Profile};

impl Sim {
    /// Settings and work of a profile.
    pub(super) fn configure_for(&mut self, plan: &Plan, mix: &Mix) {
        if plan.faults.contains(&FaultKind::Liar) {
            self.config.ddata.bytes_max = super::liars::DATA_BYTES_MAX;
        }
        if matches!(plan.profile, Profile::Sharding | Profile::Life | Profile::Paths) {
            self.loads.enable();
        }
        if plan.profile == Profile::Sharding {
            self.passivations.configure(&mut self.config.sharding);
        }
        if plan.profile == Profile::Membership {
            self.has_workload = false;
            self.config.membership.prune_gossip_tombstones_after = core::time::Duration::from_secs(25);
            self.config.membership.shutdown_after_unsuccessful_join =
                Some(core::time::Duration::from_secs(15));
        }
        if plan.profile == Profile::Data {
            self.has_workload = false;
            self.has_data = true;
            super::data::configure(&mut self.config);
        }
        if plan.profile == Profile::Stored {
            let modes = [StoreMode::Events, StoreMode::DistributedData];
            self.config.sharding.state_store_mode = modes[(self.seed % 2) as usize];
            // Small, so that it is met.
            self.config.sharding.snapshot_after = 10;
            self.config.journal.voters = plan.nodes / 2 + 1;
        }
        if plan.profile == Profile::Remember {
            self.remembered.configure(&mut self.config, plan.nodes);
        }
        if plan.profile == Profile::Life {
            self.configure_life(plan);
        }
        if plan.profile == Profile::Durable {
            self.durables.configure(&mut self.config, plan.nodes);
            self.passivations.configure(&mut self.config.sharding);
        }
        if plan.profile == Profile::Kv {
            self.has_workload = false;
            self.keyed.configure(&mut self.config, (self.seed, plan.nodes));
            self.enable_keyed();
        }
        if plan.profile == Profile::Paths {
            self.has_workload = false;
            self.enable_paths();
        }
        if plan.profile == Profile::Singleton {
            self.has_workload = false;
            self.singletons.enable(plan.nodes, mix.orderly);
            super::singletons::configure(&mut self.config);
        }
    }

    /// Whether nodes are asked for anything.
    pub(super) const fn has_work(&self) -> bool {
        self.has_workload
            || self.has_data
            || self.singletons.enabled
            || self.paths.enabled
            || self.keyed.enabled
    }

    /// One random piece of the work of the profile.
    pub(super) fn random_work(&mut self, nodes: usize) {
        if self.has_data {
            self.random_data(nodes);
        } else if self.keyed.enabled {
            self.random_call(nodes);
        } else if self.singletons.enabled {
            self.random_singleton_message(nodes);
        } else if self.paths.enabled {
            self.random_path_message(nodes);
        } else {
            self.random_message(nodes);
            self.random_watch(nodes);
        }
    }

    /// What is commanded beside it, and looked at, again and again.
    pub(super) fn look_at_work(&mut self, nodes: usize) {
        self.wish_homes(nodes);
        self.command_paths(nodes);
        self.measure_loads(nodes);
        self.look_at_paths();
        self.trouble_shard_leases(nodes);
        self.command_range_moves();
        self.write_log(nodes);
        self.look_at_ranges();
    }

    /// The quiet phase of whatever does odd things.
    pub(super) fn calm_down(&mut self) {
        self.singletons.calm_down();
        self.paths.calm_down();
        self.keyed.calm_down();
    }

    /// Where the shards of the workload's kind live, by address, as their coordinator says; empty while none
    /// allocates.
    #[must_use]
    pub fn homes(&self) -> BTreeMap<ShardId, usize> {
        let kind = KindId::of(super::KIND);
        let running = self.running().into_iter();
        let states = running.filter_map(|index| {
            let id = self.running_at(index)?;
            self.processes[id as usize].node.sharding().coordinator(kind)
        });
        let active = states
            .into_iter()
            .find(|state| state.phase == CoordinatorPhase::Active);
        let homes = active.into_iter().flat_map(|state| state.homes);
        homes
            .filter_map(|(shard, node)| Some((shard, self.index_of_node(&node)?)))
            .collect()
    }
}
