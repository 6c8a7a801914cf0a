//! Bytes as a wrong peer would write them: by hand, after `docs/WIRE.md` and not with the codec, so that
//! every part can be spoiled, with a checksum that is right.

use quorate_core::ident::UniqueAddress;

/// Lanes by their numbers.
pub(super) const CONTROL: u8 = 0;
pub(super) const GOSSIP: u8 = 1;
pub(super) const USER: u8 = 3;

/// A frame that a reader accepts as one.
pub(super) fn frame(lane: u8, kind: u16, epoch: u32, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len()).expect("invariant: a body of a test");
    let mut bytes = b"Qr\x01".to_vec();
    bytes.push(lane);
    bytes.extend(kind.to_le_bytes());
    bytes.extend([0, 0]);
    bytes.extend(length.to_le_bytes());
    bytes.extend(epoch.to_le_bytes());
    bytes.extend([0; 4]);
    bytes.extend(body);
    sealed(bytes)
}

/// The same frame with other bytes at a place of its header, and the checksum that belongs to them.
pub(super) fn patched(mut frame: Vec<u8>, at: usize, with: &[u8]) -> Vec<u8> {
    frame[at..at + with.len()].copy_from_slice(with);
    sealed(frame)
}

fn sealed(mut frame: Vec<u8>) -> Vec<u8> {
    let mut sum = crc32fast::Hasher::new();
    sum.update(&frame[..16]);
    sum.update(&frame[20..]);
    let sum = sum.finalize().to_le_bytes();
    frame[16..20].copy_from_slice(&sum);
    frame
}

/// A hello for any range of versions and any host name, legal or not.
pub(super) fn hello(
    versions: (u8, u8),
    host: &[u8],
    port: u16,
    to: &UniqueAddress,
    cluster: &str,
) -> Vec<u8> {
    let mut body = vec![versions.0, versions.1, 0, 0];
    body.extend(1_u32.to_le_bytes());
    body.extend(0_u64.to_le_bytes());
    body.extend([1; 16]);
    text(&mut body, cluster.as_bytes());
    text(&mut body, host);
    body.extend(port.to_le_bytes());
    body.extend(77_u64.to_le_bytes());
    text(&mut body, to.address().host().as_bytes());
    body.extend(to.address().port().to_le_bytes());
    body.push(0);
    let length = u16::try_from(body.len()).expect("invariant: a hello of a test");
    let mut bytes = b"Qrh1\x01\x00".to_vec();
    bytes.extend(length.to_le_bytes());
    let mut sum = crc32fast::Hasher::new();
    sum.update(&bytes);
    sum.update(&body);
    bytes.extend(sum.finalize().to_le_bytes());
    bytes.extend(body);
    bytes
}

pub(super) fn text(out: &mut Vec<u8>, bytes: &[u8]) {
    out.push(u8::try_from(bytes.len()).expect("invariant: a text of a test"));
    out.extend(bytes);
}

pub(super) fn node(out: &mut Vec<u8>, node: &UniqueAddress) {
    text(out, node.address().host().as_bytes());
    out.extend(node.address().port().to_le_bytes());
    out.extend(node.uid().to_le_bytes());
}

/// A body that begins with whom it is for.
pub(super) fn addressed(to: &UniqueAddress, rest: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    node(&mut body, to);
    body.extend(rest);
    body
}

/// Form 1 of a state: deflated, with a length that may be a lie.
pub(super) fn deflated(claimed: u32, stream: &[u8]) -> Vec<u8> {
    let mut form = vec![1];
    form.extend(claimed.to_le_bytes());
    form.extend(stream);
    form
}

/// Raw deflate of `bytes`, one byte to a block.
pub(super) fn in_small_blocks(bytes: &[u8]) -> Vec<u8> {
    let mut stream = Vec::new();
    for (at, byte) in bytes.iter().enumerate() {
        stream.push(u8::from(at + 1 == bytes.len()));
        stream.extend([1, 0, 0xfe, 0xff, *byte]);
    }
    stream
}
