//! The floors that the rooms of our crates stand on, as ARCHITECTURE.md draws them. Decides nothing.

/// A crate whose rooms stand on floors.
#[derive(Debug)]
pub struct House {
    /// What it is called here.
    pub name: &'static str,
    /// Its sources, from the root of the repository.
    pub src: &'static str,
    /// The floors, lowest first. A room imports rooms of its own floor or of lower ones.
    pub floors: &'static [&'static [&'static str]],
    /// Parts of a room that are rooms of their own: what a machine says, and the values that others read.
    pub inner_rooms: &'static [&'static str],
    /// Parts of one room that import each other all the same.
    pub circles: &'static [&'static [&'static str]],
}

/// All of them.
pub const HOUSES: [House; 3] = [CORE, LINKS, DRIVER];

/// The core.
pub const CORE: House = House {
    name: "core",
    src: "core/src",
    floors: &[
        &[
            "buffered", "bytes", "ordered", "counters", "handoff", "ident", "lane", "math", "rng", "time",
            "token",
        ],
        &[
            "admission",
            "admission::state",
            "agreement",
            "config",
            "ddata::crdt",
            "ddata::protocol",
            "ddata::state",
            "delivery",
            "daemons",
            "durable",
            "wakeups",
            "detector::protocol",
            "downing::protocol",
            "downing::state",
            "journal::protocol",
            "journal::state",
            "kv::protocol",
            "kv::state",
            "lease::protocol",
            "load::protocol",
            "load::state",
            "log",
            "membership::protocol",
            "membership::state",
            "messaging::protocol",
            "drain",
            "oldest::protocol",
            "oldest::state",
            "owner",
            "paths::protocol",
            "paths::state",
            "planner",
            "sharding::protocol",
            "sharding::state",
            "shutdown",
            "singleton::protocol",
            "singleton::state",
            "store",
            "supervision",
            "view",
        ],
        &["effect", "event", "input", "message", "reject", "timer", "wire"],
        &["cx", "outbox", "signal", "stats", "timers"],
        &[
            "ddata",
            "detector",
            "downing",
            "journal",
            "kv",
            "lease",
            "load",
            "membership",
            "messaging",
            "oldest",
            "paths",
            "sharding",
            "singleton",
        ],
        &["explain", "node", "router"],
    ],
    inner_rooms: &["crdt", "protocol", "state"],
    circles: &[],
};

/// The links.
pub const LINKS: House = House {
    name: "links",
    src: "links/src",
    floors: &[
        &[
            "authentication",
            "budget",
            "crowd",
            "first_bytes",
            "limits",
            "order",
            "pending",
            "quarantine",
            "queue",
            "rates",
            "recipient",
            "report",
            "settings",
            "stats",
            "violations",
        ],
        &["base", "inbuf", "peer_link", "timers"],
        &["aging", "inbound", "outbound"],
        &["linked", "links"],
    ],
    inner_rooms: &[],
    circles: &[],
};

/// The driver.
pub const DRIVER: House = House {
    name: "driver",
    src: "adapters/driver/src",
    floors: &[
        &[
            "adapter",
            "authentication",
            "clock",
            "opening",
            "pipes",
            "proved",
            "psk",
            "runtime",
            "secured",
            "security",
            "signals",
            "sync",
            "tcp",
            "tls",
            "transport",
        ],
        &[
            "allocating",
            "background",
            "codec",
            "commands",
            "counters",
            "error",
            "events",
            "extract",
            "full",
            "kind",
            "kind_config",
            "kinds",
            "lease",
            "listeners",
            "load",
            "log_limit",
            "mailbox",
            "queue_bounds",
            "request",
            "shortcut",
            "shutdown",
            "stats",
            "store",
            "subscriptions",
            "notices",
            "supervision",
        ],
        &["pump", "shared"],
        &["run"],
        &[
            "asking",
            "daemons",
            "data",
            "delivery",
            "durable",
            "entity",
            "journal",
            "kv",
            "path_builder",
            "paths",
            "places",
            "region",
            "singleton",
            "singleton_builder",
            "watch",
        ],
        &["builder", "cluster", "testing"],
        &["config", "downing", "membership", "sharding"],
    ],
    inner_rooms: &[],
    circles: &[],
};

impl House {
    /// The floor of a room; `None` for one that no floor names.
    #[must_use]
    pub fn floor(&self, room: &str) -> Option<usize> {
        self.floors.iter().position(|rooms| rooms.contains(&room))
    }

    /// The room a module belongs to.
    pub(super) fn room_of(&self, module: &[String]) -> String {
        match module {
            [machine, inner, ..] if self.inner_rooms.contains(&inner.as_str()) => {
                format!("{machine}::{inner}")
            }
            [room, ..] => room.clone(),
            [] => String::new(),
        }
    }
}
