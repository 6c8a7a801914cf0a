//! What callers of the keyed store asked of one key, what they were told and when, and whether a correct
//! store can have answered so. Pure; the simulator and programs with real processes keep the records. Spec:
//! sharding 10.7, 10.19; reliability I-70 to I-73, I-75.

pub mod books;
pub mod dominance;
pub mod register;
