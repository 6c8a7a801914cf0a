//! Replays every committed input of every target on stable, without libFuzzer: what fuzzing once found stays
//! fixed.

use std::fs;
use std::path::Path;

use quorate_core::message::Message;
use quorate_fuzz::{KINDS, TARGETS};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

#[test]
fn every_input_of_every_corpus_holds() {
    for (name, target) in TARGETS {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(name);
        let mut inputs = 0;
        for entry in fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display())) {
            let path = entry.expect("a readable folder").path();
            println!("{}", path.display());
            target(&fs::read(&path).expect("a readable input"));
            inputs += 1;
        }
        assert!(inputs > 0, "{name} has no corpus");
    }
}

#[test]
fn every_kind_of_message_is_picked() {
    let all = Message::TAGS.into_iter().flatten();
    let missing: Vec<u16> = all
        .map(|tag| tag.kind)
        .filter(|kind| !KINDS.contains(kind))
        .collect();
    assert_eq!(missing, [], "of no fuzz target");
}

#[test]
fn every_prefix_and_every_byte_changed_of_every_seed_holds() {
    for (name, target) in TARGETS {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(name);
        for entry in fs::read_dir(&folder).expect("a corpus") {
            let path = entry.expect("an entry").path();
            // Inputs found by fuzzing are named by 40 hex digits; the named ones are whole messages.
            let found = path.file_name().is_some_and(|name| name.len() == 40);
            let seed = fs::read(&path).expect("a readable input");
            if found || seed.len() >= 1_000 {
                continue;
            }
            (0..seed.len()).for_each(|len| target(&seed[..len]));
            let mut changed = seed.clone();
            for at in 0..seed.len() {
                for value in [0, 1, 0x7F, 0x80, 0xFF, seed[at].wrapping_add(1)] {
                    changed[at] = value;
                    target(&changed);
                }
                changed[at] = seed[at];
            }
        }
    }
}

/// Random runs of each target unless `QUORATE_FUZZ_RUNS` says otherwise; `QUORATE_FUZZ_TARGET` picks one.
const RUNS: usize = 500;

/// Without libFuzzer nothing guides the changes; much of what they reach is refused by the first length that
/// is wrong.
#[test]
fn random_changes_and_splices_of_a_corpus_hold() {
    let runs = std::env::var("QUORATE_FUZZ_RUNS").map_or(RUNS, |runs| runs.parse().expect("a number"));
    let only = std::env::var("QUORATE_FUZZ_TARGET").ok();
    for (name, target) in TARGETS {
        if only.as_ref().is_some_and(|only| only != name) {
            continue;
        }
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(name);
        let entries = fs::read_dir(&folder).expect("a corpus");
        let mut paths: Vec<_> = entries.map(|entry| entry.expect("an entry").path()).collect();
        paths.sort();
        let read = |path| fs::read(path).expect("a readable input");
        let seeds: Vec<Vec<u8>> = paths.iter().map(read).filter(|seed| !seed.is_empty()).collect();
        let mut rng = ChaCha8Rng::seed_from_u64(runs as u64);
        let mut below = |limit: usize| rng.next_u64() as usize % limit.max(1);
        for _ in 0..runs {
            let mut input = seeds[below(seeds.len())].clone();
            for _ in 0..=below(4) {
                let at = below(input.len());
                match below(4) {
                    0 => input[at] = [0, 1, 0x7F, 0xFF, below(256) as u8][below(5)],
                    1 => input[at] ^= 1 << below(8),
                    2 => {
                        let other = &seeds[below(seeds.len())];
                        let from = below(other.len());
                        let part = other[from..].iter().take(1 + below(64));
                        let end = input.len().min(at + below(64));
                        input.splice(at..end, part.copied());
                    }
                    _ => {
                        let part = input[at..]
                            .iter()
                            .take(1 + below(32))
                            .copied()
                            .collect::<Vec<u8>>();
                        input.splice(at..at, part);
                    }
                }
                if input.is_empty() {
                    break;
                }
            }
            target(&input);
        }
    }
}
