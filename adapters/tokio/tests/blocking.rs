//! Handlers that block their threads harm no node, however many threads there are.

use quorate_tokio::{Security, Tokio};

fn block_on_with(workers: usize, test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(workers)
        .enable_all()
        .build();
    runtime.unwrap().block_on(test);
}

fn block_on(test: impl Future<Output = ()>) {
    block_on_with(2, test);
}

quorate_conformance::conformance_of_blocking!(Tokio, Security::insecure_plaintext(), block_on);

#[test]
fn handlers_that_block_the_only_thread_harm_no_node() {
    let security = Security::insecure_plaintext();
    let test = quorate_conformance::handlers_that_block_their_threads_harm_no_node::<Tokio>(&security);
    block_on_with(1, test);
}

#[test]
fn handlers_that_block_four_threads_harm_no_node() {
    let security = Security::insecure_plaintext();
    let test = quorate_conformance::handlers_that_block_their_threads_harm_no_node::<Tokio>(&security);
    block_on_with(4, test);
}
