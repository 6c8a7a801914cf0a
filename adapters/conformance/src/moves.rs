//! What moves in a cluster, as its nodes tell it.

use quorate_core::event::{Event, ShardingEvent, SingletonEvent};

/// Whether something has begun here or was handed over.
pub fn is_move(event: &Event) -> bool {
    let of_sharding = matches!(
        event,
        Event::Sharding {
            event: ShardingEvent::ShardAllocated { .. } | ShardingEvent::ShardStarted { .. },
            ..
        }
    );
    let of_singletons = matches!(
        event,
        Event::Singleton {
            event: SingletonEvent::Started { .. } | SingletonEvent::HandedOver { .. },
            ..
        }
    );
    of_sharding || of_singletons
}
