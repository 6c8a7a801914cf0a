//! The store of this crate passes what is asked of every store.

mod memory {
    use quorate_driver::{MemoryStore, Store};

    quorate_conformance::store_conformance!({
        let store = MemoryStore::new();
        Some(move || Box::new(store.clone()) as Box<dyn Store>)
    });
}
