//! The loop; lands next.

use std::sync::Arc;

use crate::error::Termination;
use crate::pump::Pump;
use crate::runtime::Runtime;
use crate::shared::{Commands, Shared};
use crate::transport::Transport;

/// Runs the node.
pub(crate) fn start<R: Runtime, T: Transport>(
    _runtime: &R,
    _transport: T,
    _listener: T::Listener,
    _pump: Pump,
    shared: Arc<Shared>,
    _commands: Commands,
) {
    shared.hub.end(&Termination::Stopped);
}
