//! Who gets a session and who does not, and what a session protects, over a link in memory: reliability 3a,
//! `docs/WIRE.md` 3.4.

use std::io;
use std::thread;

use super::*;
use crate::pipes::{PipeReader, PipeWriter, block_on, pipe};
use crate::proved::Proved;
use crate::transport::{LinkReader, LinkWriter, Unproved};

const OLD: &[u8] = b"0123456789abcdef";
const NEW: &[u8] = b"fedcba9876543210-and-more";

fn psk(keys: &[&[u8]]) -> Psk {
    Psk::with_keys(keys).unwrap()
}

/// What each side has of a link in the end: the greeting that the other one sent, and what it proved.
struct Met {
    dialer: io::Result<(Vec<u8>, Proved)>,
    acceptor: io::Result<(Vec<u8>, Proved)>,
}

impl Met {
    fn refused(self, by_acceptor: &str, to_dialer: &str) {
        for (end, why) in [(self.acceptor, by_acceptor), (self.dialer, to_dialer)] {
            let error = end.unwrap_err();
            assert!(Unproved::of(&error).is_some(), "{error:?}");
            assert!(error.to_string().contains(why), "{error}");
        }
    }
}

async fn some(reader: &mut impl LinkReader) -> io::Result<Vec<u8>> {
    let mut buffer = vec![0; 1_024];
    let count = reader.read(&mut buffer).await?;
    buffer.truncate(count);
    Ok(buffer)
}

async fn dial(psk: &Psk, reader: PipeReader, writer: PipeWriter) -> io::Result<(Vec<u8>, Proved)> {
    let (mut reader, mut writer) = connect(psk, reader, writer).await?;
    writer.write_all(b"hello").await?;
    let heard = some(&mut reader).await?;
    Ok((heard, reader.proved()))
}

async fn be_dialed(psk: &Psk, reader: PipeReader, writer: PipeWriter) -> io::Result<(Vec<u8>, Proved)> {
    let (mut reader, mut writer) = accept(psk, reader, writer);
    assert!(!reader.is_established() && reader.proved() == Proved::Nothing);
    let heard = some(&mut reader).await?;
    writer.write_all(b"welcome").await?;
    Ok((heard, reader.proved()))
}

fn meet(dialer: &Psk, acceptor: &Psk) -> Met {
    let (acceptor_reads, dialer_writes) = pipe();
    let (dialer_reads, acceptor_writes) = pipe();
    let acceptor = acceptor.clone();
    let accepting = thread::spawn(move || block_on(be_dialed(&acceptor, acceptor_reads, acceptor_writes)));
    let dialer = block_on(dial(dialer, dialer_reads, dialer_writes));
    Met {
        dialer,
        acceptor: accepting.join().unwrap(),
    }
}

/// What an acceptor with the key makes of these bytes, and what it says to them.
fn said_to_acceptor(words: &[&[u8]]) -> (io::Error, Vec<u8>) {
    let (acceptor_reads, mut writes) = pipe();
    let (mut reads, acceptor_writes) = pipe();
    block_on(async {
        for words in words {
            writes.write_all(words).await.unwrap();
        }
        writes.close().await.unwrap();
        let error = be_dialed(&psk(&[OLD]), acceptor_reads, acceptor_writes).await;
        let mut heard = Vec::new();
        while let Ok(more @ [_, ..]) = some(&mut reads).await.as_deref() {
            heard.extend_from_slice(more);
        }
        (error.unwrap_err(), heard)
    })
}

/// What a dialer with the key makes of this answer.
fn said_to_dialer(answer: &[u8]) -> io::Error {
    let (_acceptor_reads, dialer_writes) = pipe();
    let (dialer_reads, mut writes) = pipe();
    block_on(async {
        writes.write_all(answer).await.unwrap();
        writes.close().await.unwrap();
        dial(&psk(&[OLD]), dialer_reads, dialer_writes).await.unwrap_err()
    })
}

/// One whole session, as somebody on the way records it: what the dialer said, in turn, and what the acceptor
/// did.
fn recorded() -> ([Vec<u8>; 2], Vec<u8>) {
    let (mut on_the_way, dialer_writes) = pipe();
    let (dialer_reads, mut to_dialer) = pipe();
    let (acceptor_reads, mut to_acceptor) = pipe();
    let (mut from_acceptor, acceptor_writes) = pipe();
    let accepting = thread::spawn(move || block_on(be_dialed(&psk(&[OLD]), acceptor_reads, acceptor_writes)));
    let dialing = thread::spawn(move || block_on(dial(&psk(&[OLD]), dialer_reads, dialer_writes)));
    let record = block_on(async {
        let first = some(&mut on_the_way).await.unwrap();
        to_acceptor.write_all(&first).await.unwrap();
        let answer = some(&mut from_acceptor).await.unwrap();
        to_dialer.write_all(&answer).await.unwrap();
        let second = some(&mut on_the_way).await.unwrap();
        to_acceptor.write_all(&second).await.unwrap();
        let last = some(&mut from_acceptor).await.unwrap();
        to_dialer.write_all(&last).await.unwrap();
        ([first, second], answer)
    });
    assert_eq!(accepting.join().unwrap().unwrap().0, b"hello");
    assert_eq!(dialing.join().unwrap().unwrap().0, b"welcome");
    record
}

#[test]
fn two_nodes_with_the_same_key_meet_and_know_which_it_was() {
    let met = meet(&psk(&[OLD]), &psk(&[NEW, OLD]));
    let (dialer, acceptor) = (met.dialer.unwrap(), met.acceptor.unwrap());
    assert_eq!((&*dialer.0, &*acceptor.0), (&b"welcome"[..], &b"hello"[..]));
    let key = Proved::Key(psk(&[OLD]).first());
    assert_eq!((&dialer.1, &acceptor.1), (&key, &key));
    assert_ne!(key, Proved::Key(psk(&[NEW]).first()));
}

#[test]
fn another_key_is_refused_and_both_sides_hear_why() {
    let met = meet(&psk(&[NEW]), &psk(&[OLD]));
    met.refused("none of this node's keys", "does not have this node's key");
}

#[test]
fn every_step_of_a_change_of_keys_lets_every_neighbour_in() {
    let steps: [&[&[u8]]; 4] = [&[OLD], &[OLD, NEW], &[NEW, OLD], &[NEW]];
    for pair in steps.windows(2) {
        for (dialer, acceptor) in [(pair[0], pair[1]), (pair[1], pair[0])] {
            assert!(meet(&psk(dialer), &psk(acceptor)).dialer.is_ok());
        }
    }
    let running = psk(&[OLD]);
    running.clone().replace([NEW]).unwrap();
    assert!(meet(&psk(&[OLD]), &running).dialer.is_err());
    assert!(!running.lists(&psk(&[OLD]).first()) && running.lists(&psk(&[NEW]).first()));
}

#[test]
fn a_recorded_session_is_refused_as_such() {
    let ([first, second], answer) = recorded();
    let (error, said) = said_to_acceptor(&[&first, &second]);
    assert!(
        Unproved::of(&error).is_some() && error.to_string().contains("a recording"),
        "{error}"
    );
    assert!(
        said.len() == answer.len() && said != answer,
        "a fresh answer, of no use to whoever replays"
    );
    let error = said_to_dialer(&answer);
    assert!(Unproved::of(&error).is_some(), "a recorded acceptor: {error}");
    assert_ne!(recorded().0[1], second, "the same words never look the same");
}

/// Somebody without a key dials a node and gives it back what it said to him, or to whom it dialed.
#[test]
fn what_a_node_says_cannot_be_sent_back_to_it() {
    let ([first, second], _) = recorded();
    // Its own greeting as the answer to it.
    assert!(Unproved::of(&said_to_dialer(&first)).is_some());
    // Its greeting as a dial to itself is one with the key, and goes no further than the answer: its records
    // are for others.
    let (error, answer) = said_to_acceptor(&[&first, &second]);
    assert!(Unproved::of(&error).is_some());
    let (error, _) = said_to_acceptor(&[&first, &answer]);
    assert!(Unproved::of(&error).is_some(), "{error}");
}

#[test]
fn empty_cut_and_changed_greetings_are_refused_on_either_side() {
    let ([first, _], answer) = recorded();
    for cut in 0..first.len() {
        assert!(said_to_acceptor(&[&first[..cut]]).1.is_empty(), "{cut}");
        assert_eq!(
            said_to_dialer(&answer[..cut]).kind(),
            io::ErrorKind::UnexpectedEof,
            "{cut}"
        );
    }
    for bit in (0..first.len() * 8).step_by(3) {
        for (said, to_acceptor) in [(&first, true), (&answer, false)] {
            let mut changed = said.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            let error = match to_acceptor {
                true => said_to_acceptor(&[&changed]).0,
                false => said_to_dialer(&changed),
            };
            assert!(Unproved::of(&error).is_some(), "bit {bit}: {error}");
        }
    }
    let zeros = [&b"Qrn1"[..], &[0; 48]].concat();
    assert!(Unproved::of(&said_to_acceptor(&[&zeros]).0).is_some());
    assert!(Unproved::of(&said_to_dialer(&zeros)).is_some());
}

#[test]
fn b_005_who_speaks_something_else_is_told_apart() {
    for (said, why, answer) in [
        (
            &b"Qrh1\x01\0\0\0\0\0\0\0"[..],
            "it speaks plaintext",
            &b"Qrn0"[..],
        ),
        (b"\x16\x03\x01\x02\0\x01", "it speaks TLS", b"Qrn0"),
        (b"GET / HTTP/1.1\r\n\r\n", "no greeting of a node", b""),
        (b"Qrx1", "no greeting of a node", b""),
    ] {
        let (error, heard) = said_to_acceptor(&[said]);
        assert!(
            Unproved::of(&error).is_some() && error.to_string().contains(why),
            "{error}"
        );
        assert_eq!(heard, answer);
    }
    for (answer, why) in [
        (&b"Qrh1\x03\0"[..], "it speaks plaintext"),
        (b"\x15\x03\x03\0\x02", "it asks for TLS"),
        (b"Qrn0", "does not have this node's key"),
        (b"HTTP/1.1 400", "no node"),
    ] {
        let error = said_to_dialer(answer);
        assert!(
            Unproved::of(&error).is_some() && error.to_string().contains(why),
            "{error}"
        );
    }
}

/// An open session, and the two ends of the stream from dialer to acceptor for somebody on the way.
type Tapped = (
    NoiseWriter<PipeWriter>,
    PipeReader,
    PipeWriter,
    NoiseReader<PipeReader>,
);

fn tapped() -> Tapped {
    let (mut tap, dialer_writes) = pipe();
    let (dialer_reads, acceptor_writes) = pipe();
    let (acceptor_reads, mut inject) = pipe();
    let dialing = thread::spawn(move || {
        block_on(async {
            connect(&psk(&[OLD]), dialer_reads, dialer_writes)
                .await
                .unwrap()
                .1
        })
    });
    block_on(async {
        let (mut reader, _writer) = accept(&psk(&[OLD]), acceptor_reads, acceptor_writes);
        let first = some(&mut tap).await.unwrap();
        inject.write_all(&first).await.unwrap();
        reader.establish().await.unwrap();
        let mut writer = dialing.join().unwrap();
        writer.write_all(b"the first record").await.unwrap();
        let record = some(&mut tap).await.unwrap();
        inject.write_all(&record).await.unwrap();
        assert_eq!(some(&mut reader).await.unwrap(), b"the first record");
        (writer, tap, inject, reader)
    })
}

#[test]
fn changed_repeated_left_out_and_swapped_records_end_the_link_and_are_not_the_peers_word() {
    type Change = fn(Vec<u8>, Vec<u8>) -> Vec<u8>;
    let changes: [(&str, Change); 5] = [
        ("a bit", |mut one, _| {
            *one.last_mut().unwrap() ^= 1;
            one
        }),
        ("a length", |mut one, _| {
            one[0] = 0xff;
            one
        }),
        ("left out", |_, two| two),
        ("swapped", |one, two| [two, one].concat()),
        ("repeated", |one, _| [one.clone(), one].concat()),
    ];
    for (what, change) in changes {
        let (mut writer, mut tap, mut inject, mut reader) = tapped();
        block_on(async {
            writer.write_all(b"one").await.unwrap();
            let one = some(&mut tap).await.unwrap();
            writer.write_all(b"two").await.unwrap();
            let two = some(&mut tap).await.unwrap();
            inject.write_all(&change(one, two)).await.unwrap();
            let mut last = some(&mut reader).await;
            if what == "repeated" {
                assert_eq!(last.unwrap(), b"one");
                last = some(&mut reader).await;
            }
            let error = last.unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidData, "{what}");
            assert!(Unproved::of(&error).is_none(), "{what}");
        });
    }
}

#[test]
fn nothing_that_is_said_can_be_read_on_the_way() {
    let (mut writer, mut tap, ..) = tapped();
    let secret = vec![b'x'; 64];
    block_on(async {
        writer.write_all(&secret).await.unwrap();
        let wire = some(&mut tap).await.unwrap();
        assert_eq!(wire.len(), 2 + 64 + 16);
        assert!(!wire.windows(3).any(|bytes| bytes == b"xxx"));
    });
}

#[test]
fn large_writes_arrive_whole_and_the_end_is_seen() {
    let sent: Vec<u8> = (0..3_000_000_u32).map(|i| i.to_le_bytes()[1]).collect();
    let expected = sent.clone();
    let (acceptor_reads, dialer_writes) = pipe();
    let (dialer_reads, acceptor_writes) = pipe();
    let accepting = thread::spawn(move || {
        block_on(async move {
            let (mut reader, _writer) = accept(&psk(&[OLD]), acceptor_reads, acceptor_writes);
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
        let (_reader, mut writer) = connect(&psk(&[OLD]), dialer_reads, dialer_writes).await.unwrap();
        writer.write_all(&sent).await.unwrap();
        writer.close().await.unwrap();
    });
    assert!(accepting.join().unwrap() == expected);
}

#[test]
fn a_stream_cut_off_without_a_good_bye_is_an_error_not_an_end() {
    for says_good_bye in [false, true] {
        let (mut writer, mut tap, mut inject, mut reader) = tapped();
        block_on(async {
            if says_good_bye {
                writer.close().await.unwrap();
                let bye = some(&mut tap).await.unwrap();
                inject.write_all(&bye).await.unwrap();
            }
            inject.close().await.unwrap();
            match some(&mut reader).await {
                Ok(end) => assert!(says_good_bye && end.is_empty()),
                Err(error) => {
                    assert!(!says_good_bye && error.kind() == io::ErrorKind::UnexpectedEof);
                }
            }
        });
    }
}

#[test]
fn keys_of_the_wrong_length_or_number_are_refused_when_they_are_given() {
    let length = |number, bytes| Err(PskError::Length { number, bytes });
    assert_eq!(Psk::new("").map(drop), length(1, 0));
    assert_eq!(Psk::new("short").map(drop), length(1, 5));
    assert_eq!(Psk::new([7; 1_025]).map(drop), length(1, 1_025));
    assert_eq!(Psk::with_keys([OLD, b"x"]).map(drop), length(2, 1));
    let none: [&[u8]; 0] = [];
    assert_eq!(Psk::with_keys(none).map(drop), Err(PskError::NoKey));
    assert_eq!(
        Psk::with_keys([OLD; 5]).map(drop),
        Err(PskError::TooManyKeys { count: 5 })
    );
    let kept = psk(&[OLD]);
    assert!(kept.replace([""]).is_err());
    assert!(kept.lists(&psk(&[OLD]).first()), "the keys in use stay in use");
}

#[test]
fn a_key_is_never_shown() {
    let shown = format!(
        "{:?} {:?} {:?}",
        psk(&[OLD, NEW]),
        PskError::Length { number: 1, bytes: 2 },
        Proved::Key(psk(&[OLD]).first()),
    );
    assert!(!shown.contains("0123") && !shown.contains("48, 49"), "{shown}");
    assert_eq!(format!("{:?}", psk(&[OLD])), "Psk { keys: 1, .. }");
    assert_eq!(format!("{:?}", psk(&[OLD]).first()), "PeerKey { .. }");
}
