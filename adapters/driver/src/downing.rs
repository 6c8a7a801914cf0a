//! What a downing strategy of your own is written with, and what the split-brain resolver reports. The
//! strategies there are, are values of [`DowningStrategy`]. Page:
//! `docs/downing.md`.

pub use quorate_core::config::{CustomStrategy, DowningStrategy};
pub use quorate_core::downing::decision::DowningDecision;
pub use quorate_core::downing::strategy::Strategy;
pub use quorate_core::downing::view::{DowningView, IndirectRule, Observation};
pub use quorate_core::event::{DowningEvent, DowningReport, DowningWait};
