//! Links nothing of std: rustc refuses a second panic handler (E0152) as soon as anything below the core brings std in.
#![no_std]
#![forbid(unsafe_code)]

use core::panic::PanicInfo;

// Named, so that the crate is really part of the graph.
use quorate_core as _;

#[panic_handler]
fn panic(_: &PanicInfo<'_>) -> ! {
    loop {}
}
