//! The suite over TLS, and who does not get into a cluster over real sockets. Why each is refused is tested
//! in the driver.

use quorate_conformance::nodes_of_different_security_do_not_meet;
use quorate_smol::{
    Security, Smol,
    security::{DevCa, Mtls},
};

const NAME: &str = "tests.cluster.internal";

fn mtls() -> Security {
    let authority = DevCa::new(NAME).unwrap();
    Security::mtls(authority.mtls().unwrap())
}

quorate_conformance::conformance!(Smol, mtls(), smol::block_on);
quorate_conformance::bad_inputs!(Smol, mtls(), smol::block_on);
quorate_conformance::conformance_of_data!(Smol, mtls(), smol::block_on);
quorate_conformance::conformance_of_strangers!(Smol, mtls(), smol::block_on);
quorate_conformance::conformance_of_lanes!(Smol, mtls(), smol::block_on);
quorate_conformance::conformance_of_connections!(Smol, mtls(), smol::block_on);
quorate_conformance::conformance_of_certificates!(Smol, smol::block_on);

#[test]
fn nodes_of_two_authorities_do_not_meet() {
    smol::block_on(nodes_of_different_security_do_not_meet::<Smol>(&mtls(), &mtls()));
}

#[test]
fn nodes_of_two_clusters_of_one_authority_do_not_meet() {
    let authority = DevCa::new(NAME).unwrap();
    let ours = Security::mtls(authority.mtls().unwrap());
    let credentials = authority.issue_for("billing.internal").unwrap();
    let theirs = Security::mtls(Mtls::new("billing.internal", credentials).unwrap());
    smol::block_on(nodes_of_different_security_do_not_meet::<Smol>(&ours, &theirs));
}

#[test]
fn plaintext_and_tls_do_not_meet() {
    let plaintext = Security::insecure_plaintext();
    smol::block_on(async {
        nodes_of_different_security_do_not_meet::<Smol>(&mtls(), &plaintext).await;
        nodes_of_different_security_do_not_meet::<Smol>(&plaintext, &mtls()).await;
    });
}
