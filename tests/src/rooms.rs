//! The rooms of the core, the floors they stand on, and which room imports which: read from the sources, so that the picture in
//! ARCHITECTURE.md is what the code is. Counts a machine's `protocol` and `state` as rooms of their own and leaves code out
//! that only tests compile. Never judges: the tidy test does.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The floors, lowest first. A room imports rooms of its own floor or of lower ones.
pub const FLOORS: [&[&str]; 6] = [
    &[
        "buffered", "bytes", "counters", "handoff", "ident", "lane", "math", "rng", "time", "token",
    ],
    &[
        "admission",
        "admission::state",
        "agreement",
        "config",
        "ddata::crdt",
        "ddata::protocol",
        "ddata::state",
        "delivery",
        "daemons",
        "wakeups",
        "detector::protocol",
        "downing::protocol",
        "downing::state",
        "journal::protocol",
        "journal::state",
        "lease::protocol",
        "membership::protocol",
        "membership::state",
        "drain",
        "oldest::protocol",
        "oldest::state",
        "owner",
        "sharding::protocol",
        "sharding::state",
        "shutdown",
        "singleton::protocol",
        "singleton::state",
        "store",
        "view",
    ],
    &["effect", "event", "input", "message", "reject", "timer", "wire"],
    &["cx", "outbox", "signal", "stats", "timers"],
    &[
        "ddata",
        "detector",
        "downing",
        "journal",
        "lease",
        "membership",
        "oldest",
        "sharding",
        "singleton",
    ],
    &["explain", "node", "router"],
];

/// Parts of a machine's room that are rooms of their own: what it says, and the values that others read.
const INNER_ROOMS: [&str; 3] = ["crdt", "protocol", "state"];

/// Which room imports which.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rooms {
    /// Every room, with the rooms it imports.
    pub arrows: BTreeMap<String, BTreeSet<String>>,
}

impl Rooms {
    /// Reads the sources of a crate, `src` being the folder with its `lib.rs`.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn read(src: &Path) -> io::Result<Self> {
        let mut files = Vec::new();
        walk(src, &mut files)?;
        let mut rooms = Self::default();
        for file in files {
            let path = file.strip_prefix(src).unwrap_or(&file);
            if let Some(module) = module_of(path) {
                rooms.add(&module, &fs::read_to_string(&file)?);
            }
        }
        Ok(rooms)
    }

    /// Adds the arrows of one module's source.
    pub fn add(&mut self, module: &[String], source: &str) {
        let from = room_of(module);
        let source = without_tests(&without_comments(source));
        let arrows = self.arrows.entry(from.clone()).or_default();
        arrows.extend(paths(&source).iter().filter_map(|path| {
            let to = room_of(&absolute(module, path)?);
            (to != from && !to.is_empty()).then_some(to)
        }));
    }

    /// The floor of a room; `None` for one that no floor names.
    #[must_use]
    pub fn floor(room: &str) -> Option<usize> {
        FLOORS.iter().position(|rooms| rooms.contains(&room))
    }

    /// Arrows that point to a higher floor.
    #[must_use]
    pub fn upward(&self) -> Vec<(String, String)> {
        let mut found = Vec::new();
        for (from, tos) in &self.arrows {
            for to in tos.iter().filter(|to| Self::floor(to) > Self::floor(from)) {
                found.push((from.clone(), to.clone()));
            }
        }
        found
    }

    /// Rooms that import each other, directly or through others: each such set once.
    #[must_use]
    pub fn cycles(&self) -> Vec<BTreeSet<String>> {
        let reach: BTreeMap<&str, BTreeSet<&str>> = self
            .arrows
            .keys()
            .map(|room| (room.as_str(), self.reachable(room)))
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

    fn reachable(&self, room: &str) -> BTreeSet<&str> {
        let mut found = BTreeSet::new();
        let mut open = vec![room];
        while let Some(next) = open.pop() {
            for to in self.arrows.get(next).into_iter().flatten() {
                if found.insert(to.as_str()) {
                    open.push(to);
                }
            }
        }
        found
    }
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

/// The module of a file; `None` for the crate's root and for files that only tests compile.
fn module_of(path: &Path) -> Option<Vec<String>> {
    let mut parts: Vec<String> = path
        .with_extension("")
        .iter()
        .map(|part| part.to_string_lossy().into_owned())
        .collect();
    if parts.last().is_some_and(|last| last == "mod") {
        parts.pop();
    }
    let is_test = parts.iter().any(|part| part == "tests" || part == "fixture");
    (!is_test && parts != ["lib"]).then_some(parts)
}

/// The room a module belongs to.
fn room_of(module: &[String]) -> String {
    match module {
        [machine, inner, ..] if INNER_ROOMS.contains(&inner.as_str()) => format!("{machine}::{inner}"),
        [room, ..] => room.clone(),
        [] => String::new(),
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn arrows(module: &[&str], source: &str) -> Vec<String> {
        let mut rooms = Rooms::default();
        let module: Vec<String> = module.iter().map(ToString::to_string).collect();
        rooms.add(&module, source);
        rooms.arrows.into_values().flatten().collect()
    }

    #[test]
    fn groups_are_taken_apart_and_inner_rooms_count_as_rooms() {
        let source = "use crate::{a, b::{protocol::Msg as M, c::D}};\nfn f() { crate::e::g() }";
        assert_eq!(arrows(&["z"], source), ["a", "b", "b::protocol", "e"]);
    }

    #[test]
    fn a_path_through_the_parent_counts_where_it_leaves_the_room() {
        assert_eq!(arrows(&["m", "protocol"], "use super::machine::X;"), ["m"]);
        assert!(arrows(&["m", "x", "y"], "use super::super::z::X;").is_empty());
        assert_eq!(arrows(&["m", "x"], "use super::state::a::X;"), ["m::state"]);
    }

    #[test]
    fn comments_and_code_for_tests_do_not_count() {
        let source = "// use crate::a;\n#[cfg(test)]\nmod tests { use crate::b; }\n#[cfg(test)]\nuse crate::c::D;\nuse crate::e;";
        assert_eq!(arrows(&["z"], source), ["e"]);
    }

    #[test]
    fn a_cycle_and_an_upward_arrow_are_found() {
        let mut rooms = Rooms::default();
        let room = |name: &str| [name.to_owned()];
        rooms.add(&room("cx"), "use crate::signal::S;");
        rooms.add(&room("signal"), "use crate::time::T;");
        rooms.add(&room("time"), "");
        assert!(rooms.cycles().is_empty() && rooms.upward().is_empty());
        rooms.add(&room("time"), "use crate::cx::Cx;");
        assert_eq!(rooms.upward(), [("time".to_owned(), "cx".to_owned())]);
        let ring: BTreeSet<String> = ["cx", "signal", "time"].map(String::from).into();
        assert_eq!(rooms.cycles(), [ring]);
    }
}
