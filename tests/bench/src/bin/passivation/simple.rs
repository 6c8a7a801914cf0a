//! What everybody writes first: a hash map and a list of the order of use.

use std::collections::HashMap;

const NONE: usize = usize::MAX;

struct Entry {
    id: u64,
    before: usize,
    after: usize,
}

/// At most `limit` ids, the least recently used one goes.
pub(crate) struct SimpleLru {
    limit: usize,
    places: HashMap<u64, usize>,
    entries: Vec<Entry>,
    oldest: usize,
    newest: usize,
}

impl SimpleLru {
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            limit,
            places: HashMap::new(),
            entries: Vec::new(),
            oldest: NONE,
            newest: NONE,
        }
    }

    /// Whether the id was there.
    pub(crate) fn access(&mut self, id: u64) -> bool {
        if let Some(at) = self.places.get(&id).copied() {
            self.unlink(at);
            self.link(at);
            return true;
        }
        let at = if self.entries.len() < self.limit {
            self.entries.push(Entry {
                id,
                before: NONE,
                after: NONE,
            });
            self.entries.len() - 1
        } else {
            let at = self.oldest;
            self.unlink(at);
            self.places.remove(&self.entries[at].id);
            self.entries[at].id = id;
            at
        };
        self.link(at);
        self.places.insert(id, at);
        false
    }

    fn link(&mut self, at: usize) {
        self.entries[at].before = self.newest;
        self.entries[at].after = NONE;
        match self.newest {
            NONE => self.oldest = at,
            newest => self.entries[newest].after = at,
        }
        self.newest = at;
    }

    fn unlink(&mut self, at: usize) {
        let (before, after) = (self.entries[at].before, self.entries[at].after);
        match before {
            NONE => self.oldest = after,
            before => self.entries[before].after = after,
        }
        match after {
            NONE => self.newest = before,
            after => self.entries[after].before = before,
        }
    }
}
