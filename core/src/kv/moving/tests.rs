//! The newcomer's rules, one by one.

use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::slice::from_ref;

use super::*;
use crate::kv::state::configuration::Owners;
use crate::kv::state::table::replaced;
use crate::token::Token;

const LIMITS: PartLimits = PartLimits {
    items_max: 2,
    bytes_max: 8,
    item_bytes_max: 20,
};
const AGAIN: Duration = Duration::from_secs(1);

const fn at(seconds: u64) -> Instant {
    Instant::from_micros(seconds * 1_000_000)
}

fn joint(epoch: u64) -> Configuration {
    let owners = replaced(&[1, 2, 3].map(StoreId), StoreId(3), StoreId(9)).unwrap();
    Configuration { epoch, owners }
}

fn arrival() -> Arrival {
    let levels = RangeLevels::new(3, 2, 2).unwrap();
    let mut arrival = Arrival::new(&joint(8), levels, LIMITS, (at(0), AGAIN)).unwrap();
    let asked = [1, 2, 3].map(|owner| ArrivalEffect::AskRefusal {
        owner: StoreId(owner),
    });
    assert_eq!(arrival.take_effects(), asked);
    arrival
}

fn item(key: &str, content: &str) -> RangeItem {
    RangeItem {
        key: Arc::from(key.as_bytes()),
        content: Arc::from(content.as_bytes()),
        promised: Token::NONE,
    }
}

fn part(items: &[RangeItem], is_last: bool) -> RangePart {
    let items = items.to_vec();
    RangePart { items, is_last }
}

fn ask(owner: u128, after: Option<&str>) -> ArrivalEffect {
    ArrivalEffect::AskPart {
        owner: StoreId(owner),
        after: after.map(|after| Arc::from(after.as_bytes())),
    }
}

fn merge(owner: u128, items: &[RangeItem]) -> ArrivalEffect {
    ArrivalEffect::Merge {
        owner: StoreId(owner),
        items: items.to_vec(),
    }
}

#[test]
fn an_owner_is_read_after_it_refused_and_part_by_part() {
    let mut arrival = arrival();
    let (a, b) = (item("a", "1"), item("b", "2"));
    arrival
        .on_part(StoreId(1), (8, None), part(from_ref(&a), true))
        .unwrap();
    assert_eq!(
        arrival.take_effects(),
        [],
        "it may acknowledge something after it"
    );
    arrival.on_refusal(StoreId(1), 7, at(0));
    arrival.on_refusal(StoreId(4), 8, at(0));
    assert_eq!(arrival.take_effects(), [], "of another epoch, of no owner");
    arrival.on_refusal(StoreId(1), 8, at(0));
    assert_eq!(arrival.take_effects(), [ask(1, None)]);
    arrival
        .on_part(StoreId(1), (8, None), part(from_ref(&a), false))
        .unwrap();
    assert_eq!(arrival.take_effects(), [merge(1, from_ref(&a))]);
    arrival.on_part(StoreId(1), (8, None), part(&[a], false)).unwrap();
    assert_eq!(arrival.take_effects(), [], "said twice");
    arrival.on_kept(StoreId(1), at(0));
    assert_eq!(arrival.take_effects(), [ask(1, Some("a"))]);
    arrival
        .on_part(StoreId(1), (7, Some(b"a")), part(from_ref(&b), true))
        .unwrap();
    assert_eq!(arrival.take_effects(), [], "of another epoch");
    arrival
        .on_part(StoreId(1), (8, Some(b"a")), part(from_ref(&b), true))
        .unwrap();
    assert_eq!(arrival.take_effects(), [merge(1, &[b])]);
    assert_eq!(arrival.merged().count(), 0, "not durable yet");
    arrival.on_kept(StoreId(1), at(0));
    assert_eq!(arrival.take_effects(), [ArrivalEffect::Report]);
    assert_eq!(arrival.merged().collect::<Vec<_>>(), [StoreId(1)]);
}

#[test]
fn as_many_are_read_as_suffice_and_one_more_for_each_that_is_late() {
    let mut arrival = arrival();
    for owner in [1, 2, 3] {
        arrival.on_refusal(StoreId(owner), 8, at(0));
    }
    assert_eq!(arrival.take_effects(), [ask(1, None), ask(2, None)]);
    arrival.on_part(StoreId(1), (8, None), part(&[], true)).unwrap();
    arrival.on_kept(StoreId(1), at(0));
    arrival.take_effects();
    arrival.on_tick(at(1));
    assert_eq!(arrival.take_effects(), [ask(2, None), ask(3, None)]);
    arrival.on_tick(at(1));
    assert_eq!(arrival.take_effects(), []);
    for owner in [2, 3] {
        arrival
            .on_part(StoreId(owner), (8, None), part(&[], true))
            .unwrap();
        arrival.on_kept(StoreId(owner), at(1));
    }
    assert_eq!(arrival.merged().count(), 3);
}

#[test]
fn who_does_not_refuse_is_asked_again() {
    let mut arrival = arrival();
    arrival.on_refusal(StoreId(2), 8, at(0));
    arrival.take_effects();
    arrival.on_tick(at(1));
    let again = |owner| ArrivalEffect::AskRefusal {
        owner: StoreId(owner),
    };
    assert_eq!(arrival.take_effects(), [again(1), ask(2, None), again(3)]);
}

#[test]
fn parts_that_no_honest_owner_sends_are_refused() {
    let (a, b) = (item("a", "1"), item("b", "1"));
    let check = |items: &[RangeItem], is_last, after| part(items, is_last).check(after, LIMITS);
    assert_eq!(check(&[a.clone(), b.clone()], false, None), Ok(()));
    assert_eq!(check(&[], true, Some(b"b")), Ok(()));
    assert_eq!(check(&[], false, None), Err(PartError::Empty));
    assert_eq!(check(&[b.clone(), a.clone()], true, None), Err(PartError::Order));
    assert_eq!(check(&[a.clone(), a.clone()], true, None), Err(PartError::Order));
    assert_eq!(check(from_ref(&b), true, Some(b"b")), Err(PartError::Order));
    let many = [a.clone(), b, item("c", "")];
    assert_eq!(check(&many, true, None), Err(PartError::TooLarge));
    assert_eq!(
        check(&[a, item("b", "1234567")], true, None),
        Err(PartError::TooLarge)
    );
    assert_eq!(check(&[item("a", "123456789")], true, None), Ok(()), "alone");
    let long = item("a", "12345678901234567890");
    assert_eq!(check(&[long], true, None), Err(PartError::TooLarge));
    let mut arrival = arrival();
    arrival.on_refusal(StoreId(1), 8, at(0));
    arrival.take_effects();
    let refused = arrival.on_part(StoreId(1), (8, None), part(&[], false));
    assert_eq!((refused, arrival.take_effects()), (Err(PartError::Empty), vec![]));
}

#[test]
fn what_is_cut_is_what_is_accepted_and_nothing_is_left_out() {
    let keys = ["a", "b", "c", "d", "e"];
    let lengths = [0, 3, 7, 12, 0];
    let items: Vec<RangeItem> = keys
        .iter()
        .zip(lengths)
        .map(|(key, length)| item(key, &"xxxxxxxxxxxx"[..length]))
        .collect();
    let (mut read, mut after): (Vec<RangeItem>, Option<Bytes>) = (Vec::new(), None);
    let mut parts = Vec::new();
    loop {
        let behind = items
            .iter()
            .filter(|item| after.as_ref().is_none_or(|after| item.key > *after));
        let cut = RangePart::cut(behind.cloned(), LIMITS);
        cut.check(after.as_deref(), LIMITS).unwrap();
        parts.push(cut.items.len());
        read.extend(cut.items);
        after = read.last().map(|item| item.key.clone());
        if cut.is_last {
            break;
        }
    }
    assert_eq!((read, parts), (items, vec![2, 1, 1, 1]));
    let nothing = RangePart::cut([], LIMITS);
    assert!(nothing.items.is_empty() && nothing.is_last);
}

#[test]
fn a_newcomer_drops_what_it_holds_once_for_a_configuration() {
    let stable = |epoch, owners: [u128; 3]| Configuration {
        epoch,
        owners: Owners::Stable(owners.map(StoreId).to_vec()),
    };
    let begins = |held: Option<&Configuration>, me| begins_empty(StoreId(me), held, &joint(8));
    assert!(
        begins(None, 9) && begins(Some(&stable(5, [9, 2, 3])), 9),
        "leftovers"
    );
    assert!(begins(Some(&joint(6)), 9), "of a move that was undone");
    assert!(!begins(Some(&joint(8)), 9), "it has begun");
    assert!(!begins(None, 1), "no newcomer");
    assert!(!begins_empty(StoreId(9), Some(&joint(8)), &stable(9, [1, 2, 9])));
}
