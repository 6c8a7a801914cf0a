//! The pump and the store's thread: an order goes there, and its answer comes back to whoever gave it. Spec:
//! reliability I-83.

use std::time::{Duration, Instant};

use quorate_core::effect::Effect;
use quorate_core::owner::Requester;
use quorate_core::store::{StoreAnswer, StoreError, StoreOrder, StoreReport, StoreRequest};

use super::tests::{Bench, Heard};
use crate::store::{MemoryStore, Stores};

/// Far beyond what a thread needs on a machine that is busy with other tests.
const LIMIT: Duration = Duration::from_secs(20);

fn get(id: u64) -> StoreRequest {
    let order = StoreOrder::Read {
        key: b"key".as_slice().into(),
    };
    StoreRequest { id, order }
}

fn stored(owner: Requester, id: u64, outcome: Result<StoreAnswer, StoreError>) -> Heard {
    Heard::Stored(owner, StoreReport { id, outcome })
}

impl Bench {
    fn order(&mut self, owner: Requester, id: u64) {
        self.says(Effect::Store(owner, get(id)));
    }

    /// What the node heard of its store once it heard so much.
    fn heard_of_store(&mut self, count: usize) -> Vec<Heard> {
        let (began, mut heard) = (Instant::now(), Vec::new());
        while heard.len() < count {
            assert!(began.elapsed() < LIMIT, "{heard:?}");
            self.pump.take_stored();
            heard.extend(self.heard());
            std::thread::yield_now();
        }
        heard
    }
}

#[test]
fn i_83_an_order_goes_to_the_stores_thread_and_its_answer_to_its_owner() {
    let mut bench = Bench::new();
    bench.pump.stores = Stores::start(Box::new(MemoryStore::new()), Default::default()).unwrap();
    bench.order(Requester::Ddata, 1);
    assert_eq!(bench.heard(), [], "nothing is answered on the loop");
    assert_eq!(
        bench.heard_of_store(1),
        [stored(Requester::Ddata, 1, Ok(StoreAnswer::Value(None)))]
    );
    // Numbers are each owner's own.
    bench.order(Requester::Resolver, 1);
    bench.order(Requester::Ddata, 2);
    assert_eq!(
        bench.heard_of_store(2),
        [
            stored(Requester::Resolver, 1, Ok(StoreAnswer::Value(None))),
            stored(Requester::Ddata, 2, Ok(StoreAnswer::Value(None))),
        ]
    );
    assert!(!bench.pump.has_work());
}

#[test]
fn i_83_an_order_without_a_store_is_answered_and_so_is_one_too_many() {
    let mut bench = Bench::new();
    bench.order(Requester::Ddata, 7);
    assert_eq!(
        bench.heard(),
        [Heard::Stored(Requester::Ddata, get(7).without_a_store())]
    );
    let (stall, gate) = std::sync::mpsc::channel();
    bench.pump.stores = Stores::start(Box::new(Stalled(gate)), Default::default()).unwrap();
    let mut ids = 0..;
    let busy = ids.find(|id| {
        assert!(*id < 100_000, "what waits is bounded");
        bench.order(Requester::Ddata, *id);
        !bench.heard().is_empty()
    });
    assert_eq!(bench.pump.stats().host.store_orders_turned_away, 1);
    // Everything that was taken is answered once the store goes on.
    drop(stall);
    let taken = usize::try_from(busy.unwrap()).unwrap();
    assert_eq!(bench.heard_of_store(taken).len(), taken);
}

/// Opens when it is let, and answers nothing but that it cannot.
#[derive(Debug)]
struct Stalled(std::sync::mpsc::Receiver<()>);

impl crate::store::Store for Stalled {
    fn open(&mut self) -> Result<quorate_core::store::StoreIdentity, crate::store::StoreFault> {
        let _ = self.0.recv();
        MemoryStore::new().open()
    }

    fn commit(
        &mut self,
        orders: &[(quorate_core::store::Space, &StoreOrder)],
    ) -> Result<Vec<quorate_core::store::Outcome>, crate::store::StoreFault> {
        Ok(orders.iter().map(|_| Ok(StoreAnswer::Value(None))).collect())
    }
}
