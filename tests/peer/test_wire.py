"""The codec of `wire.py` against the golden vectors of the core: what is read is written again, byte for byte.

    python3 tests/peer/test_wire.py
"""

import pathlib
import unittest

import wire

GOLDEN = pathlib.Path(__file__).resolve().parents[2] / "core" / "tests" / "golden"


def reader_of(data):
    at = 0

    def read(count):
        nonlocal at
        at += count
        return data[at - count:at]
    return read


class Golden(unittest.TestCase):
    def test_every_frame_is_read_and_written_again(self):
        known = set()
        for path in sorted(GOLDEN.glob("*.hex")):
            for data in map(bytes.fromhex, ["".join(path.read_text().split())]):
                if not data.startswith(b"Qr\1"):
                    continue
                kind, epoch, body = wire.read_frame(reader_of(data))
                values = wire.read_message(kind, body)
                self.assertEqual(wire.frame(epoch, kind, wire.KINDS[kind].write(*values)), data, path.name)
                known.add(kind)
        self.assertEqual(set(wire.KINDS) - known, {0x200}, "values of replicated data have vectors of their own")

    def test_handshakes(self):
        for name, read, write in [("hello", wire.read_hello, wire.hello), ("hello_ack", wire.read_hello_ack, wire.hello_ack)]:
            data = bytes.fromhex("".join((GOLDEN / (name + ".hex")).read_text().split()))
            kind, body = wire.read_handshake(reader_of(data))
            self.assertEqual(write(read(body)), data, name)

    def test_a_compressed_state_is_read(self):
        import zlib
        data = bytes.fromhex("".join((GOLDEN / "gossip.hex").read_text().split()))
        _, _, body = wire.read_frame(reader_of(data))
        to, state = wire.read_message(wire.GOSSIP_, body)
        plain = wire.state(state)
        deflate = zlib.compressobj(1, zlib.DEFLATED, -15)
        stream = deflate.compress(plain[1:]) + deflate.flush()
        self.assertEqual(wire.read_state(b"\1" + wire.u32(len(plain) - 1) + stream), state)

    def test_kinds_and_shards_are_found_by_the_published_hash(self):
        self.assertEqual(wire.kind_id("files"), 0x184335BAE0D7BA69)  # that of register.hex
        self.assertEqual(wire.shard_of(b"ada", 1000), 21)


if __name__ == "__main__":
    unittest.main()
