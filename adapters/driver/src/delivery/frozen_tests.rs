//! The bytes of what producers and consumers say to each other and of what durable ones keep: on their way
//! between versions of the library, and on disks. They never change; variants are only appended.

use quorate_core::sharding::ids::Payload;

use super::message::{DeliveryBody, DeliveryMessage, Origin, Receipt, Wanted};
use super::queue::Entry;
use crate::codec::Bytes;
use crate::codec::{decode, encode};

fn origin() -> Origin {
    Origin {
        name: "p".to_owned(),
        incarnation: 7,
        is_alone: true,
    }
}

fn two_bytes() -> Bytes {
    Bytes(Payload::from([9, 8]))
}

#[test]
fn the_bytes_of_parcels_and_receipts_never_change() {
    let message = DeliveryBody::Message {
        from: origin(),
        seq: 300,
        first: true,
        begins: true,
        ends: false,
        payload: two_bytes(),
    };
    let said: [(DeliveryBody, &[u8]); 4] = [
        (message, &[0, 1, b'p', 7, 1, 0xac, 2, 1, 1, 0, 2, 9, 8]),
        (DeliveryBody::Line { from: origin() }, &[1, 1, b'p', 7, 1]),
        (DeliveryBody::Bye { from: origin() }, &[2, 1, b'p', 7, 1]),
        (DeliveryBody::Look, &[3]),
    ];
    for (inside, bytes) in said {
        let message = DeliveryMessage::<u64>::new(inside);
        assert_eq!(&*encode(&message).unwrap(), bytes, "{message:?}");
        let back: DeliveryMessage<u64> = decode(bytes).unwrap();
        assert_eq!(encode(&back), encode(&message));
    }
    let receipt = Receipt {
        ack: Some(3),
        request: Some(Wanted {
            confirmed: 3,
            up_to: 300,
            support_resend: true,
            via_timeout: false,
        }),
        resend: None,
    };
    let bytes = [1, 3, 1, 3, 0xac, 2, 1, 0, 0];
    assert_eq!(*encode(&receipt).unwrap(), bytes);
    assert_eq!(decode(&bytes), Some(receipt));
}

#[test]
fn the_bytes_of_what_a_durable_producer_keeps_never_change() {
    let sent = Entry::Sent {
        seq: 300,
        entity: b"e".to_vec(),
        payload: two_bytes(),
    };
    for (entry, bytes) in [
        (sent, &[1, 0, 0xac, 2, 1, b'e', 2, 9, 8][..]),
        (Entry::Confirmed { seq: 3 }, &[1, 1, 3]),
    ] {
        assert_eq!(&*entry.record().unwrap(), bytes);
        assert_eq!(Entry::read(bytes).unwrap().record(), entry.record());
    }
    assert!(Entry::read(&[2, 1, 3]).is_none(), "of a later version");
}
