//! The rooms of our crates, the floors they stand on, and which room imports which: read from the sources, so
//! that the pictures in ARCHITECTURE.md are what the code is. Counts a machine's `protocol` and `state` as
//! rooms of their own and leaves code out that only tests compile. Never judges: the tidy test does.

mod houses;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

pub use houses::{CORE, DRIVER, HOUSES, House, LINKS};

/// Which room or part imports which.
pub type Arrows = BTreeMap<String, BTreeSet<String>>;

/// Which room imports which, and which part of a room another part of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rooms {
    /// Every room, with the rooms it imports.
    pub arrows: Arrows,
    /// Every part of a room or of a part, with those beside it that it imports. Whoever composes them is none
    /// of them.
    pub parts: Arrows,
}

/// The module of a source file with its text, which has no comments and nothing that only tests compile.
type Source = (Vec<String>, String);

impl Rooms {
    /// Reads the sources of a crate, `root` being the root of the repository.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn read(house: &House, root: &Path) -> io::Result<Self> {
        let src = root.join(house.src);
        let mut files = Vec::new();
        walk(&src, &mut files)?;
        let mut sources = Vec::new();
        for file in files {
            let path = file.strip_prefix(&src).unwrap_or(&file);
            if let Some(module) = module_of(path) {
                sources.push((module, fs::read_to_string(&file)?));
            }
        }
        Ok(Self::of(house, &sources))
    }

    /// The same of modules and their texts; the crate's root is the module without a name.
    #[must_use]
    pub fn of(house: &House, sources: &[Source]) -> Self {
        let sources: Vec<Source> = sources
            .iter()
            .map(|(module, source)| (module.clone(), without_tests(&without_comments(source))))
            .collect();
        let modules: BTreeSet<&[String]> = sources.iter().map(|(module, _)| module.as_slice()).collect();
        let root = sources.iter().find(|(module, _)| module.is_empty());
        let exports = root.map_or_else(BTreeMap::new, |(_, source)| exports(source));
        let mut rooms = Self::default();
        for (module, source) in sources.iter().filter(|(module, _)| !module.is_empty()) {
            let from = house.room_of(module);
            rooms.arrows.entry(from.clone()).or_default();
            for path in paths(source) {
                let Some(path) = absolute(module, &path) else {
                    continue;
                };
                let path = path.first().and_then(|name| exports.get(name)).unwrap_or(&path);
                let target = (0..=path.len()).rev().map(|length| &path[..length]);
                let target = target
                    .into_iter()
                    .find(|path| modules.contains(path))
                    .unwrap_or(&[]);
                let to = house.room_of(target);
                if to != from && !to.is_empty() {
                    rooms.arrows.entry(from.clone()).or_default().insert(to);
                }
                let common = module.iter().zip(target).take_while(|(a, b)| a == b).count();
                if common > 0 && common < module.len() && common < target.len() {
                    let part = |of: &[String]| of[..=common].join("::");
                    let arrows = rooms.parts.entry(part(module)).or_default();
                    arrows.insert(part(target));
                }
            }
        }
        rooms
    }

    /// Arrows that point to a higher floor.
    #[must_use]
    pub fn upward(&self, house: &House) -> Vec<(String, String)> {
        let mut found = Vec::new();
        for (from, tos) in &self.arrows {
            for to in tos.iter().filter(|to| house.floor(to) > house.floor(from)) {
                found.push((from.clone(), to.clone()));
            }
        }
        found
    }
}

/// Rooms or parts that import each other, directly or through others: each such set once.
#[must_use]
pub fn cycles(arrows: &Arrows) -> Vec<BTreeSet<String>> {
    let reach: BTreeMap<&str, BTreeSet<&str>> = arrows
        .keys()
        .map(|room| (room.as_str(), reachable(arrows, room)))
        .collect();
    let mut found: Vec<BTreeSet<String>> = Vec::new();
    for (room, reached) in &reach {
        let ring: BTreeSet<String> = reached
            .iter()
            .filter(|other| reach.get(*other).is_some_and(|back| back.contains(room)))
            .map(ToString::to_string)
            .collect();
        if !ring.is_empty() && !found.contains(&ring) {
            found.push(ring);
        }
    }
    found
}

fn reachable<'a>(arrows: &'a Arrows, room: &str) -> BTreeSet<&'a str> {
    let mut found = BTreeSet::new();
    let mut open = vec![room.to_owned()];
    while let Some(next) = open.pop() {
        for to in arrows.get(&next).into_iter().flatten() {
            if found.insert(to.as_str()) {
                open.push(to.clone());
            }
        }
    }
    found
}

fn walk(folder: &Path, found: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            walk(&path, found)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    Ok(())
}

/// The module of a file, that of the crate's root without a name; `None` for files that only tests compile.
fn module_of(path: &Path) -> Option<Vec<String>> {
    let mut parts: Vec<String> = path
        .with_extension("")
        .iter()
        .map(|part| part.to_string_lossy().into_owned())
        .collect();
    if parts.last().is_some_and(|last| last == "mod") || parts == ["lib"] {
        parts.pop();
    }
    let is_test = |part: &String| part == "tests" || part == "fixture" || part.ends_with("_tests");
    (!parts.iter().any(is_test)).then_some(parts)
}

fn without_comments(source: &str) -> String {
    let code = source
        .lines()
        .map(|line| line.split_once("//").map_or(line, |(code, _)| code));
    code.collect::<Vec<_>>().join("\n")
}

/// Leaves out every item behind `#[cfg(test)]`.
fn without_tests(source: &str) -> String {
    let mut kept = String::new();
    let mut rest = source;
    while let Some((before, after)) = rest.split_once("#[cfg(test)]") {
        kept.push_str(before);
        rest = after_item(after);
    }
    kept + rest
}

/// What follows the first item: up to its `;`, or to the brace that closes its body.
fn after_item(source: &str) -> &str {
    let mut depth = 0_usize;
    for (at, character) in source.char_indices() {
        match character {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 && matches!(character, ';' | '}') {
            return &source[at + 1..];
        }
    }
    ""
}

/// Every path that starts with `crate` or `super`, groups taken apart.
fn paths(source: &str) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    for root in ["crate::", "super::"] {
        for (at, _) in source.match_indices(root) {
            let before = source[..at].chars().next_back();
            let is_start = before.is_none_or(|c| !c.is_alphanumeric() && c != '_' && c != ':');
            if is_start {
                expand(&source[at..], &mut Vec::new(), &mut found);
            }
        }
    }
    found
}

/// Reads one path, or all paths of a group; what is left of the source.
fn expand<'a>(source: &'a str, prefix: &mut Vec<String>, found: &mut Vec<Vec<String>>) -> &'a str {
    let mut rest = source.trim_start();
    let depth = prefix.len();
    loop {
        if let Some(mut group) = rest.strip_prefix('{') {
            loop {
                group = expand(group, prefix, found).trim_start();
                match group.strip_prefix(',') {
                    Some(next) => group = next.trim_start(),
                    None => break,
                }
                if group.starts_with('}') {
                    break;
                }
            }
            rest = group.strip_prefix('}').unwrap_or(group);
            break;
        }
        let end = rest
            .find(|c: char| !c.is_alphanumeric() && c != '_')
            .unwrap_or(rest.len());
        if end == 0 {
            rest = rest.strip_prefix('*').unwrap_or(rest);
            found.push(prefix.clone());
            break;
        }
        prefix.push(rest[..end].to_owned());
        rest = &rest[end..];
        match rest.strip_prefix("::") {
            Some(next) => rest = next,
            None => {
                found.push(prefix.clone());
                // A name given to it is no path of its own.
                rest = rest.trim_start();
                if let Some(named) = rest.strip_prefix("as ") {
                    rest = named.trim_start_matches(|c: char| c.is_alphanumeric() || c == '_');
                }
                break;
            }
        }
    }
    prefix.truncate(depth);
    rest
}

/// The path from the crate's root.
fn absolute(module: &[String], path: &[String]) -> Option<Vec<String>> {
    let ups = path.iter().take_while(|part| *part == "super").count();
    if path.first()? == "crate" {
        return Some(path[1..].to_vec());
    }
    let base = module.get(..module.len().checked_sub(ups)?)?;
    Some([base, &path[ups..]].concat())
}

/// What the crate's root says under names of its own: each with the path that it has inside.
fn exports(root: &str) -> BTreeMap<String, Vec<String>> {
    let mut found = Vec::new();
    for (at, _) in root.match_indices("\npub use ") {
        expand(&root[at + "\npub use ".len()..], &mut Vec::new(), &mut found);
    }
    let named = |path: Vec<String>| Some((path.last()?.clone(), path));
    found.into_iter().filter_map(named).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rooms(sources: &[(&[&str], &str)]) -> Rooms {
        let owned = |(module, source): &(&[&str], &str)| {
            let module: Vec<String> = module.iter().map(ToString::to_string).collect();
            (module, (*source).to_owned())
        };
        let sources: Vec<Source> = sources.iter().map(owned).collect();
        Rooms::of(&CORE, &sources)
    }

    /// What a module imports of these.
    fn arrows(module: &[&str], source: &str, others: &[&[&str]]) -> Vec<String> {
        let mut sources: Vec<(&[&str], &str)> = others.iter().map(|other| (*other, "")).collect();
        sources.push((module, source));
        rooms(&sources).arrows.into_values().flatten().collect()
    }

    #[test]
    fn groups_are_taken_apart_and_inner_rooms_count_as_rooms() {
        let source = "use crate::{a, b::{protocol::Msg as M, c::D}};\nfn f() { crate::e::g() }";
        let others: [&[&str]; 4] = [&["a"], &["b"], &["b", "protocol"], &["e"]];
        assert_eq!(arrows(&["z"], source, &others), ["a", "b", "b::protocol", "e"]);
    }

    #[test]
    fn a_path_through_the_parent_counts_where_it_leaves_the_room() {
        let others: [&[&str]; 4] = [&["m"], &["m", "machine"], &["m", "z"], &["m", "state", "a"]];
        assert_eq!(
            arrows(&["m", "protocol"], "use super::machine::X;", &others),
            ["m"]
        );
        assert!(arrows(&["m", "x", "y"], "use super::super::z::X;", &others).is_empty());
        assert_eq!(
            arrows(&["m", "x"], "use super::state::a::X;", &others),
            ["m::state"]
        );
    }

    #[test]
    fn comments_and_code_for_tests_do_not_count() {
        let source = "// use crate::a;\n#[cfg(test)]\nmod tests { use crate::b; }\n#[cfg(test)]\nuse crate::c::D;\nuse crate::e;";
        let others: [&[&str]; 4] = [&["a"], &["b"], &["c"], &["e"]];
        assert_eq!(arrows(&["z"], source, &others), ["e"]);
    }

    #[test]
    fn what_the_root_exports_counts_as_what_it_is() {
        let found = rooms(&[
            (&[], "mod a;\npub use a::{B, c::D};"),
            (&["a"], ""),
            (&["z"], "fn f(_: crate::B) {}"),
        ]);
        assert_eq!(found.arrows["z"], BTreeSet::from(["a".to_owned()]));
    }

    #[test]
    fn a_cycle_and_an_upward_arrow_are_found() {
        let found = |time: &str| {
            rooms(&[
                (&["cx"], "use crate::signal::S;"),
                (&["signal"], "use crate::time::T;"),
                (&["time"], time),
            ])
        };
        let good = found("");
        assert!(cycles(&good.arrows).is_empty() && good.upward(&CORE).is_empty());
        let bad = found("use crate::cx::Cx;");
        assert_eq!(bad.upward(&CORE), [("time".to_owned(), "cx".to_owned())]);
        let ring: BTreeSet<String> = ["cx", "signal", "time"].map(String::from).into();
        assert_eq!(cycles(&bad.arrows), [ring]);
    }

    #[test]
    fn parts_of_a_room_that_import_each_other_are_found_and_whoever_composes_them_is_none() {
        let found = |d: &str| {
            rooms(&[
                (&["a"], "use crate::a::b::B;"),
                (&["a", "b"], "use super::c::C;\nuse super::A;"),
                (&["a", "c"], ""),
                (&["a", "c", "d"], d),
            ])
        };
        assert!(cycles(&found("use crate::a::A;").parts).is_empty());
        let ring: BTreeSet<String> = ["a::b", "a::c"].map(String::from).into();
        assert_eq!(cycles(&found("use super::super::b::B;").parts), [ring]);
    }
}
