//! Draws some of the mutants that `cargo mutants --list --json` names, and plants them all into one copy of
//! the tree: each function that has some gets its mutated bodies beside its own, and `QUORATE_MUTANT` says at
//! run time which one counts. So hundreds of them share one build. Never judges: `run.sh` beside it does. A
//! program of one file, for `rustc -O`; `README.md` beside it says how.
//!
//! `plant draw SEED < all.tsv > drawn.tsv`: a shuffle of all of them; who wants 300 takes the first 300 that
//! can be built. `plant plant ROOT < some.tsv`: the sources below ROOT are changed. The first column of
//! `some.tsv` is each mutant's number.

use std::collections::BTreeMap;
use std::io::Read;
use std::{env, fs, io, process};

/// One mutant: where its function is, which part of that is replaced, and by what. Offsets are in bytes of
/// the file.
struct Mutant {
    number: u32,
    function: (usize, usize),
    span: (usize, usize),
    by: String,
}

fn main() {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let mut input = String::new();
    io::stdin().read_to_string(&mut input).expect("the list is text");
    match arguments.as_slice() {
        ["draw", seed] => draw(seed.parse().expect("a seed is a number"), &input),
        ["plant", root] => plant(root, &input),
        _ => {
            eprintln!("usage: plant draw SEED < all.tsv | plant plant ROOT < some.tsv");
            process::exit(2);
        }
    }
}

/// Fisher and Yates, over SplitMix64.
fn draw(mut state: u64, input: &str) {
    let mut lines: Vec<&str> = input.lines().collect();
    for place in (1..lines.len()).rev() {
        state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^= mixed >> 31;
        lines.swap(place, (mixed % (place as u64 + 1)) as usize);
    }
    for (number, line) in lines.iter().enumerate() {
        println!("{}\t{line}", number + 1);
    }
}

fn plant(root: &str, input: &str) {
    let mut files: BTreeMap<&str, Vec<Mutant>> = BTreeMap::new();
    let mut texts: BTreeMap<&str, String> = BTreeMap::new();
    for line in input.lines() {
        // number, name, file, genre, function from line and column, to line and column, the same of the span,
        // replacement
        let columns: Vec<&str> = line.split('\t').collect();
        let (number, file) = (columns[0].parse().expect("a number"), columns[2]);
        let path = format!("{root}/{file}");
        let text = texts
            .entry(file)
            .or_insert_with(|| fs::read_to_string(&path).expect("a source file"));
        let place = |column: usize| offset(text, columns[column], columns[column + 1]);
        if columns[4].is_empty() {
            eprintln!("{number}: is in no function");
            continue;
        }
        files.entry(file).or_default().push(Mutant {
            number,
            function: (place(4), place(6)),
            span: (place(8), place(10)),
            by: columns[12].replace("\\n", "\n").replace("\\t", "\t").replace("\\\\", "\\"),
        });
    }
    for (file, mutants) in files {
        let text = planted(&texts[file], mutants);
        fs::write(format!("{root}/{file}"), text).expect("a source file");
    }
}

/// The file with all of its mutants. A function within another is not a place of its own: its mutants are of
/// the outer one.
fn planted(text: &str, mut mutants: Vec<Mutant>) -> String {
    mutants.sort_by_key(|mutant| (mutant.function.0, usize::MAX - mutant.function.1, mutant.number));
    let mut out = String::new();
    let (mut done, mut rest) = (0, mutants.as_slice());
    while let Some(first) = rest.first() {
        let (from, to) = first.function;
        let count = rest.iter().take_while(|mutant| mutant.function.0 < to).count();
        let (here, later) = rest.split_at(count);
        rest = later;
        let open = from + body(&text[from..to]);
        let close = to - 1;
        out.push_str(&text[done..from]);
        out.push_str(&text[from..open].replacen("const fn ", "fn ", 1));
        out.push('{');
        for mutant in here {
            let (start, end) = mutant.span;
            let (before, after) = (&text[open + 1..start], &text[end..close]);
            let (number, by) = (mutant.number, &mutant.by);
            out.push_str(&format!(
                "\nif quorate_core_mutant!({number}) {{ /*M{number}*/\n{before}{by}{after}\n}} else "
            ));
        }
        out.push_str("{ /*M0*/\n");
        out.push_str(&text[open + 1..close]);
        out.push_str("\n} }");
        done = to;
    }
    out.push_str(&text[done..]);
    out
}

/// Where the body of a function begins: at the first brace outside of all brackets.
fn body(function: &str) -> usize {
    let start = function.find("fn ").expect("a function");
    let mut depth = 0;
    for (place, letter) in function.char_indices().skip_while(|(place, _)| *place < start) {
        match letter {
            '(' | '[' => depth += 1,
            ')' | ']' => depth -= 1,
            '{' if depth == 0 => return place,
            _ => {}
        }
    }
    panic!("a function without a body: {function}");
}

/// The offset of a line and a column, both counted from 1, the column in letters.
fn offset(text: &str, line: &str, column: &str) -> usize {
    let (line, column): (usize, usize) = (line.parse().expect("a line"), column.parse().expect("a column"));
    let start: usize = text.split_inclusive('\n').take(line - 1).map(str::len).sum();
    let letters = text[start..].char_indices().map(|(place, _)| place);
    start + letters.chain([text.len() - start]).nth(column - 1).expect("a column of the line")
}
