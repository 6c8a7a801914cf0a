"""The wire of docs/WIRE.md, version 1, in Python's standard library: frames, the handshake, messages by kind, gossip states.

Written from that document alone, without a look at the Rust code: what a reader of the document would get wrong shows here. Decides
nothing about a cluster: that is `member.py`. Every value is a tuple, a number, a text or bytes, so that a program can also write messages
with any numbers in them: `KINDS` says for each kind its name, its lane, how its body is written and how it is read.
"""

import struct
import zlib
from collections import namedtuple

CONTROL, GOSSIP, REPLY, USER, BULK = range(5)
LINK_OF_LANE = {CONTROL: 0, GOSSIP: 0, REPLY: 0, USER: 1, BULK: 2}

Node = namedtuple("Node", "host port uid")
Term = namedtuple("Term", "up_number node")
Fields = namedtuple("Fields", "name role shards extractor keeping")
Singleton = namedtuple("Singleton", "name role hosting")
Bucket = namedtuple("Bucket", "name copies reads writes ranges merge durable role")
Member = namedtuple("Member", "node status up_number roles version")
STATUS = ["Joining", "Up", "Leaving", "Exiting", "Down", None, "WeaklyUp", "PreparingForShutdown", "ReadyForShutdown"]
JOINING, UP, LEAVING, EXITING, DOWN, _, WEAKLY_UP = range(7)


class Malformed(Exception):
    """Bytes that no writer of this version writes."""


def node_order(node):
    """Host as bytes, port, then the uid as a signed number (1)."""
    return (node.host.encode(), node.port, node.uid - (1 << 64) if node.uid >> 63 else node.uid)


# --- hashes

SHARD_KEYS = (0x51756F7261746531, 0x5368617264496473)


def siphash13(key0, key1, data):
    return siphash(key0, key1, data, False)


def siphash(key0, key1, data, wide):
    """SipHash-1-3, with 64 bits or with 128."""
    mask = (1 << 64) - 1
    v = [key0 ^ 0x736F6D6570736575, key1 ^ 0x646F72616E646F6D, key0 ^ 0x6C7967656E657261, key1 ^ 0x7465646279746573]

    def rotated(x, by):
        return ((x << by) | (x >> (64 - by))) & mask

    def round_():
        v[0] = (v[0] + v[1]) & mask
        v[1] = rotated(v[1], 13) ^ v[0]
        v[0] = rotated(v[0], 32)
        v[2] = (v[2] + v[3]) & mask
        v[3] = rotated(v[3], 16) ^ v[2]
        v[0] = (v[0] + v[3]) & mask
        v[3] = rotated(v[3], 21) ^ v[0]
        v[2] = (v[2] + v[1]) & mask
        v[1] = rotated(v[1], 17) ^ v[2]
        v[2] = rotated(v[2], 32)

    if wide:
        v[1] ^= 0xEE
    whole = len(data) // 8 * 8
    words = list(struct.unpack("<%dQ" % (whole // 8), data[:whole]))
    words.append(int.from_bytes(data[whole:], "little") | (len(data) & 0xFF) << 56)
    for word in words:
        v[3] ^= word
        round_()
        v[0] ^= word
    v[2] ^= 0xEE if wide else 0xFF
    for _ in range(3):
        round_()
    low = v[0] ^ v[1] ^ v[2] ^ v[3]
    if not wide:
        return low
    v[1] ^= 0xDD
    for _ in range(3):
        round_()
    return low | (v[0] ^ v[1] ^ v[2] ^ v[3]) << 64


def kind_id(name):
    return siphash13(*SHARD_KEYS, name.encode())


def shard_of(entity, shards):
    return siphash13(*SHARD_KEYS, entity) % shards


# --- values

class Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, count):
        if self.at + count > len(self.data):
            raise Malformed("too short")
        self.at += count
        return self.data[self.at - count:self.at]

    def done(self):
        return self.at == len(self.data)

    def number(self, code):
        return struct.unpack("<" + code, self.take(struct.calcsize("<" + code)))[0]

    def numbers(self, code, count):
        return list(struct.unpack("<%d%s" % (count, code), self.take(count * struct.calcsize(code))))

    def u8(self):
        return self.number("B")

    def u16(self):
        return self.number("H")

    def u32(self):
        return self.number("I")

    def u64(self):
        return self.number("Q")

    def boolean(self):
        value = self.u8()
        if value > 1:
            raise Malformed("bool")
        return bool(value)

    def maybe(self, read):
        return read(self) if self.boolean() else None

    def text(self):
        return self.take(self.u8()).decode()

    def address(self):
        return (self.text(), self.u16())

    def node(self):
        return Node(*self.address(), self.u64())

    def term(self):
        return Term(self.u32(), self.node())

    def shards(self):
        return self.numbers("H", self.u32())

    def rest(self):
        return self.take(len(self.data) - self.at)

    def end(self):
        if self.at != len(self.data):
            raise Malformed("%d bytes behind the end" % (len(self.data) - self.at))


def u8(value):
    return struct.pack("<B", value)


def u16(value):
    return struct.pack("<H", value)


def u32(value):
    return struct.pack("<I", value)


def u64(value):
    return struct.pack("<Q", value)


def text(value):
    data = value.encode()
    return u8(len(data)) + data


def address(value):
    return text(value[0]) + u16(value[1])


def node(value):
    return address(value[:2]) + u64(value.uid)


def term(value):
    return u32(value.up_number) + node(value.node)


def shards(values):
    return u32(len(values)) + b"".join(map(u16, values))


# --- frames (2)

FRAME = struct.Struct("<2sBBHHII")


def frame(epoch, kind, body):
    lane = KINDS[kind].lane
    header = FRAME.pack(b"Qr", 1, lane, kind, 0, len(body), epoch)
    return header + u32(zlib.crc32(header + body)) + body


def read_frame(read):
    """The next frame of a stream as (kind, epoch, body); `read` gives exactly so many bytes."""
    header = read(FRAME.size)
    magic, version, lane, kind, flags, length, epoch = FRAME.unpack(header)
    checksum = struct.unpack("<I", read(4))[0]
    if magic != b"Qr" or version != 1 or lane > BULK or flags > 1 or not 0 < length <= 4 << 20:
        raise Malformed("header %r" % header)
    body = read(length)
    if zlib.crc32(header + body) != checksum:
        raise Malformed("checksum")
    if flags:
        body = body[2 + struct.unpack("<H", body[:2])[0]:]
    return kind, epoch, body


# --- handshake (3)

HELLO, HELLO_ACK, HELLO_REJECT = 1, 2, 3
Hello = namedtuple("Hello", "versions link auth epoch features nonce cluster sender to expected_uid")
HelloAck = namedtuple("HelloAck", "version auth features nonce sender")


def handshake(kind, body):
    head = b"Qrh1" + u8(kind) + u8(0) + u16(len(body))
    return head + u32(zlib.crc32(head + body)) + body


def read_handshake(read):
    head = read(8)
    magic, kind, zero, length = struct.unpack("<4sBBH", head)
    checksum = struct.unpack("<I", read(4))[0]
    if magic != b"Qrh1" or zero or length > 1024:
        raise Malformed("handshake %r" % head)
    body = read(length)
    if zlib.crc32(head + body) != checksum:
        raise Malformed("checksum")
    return kind, body


def hello(value):
    expected = b"\0" if value.expected_uid is None else b"\1" + u64(value.expected_uid)
    return handshake(HELLO, u8(value.versions[0]) + u8(value.versions[1]) + u8(value.link) + u8(value.auth) + u32(value.epoch)
                     + u64(value.features) + value.nonce + text(value.cluster) + node(value.sender) + address(value.to) + expected)


def read_hello(body):
    r = Reader(body)
    return Hello((r.u8(), r.u8()), r.u8(), r.u8(), r.u32(), r.u64(), r.take(16), r.text(), r.node(), r.address(),
                 r.u64() if r.boolean() else None)


def hello_ack(value):
    return handshake(HELLO_ACK, u8(value.version) + u8(value.auth) + u64(value.features) + value.nonce + node(value.sender) + u8(0))


def read_hello_ack(body):
    r = Reader(body)
    return HelloAck(r.u8(), r.u8(), r.u64(), r.take(16), r.node())


def hello_reject(reason):
    return handshake(HELLO_REJECT, u8(1) + u8(1) + u8(reason))


# --- gossip states (5)

State = namedtuple("State", "members seen tombstones observers clock gone paths")
"""`seen`, `gone`: sets of nodes; `tombstones`: a set; `observers`: {node: (version, {subject: (word, version)})}; `clock`: {node: counter}."""


def names(count, r):
    lengths = r.numbers("B", count)
    return [r.take(length).decode() for length in lengths]


def read_state(data):
    """A state in either form."""
    if data[:1] == b"\1":
        length = struct.unpack("<I", data[1:5])[0]
        inflated = zlib.decompressobj(-15).decompress(data[5:], length + 1)
        if len(inflated) != length:
            raise Malformed("a stream of another length")
        data = b"\0" + inflated
    r = Reader(data)
    if r.u8() != 0:
        raise Malformed("form")
    layout = r.u8()
    if layout != 1 or r.u8() != 0:
        raise Malformed("layout")
    hosts_n, roles_n, sets_n, versions_n, members_n, tombs_n, observers_n, clock_n, gone_n = r.numbers("H", 9)
    paths_n, records_n = r.numbers("I", 2)
    hosts, roles = names(hosts_n, r), names(roles_n, r)
    sets = [[roles[at] for at in r.numbers("H", length)] for length in r.numbers("B", sets_n)]
    versions = names(versions_n, r)
    at_hosts, ports, uids = r.numbers("H", members_n), r.numbers("H", members_n), r.numbers("Q", members_n)
    nodes = [Node(hosts[host], port, uid) for host, port, uid in zip(at_hosts, ports, uids)]
    statuses, ups = r.numbers("B", members_n), r.numbers("I", members_n)
    of_sets, of_versions = r.numbers("H", members_n), r.numbers("H", members_n)
    members = [Member(*of[:3], tuple(sets[of[3]]), versions[of[4]]) for of in zip(nodes, statuses, ups, of_sets, of_versions)]
    bits = r.take((members_n + 7) // 8)
    seen = {nodes[at] for at in range(members_n) if bits[at // 8] >> at % 8 & 1}
    at_hosts, ports, uids = r.numbers("H", tombs_n), r.numbers("H", tombs_n), r.numbers("Q", tombs_n)
    tombstones = [Node(hosts[host], port, uid) for host, port, uid in zip(at_hosts, ports, uids)]
    at_observers, at_versions, counts = r.numbers("H", observers_n), r.numbers("Q", observers_n), r.numbers("H", observers_n)
    subjects, words, record_versions = r.numbers("H", records_n), r.numbers("B", records_n), r.numbers("Q", records_n)
    observers, begin = {}, 0
    for at, version, count in zip(at_observers, at_versions, counts):
        range_ = range(begin, begin + count)
        observers[nodes[at]] = (version, {nodes[subjects[i]]: (words[i], record_versions[i]) for i in range_})
        begin += count
    clock = {nodes[at]: counter for at, counter in zip(r.numbers("H", clock_n), r.numbers("Q", clock_n))}
    gone = {(nodes + tombstones)[at] for at in r.numbers("H", gone_n)}
    paths = r.take(paths_n)
    r.end()
    return State(members, seen, set(tombstones), observers, clock, gone, paths)


def packed(code, values):
    values = list(values)
    return struct.pack("<%d%s" % (len(values), code), *values)


def names_of(values):
    return packed("B", map(len, values)) + b"".join(values)


def state(value):
    """A state in form 0."""
    members = sorted(value.members, key=lambda member: node_order(member.node))
    nodes = [member.node for member in members]
    tombstones = sorted(value.tombstones, key=node_order)
    everybody = nodes + tombstones
    hosts = sorted({of.host.encode() for of in everybody})
    roles = sorted({role.encode() for member in members for role in member.roles})
    sets = sorted({tuple(roles.index(role.encode()) for role in member.roles) for member in members})
    versions = sorted({member.version.encode() for member in members})
    index = {of: at for at, of in enumerate(nodes)}
    observers = sorted(value.observers.items(), key=lambda entry: index[entry[0]])
    records = [sorted(((index[of], *record) for of, record in rows.items())) for _, (_, rows) in observers]
    flat = [record for rows in records for record in rows]
    clock = sorted((index[of], counter) for of, counter in value.clock.items())
    seen = bytearray((len(members) + 7) // 8)
    for of in value.seen:
        seen[index[of] // 8] |= 1 << index[of] % 8
    gone = sorted(everybody.index(of) for of in value.gone)
    out = [u8(0), u8(1), u8(0),
           packed("H", map(len, (hosts, roles, sets, versions, members, tombstones, observers, clock, gone))),
           u32(len(value.paths)), u32(len(flat)), names_of(hosts), names_of(roles),
           packed("B", map(len, sets)), packed("H", (at for of in sets for at in of)), names_of(versions),
           packed("H", (hosts.index(of.host.encode()) for of in nodes)), packed("H", (of.port for of in nodes)),
           packed("Q", (of.uid for of in nodes)), packed("B", (of.status for of in members)), packed("I", (of.up_number for of in members)),
           packed("H", (sets.index(tuple(roles.index(role.encode()) for role in of.roles)) for of in members)),
           packed("H", (versions.index(of.version.encode()) for of in members)), bytes(seen),
           packed("H", (hosts.index(of.host.encode()) for of in tombstones)), packed("H", (of.port for of in tombstones)),
           packed("Q", (of.uid for of in tombstones)),
           packed("H", (index[of] for of, _ in observers)), packed("Q", (row[0] for _, row in observers)), packed("H", map(len, records)),
           packed("H", (row[0] for row in flat)), packed("B", (row[1] for row in flat)), packed("Q", (row[2] for row in flat)),
           packed("H", (row[0] for row in clock)), packed("Q", (row[1] for row in clock)), packed("H", gone)]
    return b"".join(out) + value.paths


SAME, BEFORE, AFTER, CONCURRENT = "same", "before", "after", "concurrent"


def compare(one, other):
    """The order of two clocks."""
    keys = set(one) | set(other)
    less = any(one.get(key, 0) < other.get(key, 0) for key in keys)
    more = any(one.get(key, 0) > other.get(key, 0) for key in keys)
    return {(False, False): SAME, (True, False): BEFORE, (False, True): AFTER, (True, True): CONCURRENT}[less, more]


def seen_digest(state):
    """5.3."""
    nodes = sorted((of.node for of in state.members), key=node_order)
    bits = sum(1 << at for at, of in enumerate(nodes) if of in state.seen)
    return siphash13(0, 0, bits.to_bytes((bits.bit_length() + 63) // 64 * 8, "little"))


# --- messages (4)

Kind = namedtuple("Kind", "name lane write read")


def settings(values):
    """4.8: {key: (flags, value)}."""
    rows = (text(key) + u8(flags) + text(value) for key, (flags, value) in sorted(values.items()))
    return u8(len(values)) + b"".join(rows)


def read_settings(r):
    return {key: value for key, value in ((r.text(), (r.u8(), r.text())) for _ in range(r.u8()))}


def content(value):
    """A state's bytes with no seen bit set."""
    return state(value._replace(seen=set()))[1:]


def name_of(content):
    """5.3."""
    return siphash(0, 0, content, True)


def u128(value):
    return value.to_bytes(16, "little")


def read_u128(r):
    return int.from_bytes(r.take(16), "little")


def write_status(to, name, digest, is_answer):
    return u64(to) + u128(name) + u64(digest) + u8(is_answer)


def read_status(r):
    return r.u64(), read_u128(r), r.u64(), r.boolean()


def read_delta(r):
    """Receiver, whether it is pushed, base, result, positions of who has seen it, steps."""
    to, is_push, base, result = r.node(), r.boolean(), read_u128(r), read_u128(r)
    form, count = r.u8(), r.u16()
    if form == 1:
        seen = list(r.numbers("H", count))
    else:
        seen = [at * 8 + bit for at, byte in enumerate(r.take(count)) for bit in range(8) if byte >> bit & 1]
    return to, is_push, base, result, seen, r.take(r.u32())


def write_delta(to, is_push, base, result, seen, steps):
    bits = bytearray(max(seen) // 8 + 1 if seen else 0)
    for at in seen:
        bits[at // 8] |= 1 << at % 8
    form = u8(1) + u16(len(seen)) + packed("H", seen) if 2 * len(seen) < len(bits) else u8(0) + u16(len(bits)) + bytes(bits)
    return node(to) + u8(is_push) + u128(base) + u128(result) + form + u32(len(steps)) + steps


def walked(base, steps):
    """Where steps lead."""
    r, at, out = Reader(steps), 0, b""
    while not r.done():
        same, gone, come = r.u16(), r.u16(), r.u16()
        out += base[at:at + same] + r.take(come)
        at += same + gone
    return out


def maybe(value, put):
    return u8(0) if value is None else u8(1) + put(value)


def keeping(value):
    lease, store, remembers = value
    return u8(lease) + u8(store) + maybe(remembers, u8)


def read_keeping(r):
    return r.boolean(), r.u8(), r.maybe(Reader.u8)


def fields(value):
    return text(value.name) + text(value.role) + u32(value.shards) + text(value.extractor) + maybe(value.keeping, keeping)


def read_fields(r):
    return Fields(r.text(), r.text(), r.u32(), r.text(), r.maybe(read_keeping))


(REGISTER, REGISTER_ACK, REGISTER_REFUSED, REGION_QUERY, NO_REGION, GET_SHARD_HOME, SHARD_HOMES, HOST_SHARD, SHARD_STARTED, BEGIN_HAND_OFF,
 BEGIN_HAND_OFF_ACK, HAND_OFF, SHARD_STOPPED, GRACEFUL_SHUTDOWN_REQ, REGION_STOPPED, NOBODY_HOSTS, SHARD_TOKENS, STOP) = range(1, 19)

STOP_THESE, STOPPED, STOP_REFUSED = 1, 2, 3

# A registration that names all its shards at once (4.2).
WHOLE = (0, 0, 1)


def stop(value):
    """What is said about shards that are to stop: its number, and the shards or why none of them does."""
    return u8(value[0]) + (u8(value[1]) if value[0] == STOP_REFUSED else shards(value[1]))


def read_stop(r):
    what = r.u8()
    if what not in (STOP_THESE, STOPPED, STOP_REFUSED):
        raise Malformed("stop %d" % what)
    return what, r.u8() if what == STOP_REFUSED else r.shards()


# Fields of the sharding messages by tag: how each is written and read (4.2).
NUMBER = {"u8": (u8, Reader.u8), "u16": (u16, Reader.u16), "u32": (u32, Reader.u32), "u64": (u64, Reader.u64),
          "term": (term, Reader.term), "shards": (shards, Reader.shards), "fields": (fields, read_fields),
          "stop": (stop, read_stop),
          "part": (lambda part: u64(part[0]) + u16(part[1]) + u16(part[2]), lambda r: (r.u64(), r.u16(), r.u16())),
          "token": (lambda token: u64(token[0]) + u64(token[1]), lambda r: (r.u64(), r.u64())),
          "homes": (lambda homes: u32(len(homes)) + b"".join(node(of) + shards(at) for of, at in homes),
                    lambda r: [(r.node(), r.shards()) for _ in range(r.u32())]),
          "tokens": (lambda rows: u32(len(rows)) + b"".join(u16(at) + u64(a) + u64(b) for at, (a, b) in rows),
                     lambda r: [(r.u16(), (r.u64(), r.u64())) for _ in range(r.u32())])}
ON_SHARD = ["term", "u16"]
SHARDING = {REGISTER: ["u8", "fields", "part", "shards"], REGISTER_ACK: ["term"], REGISTER_REFUSED: ["term", "fields"], REGION_QUERY: ["term"],
            NO_REGION: ["term"], GET_SHARD_HOME: ["u16"], SHARD_HOMES: ["term", "homes"], HOST_SHARD: ON_SHARD + ["token"],
            SHARD_STARTED: ON_SHARD, BEGIN_HAND_OFF: ON_SHARD + ["u64"], BEGIN_HAND_OFF_ACK: ON_SHARD + ["u64"], HAND_OFF: ON_SHARD + ["u8"],
            SHARD_STOPPED: ON_SHARD, GRACEFUL_SHUTDOWN_REQ: [], REGION_STOPPED: [], NOBODY_HOSTS: [], SHARD_TOKENS: ["tokens"], STOP: ["stop"]}


def write_sharding(kind, tag, *values):
    return u64(kind) + u8(tag) + b"".join(NUMBER[code][0](value) for code, value in zip(SHARDING[tag], values, strict=True))


def read_sharding(r):
    kind, tag = r.u64(), r.u8()
    if tag not in SHARDING:
        raise Malformed("sharding tag %d" % tag)
    return (kind, tag, *(NUMBER[code][1](r) for code in SHARDING[tag]))


Ask = namedtuple("Ask", "id remaining_ms asker")


WAKE_UP = "wake-up"


def write_entity(kind, shard, hops, ask, chain, entity, payload):
    """4.3; `ask` is None or an Ask, `chain` a list of numbers that is empty without an ask, or WAKE_UP."""
    behind = 4 if chain == WAKE_UP else 2 if chain else 0
    out = u64(kind) + u16(shard) + u8(hops) + u8((ask is not None) | behind)
    if ask is not None:
        out += u64(ask.id) + u32(ask.remaining_ms) + node(ask.asker)
    if behind == 2:
        out += u8(len(chain)) + b"".join(map(u64, chain))
    return out + u16(len(entity)) + entity + payload


def read_entity(r):
    kind, shard, hops, flags = r.u64(), r.u16(), r.u8(), r.u8()
    ask = Ask(r.u64(), r.u32(), r.node()) if flags & 1 else None
    chain = WAKE_UP if flags & 4 else r.numbers("Q", r.u8()) if flags & 2 else []
    return kind, shard, hops, ask, chain, r.take(r.u16()), r.rest()


ANNOUNCE, VERDICTS, QUERY = 1, 2, 3
OF_KIND, OF_SINGLETON, OF_BUCKET = 1, 2, 3
LEVEL_REPLICAS = 4


def level(value):
    """4.17: a number below LEVEL_REPLICAS, or how many replicas as a tuple."""
    return u8(LEVEL_REPLICAS) + u16(value[0]) if isinstance(value, tuple) else u8(value)


def read_level(r):
    code = r.u8()
    if not 1 <= code <= LEVEL_REPLICAS:
        raise Malformed("level %d" % code)
    return (r.u16(),) if code == LEVEL_REPLICAS else code


def bucket(of):
    """4.7: all settings, with a merge function's name and a role or None."""
    levels = level(of.reads) + level(of.writes)
    return text(of.name) + u8(of.copies) + levels + u16(of.ranges) + maybe(of.merge, text) + u8(of.durable) + maybe(of.role, text)


def read_bucket(r):
    text_of = Reader.text
    return Bucket(r.text(), r.u8(), read_level(r), read_level(r), r.u16(), r.maybe(text_of), r.boolean(), r.maybe(text_of))


def registration(value):
    """The fields of a kind, a singleton or a bucket."""
    if isinstance(value, Bucket):
        return u8(OF_BUCKET) + bucket(value)
    if isinstance(value, Singleton):
        return u8(OF_SINGLETON) + text(value.name) + text(value.role) + maybe(value.hosting, lambda of: u8(of[0]) + u8(of[1]))
    return u8(OF_KIND) + fields(value)


def read_registration(r):
    hosting = lambda r: (r.boolean(), r.boolean())
    of = {OF_KIND: read_fields, OF_SINGLETON: lambda r: Singleton(r.text(), r.text(), r.maybe(hosting)), OF_BUCKET: read_bucket}
    return of[r.u8()](r)


def write_registry(tag, *values):
    """4.7: (ANNOUNCE, round, [(fields, number or None, running)]), (VERDICTS, term, round, [(sort, id, code, value)]) or (QUERY, term)."""
    if tag == ANNOUNCE:
        round_, kinds = values
        rows = (registration(of) + maybe(number, u64) + u8(runs) for of, number, runs in kinds)
        return u8(tag) + u32(round_) + u16(len(kinds)) + b"".join(rows)
    if tag == VERDICTS:
        of, round_, verdicts = values
        parts = {1: u64, 2: registration, 3: lambda _: b""}
        name = lambda sort, id_: text(id_) if sort == OF_BUCKET else u64(id_)
        rows = (u8(sort) + name(sort, id_) + u8(code) + parts[code](value) for sort, id_, code, value in verdicts)
        return u8(tag) + term(of) + u32(round_) + u16(len(verdicts)) + b"".join(rows)
    return u8(tag) + term(values[0])


def read_registry(r):
    tag = r.u8()
    if tag == ANNOUNCE:
        round_ = r.u32()
        return tag, round_, [(read_registration(r), r.maybe(Reader.u64), r.boolean()) for _ in range(r.u16())]
    if tag == VERDICTS:
        def verdict():
            sort = r.u8()
            id_, code = r.text() if sort == OF_BUCKET else r.u64(), r.u8()
            return sort, id_, code, {1: Reader.u64, 2: read_registration, 3: lambda _: None}[code](r)
        of, round_ = r.term(), r.u32()
        return tag, of, round_, [verdict() for _ in range(r.u16())]
    return tag, r.term()


def write_join(to, version, roles):
    return node(to) + text(version) + u8(len(roles)) + b"".join(map(text, sorted(roles)))


def write_mark(kind, shard, number):
    return u64(kind) + u16(shard) + u64(number)


def read_mark(r):
    return r.u64(), r.u16(), r.u64()


def node_kind(name):
    return Kind(name, CONTROL, node, lambda r: (r.node(),))


def raw(name, lane):
    """A kind that this peer neither says nor acts upon."""
    return Kind(name, lane, bytes, lambda r: (r.rest(),))


def with_state(name):
    return Kind(name, GOSSIP, lambda to, of: node(to) + state(of), lambda r: (r.node(), read_state(r.rest())))


def low_half(number):
    return number & 0xFFFFFFFF


def beat(name):
    """Low halves: of the asker's round, and of the uid of the incarnation that is meant."""
    return Kind(name, CONTROL, lambda sequence, to: u32(low_half(sequence)) + u32(low_half(to)), lambda r: (r.u32(), r.u32()))


(INIT_JOIN, INIT_JOIN_ACK, INIT_JOIN_NACK, JOIN, WELCOME, LEAVE, DOWN_, HEARTBEAT, HEARTBEAT_RSP, EXITING_CONFIRMED, GOSSIP_STATUS,
 GOSSIP_, GOSSIP_DELTA, GOSSIP_SEEN) = range(1, 15)
JOIN_REFUSED, REMOVED = 15, 16
SHARDING_, ENTITY, ASK_REPLY, REGISTRY, HAND_BACK, SURVEY, MARK, MARK_ACK = range(0x100, 0x108)

KINDS = {
    INIT_JOIN: Kind("InitJoin", CONTROL, settings, lambda r: (read_settings(r),)),
    INIT_JOIN_ACK: Kind("InitJoinAck", CONTROL, lambda ok, of: u8(ok) + settings(of), lambda r: (r.boolean(), read_settings(r))),
    INIT_JOIN_NACK: Kind("InitJoinNack", CONTROL, lambda: u8(0), lambda r: (r.u8(),)[:0]),
    JOIN: Kind("Join", CONTROL, write_join, lambda r: (r.node(), r.text(), [r.text() for _ in range(r.u8())])),
    WELCOME: with_state("Welcome"),
    LEAVE: node_kind("Leave"),
    DOWN_: node_kind("Down"),
    HEARTBEAT: beat("Heartbeat"),
    HEARTBEAT_RSP: beat("HeartbeatRsp"),
    EXITING_CONFIRMED: node_kind("ExitingConfirmed"),
    GOSSIP_STATUS: Kind("GossipStatus", GOSSIP, write_status, read_status),
    GOSSIP_: with_state("Gossip"),
    GOSSIP_DELTA: Kind("GossipDelta", GOSSIP, write_delta, read_delta),
    GOSSIP_SEEN: Kind("GossipSeen", GOSSIP, lambda to, name: node(to) + u128(name), lambda r: (r.node(), read_u128(r))),
    JOIN_REFUSED: Kind("JoinRefused", CONTROL, lambda reason, to: u8(reason) + node(to), lambda r: (r.u8(), r.node())),
    REMOVED: node_kind("Removed"),
    SHARDING_: Kind("Sharding", CONTROL, write_sharding, read_sharding),
    ENTITY: Kind("Entity", USER, write_entity, read_entity),
    ASK_REPLY: Kind("AskReply", REPLY, lambda ask, to, result, payload=b"": u64(ask) + node(to) + u8(result) + payload,
                    lambda r: (r.u64(), r.node(), r.u8(), r.rest())),
    REGISTRY: Kind("Registry", CONTROL, write_registry, read_registry),
    HAND_BACK: Kind("HandBack", REPLY, write_entity, read_entity),
    SURVEY: raw("Survey", CONTROL),
    MARK: Kind("Mark", USER, write_mark, read_mark),
    MARK_ACK: Kind("MarkAck", REPLY, write_mark, read_mark),
    0x108: raw("Watch", CONTROL),
    0x109: raw("Start", CONTROL),
    0x10A: raw("Started", CONTROL),
    0x110: raw("Singleton", CONTROL),
    0x111: raw("SingletonMessage", USER),
    0x112: raw("SingletonReply", REPLY),
    0x120: raw("JournalVoter", CONTROL),
    0x121: raw("JournalRequest", BULK),
    0x122: raw("JournalReply", BULK),
    0x150: raw("Path", CONTROL),
    0x151: raw("PathMessage", USER),
    0x152: raw("PathMark", USER),
    0x153: raw("PathState", BULK),
    0x154: raw("PathReply", REPLY),
    0x160: raw("BucketRanges", CONTROL),
    0x161: raw("BucketAsk", BULK),
    0x162: raw("BucketAnswer", BULK),
    0x163: raw("BucketContent", BULK),
    0x164: raw("BucketTrees", BULK),
    0x168: raw("BucketList", BULK),
    0x169: raw("BucketListed", BULK),
    0x16A: raw("BucketWatch", BULK),
    0x16B: raw("BucketNotice", BULK),
    0x16C: raw("BucketHint", BULK),
    0x200: raw("Ddata", BULK),
    0x300: raw("LoadSample", GOSSIP),
    0x301: raw("ChordProbe", GOSSIP),
    0x302: raw("ChordReply", GOSSIP),
}


def read_message(kind, body):
    """The values of a message; None for a kind that this version does not know."""
    if kind not in KINDS:
        return None
    r = Reader(body)
    values = KINDS[kind].read(r)
    r.end()
    return values
