//! The store of this crate passes what is asked of every store.

mod memory {
    use quorate_driver::store::{MemoryStore, Store};

    quorate_conformance::store_conformance!({
        let store = MemoryStore::new();
        Some(move || Box::new(store.clone()) as Box<dyn Store>)
    });
}

mod shared_memory {
    use quorate_driver::store::{SharedMemoryStore, Store};

    quorate_conformance::store_conformance!({
        let store = SharedMemoryStore::new();
        Some(move || Box::new(store.clone()) as Box<dyn Store>)
    });

    quorate_conformance::shared_store_conformance!({
        let machines = SharedMemoryStore::new();
        let (here, there) = (machines.node(), machines.node());
        Some((
            move || Box::new(here.clone()) as Box<dyn Store>,
            move || Box::new(there.clone()) as Box<dyn Store>,
        ))
    });
}
