//! Replays every committed input of every target on stable, without libFuzzer: what fuzzing once found stays fixed.

use std::fs;
use std::path::Path;

use quorate_fuzz::TARGETS;

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
