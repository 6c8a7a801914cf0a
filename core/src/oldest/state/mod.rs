//! What other rooms may know about age: who acts for a role, since when nobody older can, and whose work is
//! free. Values and pure functions; the machine of this room is the only one that changes them. Spec:
//! sharding 1.10, 10.1.

pub(crate) mod departures;
mod succession;

pub(crate) use succession::{RoleStanding, Succession, candidates, may_act, may_speak, oldest};
