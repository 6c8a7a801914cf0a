//! The way of one message past the queues of a node's loop: whoever has one thing to say while nobody takes a
//! turn has it said on its own thread. Who does that is the loop's room; here is what callers and entities
//! know of it. Decides nothing. Spec: `docs/adr/0024-who-has-one-thing-to-say-takes-the-turn.md`.

use std::fmt;
use std::sync::{Arc, OnceLock};

/// Takes one thing at once, or gives it back: it has to go through a queue then. Never waits.
pub(crate) trait Shortcut<T>: fmt::Debug + Send + Sync {
    fn say(&self, thing: T) -> Result<(), T>;
}

/// Where there is a shortcut, once a node runs.
pub(crate) struct ShortcutPlace<T>(OnceLock<Arc<dyn Shortcut<T>>>);

impl<T> Default for ShortcutPlace<T> {
    fn default() -> Self {
        Self(OnceLock::new())
    }
}

impl<T> ShortcutPlace<T> {
    /// From now on there is one. A place has one node.
    pub(crate) fn open(&self, shortcut: Arc<dyn Shortcut<T>>) {
        let opened = self.0.set(shortcut);
        debug_assert!(opened.is_ok(), "a node runs once");
    }

    /// See [`Shortcut::say`].
    pub(crate) fn say(&self, thing: T) -> Result<(), T> {
        match self.0.get() {
            Some(shortcut) => shortcut.say(thing),
            None => Err(thing),
        }
    }
}

impl<T> fmt::Debug for ShortcutPlace<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ShortcutPlace").field(&self.0.get()).finish()
    }
}
