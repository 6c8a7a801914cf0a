//! What must hold of a run.

use std::collections::{BTreeMap, BTreeSet};

use quorate_core::effect::Answer;
use quorate_core::paths::state::settings::PathSettings;
use quorate_core::sharding::errors::AskFailure;

use crate::world::World;

/// Checks a run after everything has come to rest. `clean`: no node crashed and no link was reset.
pub(crate) fn check(world: &World, paths: &[PathSettings], clean: bool) {
    let handled = &world.handled;
    let mut once = BTreeSet::new();
    for it in handled {
        assert!(once.insert((it.path, it.slot, it.sent)), "handled twice: {it:?}");
    }
    for settings in paths {
        let (path, options) = (settings.name.id(), settings.handoff);
        let of_path = || handled.iter().filter(|it| it.path == path);
        if options.keeps_order() {
            let mut last = BTreeMap::new();
            for it in of_path() {
                let before = last.insert((it.slot, it.sent.0), it.clone());
                if let Some(before) = before {
                    assert!(
                        before.sent.1 < it.sent.1,
                        "{}: order: {before:?} {it:?}",
                        settings.name
                    );
                }
            }
        }
        if options.never_two() {
            let mut last = BTreeMap::new();
            for it in of_path() {
                if let Some(before) = last.insert(it.slot, it.clone()) {
                    let before: crate::world::Handled = before;
                    assert!(
                        before.token <= it.token,
                        "{}: two: {before:?} {it:?}",
                        settings.name
                    );
                }
            }
        }
    }
    for ((at, token), (path, slot, sent)) in &world.asks {
        if !world.is_live(*at) {
            continue;
        }
        let was_handled = once.contains(&(*path, *slot, *sent));
        let answer = world.outcome(*at, *token);
        match answer {
            Some(Answer::Asked(Ok(_))) => assert!(was_handled, "answered and not handled"),
            Some(Answer::Asked(Err(failure))) => {
                assert!(
                    failure.may_have_been_handled() || !was_handled,
                    "{sent:?} to {path:?} {slot}: {failure:?}, and it was handled"
                );
                let settings = paths.iter().find(|settings| settings.name.id() == *path).unwrap();
                let lossless = settings.handoff != quorate_core::paths::state::options::HandoffOptions::LOSSY;
                assert!(
                    !clean
                        || !lossless
                        || (!failure.may_have_been_handled() && *failure != AskFailure::HandedOff),
                    "{sent:?} to {path:?} {slot}: {failure:?} without a fault"
                );
            }
            other => panic!("{at} {sent:?}: {other:?}"),
        }
    }
}
