//! An allocator that counts what its thread allocates; other threads do not disturb.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

struct Counting;

thread_local! {
    static LIVE: Cell<usize> = const { Cell::new(0) };
    static PEAK: Cell<usize> = const { Cell::new(0) };
    static CALLS: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: every call goes to the system's allocator unchanged; counting touches only thread-local cells
// without destructors.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LIVE.set(LIVE.get() + layout.size());
        PEAK.set(PEAK.get().max(LIVE.get()));
        CALLS.set(CALLS.get() + 1);
        // SAFETY: the caller's contract is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        LIVE.set(LIVE.get().saturating_sub(layout.size()));
        // SAFETY: the caller's contract is passed on.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The most bytes that `work` held at once, its calls of the allocator, and what it made.
pub fn allocated<T>(work: impl FnOnce() -> T) -> (usize, usize, T) {
    let before = (LIVE.get(), CALLS.get());
    PEAK.set(before.0);
    let value = work();
    (PEAK.get() - before.0, CALLS.get() - before.1, value)
}

/// What `work` made, and how many bytes more are held after it than before.
pub fn kept<T>(work: impl FnOnce() -> T) -> (T, usize) {
    let before = LIVE.get();
    let value = work();
    (value, LIVE.get().saturating_sub(before))
}
