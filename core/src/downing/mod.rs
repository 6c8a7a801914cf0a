//! Who has to go when members fall silent: strategies as pure functions, and the machine that waits for
//! stability and acts. Marks nobody unreachable itself. Spec: membership 3, 8.7.

pub mod auto_down;
pub mod down_all;
pub mod keep_majority;
pub mod keep_oldest;
pub mod lease_majority;
pub mod protocol;
pub(crate) mod resolver;
pub(crate) mod state;
pub mod static_quorum;
mod strategies;
#[cfg(test)]
pub(crate) mod table;

use crate::buffered::{BufferedLoad, BufferingMachine};

pub use state::{decision, strategy, view};

/// What the machine may touch outside itself.
pub(crate) type Cx<'a> = crate::cx::Cx<'a, crate::cx::OfDowning>;

impl BufferingMachine for resolver::Resolver {
    fn buffered(&self) -> BufferedLoad {
        // It hears no messages.
        BufferedLoad::NOTHING
    }
}
