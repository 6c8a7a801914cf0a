//! Links in the documents lead somewhere: relative paths exist, and so do the headings that they name.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn documents(folder: &Path, into: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap().flatten() {
        let (path, name) = (entry.path(), entry.file_name());
        let name = name.to_string_lossy();
        if path.is_dir() && !name.starts_with('.') && name != "target" && name != "seeds" {
            documents(&path, into);
        } else if name.ends_with(".md") {
            into.push(path);
        }
    }
}

/// Lines that are no code.
fn prose(text: &str) -> Vec<&str> {
    let mut is_code = false;
    let is_prose = |line: &&str| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        !is_code && !is_fence
    };
    text.lines().filter(is_prose).collect()
}

/// What a heading is called in a link: its letters and digits, blanks as hyphens.
fn anchors(text: &str) -> BTreeSet<String> {
    let headings = prose(text).into_iter().filter_map(|line| {
        let title = line.trim_start_matches('#');
        (title.len() < line.len()).then(|| title.trim())
    });
    let anchor = |title: &str| -> String {
        let kept = title
            .chars()
            .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
        kept.map(|c| if c == ' ' { '-' } else { c })
            .collect::<String>()
            .to_lowercase()
    };
    headings.map(anchor).collect()
}

/// Where `[text](target)` leads, of each on a line.
fn targets(line: &str) -> Vec<&str> {
    let parts = line.split("](").skip(1);
    parts
        .filter_map(|rest| rest.split_once(')').map(|(target, _)| target))
        .collect()
}

#[test]
fn every_relative_link_of_a_document_leads_somewhere() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("..")
        .canonicalize()
        .unwrap();
    let mut files = Vec::new();
    documents(&root, &mut files);
    let (mut links, mut broken) = (0, Vec::new());
    for file in &files {
        let text = fs::read_to_string(file).unwrap();
        for target in prose(&text).into_iter().flat_map(targets) {
            if target.contains("://") || target.starts_with("mailto:") || target.contains(' ') {
                continue;
            }
            let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
            let to = if path.is_empty() {
                file.clone()
            } else {
                file.with_file_name(path)
            };
            let has_heading = || {
                let there = fs::read_to_string(&to).unwrap_or_default();
                anchors(&there).contains(anchor)
            };
            links += 1;
            if !to.exists() || !anchor.is_empty() && !has_heading() {
                broken.push(format!(
                    "{}: {target}",
                    file.strip_prefix(&root).unwrap().display()
                ));
            }
        }
    }
    assert!(links > 200, "the walk found the documents: {links}");
    assert!(broken.is_empty(), "{broken:#?}");
}
