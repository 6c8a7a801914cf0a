//! Bodies of the failure detector's messages. Spec: membership 5, `docs/WIRE.md` 4.

use super::declare::{messages, record};
use crate::detector::protocol::{Heartbeat, Msg};

record! { Heartbeat as "heartbeat" { sequence: u32, to: u32 } }

messages! {
    Msg {
        HEARTBEAT "Heartbeat" Heartbeat(beat: Heartbeat),
        HEARTBEAT_RSP "HeartbeatRsp" HeartbeatRsp(beat: Heartbeat),
    }
}
