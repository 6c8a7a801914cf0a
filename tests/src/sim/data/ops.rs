//! One random operation on replicated data: which key, which type, what is done. What is done can be told
//! from the value later: an increment is a power of four of its own, so that each counter is a row of digits,
//! and an element is added once. Decides nothing about what must hold. Spec: reliability 1c.

use std::sync::Arc;

use quorate_core::ddata::crdt::{
    DataOp, DataType, DataValue, Element, FlagOp, GCounterOp, GSetOp, LwwClock, LwwMapOp, LwwRegisterOp,
    OrMap, OrMapOp, OrMultiMapOp, OrSetOp, PnCounterMapOp, PnCounterOp, ValueType,
};
use quorate_core::ddata::state::consistency::Consistency;

use super::super::chance::Chance;

/// Increments of one counter: so many digits of base four fit into an increment. The next ones are of another
/// counter.
pub(super) const DIGITS: u64 = 28;

/// What was done, as far as it can be told from the value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum What {
    /// The counter has 1 at this digit; -1 if it was taken away.
    Digit { place: u32, is_up: bool },
    /// The set has the element, unless somebody removed it.
    Add(Element),
    /// The set has the element no more; it is added only once.
    Remove(Element),
    /// The register has this value, or a later one.
    Set(Element),
    /// The flag is on.
    On,
    /// The key is gone.
    Delete,
    /// Something whose effect another operation may undo.
    Other,
}

/// One operation.
#[derive(Clone, Debug)]
pub(super) struct Drawn {
    pub(super) key: String,
    pub(super) initial: DataValue,
    /// Nothing: the key is deleted.
    pub(super) op: Option<DataOp>,
    pub(super) what: What,
}

/// What was drawn so far.
#[derive(Clone, Debug, Default)]
pub(super) struct Drawer {
    numbers: u64,
    counted: [u64; 4],
    elements: Vec<(String, Element)>,
}

fn element(text: &str) -> Element {
    Arc::from(text.as_bytes())
}

fn empty(of: DataType) -> DataValue {
    DataValue::empty(of)
        .expect("invariant: only maps of values and users' types have no empty value of their own")
}

/// How many replicas, over all levels.
pub(super) fn level(chance: &mut Chance) -> Consistency {
    match chance.below(10) {
        0..3 => Consistency::Local,
        3..7 => Consistency::Majority,
        7 => Consistency::Replicas(2 + u16::try_from(chance.below(2)).unwrap_or(0)),
        8 => Consistency::MajorityPlus(1),
        _ => Consistency::All,
    }
}

impl Drawer {
    pub(super) fn draw(&mut self, chance: &mut Chance) -> Drawn {
        self.numbers += 1;
        let durable = chance.per_mille(300);
        let (shape, which, small) = (chance.below(20), chance.below(2), chance.below(5));
        let prefix = if durable { "d" } else { "" };
        let name = |kind: &str| format!("{prefix}{kind}{which}");
        let number = self.numbers;
        let drawn = |key: String, initial: DataValue, op: DataOp, what: What| Drawn {
            key,
            initial,
            op: Some(op),
            what,
        };
        let other = |key: String, of: DataType, op: DataOp| drawn(key, empty(of), op, What::Other);
        match shape {
            0..5 => self.counter(prefix, usize::from(durable), true),
            5..7 => self.counter(prefix, 2 + usize::from(durable), small > 1),
            7..10 => self.set(name("s"), small > 1, chance),
            10 => {
                let added = element(&format!("g{number}"));
                let op = DataOp::GSet(GSetOp::Add(Arc::clone(&added)));
                drawn(name("g"), empty(DataType::GSet), op, What::Add(added))
            }
            11 | 12 => {
                let value = element(&format!("r{number}"));
                let op = LwwRegisterOp::Set {
                    value: Arc::clone(&value),
                    clock: LwwClock::Forward,
                };
                let op = DataOp::LwwRegister(op);
                drawn(name("r"), empty(DataType::LwwRegister), op, What::Set(value))
            }
            13 => {
                let key = format!("{prefix}f{}", number % 16);
                drawn(
                    key,
                    empty(DataType::Flag),
                    DataOp::Flag(FlagOp::SwitchOn),
                    What::On,
                )
            }
            14 => {
                let (key, of) = (element(&format!("k{small}")), empty_map());
                let op = if small == 0 {
                    OrMapOp::Remove(key)
                } else {
                    let op = Box::new(DataOp::OrSet(OrSetOp::Add(element(&format!("v{number}")))));
                    OrMapOp::Update { key, op }
                };
                drawn(name("m"), of, DataOp::OrMap(op), What::Other)
            }
            15 => {
                let key = element(&format!("k{small}"));
                let op = if number.is_multiple_of(3) {
                    OrMultiMapOp::Remove(key)
                } else {
                    let value = element(&format!("v{number}"));
                    OrMultiMapOp::AddBinding { key, value }
                };
                other(name("b"), DataType::OrMultiMap, DataOp::OrMultiMap(op))
            }
            16 => {
                let key = element(&format!("k{small}"));
                let op = if number.is_multiple_of(5) {
                    PnCounterMapOp::Remove(key)
                } else {
                    PnCounterMapOp::Increment { key, by: number }
                };
                other(name("n"), DataType::PnCounterMap, DataOp::PnCounterMap(op))
            }
            17 => {
                let key = element(&format!("k{small}"));
                let op = if number.is_multiple_of(4) {
                    LwwMapOp::Remove(key)
                } else {
                    let (value, clock) = (element(&format!("v{number}")), LwwClock::Forward);
                    LwwMapOp::Put { key, value, clock }
                };
                other(name("l"), DataType::LwwMap, DataOp::LwwMap(op))
            }
            _ => Self::doomed(prefix, number, small == 0),
        }
    }

    /// Counters of four kinds: grow-only or not, durable or not.
    fn counter(&mut self, prefix: &str, kind: usize, is_up: bool) -> Drawn {
        let count = self.counted[kind];
        self.counted[kind] += 1;
        let place = u32::try_from(count % DIGITS).unwrap_or(0);
        let by = 4_u64.pow(place);
        let (name, of, op) = if kind < 2 {
            (
                "c",
                DataType::GCounter,
                DataOp::GCounter(GCounterOp::Increment(by)),
            )
        } else if is_up {
            (
                "p",
                DataType::PnCounter,
                DataOp::PnCounter(PnCounterOp::Increment(by)),
            )
        } else {
            (
                "p",
                DataType::PnCounter,
                DataOp::PnCounter(PnCounterOp::Decrement(by)),
            )
        };
        Drawn {
            key: format!("{prefix}{name}{}", count / DIGITS),
            initial: empty(of),
            op: Some(op),
            what: What::Digit { place, is_up },
        }
    }

    /// Adds an element that never was, or removes one that somebody added at some time.
    fn set(&mut self, key: String, adds: bool, chance: &mut Chance) -> Drawn {
        let of_key: Vec<&Element> = self
            .elements
            .iter()
            .filter(|(of, _)| *of == key)
            .map(|(_, element)| element)
            .collect();
        let initial = empty(DataType::OrSet);
        if !adds && !of_key.is_empty() {
            let gone = Arc::clone(of_key[chance.index(of_key.len())]);
            let op = Some(DataOp::OrSet(OrSetOp::Remove(Arc::clone(&gone))));
            let what = What::Remove(gone);
            return Drawn {
                key,
                initial,
                op,
                what,
            };
        }
        let added = element(&format!("e{}", self.numbers));
        self.elements.push((key.clone(), Arc::clone(&added)));
        let op = Some(DataOp::OrSet(OrSetOp::Add(Arc::clone(&added))));
        let what = What::Add(added);
        Drawn {
            key,
            initial,
            op,
            what,
        }
    }

    /// A set that is deleted some time.
    fn doomed(prefix: &str, number: u64, is_end: bool) -> Drawn {
        let key = format!("{prefix}x{}", number / 40);
        let op = DataOp::GSet(GSetOp::Add(element(&format!("x{number}"))));
        Drawn {
            key,
            initial: empty(DataType::GSet),
            op: (!is_end).then_some(op),
            what: if is_end { What::Delete } else { What::Other },
        }
    }
}

fn empty_map() -> DataValue {
    DataValue::OrMap(OrMap::new(ValueType::OrSet))
}

/// The digits of a counter, lowest first; an error names the place of one that no single operation can have
/// made.
pub(super) fn digits(value: i128) -> Result<Vec<i8>, usize> {
    let (mut left, mut digits) = (value, Vec::new());
    while left != 0 {
        let digit = match left.rem_euclid(4) {
            0 => 0,
            1 => 1,
            3 => -1,
            _ => return Err(digits.len()),
        };
        digits.push(digit);
        left = (left - i128::from(digit)) / 4;
    }
    Ok(digits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_is_a_row_of_digits_in_which_doing_something_twice_shows() {
        assert_eq!(digits(0), Ok(vec![]));
        assert_eq!(digits(1 + 16 - 64), Ok(vec![1, 0, 1, -1]));
        assert_eq!(digits(1 + 4 + 4), Err(1));
        assert_eq!(digits(-1 - 1), Err(0));
    }
}
