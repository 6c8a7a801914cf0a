//! Links that one of their ends refuses for good: what their ends report, and what becomes of the one that is
//! refused. Spec: membership 8.11.

use super::*;

/// The word of membership.
fn refused_by(bench: &mut Bench, uid: u64) {
    bench.detector.on_told_removed(&mut bench.fixture.cx(), &n(uid));
}

/// The word of the links.
fn quarantined_by(bench: &mut Bench, uid: u64) {
    bench.detector.on_quarantined_by(&mut bench.fixture.cx(), &n(uid));
}

fn gossip_of(bench: &mut Bench, uid: u64) {
    bench.detector.on_gossip_heard(&mut bench.fixture.cx(), &n(uid));
}

/// Up members; who has seen the state, and whom others report.
fn seen_by(uids: &[u64], seen: &[u64], rows: &[(u64, u64)]) -> View {
    let rows: Vec<_> = rows.iter().map(|(by, of)| (n(*by), n(*of))).collect();
    let rows: Vec<_> = rows.iter().map(|(by, of)| (by, of)).collect();
    let members = uids.iter().map(|uid| member(&n(*uid), Status::Up));
    let mut gossip = Gossip::clone(picture(&n(1), members, &rows).gossip());
    for uid in seen {
        gossip.add_seen(&n(*uid));
    }
    picture_of(&n(1), gossip)
}

/// What was said beside the picture: of a pause, its end, a roll call, and that this node has to end.
fn said(bench: &mut Bench) -> Vec<&'static str> {
    let word = |signal| match signal {
        Signal::Paused { .. } => Some("paused"),
        Signal::StillMember => Some("still-member"),
        Signal::RollCall => Some("roll-call"),
        Signal::Disowned => Some("disowned"),
        Signal::LinksCut(_) => None,
        other => panic!("{other:?}"),
    };
    bench.fixture.heard().into_iter().filter_map(word).collect()
}

#[test]
fn u_05_a_node_that_one_member_refuses_starts_nothing_until_another_counts_it_in() {
    let mut bench = Bench::among(9, &[1, 2, 3]);
    bench.run_for(secs(10), &[2, 3]);
    bench.fixture.effects();
    refused_by(&mut bench, 2);
    assert_eq!(said(&mut bench), ["paused"]);
    let told = bench.fixture.effects();
    let ends_in = bench.fixture.config.removal_margin(3) / 2;
    let refused = DetectorEvent::Refused { by: n(2), ends_in };
    assert!(
        told.contains(&Effect::Notify(Event::Detector(refused))),
        "{told:?}"
    );
    let heartbeats = told.iter().filter(|effect| matches!(effect, Effect::Send { .. }));
    assert_eq!(heartbeats.count(), 2, "at once");
    // The one that refuses counts nobody in, and what was sent before proves nothing.
    bench.answer(&[2]);
    gossip_of(&mut bench, 2);
    gossip_of(&mut bench, 3);
    assert_eq!(said(&mut bench), [""; 0]);
    bench.answer(&[3]);
    assert_eq!(said(&mut bench), ["roll-call"], "so that gossip comes soon");
    gossip_of(&mut bench, 2);
    assert_eq!(said(&mut bench), [""; 0]);
    gossip_of(&mut bench, 3);
    assert_eq!(said(&mut bench), ["still-member"]);
    // The same member's refusal is no news.
    refused_by(&mut bench, 2);
    assert_eq!(said(&mut bench), [""; 0]);
    bench.run_for(ends_in * 2, &[2, 3]);
    assert_eq!(said(&mut bench), [""; 0]);
    assert_eq!(bench.fixture.stats.detector.refused_by_members, 1);
}

#[test]
fn u_05_a_node_that_nobody_counts_in_within_half_the_removal_margin_ends() {
    let mut bench = Bench::among(9, &[1, 2, 3, 4, 5]);
    bench.run_for(secs(10), &[2, 3, 4, 5]);
    refused_by(&mut bench, 2);
    let half = bench.fixture.config.removal_margin(5) / 2;
    bench.run_for(half / 2, &[2]);
    // Another one's refusal gives no more time.
    refused_by(&mut bench, 3);
    bench.run_for(half / 2 - Duration::from_micros(1), &[2, 3]);
    assert_eq!(said(&mut bench), ["paused"]);
    bench.run_for(Duration::from_micros(1), &[]);
    assert_eq!(said(&mut bench), ["disowned"]);
}

#[test]
fn u_05_a_node_that_more_members_refuse_than_could_count_it_in_ends_at_once() {
    let mut bench = Bench::among(9, &[1, 2, 3, 4]);
    refused_by(&mut bench, 2);
    assert_eq!(said(&mut bench), ["paused"]);
    refused_by(&mut bench, 3);
    assert_eq!(said(&mut bench), ["paused", "disowned"]);
    // With who refuses it gone there is nobody who could have taken over.
    let mut bench = Bench::among(9, &[1, 2, 3]);
    refused_by(&mut bench, 2);
    bench.see(&[1], &[]);
    assert_eq!(said(&mut bench), ["paused", "still-member"]);
}

#[test]
fn u_05_as_many_have_to_count_a_node_in_as_refuse_it() {
    let mut bench = Bench::among(9, &[1, 2, 3, 4, 5]);
    refused_by(&mut bench, 2);
    refused_by(&mut bench, 3);
    said(&mut bench);
    bench.answer(&[4]);
    gossip_of(&mut bench, 4);
    assert_eq!(said(&mut bench), [""; 0]);
    bench.answer(&[5]);
    assert_eq!(said(&mut bench), ["roll-call"]);
    gossip_of(&mut bench, 4);
    assert_eq!(said(&mut bench), ["still-member"]);
}

#[test]
fn m_369_a_stranger_and_a_member_on_its_way_out_refuse_nobody() {
    let mut bench = Bench::among(9, &[1, 2, 3]);
    refused_by(&mut bench, 5);
    let leaving = member(&n(2), Status::Leaving);
    let members = [member(&n(1), Status::Up), leaving, member(&n(3), Status::Up)];
    bench.show(picture(&n(1), members, &[]));
    refused_by(&mut bench, 2);
    assert_eq!(said(&mut bench), [""; 0]);
}

#[test]
fn u_05_a_refused_link_is_no_silence_while_the_other_end_sees_what_happens() {
    for is_mine in [true, false] {
        let mut bench = Bench::among(9, &[1, 2, 3]);
        bench.run_for(secs(10), &[2, 3]);
        if is_mine {
            bench.detector.on_quarantined(&mut bench.fixture.cx(), &n(2));
            bench.detector.on_quarantined(&mut bench.fixture.cx(), &n(2));
            assert_eq!(said(&mut bench), ["roll-call"], "once");
        } else {
            quarantined_by(&mut bench, 2);
            assert_eq!(said(&mut bench), ["paused", "roll-call"]);
            quarantined_by(&mut bench, 2);
            bench.answer(&[3]);
            gossip_of(&mut bench, 3);
            assert_eq!(said(&mut bench), ["still-member", "roll-call"]);
        }
        let patience = bench.fixture.config.stable_after(3);
        bench.show(seen_by(&[1, 2, 3], &[3], &[]));
        bench.run_for(patience - secs(1), &[3]);
        bench.show(seen_by(&[1, 2, 3], &[2, 3], &[]));
        bench.run_for(patience * 3, &[3]);
        assert_eq!(bench.verdicts(), None, "it is seen");
        bench.show(seen_by(&[1, 2, 3], &[3], &[]));
        bench.run_for(secs(2), &[3]);
        assert_eq!(bench.verdicts(), None, "it has not had the time");
        // Whoever hears it still has the say.
        bench.show(seen_by(&[1, 2, 3], &[2, 3], &[(3, 2)]));
        bench.run_for(secs(1), &[3]);
        assert_eq!(bench.verdicts(), Some((vec![2], vec![])));
        bench.show(seen_by(&[1, 2, 3], &[2, 3], &[(1, 2)]));
        bench.run_for(secs(1), &[3]);
        assert_eq!(bench.verdicts(), Some((vec![], vec![2])));
        // Of a state that it does not see it is missed in the end.
        bench.show(seen_by(&[1, 2, 3], &[3], &[]));
        bench.run_for(patience - secs(1), &[3]);
        assert_eq!(bench.verdicts(), None);
        bench.run_for(secs(2), &[3]);
        assert_eq!(bench.verdicts(), Some((vec![2], vec![])));
    }
}

#[test]
fn u_05_a_member_that_refuses_and_is_heard_all_the_same_is_watched_as_any_other() {
    let mut bench = Bench::among(9, &[1, 2, 3]);
    bench.run_for(secs(10), &[2, 3]);
    for is_cut in [true, false] {
        if is_cut {
            quarantined_by(&mut bench, 2);
        }
        refused_by(&mut bench, 2);
        bench.show(seen_by(&[1, 2, 3], &[2, 3], &[]));
        bench.run_for(secs(2), &[2, 3]);
        gossip_of(&mut bench, 3);
        bench.run_for(secs(6), &[3]);
        assert_eq!(bench.verdicts(), Some((vec![2], vec![])));
        bench.run_for(secs(2), &[2, 3]);
    }
}

#[test]
fn u_05_membership_hears_to_whom_no_link_gets_through() {
    let mut bench = Bench::among(9, &[1, 2, 3]);
    let cut = |bench: &mut Bench| {
        let said = bench.fixture.heard().into_iter().filter_map(|signal| {
            let Signal::LinksCut(cut) = signal else {
                return None;
            };
            Some(cut.iter().map(UniqueAddress::uid).collect::<Vec<u64>>())
        });
        said.collect::<Vec<_>>()
    };
    quarantined_by(&mut bench, 2);
    bench.detector.on_quarantined(&mut bench.fixture.cx(), &n(3));
    assert_eq!(cut(&mut bench), [[2, 3]]);
    bench.answer(&[2, 3]);
    assert_eq!(cut(&mut bench), [[0; 0]; 1]);
}
