//! Who is let in and who is not, over a link in memory: reliability 3a.

use std::io;
use std::thread;

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    date_time_ymd,
};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};

use super::{Credentials, DevCa, Mtls, TlsError, accept, connect};
use crate::pipes::{block_on, pipe};
use crate::transport::{LinkReader, LinkWriter, Unproved};

const NAME: &str = "orders.cluster.internal";

/// An authority and what it signs, with all that can be wrong about it.
struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new(name: &str) -> Self {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    fn root(&self) -> CertificateDer<'static> {
        self.0.der().clone()
    }

    fn sign(&self, name: &str, change: impl FnOnce(&mut CertificateParams)) -> Credentials {
        let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        change(&mut params);
        let key = KeyPair::generate().unwrap();
        let chain = vec![params.signed_by(&key, &self.0).unwrap().der().clone()];
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        Credentials::new(chain, key, vec![self.root()])
    }

    fn node(&self, name: &str, change: impl FnOnce(&mut CertificateParams)) -> Mtls {
        Mtls::new(NAME, self.sign(name, change)).unwrap()
    }

    fn good(&self) -> Mtls {
        self.node(NAME, |_| {})
    }
}

/// What each side of a link says in the end.
struct Met {
    dialer: io::Result<Vec<u8>>,
    acceptor: io::Result<Vec<u8>>,
}

impl Met {
    fn refused_by_acceptor(self, reason: &str) {
        let said = self.acceptor.expect_err("the acceptor has to refuse").to_string();
        assert!(said.contains(reason), "{said}");
        let heard = self.dialer.expect_err("the dialer has to be told").to_string();
        assert!(heard.contains("received fatal alert"), "{heard}");
    }

    fn refused_by_dialer(self, reason: &str) {
        let said = self.dialer.expect_err("the dialer has to refuse").to_string();
        assert!(said.contains(reason), "{said}");
        let heard = self
            .acceptor
            .expect_err("the acceptor has to be told")
            .to_string();
        assert!(heard.contains("received fatal alert"), "{heard}");
    }
}

async fn read_some(reader: &mut impl LinkReader) -> io::Result<Vec<u8>> {
    let mut buffer = [0; 8_192];
    let count = reader.read(&mut buffer).await?;
    Ok(buffer[..count].to_vec())
}

/// The dialer says "hello", the acceptor answers "welcome".
fn meet(dialer: &Mtls, acceptor: &Mtls) -> Met {
    let (acceptor_reads, dialer_writes) = pipe();
    let (dialer_reads, acceptor_writes) = pipe();
    let acceptor = acceptor.clone();
    let accepting = thread::spawn(move || {
        block_on(async move {
            let (mut reader, mut writer) = accept(&acceptor, acceptor_reads, acceptor_writes)?;
            let heard = read_some(&mut reader).await?;
            writer.write_all(b"welcome").await?;
            // The dialer has what it waited for and may be gone.
            let _ = writer.close().await;
            Ok(heard)
        })
    });
    let dialer = block_on(async move {
        let (mut reader, mut writer) = connect(dialer, dialer_reads, dialer_writes).await?;
        writer.write_all(b"hello").await?;
        read_some(&mut reader).await
    });
    Met {
        dialer,
        acceptor: accepting.join().unwrap(),
    }
}

#[test]
fn nodes_of_one_authority_and_name_meet() {
    let authority = Authority::new("one");
    let met = meet(&authority.good(), &authority.good());
    assert_eq!(met.acceptor.unwrap(), b"hello");
    assert_eq!(met.dialer.unwrap(), b"welcome");
}

#[test]
fn nodes_of_the_development_authority_meet() {
    let ca = DevCa::new(NAME).unwrap();
    let [chain, key, roots] = ca.issue_pem().unwrap();
    let other = Credentials::from_pem(chain.as_bytes(), key.as_bytes(), roots.as_bytes()).unwrap();
    let met = meet(&ca.mtls().unwrap(), &Mtls::new(NAME, other).unwrap());
    assert_eq!(met.acceptor.unwrap(), b"hello");
    assert_eq!(met.dialer.unwrap(), b"welcome");
}

#[test]
fn a_dialer_of_another_authority_is_refused_and_told() {
    let (ours, theirs) = (Authority::new("one"), Authority::new("two"));
    let mut credentials = theirs.sign(NAME, |_| {});
    credentials.roots.push(ours.root());
    let stranger = Mtls::new(NAME, credentials).unwrap();
    meet(&stranger, &ours.good()).refused_by_acceptor("UnknownIssuer");
}

#[test]
fn an_acceptor_of_another_authority_is_refused_and_told() {
    let (ours, theirs) = (Authority::new("one"), Authority::new("two"));
    let mut credentials = theirs.sign(NAME, |_| {});
    credentials.roots.push(ours.root());
    let stranger = Mtls::new(NAME, credentials).unwrap();
    meet(&ours.good(), &stranger).refused_by_dialer("UnknownIssuer");
}

#[test]
fn a_dialer_with_another_name_is_refused_although_its_signature_is_good() {
    let authority = Authority::new("one");
    let other_service = authority.node("billing.internal", |_| {});
    meet(&other_service, &authority.good()).refused_by_acceptor("not valid for name");
}

#[test]
fn an_acceptor_with_another_name_is_refused_although_its_signature_is_good() {
    let authority = Authority::new("one");
    let other_service = authority.node("billing.internal", |_| {});
    meet(&authority.good(), &other_service).refused_by_dialer("not valid for name");
}

#[test]
fn expired_certificates_are_refused_on_either_side() {
    let authority = Authority::new("one");
    let old = authority.node(NAME, |params| {
        params.not_before = date_time_ymd(2001, 1, 1);
        params.not_after = date_time_ymd(2001, 2, 1);
    });
    meet(&old, &authority.good()).refused_by_acceptor("expired");
    meet(&authority.good(), &old).refused_by_dialer("expired");
}

#[test]
fn certificates_that_are_not_valid_yet_are_refused_on_either_side() {
    let authority = Authority::new("one");
    let early = authority.node(NAME, |params| params.not_before = date_time_ymd(3000, 1, 1));
    meet(&early, &authority.good()).refused_by_acceptor("not valid yet");
    meet(&authority.good(), &early).refused_by_dialer("not valid yet");
}

#[test]
fn a_certificate_made_only_for_servers_cannot_dial() {
    let authority = Authority::new("one");
    let server_only = authority.node(NAME, |params| {
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    });
    meet(&server_only, &authority.good()).refused_by_acceptor("extended key usage");
    let met = meet(&authority.good(), &server_only);
    assert_eq!(met.dialer.unwrap(), b"welcome", "it can be dialed");
}

#[test]
fn a_dialer_without_a_certificate_is_refused_and_told() {
    let authority = Authority::new("one");
    let nameless = authority.good();
    nameless.dial_without_certificate(authority.root());
    meet(&nameless, &authority.good()).refused_by_acceptor("peer sent no certificates");
}

#[test]
fn replaced_credentials_count_from_the_next_link() {
    let (before, after) = (Authority::new("one"), Authority::new("two"));
    let (a, b) = (before.good(), before.good());
    assert!(meet(&a, &b).dialer.is_ok());
    // Both trust both authorities before either shows a certificate of the new one.
    for node in [&a, &b] {
        let mut credentials = before.sign(NAME, |_| {});
        credentials.roots.push(after.root());
        node.replace(credentials).unwrap();
    }
    let mut credentials = after.sign(NAME, |_| {});
    credentials.roots.push(before.root());
    a.replace(credentials).unwrap();
    assert!(meet(&a, &b).dialer.is_ok());
    assert!(meet(&b, &a).dialer.is_ok());
    b.replace(after.sign(NAME, |_| {})).unwrap();
    assert!(meet(&a, &b).dialer.is_ok());
    meet(&before.good(), &b).refused_by_dialer("UnknownIssuer");
}

#[test]
fn b_005_plain_bytes_on_a_tls_port_are_refused() {
    let authority = Authority::new("one");
    let (acceptor_reads, mut dialer_writes) = pipe();
    let (_dialer_reads, acceptor_writes) = pipe();
    let refused = block_on(async {
        dialer_writes.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
        dialer_writes.close().await.unwrap();
        let (mut reader, _writer) = accept(&authority.good(), acceptor_reads, acceptor_writes)?;
        read_some(&mut reader).await
    });
    assert_eq!(refused.unwrap_err().kind(), io::ErrorKind::InvalidData);
}

#[test]
fn large_writes_arrive_whole_and_the_end_is_seen() {
    let authority = Authority::new("one");
    let sent: Vec<u8> = (0..3_000_000_u32).map(|i| i.to_le_bytes()[1]).collect();
    let expected = sent.clone();
    let (acceptor_reads, dialer_writes) = pipe();
    let (dialer_reads, acceptor_writes) = pipe();
    let acceptor = authority.good();
    let accepting = thread::spawn(move || {
        block_on(async move {
            let (mut reader, _writer) = accept(&acceptor, acceptor_reads, acceptor_writes).unwrap();
            let (mut all, mut buffer) = (Vec::new(), vec![0; 7_777]);
            loop {
                match reader.read(&mut buffer).await.unwrap() {
                    0 => return all,
                    count => all.extend_from_slice(&buffer[..count]),
                }
            }
        })
    });
    block_on(async {
        let dialer = authority.good();
        let (_reader, mut writer) = connect(&dialer, dialer_reads, dialer_writes).await.unwrap();
        writer.write_all(&sent).await.unwrap();
        writer.close().await.unwrap();
    });
    assert!(accepting.join().unwrap() == expected);
}

#[test]
fn a_stream_cut_off_without_a_good_bye_is_an_error_not_an_end() {
    let authority = Authority::new("one");
    let (acceptor_reads, dialer_writes) = pipe();
    let (dialer_reads, acceptor_writes) = pipe();
    let acceptor = authority.good();
    let accepting = thread::spawn(move || {
        block_on(async move {
            let (mut reader, _writer) = accept(&acceptor, acceptor_reads, acceptor_writes).unwrap();
            assert_eq!(read_some(&mut reader).await.unwrap(), b"hello");
            read_some(&mut reader).await
        })
    });
    block_on(async {
        let dialer = authority.good();
        let (_reader, mut writer) = connect(&dialer, dialer_reads, dialer_writes).await.unwrap();
        writer.write_all(b"hello").await.unwrap();
    });
    let cut = accepting.join().unwrap();
    assert_eq!(cut.unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
}

/// Whoever is on the way can change a byte: that is no refusal, and no renewal may fail as if it were one.
#[test]
fn a_changed_record_is_not_the_peers_word_and_an_alert_is() {
    let authority = Authority::new("one");
    let (mut from_dialer, dialer_writes) = pipe();
    let (dialer_reads, mut to_dialer) = pipe();
    let (acceptor_reads, mut to_acceptor) = pipe();
    let (mut from_acceptor, acceptor_writes) = pipe();
    let (dialer, acceptor) = (authority.good(), authority.good());
    let accepting = thread::spawn(move || {
        block_on(async move {
            let (mut reader, mut writer) = accept(&acceptor, acceptor_reads, acceptor_writes).unwrap();
            assert_eq!(read_some(&mut reader).await.unwrap(), b"hello");
            writer.write_all(b"welcome").await.unwrap();
        });
    });
    let dialing = thread::spawn(move || {
        block_on(async move {
            let (mut reader, mut writer) = connect(&dialer, dialer_reads, dialer_writes).await.unwrap();
            writer.write_all(b"hello").await.unwrap();
            read_some(&mut reader).await.unwrap_err()
        })
    });
    block_on(async {
        let greeting = read_some(&mut from_dialer).await.unwrap();
        to_acceptor.write_all(&greeting).await.unwrap();
        let answer = read_some(&mut from_acceptor).await.unwrap();
        to_dialer.write_all(&answer).await.unwrap();
        // The rest of the handshake, and the first record.
        for _ in 0..2 {
            let said = read_some(&mut from_dialer).await.unwrap();
            to_acceptor.write_all(&said).await.unwrap();
        }
        let mut welcome = read_some(&mut from_acceptor).await.unwrap();
        *welcome.last_mut().unwrap() ^= 1;
        to_dialer.write_all(&welcome).await.unwrap();
    });
    accepting.join().unwrap();
    let changed = dialing.join().unwrap();
    assert_eq!(changed.kind(), io::ErrorKind::InvalidData);
    assert!(Unproved::of(&changed).is_none(), "{changed}");
    let nameless = authority.good();
    nameless.dial_without_certificate(authority.root());
    let told = meet(&nameless, &authority.good()).dialer.unwrap_err();
    assert!(Unproved::of(&told).is_some(), "{told}");
}

#[test]
fn credentials_that_cannot_work_are_refused_when_they_are_given() {
    let authority = Authority::new("one");
    let good = || authority.sign(NAME, |_| {});
    let bad_name = Mtls::new("orders cluster", good());
    assert!(matches!(bad_name, Err(TlsError::PeerName(name)) if name == "orders cluster"));
    let mut mixed = good();
    mixed.key = good().key;
    assert!(matches!(Mtls::new(NAME, mixed), Err(TlsError::Rejected(_))));
    let mut rootless = good();
    rootless.roots.clear();
    assert!(matches!(Mtls::new(NAME, rootless), Err(TlsError::Rejected(_))));
    let empty = Credentials::from_pem(b"", b"", b"");
    assert!(matches!(
        empty,
        Err(TlsError::Pem {
            what: "certificate chain",
            ..
        })
    ));
}

#[test]
fn a_private_key_is_never_shown() {
    let ca = DevCa::new(NAME).unwrap();
    let credentials = ca.issue().unwrap();
    let secret = format!("{:?}", credentials.key.secret_der());
    assert!(secret.len() > 100);
    let mtls = Mtls::new(NAME, credentials).unwrap();
    let again = ca.issue().unwrap();
    let others = format!("{:?}", again.key.secret_der());
    let builder =
        crate::builder::ClusterBuilder::started_by(|_| unreachable!("it is only shown"), "x".to_owned())
            .security(crate::Security::mtls(mtls.clone()));
    let shown = format!(
        "{again:?} {mtls:?} {ca:?} {builder:?} {:?}",
        crate::Security::mtls(mtls.clone())
    );
    for key in [secret, others] {
        assert!(!shown.contains(&key[1..60]), "{shown}");
    }
    // Nor the authority's, whose bytes nobody else can get at: a key in digits would be a long run of them.
    assert!(shown.contains("elided"), "{shown}");
}
