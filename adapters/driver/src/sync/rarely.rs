//! A place for one value that is empty nearly always and looked at all the time. Decides nothing.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use super::lock;

/// See the module. Looking into an empty one costs no lock.
#[derive(Debug)]
pub(crate) struct Rarely<T> {
    /// A value put in by another thread at this moment may be missed: whoever puts it in has the other look
    /// again.
    is_full: AtomicBool,
    value: Mutex<Option<T>>,
}

impl<T> Default for Rarely<T> {
    fn default() -> Self {
        Self {
            is_full: AtomicBool::new(false),
            value: Mutex::new(None),
        }
    }
}

impl<T> Rarely<T> {
    /// Puts a value in, instead of the one that was there.
    pub(crate) fn put(&self, new: T) {
        self.renew(|_| new);
    }

    /// Puts in what is made of the one that was there.
    pub(crate) fn renew(&self, make: impl FnOnce(Option<T>) -> T) {
        let mut value = lock(&self.value);
        *value = Some(make(value.take()));
        self.is_full.store(true, Ordering::Release);
    }

    /// Takes it out.
    pub(crate) fn take(&self) -> Option<T> {
        if !self.is_full.load(Ordering::Acquire) {
            return None;
        }
        let mut value = lock(&self.value);
        self.is_full.store(false, Ordering::Relaxed);
        value.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_put_in_last_is_taken_out_once() {
        let place = Rarely::default();
        assert_eq!(place.take(), None);
        place.put(1);
        place.put(2);
        assert_eq!(place.take(), Some(2));
        assert_eq!(place.take(), None);
        place.put(3);
        place.renew(|old| old.unwrap_or_default() + 1);
        assert_eq!(place.take(), Some(4));
    }
}
