//! The end of a node's loop: last bytes, closed queues, and who hears of it. Each step has a time limit.
//! Decides nothing.

use std::time::Duration;

use quorate_core::sharding::errors::AskFailure;
use quorate_core::time::Instant;

use super::Loop;
use super::place::StandingPump;
use crate::error::Termination;
use crate::pump::Pump;
use crate::runtime::Runtime;
use crate::transport::Transport;

/// How long a node that has finished may take to write what it still has to say, and its entities to end.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(3);

/// How long links that were cut may take to let go of their sockets: one look at each task.
const CUT_TIMEOUT: Duration = Duration::from_secs(1);

impl<R: Runtime, T: Transport> Loop<R, T> {
    /// Writes the last bytes, closes everything, ends the entities, and says how it ended. Each step has a
    /// time limit.
    pub(super) async fn shut_down(mut self, mut standing: StandingPump) {
        standing.pump.stop();
        self.act(&mut standing);
        standing.pump.take_woken().wake();
        let mut pump = standing.pump;
        self.commands.user.close();
        self.commands.control.close();
        while let Ok(command) = self.commands.user.try_recv() {
            command.refuse(AskFailure::NodeStoppedUnsent);
        }
        self.commands.data.close();
        self.commands.data_later.close();
        self.commands.logs.close();
        while self.commands.logs.try_recv().is_ok() {}
        while self.commands.data.try_recv().is_ok() {}
        while let Ok(command) = self.commands.data_later.try_recv() {
            // Whoever listens learns that nothing comes any more.
            pump.data(command);
        }
        pump.end_subscriptions();
        while self.commands.control.try_recv().is_ok() {}
        self.knocks.close();
        while self.knocks.try_recv().is_ok() {}
        self.hands.stop_accepting();
        let now = self.runtime.now().mono;
        self.wait_for_tasks(&mut pump, now + FLUSH_TIMEOUT).await;
        for control in self.finishing.drain(..) {
            if let Some(control) = control.upgrade() {
                control.abort();
            }
        }
        let now = self.runtime.now().mono;
        self.wait_for_tasks(&mut pump, now + CUT_TIMEOUT).await;
        let termination = self.ended.take().unwrap_or(Termination::Stopped);
        tracing::info!(
            target: "cluster::membership", event = "terminated", me = %self.shared.me, how = ?termination
        );
        self.shared.hub.set_view(pump.view(), false);
        self.shared.life.has_closed(termination);
    }

    async fn wait_for_tasks(&mut self, pump: &mut Pump, deadline: Instant) {
        loop {
            self.batch.clear();
            let mut batch = std::mem::take(&mut self.batch);
            self.inputs.take(&mut batch);
            self.batch = batch;
            let entities_ended = pump.forget_ended_entities();
            pump.take_woken().wake();
            let is_quiet = self.hands.are_idle() && pump.has_let_go();
            if (is_quiet && entities_ended) || self.runtime.now().mono >= deadline {
                return;
            }
            self.wait_until(Some(deadline)).await;
        }
    }
}
