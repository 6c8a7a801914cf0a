//! What is in an answer of etcd's JSON gateway: numbers of 64 bits are texts, zero and empty things are left
//! out, keys and values are base64. Believes nothing of it. Source: `api/etcdserverpb/rpc.proto`,
//! `api/mvccpb/kv.proto`.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::Value;

use crate::error::EtcdError;

/// A key as it was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FoundKey {
    pub(crate) owner: String,
    /// The revision in which it was made: the token.
    pub(crate) created: u64,
    /// The revision in which it was written last.
    pub(crate) modified: u64,
    /// etcd's own lease that it is attached to, 0 for none.
    pub(crate) lease: i64,
}

/// What became of a write on a condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum WriteOutcome {
    In {
        revision: u64,
    },
    /// The condition does not hold; this is there instead.
    Changed(Option<FoundKey>),
}

impl WriteOutcome {
    pub(crate) fn read(answer: &Value) -> Result<Self, EtcdError> {
        if answer.get("succeeded").and_then(Value::as_bool).unwrap_or(false) {
            let header = answer.get("header");
            let header = header.ok_or(EtcdError::BadAnswer("a write without a revision"))?;
            let revision = revision(header, "revision")?;
            return Ok(Self::In { revision });
        }
        let found = part(answer, "response_range").map(|part| first_of(part, "kvs"));
        let found = found.ok_or(EtcdError::BadAnswer("a refused write without what is there"))?;
        Ok(Self::Changed(found?))
    }
}

impl FoundKey {
    fn read(entry: &Value) -> Result<Self, EtcdError> {
        let owner = entry.get("value").and_then(Value::as_str).unwrap_or_default();
        let owner = BASE64_STANDARD.decode(owner);
        let owner = owner.map_err(|_| EtcdError::BadAnswer("a value is not base64"))?;
        Ok(Self {
            // Whatever is no text is nobody's name.
            owner: String::from_utf8_lossy(&owner).into_owned(),
            created: revision(entry, "create_revision")?,
            modified: revision(entry, "mod_revision")?,
            lease: number(entry, "lease")?,
        })
    }
}

/// A key or a value as a question has it.
pub(crate) fn encoded(text: &str) -> String {
    BASE64_STANDARD.encode(text)
}

/// The first of a list of keys, if there is one.
pub(crate) fn first_of(answer: &Value, list: &str) -> Result<Option<FoundKey>, EtcdError> {
    let first = answer.get(list).and_then(|list| list.get(0));
    first.map(FoundKey::read).transpose()
}

/// What the only part of a transaction says.
pub(crate) fn part<'a>(answer: &'a Value, name: &str) -> Option<&'a Value> {
    answer.get("responses")?.get(0)?.get(name)
}

/// A number; 0 if it is left out.
pub(crate) fn number(answer: &Value, name: &str) -> Result<i64, EtcdError> {
    let Some(value) = answer.get(name) else {
        return Ok(0);
    };
    let number = value
        .as_i64()
        .or_else(|| value.as_str().and_then(|text| text.parse().ok()));
    number.ok_or(EtcdError::BadAnswer("a number that is none"))
}

/// The number of a change, which is above 0.
fn revision(answer: &Value, name: &str) -> Result<u64, EtcdError> {
    let number = u64::try_from(number(answer, name)?)
        .ok()
        .filter(|number| *number > 0);
    number.ok_or(EtcdError::BadAnswer("a revision that is none"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_answer_of_etcd_3_4_is_understood() {
        let key = json!({"key": "a2V5MQ==", "create_revision": "2", "mod_revision": "3", "version": "2",
            "value": "b3duZXIx", "lease": "4390624827999418375"});
        let held = FoundKey {
            owner: "owner1".to_owned(),
            created: 2,
            modified: 3,
            lease: 4_390_624_827_999_418_375,
        };
        let header = json!({"cluster_id": "13455796455940752355", "revision": "3"});
        let range = json!({"header": header, "kvs": [key], "count": "1"});
        assert_eq!(first_of(&range, "kvs"), Ok(Some(held.clone())));
        assert_eq!(first_of(&json!({"header": header}), "kvs"), Ok(None));
        let done = json!({"header": header, "succeeded": true, "responses": [{"response_put": {}}]});
        assert_eq!(WriteOutcome::read(&done), Ok(WriteOutcome::In { revision: 3 }));
        let refused = json!({"header": header, "responses": [{"response_range": range}]});
        assert_eq!(
            WriteOutcome::read(&refused),
            Ok(WriteOutcome::Changed(Some(held)))
        );
        let gone = json!({"header": header, "responses": [{"response_range": {}}]});
        assert_eq!(WriteOutcome::read(&gone), Ok(WriteOutcome::Changed(None)));
    }

    #[test]
    fn an_answer_that_cannot_be_right_is_an_error() {
        let wrong = [
            json!({"kvs": [{"value": "%", "create_revision": "2", "mod_revision": "2"}]}),
            json!({"kvs": [{"value": "YQ==", "mod_revision": "2"}]}),
            json!({"kvs": [{"value": "YQ==", "create_revision": "-2", "mod_revision": "2"}]}),
            json!({"kvs": [{"value": "YQ==", "create_revision": 2.5, "mod_revision": "2"}]}),
            json!({"kvs": [{"value": "YQ==", "create_revision": "2", "mod_revision": "2", "lease": "x"}]}),
            json!({"kvs": ["x"]}),
        ];
        for answer in wrong {
            assert!(first_of(&answer, "kvs").is_err(), "{answer}");
        }
        for answer in [
            json!({}),
            json!({"succeeded": true}),
            json!({"succeeded": 1}),
            json!("x"),
        ] {
            assert!(WriteOutcome::read(&answer).is_err(), "{answer}");
        }
    }
}
