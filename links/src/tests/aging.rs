//! Links that could not be renewed and go on, because what their peer proved still holds: how often that is
//! said, and whose word ends them. Spec: reliability 3a (rotation), ADR 9.

use alloc::boxed::Box;
use alloc::string::String;
use core::time::Duration;

use quorate_core::ident::Address;
use quorate_core::wire::handshake::RejectReason;

use super::{Bench, aborts, accepted_control, frame, heartbeat, me, peer};
use crate::authentication::{LinkAuthentication, LinkEnd, PeerIdentity};
use crate::order::{LinkId, LinkInput, LinkOrder};

const AGE: Duration = Duration::from_secs(8);

/// Whatever a peer has proved holds for ever.
struct Believes;

impl LinkAuthentication for Believes {
    fn covers(&self, _: Option<&PeerIdentity>, _: &Address) -> Result<(), RejectReason> {
        Ok(())
    }

    fn believes(&self, _: Option<&PeerIdentity>, _: LinkEnd, _: &Address, _: u64) -> Result<(), String> {
        Ok(())
    }
}

fn bench() -> Bench {
    let mut bench = Bench::new();
    bench.links.base.max_link_age = Some(AGE);
    bench.links.base.authentication = Box::new(Believes);
    bench
}

/// Lets time pass in which no dial succeeds; whether the link was cut.
fn starve(bench: &mut Bench, link: LinkId, seconds: u64) -> bool {
    let mut is_cut = false;
    for _ in 0..seconds {
        bench.pass(1_000);
        let actions = bench.actions();
        is_cut |= aborts(&actions, link);
        for action in actions {
            if let LinkOrder::Dial { link, .. } = action {
                bench.fail_dial(link);
            }
        }
    }
    is_cut
}

#[test]
fn an_accepted_link_that_goes_on_beyond_its_age_is_said_once() {
    let mut bench = bench();
    let link = accepted_control(&mut bench);
    bench.receive(link, &frame(&heartbeat(me()), 1));
    assert!(!starve(&mut bench, link, 30));
    let stats = bench.links.stats();
    assert_eq!((stats.links_kept, stats.links_expired), (1, 0));
}

#[test]
fn who_refuses_a_link_that_is_read_to_its_end_says_nothing_about_its_successor() {
    let mut bench = bench();
    bench.send(&peer(), heartbeat(peer()));
    let old = bench.dial();
    bench.answer(old, &peer());
    for (link, buffer) in bench.writes() {
        bench.link(LinkInput::Written(link, buffer));
    }
    bench.pass(7_000);
    let new = bench.dial();
    bench.answer(new, &peer());
    bench.actions();
    bench.link(LinkInput::Unproved(
        old,
        String::from("its certificate has ended"),
    ));
    assert!(!starve(&mut bench, new, 40), "it was not refused");
    assert_eq!(bench.links.stats().links_kept, 1);
}
