//! Tasks that are woken once whoever wakes them has let go of what they want: a task that runs at once on
//! another thread would find it held. Decides nothing.

use std::task::Waker;

/// A batch begins with so many: then it is better to have the first ones run at once.
const LATER_MAX: usize = 4;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct WakeLater([Option<Waker>; LATER_MAX]);

impl WakeLater {
    /// One more; woken now if there are many.
    pub(crate) fn push(&mut self, waker: Waker) {
        match self.0.iter_mut().find(|place| place.is_none()) {
            Some(place) => *place = Some(waker),
            None => waker.wake(),
        }
    }

    /// Wakes all of them.
    pub(crate) fn wake(self) {
        drop(self);
    }
}

/// Whatever becomes of whoever holds them, nobody waits for ever.
impl Drop for WakeLater {
    fn drop(&mut self) {
        let places = std::mem::take(&mut self.0);
        places.into_iter().flatten().for_each(Waker::wake);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    use super::*;

    #[derive(Default)]
    struct Counted(AtomicUsize);

    impl Wake for Counted {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[test]
    fn a_few_are_woken_later_and_those_beyond_at_once() {
        let (task, mut later) = (Arc::new(Counted::default()), WakeLater::default());
        for woken in [0, 0, 0, 0, 1, 2] {
            later.push(Waker::from(Arc::clone(&task)));
            assert_eq!(task.0.load(Ordering::SeqCst), woken);
        }
        later.wake();
        assert_eq!(task.0.load(Ordering::SeqCst), 6);
    }
}
