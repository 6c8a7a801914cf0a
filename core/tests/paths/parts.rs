//! States that go over in parts: how many are on the way at once, and one that is lost. Spec: sharding 5.4.

use std::time::Duration;

use quorate_core::message::Message;
use quorate_core::paths::protocol::{Msg, PathBody};
use quorate_core::paths::state::options::HandoffOptions;

use crate::cases::Case;
use crate::world::World;

/// Bytes of a part.
const PART: u64 = 256 << 10;
/// Bytes of a state: nine parts and a little more.
const STATE: u64 = 9 * PART + 8;

/// What goes over of states, in all moves.
#[derive(Debug, Default)]
pub(crate) struct Parts {
    /// States are at least so long.
    pub(crate) state_bytes: usize,
    /// The part to lose, once, by its offset.
    lost: Option<u64>,
    /// Where each part begins, as they were sent.
    sent: Vec<u64>,
    acknowledged: u64,
    /// The most bytes that were on the way.
    ahead: u64,
}

impl Parts {
    /// Notes what a message says of a state, and whether it is to be lost.
    pub(crate) fn loses(&mut self, message: &Message) -> bool {
        if let Message::Path(Msg::Statement(statement)) = message
            && let PathBody::StateReceived { bytes, .. } = statement.body
        {
            self.acknowledged = self.acknowledged.max(bytes);
        }
        let Message::Path(Msg::State(chunk)) = message else {
            return false;
        };
        self.sent.push(chunk.offset);
        let end = chunk.offset + chunk.bytes.len() as u64;
        self.ahead = self.ahead.max(end.saturating_sub(self.acknowledged));
        self.lost.take_if(|lost| *lost == chunk.offset).is_some()
    }
}

fn moved(lost: Option<u64>) -> Parts {
    let mut case = Case::new(HandoffOptions::STATEFUL, 31);
    let to = case.to;
    case.world.parts = Parts {
        state_bytes: STATE as usize,
        lost,
        ..Parts::default()
    };
    let name = case.path.name.clone();
    let taken = |world: &World| world.has_state(to, &name);
    case.world.run_until(Duration::from_secs(60), taken);
    let parts = std::mem::take(&mut case.world.parts);
    case.ends_at(Some(to), true);
    parts
}

#[test]
fn four_parts_of_a_state_are_on_the_way_at_once() {
    let parts = moved(None);
    assert_eq!(parts.acknowledged, STATE);
    assert_eq!(parts.ahead, 4 * PART);
    // The new host has not seen the move when the first four come; the others go once.
    let others = parts.sent.iter().filter(|offset| **offset >= 4 * PART);
    assert!(others.copied().eq((4..10).map(|part| part * PART)), "{parts:?}");
}

#[test]
fn a_part_that_is_lost_is_sent_again_and_what_came_behind_it() {
    let parts = moved(Some(2 * PART));
    assert!(parts.ahead <= 4 * PART, "{parts:?}");
    assert_eq!(parts.acknowledged, STATE);
    let again = parts.sent.iter().filter(|offset| **offset == 2 * PART).count();
    assert_eq!(again, 2, "{parts:?}");
}
