//! Instances of paths among what runs here: started with what was left to them, told to leave their state,
//! measured. Spec: sharding 5.5, 10.17.

use std::future::ready;
use std::sync::{Arc, Mutex};

use quorate_core::effect::{HostOrder, HostedInstance};
use quorate_core::load::state::sample::LoadPartId;
use quorate_core::owner::Requester;
use quorate_core::paths::state::name::PathId;
use quorate_core::sharding::ids::{Payload, Slot};
use quorate_core::token::Token;

use super::action::AfterOrder;
use super::hosted::{Hosted, RegisteredName};
use crate::mailbox::{EntityStart, Starter};
use crate::sync::{Task, lock};

const SLOT: Slot = Slot {
    index: 0,
    generation: 1,
};

/// Keeps what it was to start.
#[derive(Default)]
struct Kept(Mutex<Vec<EntityStart>>);

impl Starter for Kept {
    fn start(&self, start: EntityStart) -> Task {
        lock(&self.0).push(start);
        Box::pin(ready(()))
    }
}

#[test]
fn an_instance_gets_what_was_left_to_it_and_is_told_to_leave_its_own() {
    let (mut hosted, kept) = (Hosted::new(Arc::default()), Arc::new(Kept::default()));
    let path = PathId::of("shop/prices");
    let starter: Arc<dyn Starter> = kept.clone();
    let undo = hosted.register(
        RegisteredName::Path(path),
        &Arc::from("shop/prices"),
        Some(starter),
        None,
    );
    assert!(undo.is_none(), "the core hosts it whatever it answers");
    let instance = HostedInstance::Path {
        path,
        slot: 3,
        token: Token::new(4, 2),
        state: Some(Payload::from([7])),
    };
    let start = HostOrder::Start { slot: SLOT, instance };
    assert!(matches!(
        hosted.order(Requester::Path, start),
        Ok(AfterOrder::Start(_))
    ));
    let part = LoadPartId(path.raw());
    assert_eq!((hosted.live(), hosted.instances_of(part)), (1, 1));
    assert!(hosted.load_of_kinds().iter().any(|load| load.part == part));
    let started = lock(&kept.0);
    let start = started.first().expect("it was started");
    assert_eq!(start.state.as_deref(), Some(&[7][..]));
    assert_eq!(start.who.to_string(), "path/shop/prices#3@4.2");
    assert_eq!(start.who.path_slot(), Some(3));
    let stop = HostOrder::Stop { slot: SLOT };
    assert!(hosted.order(Requester::Path, stop).is_ok());
    assert!(!start.mailbox.leaves_state() && !start.mailbox.is_open());
    let stop = HostOrder::StopWithState { slot: SLOT };
    assert!(
        hosted.order(Requester::Singleton, stop.clone()).is_err(),
        "no slot of a singleton"
    );
    assert!(hosted.order(Requester::Path, stop).is_ok());
    assert!(start.mailbox.leaves_state());
}
