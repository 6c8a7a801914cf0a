//! Sees that the clocks of a kind run: looks at all of them when the core says so. One that has nobody to
//! wake leaves memory again. Spec: issue "reminders"; `docs/adr/0016`.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use quorate_core::ident::Role;
use quorate_core::ordered::OrderedSet;
use quorate_core::wakeups::{self, ClockWatch};

use super::ringing::look_at;
use super::{ClockAnswer, ClockRequest};
use crate::region::Region;
use crate::shared::Shared;
use crate::sync::lock;

/// How often the picture is looked at: a node that was lost has been waited for much longer.
const INTERVAL: Duration = Duration::from_secs(1);

/// See the module.
pub(in crate::durable) struct ClockSeeing {
    shared: Arc<Shared>,
    region: Region<ClockRequest, ClockAnswer>,
    role: Option<Role>,
    /// Clocks that have been looked at and have not answered.
    open: Arc<Mutex<OrderedSet<u32>>>,
    watch: ClockWatch,
}

impl ClockSeeing {
    /// Sees to the clocks behind a region.
    pub(in crate::durable) fn new(region: &Region<ClockRequest, ClockAnswer>, role: Option<Role>) -> Self {
        Self {
            shared: Arc::clone(region.shared()),
            region: region.clone(),
            role,
            open: Arc::default(),
            watch: ClockWatch::default(),
        }
    }

    /// Goes on until the node has ended.
    pub(in crate::durable) async fn run(mut self) {
        let background = self.shared.background.clone();
        while self.shared.hub.termination().is_none() {
            let view = self.shared.hub.view();
            if self.watch.is_time(&view, &self.shared.me, self.role.as_ref()) {
                self.look_at_all();
            }
            background.sleep_until(Some(background.now() + INTERVAL)).await;
        }
    }

    fn look_at_all(&self) {
        for clock in wakeups::clocks() {
            let Some(index) = wakeups::index_of(&clock) else {
                continue;
            };
            // What it has not answered yet it answers after this.
            if !lock(&self.open).insert(index) {
                continue;
            }
            let (shared, open) = (Arc::clone(&self.shared), Arc::clone(&self.open));
            let clock = self.region.entity(clock.as_bytes());
            let background = shared.background.clone();
            background.spawn(async move {
                look_at(&shared, &clock).await;
                lock(&open).remove(&index);
            });
        }
    }
}
