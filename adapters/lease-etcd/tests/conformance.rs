//! Leases in etcd pass what is asked of every keeper, without and with TLS. Needs a server, which
//! `QUORATE_ETCD` names; `tests/with_etcd.sh COMMAND` starts some for the length of a command.

use crate::common;

use std::io;
use std::thread;
use std::time::Duration;

use common::{fresh, node, told};
use quorate_driver::lease::LeaseKeeper;
use quorate_lease_etcd::{EtcdLeases, Tls};

/// A prefix for each test of each run.
fn prefix() -> String {
    format!("conformance/{}/{}/", std::process::id(), fresh())
}

fn keeper() -> Option<EtcdLeases> {
    let endpoint = told("QUORATE_ETCD")?;
    Some(common::at(&endpoint).prefix(&prefix()).unwrap())
}

macro_rules! suite {
    ($($test:ident,)+) => {
        $(
            #[test]
            fn $test() {
                if let Some(keeper) = keeper() {
                    quorate_conformance::$test(&keeper, &thread::sleep);
                }
            }
        )+
    };
}

suite!(
    one_holder_at_a_time,
    a_lease_given_back_is_free_and_its_token_grows,
    a_stopped_holder_does_not_block_for_ever_and_a_resumed_one_has_lost_it,
    renewing_keeps_a_lease,
    a_token_shown_by_another_holder_renews_nothing,
    leases_of_different_names_do_not_meet,
    one_of_many_who_ask_at_once_gets_the_lease,
);

/// Each node has a keeper of its own: nothing but etcd orders them.
#[test]
fn i_26_of_many_machines_that_ask_at_once_one_gets_the_lease() {
    let Some(endpoint) = told("QUORATE_ETCD") else {
        return;
    };
    let prefix = prefix();
    let keepers = [(); 4].map(|()| common::at(&endpoint).prefix(&prefix).unwrap());
    let ttl = Duration::from_secs(60);
    let mut last = 0;
    for round in 0..20_u64 {
        let granted: Vec<(usize, u64)> = thread::scope(|scope| {
            let askers: Vec<_> = keepers
                .iter()
                .enumerate()
                .map(|(at, keeper)| {
                    let me = node(round * 10 + at as u64);
                    scope.spawn(move || keeper.acquire("sbr", &me, ttl).unwrap().map(|token| (at, token)))
                })
                .collect();
            let answers = askers.into_iter().map(|asker| asker.join().unwrap());
            answers.flatten().collect()
        });
        assert_eq!(granted.len(), 1, "round {round}: {granted:?}");
        let (at, token) = granted[0];
        assert!(token > last, "tokens grow over all machines");
        last = token;
        keepers[at].release("sbr", &node(round * 10 + at as u64)).unwrap();
    }
}

/// Where the server asks for certificates.
struct Secure {
    endpoint: String,
    authority: Vec<u8>,
    certificate: Vec<u8>,
    key: Vec<u8>,
}

impl Secure {
    fn told() -> Option<Self> {
        let file = |name| told(name).map(|path| std::fs::read(path).unwrap());
        Some(Self {
            endpoint: told("QUORATE_ETCD_TLS")?,
            authority: file("QUORATE_ETCD_CA")?,
            certificate: file("QUORATE_ETCD_CERT")?,
            key: file("QUORATE_ETCD_KEY")?,
        })
    }

    fn keeper(&self, tls: io::Result<Tls>) -> EtcdLeases {
        let keeper = EtcdLeases::new(&[&self.endpoint], tls.unwrap()).unwrap();
        keeper.prefix(&prefix()).unwrap().timeout(Duration::from_secs(2))
    }
}

#[test]
fn who_has_a_certificate_is_served_over_tls() {
    let Some(secure) = Secure::told() else {
        return;
    };
    let tls = || Tls::trusting(&secure.authority)?.client(&secure.certificate, &secure.key);
    quorate_conformance::one_holder_at_a_time(&secure.keeper(tls()), &thread::sleep);
    quorate_conformance::renewing_keeps_a_lease(&secure.keeper(tls()), &thread::sleep);
}

#[test]
fn who_has_none_is_not_and_a_server_of_another_authority_is_not_believed() {
    let Some(secure) = Secure::told() else {
        return;
    };
    let acquire = |tls| {
        let keeper = secure.keeper(tls);
        keeper.acquire("sbr", &node(1), Duration::from_secs(60))
    };
    assert!(acquire(Tls::trusting(&secure.authority)).is_err());
    // The certificate of a client vouches for nobody.
    let other =
        Tls::trusting(&secure.certificate).and_then(|tls| tls.client(&secure.certificate, &secure.key));
    let error = acquire(other).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::NotConnected, "{error}");
    let plain = secure.endpoint.replace("https", "http");
    let plain = EtcdLeases::new(&[plain], Tls::off()).unwrap();
    assert!(plain.acquire("sbr", &node(1), Duration::from_secs(60)).is_err());
}
