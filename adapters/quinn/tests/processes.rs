//! How processes with a node over QUIC end, on tokio and on smol. Several of them would need certificates of
//! one authority: that five stop together is tested in one process.
#![cfg(unix)]

use quorate_quinn::{Security, security::DevCa};

fn mtls() -> Security {
    let authority = DevCa::new("tests.cluster.internal").unwrap();
    Security::mtls(authority.mtls().unwrap())
}

mod on_tokio {
    use super::mtls;
    use quorate_quinn::Quinn;

    fn block_on(test: impl Future<Output = ()>) {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build();
        runtime.unwrap().block_on(test);
    }

    quorate_conformance::conformance_of_processes!(Quinn, mtls(), block_on);
}

#[cfg(feature = "smol")]
mod on_smol {
    use super::mtls;
    use quorate_quinn::QuinnSmol;

    quorate_conformance::conformance_of_processes!(QuinnSmol, mtls(), smol::block_on);
}
