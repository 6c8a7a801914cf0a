//! Users' own types, with and without deltas. Spec: sharding 1.13.

use super::*;

/// The largest number anybody wrote, in eight bytes; deltas on demand.
#[derive(Debug)]
struct MaxRegister {
    name: &'static str,
    with_deltas: bool,
}

fn number(bytes: &[u8]) -> Result<u64, CustomError> {
    let bytes = <[u8; 8]>::try_from(bytes).map_err(|_| CustomError("eight bytes".into()))?;
    Ok(u64::from_be_bytes(bytes))
}

impl CustomType for MaxRegister {
    fn name(&self) -> &str {
        self.name
    }

    fn initial(&self) -> Vec<u8> {
        0_u64.to_be_bytes().into()
    }

    fn check(&self, state: &[u8]) -> Result<(), CustomError> {
        number(state).map(|_| ())
    }

    fn apply(&self, state: &[u8], op: &[u8], _: &mut Minting) -> Result<CustomChange, CustomError> {
        let state = self.merge(state, op)?;
        let delta = self.with_deltas.then(|| op.to_vec());
        Ok(CustomChange { state, delta })
    }

    fn merge(&self, left: &[u8], right: &[u8]) -> Result<Vec<u8>, CustomError> {
        Ok(number(left)?.max(number(right)?).to_be_bytes().into())
    }
}

fn types() -> CustomTypes {
    let mut types = CustomTypes::new();
    for (name, with_deltas) in [("max", false), ("max with deltas", true)] {
        types
            .register(Arc::new(MaxRegister { name, with_deltas }))
            .expect("a new name");
    }
    types
}

fn op(value: u64) -> DataOp {
    DataOp::Custom(Arc::from(value.to_be_bytes()))
}

#[test]
fn a_users_type_without_deltas_travels_whole_and_one_with_deltas_by_them() {
    let types = types();
    let minting = &mut Minting::new(node("a"));
    let new = |name: &str| DataValue::Custom(Custom::new(Arc::clone(types.get(name).expect("registered"))));
    let mut plain = new("max");
    assert!(!plain.needs_causal_delivery(), "unless the type says so");
    assert_eq!(plain.apply(&op(7), minting), Ok(Applied::Whole));
    assert_eq!(plain.apply(&op(7), minting), Ok(Applied::Unchanged));
    let mut other = new("max");
    assert_eq!(other.merge(&plain), Ok(MergeOutcome { changed: true }));
    assert_eq!(other.merge(&plain), Ok(MergeOutcome { changed: false }));
    assert_eq!(other, plain);

    let mut with = new("max with deltas");
    let mut delta = with
        .apply(&op(3), minting)
        .expect("eight bytes")
        .into_delta()
        .expect("a delta");
    let later = with
        .apply(&op(9), minting)
        .expect("eight bytes")
        .into_delta()
        .expect("a delta");
    delta.join(&later).expect("one type");
    let mut bytes = Vec::new();
    encode_delta(&delta, &mut bytes).expect("it can be written");
    let delta = decode_delta(&bytes, &DataLimits::default(), &types).expect("what is written is read");
    let mut other = new("max with deltas");
    assert_eq!(other.merge_delta(&delta), Ok(MergeOutcome { changed: true }));
    assert_eq!(other, with);
    let mismatch = MergeError::CustomMismatch {
        held: "max with deltas".into(),
        found: "max".into(),
    };
    assert_eq!(other.merge(&plain), Err(mismatch));
    let refused = other.apply(&DataOp::Custom(element("not a number")), minting);
    assert!(matches!(refused, Err(OpError::Custom(_))));
}

#[test]
fn a_users_value_is_read_only_by_those_who_know_its_type_and_only_if_it_accepts_it() {
    let types = types();
    let kind = Arc::clone(types.get("max").expect("registered"));
    let mut written = Vec::new();
    encode_data(&DataValue::Custom(Custom::new(kind)), &mut written).expect("it can be written");
    let limits = DataLimits::default();
    assert!(decode_data(&written, &limits, &types).is_ok());
    assert!(decode_data(&written, &limits, &CustomTypes::new()).is_err());
    let length = written.len();
    written[length - 12] = 7;
    written.pop();
    assert!(
        decode_data(&written, &limits, &types).is_err(),
        "seven bytes are no number"
    );
}

#[test]
fn names_of_users_types_are_unique_and_bounded() {
    let mut types = types();
    let max = |name| {
        Arc::new(MaxRegister {
            name,
            with_deltas: false,
        })
    };
    assert_eq!(types.register(max("max")), Err(RegisterError::Duplicate));
    assert_eq!(types.register(max("")), Err(RegisterError::BadName { bytes: 0 }));
    for at in 2..CUSTOM_TYPES_MAX {
        let name = alloc::string::String::leak(alloc::format!("type {at}"));
        types.register(max(name)).expect("a new name");
    }
    assert_eq!(types.register(max("one more")), Err(RegisterError::TooMany));
}
