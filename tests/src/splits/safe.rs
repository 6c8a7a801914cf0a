//! Whether a plan stays within the safe assumptions, decided from the plan alone, before it is run: every
//! incident is one clean or detected shape that the strategies cover, everybody has learnt of it before the
//! next begins, no pause is longer than the removal margin, no incarnation comes back. Spec: reliability 2
//! (A-SAFE).

use super::plan::{Event, LAG_MAX, Plan, SETTLED_AFTER};

/// Why a plan is outside; `Ok` if it is inside. `margin` is the removal margin in microseconds.
///
/// # Errors
/// The first assumption that does not hold.
pub fn a_safe(plan: &Plan, margin: u64) -> Result<(), &'static str> {
    let mut last: Option<u64> = None;
    let mut has_split = false;
    let mut rest = &plan.events[..];
    while let Some((at, _)) = rest.first() {
        let count = rest.iter().take_while(|(other, _)| other == at).count();
        let (now, later) = rest.split_at(count);
        rest = later;
        let faults: Vec<&Event> = now
            .iter()
            .map(|(_, event)| event)
            .filter(|event| !is_about_the_lease(event) && !is_lag(event))
            .collect();
        if faults.is_empty() {
            continue;
        }
        if last.is_some_and(|last| at - last < SETTLED_AFTER) {
            return Err("an incident begins before the last is over");
        }
        last = Some(*at);
        one_shape(&faults, margin)?;
        let splits = faults.iter().any(|event| matches!(event, Event::Split(_)));
        if has_split && splits {
            return Err("a second split");
        }
        has_split |= splits;
    }
    Ok(())
}

/// The lease is exclusive whatever becomes of its keeper, and no other strategy asks for it.
const fn is_about_the_lease(event: &Event) -> bool {
    matches!(
        event,
        Event::LeaseDown | Event::LeaseSlow(_) | Event::LeaseCut(_) | Event::LeaseBack
    )
}

/// Gossip that lags, comes twice and out of order, but comes: everybody still learns everything in time.
const fn is_lag(event: &Event) -> bool {
    matches!(event, Event::Weather(weather) if weather.loss_per_mille == 0 && weather.latency_max <= LAG_MAX)
}

/// What begins at one instant is a clean split, crashes, both, one broken link, one departure or one short
/// pause.
fn one_shape(faults: &[&Event], margin: u64) -> Result<(), &'static str> {
    let mut splits = 0;
    for fault in faults {
        match fault {
            Event::Crash(_) => {}
            Event::Split(_) => splits += 1,
            Event::OneWay(..) | Event::Pair(..) | Event::Leave(_) if faults.len() == 1 => {}
            Event::Pause(_, time) if faults.len() == 1 && *time <= margin => {}
            Event::Pause(..) => return Err("a pause longer than the margin, or with something else"),
            Event::OneWay(..) | Event::Pair(..) => return Err("a broken link together with something else"),
            Event::Leave(_) => return Err("a departure together with something else"),
            Event::Bridge(..) | Event::BadNode(..) => return Err("a node that reaches a part only"),
            Event::Open(..) | Event::Heal => return Err("a way that opens again"),
            Event::Slow(..) | Event::Swallow(..) | Event::SwallowNothing => return Err("a sick node"),
            Event::Weather(_) => return Err("bad weather"),
            Event::LeaseDown | Event::LeaseSlow(_) | Event::LeaseCut(_) | Event::LeaseBack => {}
        }
    }
    if splits > 1 {
        return Err("two splits at once");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::plan::SECOND;
    use super::*;
    use crate::sim::Weather;

    fn verdict(events: &[(u64, Event)]) -> Result<(), &'static str> {
        let plan = Plan {
            nodes: 5,
            events: events.to_vec(),
            cascade: false,
            sick: None,
        };
        a_safe(&plan, 2 * SECOND)
    }

    #[test]
    fn one_shape_at_a_time_is_inside_and_a_mixture_is_outside() {
        let split = || Event::Split(vec![vec![0, 1, 2], vec![3, 4]]);
        assert_eq!(verdict(&[(0, split()), (0, Event::Crash(1))]), Ok(()));
        assert_eq!(
            verdict(&[(0, Event::Crash(1)), (SETTLED_AFTER, Event::Pair(2, 3))]),
            Ok(())
        );
        assert!(verdict(&[(0, Event::Crash(1)), (SECOND, Event::Crash(2))]).is_err());
        assert!(verdict(&[(0, Event::Pair(1, 2)), (0, Event::Crash(3))]).is_err());
        assert!(verdict(&[(0, split()), (SETTLED_AFTER, split())]).is_err());
        assert!(verdict(&[(0, split()), (SETTLED_AFTER, Event::Heal)]).is_err());
    }

    #[test]
    fn a_pause_is_inside_up_to_the_margin() {
        assert_eq!(verdict(&[(0, Event::Pause(1, 2 * SECOND))]), Ok(()));
        assert!(verdict(&[(0, Event::Pause(1, 2 * SECOND + 1))]).is_err());
    }

    #[test]
    fn gossip_may_lag_but_not_be_lost() {
        let weather = |latency_max, loss_per_mille| {
            let weather = Weather {
                latency_min: 100,
                latency_max,
                loss_per_mille,
                reorder_per_mille: 300,
                duplicate_per_mille: 100,
            };
            verdict(&[(0, Event::Weather(weather)), (0, Event::Crash(1))])
        };
        assert_eq!(weather(LAG_MAX, 0), Ok(()));
        assert!(weather(LAG_MAX + 1, 0).is_err());
        assert!(weather(LAG_MAX, 1).is_err());
    }

    #[test]
    fn what_becomes_of_the_lease_is_no_incident() {
        assert_eq!(
            verdict(&[
                (0, Event::LeaseDown),
                (0, Event::Crash(1)),
                (SECOND, Event::LeaseBack)
            ]),
            Ok(())
        );
    }
}
