//! Links nothing of std: rustc refuses a second panic handler (E0152) as soon as anything below the core or
//! the host for boards brings std in.
#![no_std]
#![forbid(unsafe_code)]

use core::panic::PanicInfo;

// Named, so that the crates are really part of the graph.
use quorate_core as _;
use quorate_embedded as _;
use quorate_links as _;

#[panic_handler]
fn panic(_: &PanicInfo<'_>) -> ! {
    loop {}
}
