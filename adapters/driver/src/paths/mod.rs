//! Named paths with N instances each: the handle to a path, and what its settings mean. Decides nothing.
//! Page: `docs/paths.md`.

mod handle;

pub(crate) use handle::parse_path;
pub use handle::{EveryInstance, Path, PathInstance};
pub use quorate_core::effect::{PathCommandError, PathRefusal};
pub use quorate_core::event::PathEvent;
pub use quorate_core::paths::protocol::AbortReason;
pub use quorate_core::paths::state::instances::{
    FaultTolerance, NodeShare, TABLE_ENTRIES_MAX, ToleranceError, ToleranceTable,
};
pub use quorate_core::paths::state::name::{
    PATH_BYTES_MAX, PATH_SEGMENTS_MAX, PathId, PathName, PathNameError,
};
pub use quorate_core::paths::state::options::{HandoffOptions, LateMessages, NewHost, OldHost};
pub use quorate_core::paths::state::settings::{
    EXPECTED_LOAD_MAX, INSTANCES_MAX, PATHS_MAX, PathRouter, PathSettings, PathSettingsError, SLOTS_MAX,
};
pub use quorate_core::paths::state::table::{MoveStatus, PathEpoch, SlotMove};
pub use quorate_core::planner::MoveError;

pub use crate::stats::{PathSlotState, PathState};
