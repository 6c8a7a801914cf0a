//! How the log of an entity is called: one name for each kind and id, whatever bytes they have, so that no
//! two entities ever meet in one log. These names are on disks: they never change. Spec: sharding 10.10; must
//! show "keys are injective in kind and id".

use std::fmt::Write;

use quorate_core::sharding::ids::EntityId;
use quorate_core::store::LogName;
use quorate_core::store::limits::LOG_NAME_BYTES_MAX;

/// `kind/id`, with what could be mistaken written as `%` and two digits: `%`, `/`, control characters, and
/// bytes that are no UTF-8. Reading the digits back gives kind and id again, so no two have one name. `None`
/// if it is too long for a log.
pub(crate) fn log_name(kind: &str, id: &EntityId) -> Option<LogName> {
    let mut name = String::with_capacity(kind.len() + 1 + id.as_bytes().len());
    push(&mut name, kind.as_bytes());
    name.push('/');
    push(&mut name, id.as_bytes());
    (name.len() <= LOG_NAME_BYTES_MAX).then(|| LogName::from(name))
}

fn push(name: &mut String, bytes: &[u8]) {
    for chunk in bytes.utf8_chunks() {
        for char in chunk.valid().chars() {
            if matches!(char, '%' | '/') || char.is_control() {
                escape(name, char.encode_utf8(&mut [0; 4]).as_bytes());
            } else {
                name.push(char);
            }
        }
        escape(name, chunk.invalid());
    }
}

fn escape(name: &mut String, bytes: &[u8]) {
    for byte in bytes {
        // Writing to a string cannot fail.
        let _ = write!(name, "%{byte:02X}");
    }
}

#[cfg(test)]
mod tests {
    use quorate_core::ordered::OrderedMap;

    use super::*;

    fn named(kind: &str, id: &[u8]) -> Option<LogName> {
        log_name(kind, &EntityId::new(id))
    }

    #[test]
    fn names_are_readable_and_never_change() {
        for (kind, id, expected) in [
            ("counter", &b"7"[..], "counter/7"),
            ("cart", "käthe 7".as_bytes(), "cart/käthe 7"),
            ("a/b", b"c", "a%2Fb/c"),
            ("a", b"b/c", "a/b%2Fc"),
            ("100%", b"\0\n", "100%25/%00%0A"),
            ("raw", &[0xff, b'a', 0xc3][..], "raw/%FFa%C3"),
            ("c1", "\u{85}".as_bytes(), "c1/%C2%85"),
        ] {
            assert_eq!(named(kind, id).as_deref(), Some(expected));
        }
    }

    /// All kinds and ids of up to three of the bytes that could be mistaken.
    #[test]
    fn no_two_entities_have_one_name() {
        let parts: [&[u8]; 9] = [
            b"a",
            b"/",
            b"%",
            b"\0",
            b"2",
            b"F",
            &[0xff],
            &[0xc3],
            &[0xc3, 0xa4],
        ];
        let mut words: Vec<Vec<u8>> = vec![Vec::new()];
        for _ in 0..3 {
            let longer = words
                .iter()
                .flat_map(|word| parts.iter().map(move |part| [word.as_slice(), part].concat()));
            let longer: Vec<Vec<u8>> = longer.collect();
            words.extend(longer);
            words.sort();
            words.dedup();
        }
        let mut seen = OrderedMap::new();
        let kinds: Vec<&str> = words
            .iter()
            .filter_map(|word| std::str::from_utf8(word).ok())
            .collect();
        for kind in kinds.iter().filter(|kind| kind.len() <= 2) {
            for id in &words {
                let name = named(kind, id).expect("it is short");
                if let Some(other) = seen.insert(name.clone(), (*kind, id)) {
                    panic!("{name}: {other:?} and {:?}", (kind, id));
                }
            }
        }
        assert!(seen.len() > 10_000, "{}", seen.len());
    }

    #[test]
    fn a_name_that_is_too_long_is_none() {
        let fits = vec![b'x'; LOG_NAME_BYTES_MAX - 2];
        assert!(named("k", &fits).is_some());
        assert!(named("kk", &fits).is_none());
        assert!(named("k", &[0; 342]).is_none(), "each byte takes three");
    }
}
