//! Writes the first inputs of the target `crdt`: of every type what two nodes made of it, with removals, a
//! pruning and gaps.

use std::path::Path;
use std::sync::Arc;
use std::{fs, io};

use quorate_core::ddata::crdt::{
    DataDelta, DataOp, DataType, DataValue, Element, FlagOp, GCounterOp, GSetOp, LwwClock, LwwMapOp,
    LwwRegisterOp, Minting, OrMapOp, OrMultiMapOp, OrSetOp, PnCounterMapOp, PnCounterOp, ValueType,
};
use quorate_core::ident::{Address, UniqueAddress};
use quorate_core::wire::{encode_data, encode_delta};

fn element(text: &str) -> Element {
    Arc::from(text.as_bytes())
}

fn operations(data_type: DataType, number: u64) -> Vec<DataOp> {
    let key = element(["x", "y"][usize::from(number % 2 == 1)]);
    let value = element(["u", "v", "w"][(number % 3) as usize]);
    let clock = LwwClock::Forward;
    match data_type {
        DataType::GCounter => vec![DataOp::GCounter(GCounterOp::Increment(number + 1))],
        DataType::PnCounter => vec![
            DataOp::PnCounter(PnCounterOp::Increment(number)),
            DataOp::PnCounter(PnCounterOp::Decrement(3)),
        ],
        DataType::GSet => vec![DataOp::GSet(GSetOp::Add(value))],
        DataType::OrSet => vec![
            DataOp::OrSet(OrSetOp::Add(key)),
            DataOp::OrSet(OrSetOp::Add(value.clone())),
            DataOp::OrSet(OrSetOp::Remove(value)),
        ],
        DataType::OrMap(values) => {
            let op = Box::new(operations(values.into(), number).remove(0));
            vec![DataOp::OrMap(OrMapOp::Update { key, op })]
        }
        DataType::OrMultiMap => vec![
            DataOp::OrMultiMap(OrMultiMapOp::Put {
                key: key.clone(),
                values: vec![value.clone(), element("z")],
            }),
            DataOp::OrMultiMap(OrMultiMapOp::RemoveBinding { key, value }),
        ],
        DataType::PnCounterMap => vec![DataOp::PnCounterMap(PnCounterMapOp::Increment {
            key,
            by: number + 1,
        })],
        DataType::LwwRegister => vec![DataOp::LwwRegister(LwwRegisterOp::Set { value, clock })],
        DataType::LwwMap => vec![DataOp::LwwMap(LwwMapOp::Put { key, value, clock })],
        DataType::Flag => vec![DataOp::Flag(FlagOp::SwitchOn)],
        DataType::Custom => Vec::new(),
    }
}

fn written(value: &DataValue) -> Vec<u8> {
    let mut out = Vec::new();
    encode_data(value, &mut out).expect("it can be written");
    out
}

fn written_delta(delta: &DataDelta) -> Vec<u8> {
    let mut out = Vec::new();
    encode_delta(delta, &mut out).expect("it can be written");
    out
}

fn pair(pick: u8, left: &[u8], right: &[u8]) -> Vec<u8> {
    let len = u16::try_from(left.len()).expect("short").to_le_bytes();
    [&[pick], &len[..], left, right].concat()
}

fn write(name: &str, bytes: &[u8]) -> io::Result<()> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus/crdt");
    fs::create_dir_all(&folder)?;
    fs::write(folder.join(name), bytes)
}

fn main() -> io::Result<()> {
    let mut types = vec![
        DataType::GCounter,
        DataType::PnCounter,
        DataType::GSet,
        DataType::OrSet,
        DataType::OrMultiMap,
        DataType::PnCounterMap,
        DataType::LwwRegister,
        DataType::LwwMap,
        DataType::Flag,
    ];
    types.extend(ValueType::ALL.map(DataType::OrMap));
    for data_type in types {
        let name = format!("{data_type:?}").to_lowercase().replace(['(', ')'], "_");
        let node = |host: &str| UniqueAddress::new(Address::new(host, 2551).expect("a legal name"), 7);
        let mut sides = ["a", "bb"].map(|host| {
            (
                DataValue::empty(data_type).expect("built in"),
                Minting::new(node(host)),
            )
        });
        let mut deltas: Vec<DataDelta> = Vec::new();
        for (side, (value, minting)) in (0_u64..).zip(&mut sides) {
            for number in 0..4 {
                minting.set_now(1_000 + i64::try_from(number).expect("small"));
                for op in operations(data_type, number + side) {
                    deltas.extend(value.apply(&op, minting).expect("a legal operation").into_delta());
                }
            }
        }
        let mut gappy = DataValue::empty(data_type).expect("built in");
        for delta in deltas.iter().skip(1).step_by(2) {
            gappy.merge_delta(delta).expect("one type");
        }
        let [(left, _), (right, _)] = &mut sides;
        let [one, other] = [written(left), written(right)];
        write(&format!("{name}_value"), &[&[0], &one[..]].concat())?;
        write(&format!("{name}_gaps"), &[&[0], &written(&gappy)[..]].concat())?;
        write(&format!("{name}_two"), &pair(3, &one, &other))?;
        if let Some(delta) = deltas.last() {
            write(
                &format!("{name}_delta"),
                &[&[1], &written_delta(delta)[..]].concat(),
            )?;
            write(
                &format!("{name}_value_and_delta"),
                &pair(2, &one, &written_delta(delta)),
            )?;
        }
        left.merge(right).expect("one type");
        write(&format!("{name}_joined"), &[&[0], &written(left)[..]].concat())?;
        left.settle(&node("bb")).expect("it can be settled");
        write(&format!("{name}_pruned"), &pair(3, &written(left), &other))?;
    }
    Ok(())
}
