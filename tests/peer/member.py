"""A member of a cluster in Python's standard library, over plain TCP: joins, asks entities, hosts nothing, leaves in an orderly way.

Written from docs/WIRE.md alone (its section 9 says what a member does). It never changes a state but for marking that it has seen it, so
it merges none either: of two that were changed at the same time it waits for the one that somebody else merged.

    python3 tests/peer/member.py --cluster NAME --seed HOST:PORT --kind NAME --ask ENTITY TEXT

prints `up`, the answers and `left`, one a line, and ends with 0. Texts are sent and answered in the form of postcard, as the kinds of
this repository's adapters want them: the length, then UTF-8.
"""

import argparse
import os
import queue
import random
import socket
import sys
import threading
import time

import wire
from wire import Node

TICK = 1.0
DIAL_LIMIT = 3.0
EXTRACTOR = "siphash-1-3"


class Failed(Exception):
    """The cluster said no, or did not answer in time."""


class Link:
    """A link that this member dialed: it writes here and reads nothing but the answer to its hello."""

    def __init__(self, member, to, kind):
        self.stream = socket.create_connection(to, DIAL_LIMIT)
        self.stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.epoch = member.next_epoch(to)
        hello = wire.Hello((1, 1), kind, 0, self.epoch, 0, os.urandom(16), member.cluster, member.me, to, None)
        self.stream.sendall(wire.hello(hello))
        answer, body = wire.read_handshake(exactly(self.stream))
        if answer != wire.HELLO_ACK:
            raise Failed("%s:%d refused the link, reason %d" % (*to, body[2]))
        self.peer = wire.read_hello_ack(body).sender

    def send(self, kind, body):
        self.stream.sendall(wire.frame(self.epoch, kind, body))

    def close(self):
        try:
            self.stream.shutdown(socket.SHUT_WR)
            self.stream.settimeout(1)
            self.stream.recv(1)
        except OSError:
            pass
        self.stream.close()


def exactly(stream):
    def read(count):
        data = b""
        while len(data) < count:
            part = stream.recv(count - len(data))
            if not part:
                raise EOFError
            data += part
        return data
    return read


def listen(host="127.0.0.1"):
    """A port above those that systems give out by themselves: the first by address leads, and who merges and moves nobody must not (9)."""
    for port in random.sample(range(61_000, 65_536), 100):
        try:
            return socket.create_server((host, port))
        except OSError:
            continue
    raise Failed("no free port above 61000")


class Peer:
    """What every program in Python on this wire needs: a port, links to whoever is sent something, what arrives as a queue."""

    def __init__(self, cluster):
        self.cluster = cluster
        self.listener = listen()
        host, port = self.listener.getsockname()[:2]
        self.me = Node(host, port, int.from_bytes(os.urandom(8), "little"))
        self.epochs, self.links, self.lock = {}, {}, threading.Lock()
        self.arrived = queue.Queue()
        threading.Thread(target=self._accept, daemon=True).start()

    def next_epoch(self, to):
        with self.lock:
            self.epochs[to] = self.epochs.get(to, 0) + 1
            return self.epochs[to]

    def send(self, to, kind, *values):
        """Writes a message to an address or to the node at it; what cannot be sent is lost. Called by one thread."""
        lane = wire.KINDS[kind].lane
        self.send_raw(to, wire.LINK_OF_LANE[lane], kind, wire.KINDS[kind].write(*values))

    def send_raw(self, to, link_kind, kind, body):
        key = (tuple(to[:2]), link_kind)
        try:
            if key not in self.links:
                self.links[key] = Link(self, *key)
            self.links[key].send(kind, body)
        except (OSError, EOFError):
            self.links.pop(key, None)

    def close(self):
        self.listener.close()
        for link in self.links.values():
            link.close()

    def _accept(self):
        while True:
            try:
                stream, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self._read, args=(stream,), daemon=True).start()

    def _read(self, stream):
        read = exactly(stream)
        try:
            kind, body = wire.read_handshake(read)
            hello = wire.read_hello(body)
            reason = self._refusal(kind, hello)
            if reason is not None:
                stream.sendall(wire.hello_reject(reason) if reason != 4 else wire.handshake(
                    wire.HELLO_REJECT, bytes([1, 1, 4]) + wire.u64(self.me.uid)))
                return
            stream.sendall(wire.hello_ack(wire.HelloAck(1, hello.auth, 0, os.urandom(16), self.me)))
            while True:
                self._taken((hello, *wire.read_frame(read)))
        except (OSError, EOFError):
            pass
        except Exception as error:  # what cannot be read is the test's business, not this thread's
            self.arrived.put((None, None, error))
        finally:
            stream.close()

    def _taken(self, frame):
        hello, kind, epoch, body = frame
        values = wire.read_message(kind, body)
        if values is not None and epoch == hello.epoch:
            self.arrived.put((hello.sender, kind, values))

    def _refusal(self, kind, hello):
        checks = [(kind != wire.HELLO or not hello.versions[0] <= 1 <= hello.versions[1], 1), (hello.cluster != self.cluster, 2),
                  (tuple(hello.to) != self.me[:2], 3), (hello.expected_uid not in (None, self.me.uid), 4), (hello.auth != 0, 7),
                  (hello.link > 1, 1)]
        return next((reason for fails, reason in checks if fails), None)


class Proxy:
    """A kind of which this member hosts nothing (4.2, 4.3, 4.7)."""

    def __init__(self, name, shards, role=""):
        self.fields = wire.Fields(name, role, shards, EXTRACTOR, None)
        self.id, self.accepted, self.term = wire.kind_id(name), None, None
        self.homes, self.used, self.marks = {}, {}, {}


class Member(Peer):
    """A member that hosts nothing. Everything happens in the thread that calls `run`, `join`, `ask` and `leave`."""

    def __init__(self, cluster):
        super().__init__(cluster)
        self.state, self.settings, self.known = None, {}, {}
        self.kinds, self.round, self.counter, self.answers, self.back = {}, 0, 0, {}, set()
        self.next_tick, self.taken_by = time.monotonic(), None
        self.handlers = {
            wire.INIT_JOIN: lambda sender, *_: self.send(sender, wire.INIT_JOIN_NACK),
            wire.INIT_JOIN_ACK: self.on_init_join_ack, wire.WELCOME: self.on_welcome, wire.GOSSIP_: self.on_gossip,
            wire.GOSSIP_DELTA: self.on_delta,
            wire.GOSSIP_STATUS: self.on_status, wire.JOIN_REFUSED: self.on_join_refused, wire.REMOVED: self.on_removed,
            wire.HEARTBEAT: lambda sender, sequence, to: to == wire.low_half(self.me.uid) and self.send(
                sender, wire.HEARTBEAT_RSP, sequence, sender.uid),
            wire.REGISTRY: self.on_registry, wire.SHARDING_: self.on_sharding, wire.ASK_REPLY: self.on_ask_reply,
            wire.HAND_BACK: self.on_hand_back, wire.MARK_ACK: self.on_mark_ack,
            wire.MARK: lambda sender, *mark: self.send(sender, wire.MARK_ACK, *mark),
        }

    # --- time

    def run(self, until, limit, what, again=None):
        """Handles what arrives until something holds; `again` is done now and with each tick."""
        end = time.monotonic() + limit
        at = 0
        while not until():
            now = time.monotonic()
            if now >= end:
                raise Failed("%s took more than %s s" % (what, limit))
            if again is not None and now >= at:
                again()
                at = now + TICK
            if now >= self.next_tick:
                self.tick()
                self.next_tick = now + TICK
            try:
                sender, kind, values = self.arrived.get(timeout=0.05)
            except queue.Empty:
                continue
            if sender is None:
                raise values
            handler = self.handlers.get(kind)
            if handler is not None:
                handler(sender, *values)

    def tick(self):
        """Heartbeats to all, and a round of gossip."""
        others = self.others()
        for of in others:
            self.counter += 1
            self.send(of, wire.HEARTBEAT, self.counter, of.uid)
        if others:
            to = random.choice(others)
            self.say_status(to, False)

    # --- membership

    def others(self):
        members = self.state.members if self.state is not None else []
        return [of.node for of in members if of.node != self.me and of.status not in (wire.EXITING, wire.DOWN)]

    def status(self):
        found = [of.status for of in self.state.members if of.node == self.me] if self.state is not None else []
        return found[0] if found else None

    def oldest(self, role=""):
        able = [of for of in self.state.members if of.status in (wire.UP, wire.LEAVING) and (not role or role in of.roles)]
        return min(able, key=lambda of: of.up_number).node if able else None

    def join(self, seeds, limit=30):
        """Asks all seeds until one takes this node in and it is Up."""
        def ask():
            if self.taken_by is not None:
                return self.send(self.taken_by, wire.JOIN, self.taken_by, "0.0.0", [])
            for seed in seeds:
                self.send(seed, wire.INIT_JOIN, self.settings)
        self.run(lambda: self.state is not None, limit, "joining", ask)
        self.run(lambda: self.status() == wire.UP, limit, "becoming Up")

    def on_init_join_ack(self, sender, compatible, settings):
        if self.taken_by is not None or self.state is not None:
            return
        if compatible:
            self.taken_by = sender
            self.send(sender, wire.JOIN, sender, "0.0.0", [])
        elif any(self.settings.get(key) != row for key, row in settings.items()):
            # What members have to agree on and this one has no opinion about (4.8). Other seeds' answers to the first question follow.
            self.settings.update(settings)
            self.send(sender, wire.INIT_JOIN, self.settings)

    def on_join_refused(self, sender, reason, to):
        if to == self.me and self.state is None:
            raise Failed("%s:%d refused the join, reason %d" % (*sender[:2], reason))

    def on_removed(self, sender, to):
        if to == self.me:
            raise Failed("%s:%d says that this node was removed" % sender[:2])

    def on_welcome(self, sender, to, state):
        if to == self.me and sender == self.taken_by and self.state is None:
            self.state = state._replace(seen=state.seen | {self.me}, gone=set())
            self.send(sender, wire.GOSSIP_, sender, self.state)

    def on_gossip(self, sender, to, state):
        if to != self.me or self.state is None or all(of.node != self.me for of in state.members):
            return
        order = wire.compare(state.clock, self.state.clock)
        if order == wire.BEFORE:
            return self.send(sender, wire.GOSSIP_, sender, self.state)
        if order == wire.CONCURRENT:
            return
        seen = state.seen | {self.me} | (self.state.seen if order == wire.SAME else set())
        self.state = state._replace(seen=seen, gone=set())
        if self.me not in state.seen:
            self.send(sender, wire.GOSSIP_, sender, self.state)

    def say_status(self, to, is_answer):
        self.send(to, wire.GOSSIP_STATUS, to.uid, self.own_name(), wire.seen_digest(self.state), is_answer)

    def own_name(self):
        """The name of the state; what it was a name of is kept for differences."""
        content = wire.content(self.state)
        name = wire.name_of(content)
        self.known[name] = content
        while len(self.known) > 8:
            del self.known[next(iter(self.known))]
        return name

    def on_status(self, sender, to, name, digest, is_answer):
        if to != self.me.uid or self.state is None:
            return
        if name == self.own_name():
            if digest != wire.seen_digest(self.state):
                self.send(sender, wire.GOSSIP_, sender, self.state)
        elif name in self.known or is_answer:
            self.send(sender, wire.GOSSIP_, sender, self.state)
        else:
            self.say_status(sender, True)

    def on_delta(self, sender, to, is_push, base, result, seen, steps):
        if to != self.me or self.state is None:
            return
        self.own_name()
        if result in self.known:
            content = self.known[result]
        elif base in self.known:
            content = wire.walked(self.known[base], steps)
            if wire.name_of(content) != result:
                raise Failed("a difference of %s:%d does not lead where it says" % sender[:2])
        else:
            return self.say_status(sender, True)
        state = wire.read_state(wire.u8(0) + content)
        self.on_gossip(sender, to, state._replace(seen={state.members[at].node for at in seen}))

    def leave(self, limit=30):
        """Has a member move this one to Leaving, waits until the leader has moved it to Exiting, says goodbye and ends."""
        def ask():
            if self.status() in (wire.UP, wire.WEAKLY_UP, wire.JOINING):
                to = random.choice(self.others())
                self.send(to, wire.LEAVE, self.me)
        if self.others():
            self.run(lambda: self.status() == wire.EXITING, limit, "leaving", ask)
            for of in self.others():
                self.send(of, wire.GOSSIP_, of, self.state)
                self.send(of, wire.EXITING_CONFIRMED, of)
        self.close()

    # --- kinds

    def register(self, name, shards, role="", limit=30):
        """Has the oldest member accept the kind, and its coordinator know that this member may ask for homes."""
        proxy = Proxy(name, shards, role)
        self.kinds[proxy.id] = proxy
        self.round += 1
        self.run(lambda: proxy.accepted is not None, limit, "the kind's acceptance", lambda: self.announce(self.oldest()))
        self.run(lambda: proxy.term is not None, limit, "the registration", lambda: self.send(
            self.oldest(role), wire.SHARDING_, proxy.id, wire.REGISTER, 0, proxy.fields, wire.WHOLE, []))
        return proxy

    def announce(self, to):
        kinds = [(of.fields, of.accepted, of.accepted is not None) for of in self.kinds.values()]
        self.send(to, wire.REGISTRY, wire.ANNOUNCE, self.round, kinds)

    def on_registry(self, sender, tag, *values):
        if tag == wire.QUERY:
            return self.announce(sender)
        if tag != wire.VERDICTS or values[1] != self.round:
            return
        for sort, kind, code, value in values[2]:
            if sort != wire.OF_KIND:
                continue
            if kind in self.kinds and code == 1:
                self.kinds[kind].accepted = value
            elif kind in self.kinds:
                raise Failed("the kind is refused: %s" % (value,))

    def on_sharding(self, sender, kind, tag, *values):
        proxy = self.kinds.get(kind)
        if tag == wire.REGION_QUERY and proxy is None:
            self.send(sender, wire.SHARDING_, kind, wire.NO_REGION, values[0])
        elif proxy is None:
            return
        elif tag == wire.REGION_QUERY:
            self.send(sender, wire.SHARDING_, kind, wire.REGISTER, 0, proxy.fields, wire.WHOLE, [])
        elif tag == wire.REGISTER_ACK:
            proxy.term = values[0]
        elif tag == wire.REGISTER_REFUSED:
            raise Failed("the coordinator refuses the kind: %s" % (values[1],))
        elif tag == wire.SHARD_HOMES and values[0] == proxy.term:
            proxy.homes.update({shard: of for of, shards in values[1] for shard in shards})
        elif tag == wire.BEGIN_HAND_OFF:
            proxy.homes.pop(values[1], None)
            self.settle(proxy, values[1], (sender, tag, values))

    def settle(self, proxy, shard, report=None):
        """Marks behind what was sent to a shard's home; what is to be reported is once the mark is acknowledged, or at once."""
        home = proxy.used.get(shard)
        if home is None:
            return report and self.begun(proxy, report)
        self.counter += 1
        proxy.marks[shard] = (self.counter, report)
        self.send(home, wire.MARK, proxy.id, shard, self.counter)

    def begun(self, proxy, report):
        sender, tag, values = report
        self.send(sender, wire.SHARDING_, proxy.id, tag + 1, *values)

    def on_mark_ack(self, sender, kind, shard, number):
        proxy = self.kinds.get(kind)
        if proxy is not None and proxy.marks.get(shard, (0,))[0] == number and proxy.used.get(shard) == sender:
            _, report = proxy.marks.pop(shard)
            del proxy.used[shard]
            if report is not None:
                self.begun(proxy, report)

    def ask(self, proxy, entity, payload, limit=10):
        """The answer of an entity: (result, payload)."""
        shard = wire.shard_of(entity, proxy.fields.shards)
        self.counter += 1
        number = self.counter
        end = time.monotonic() + limit

        def send():
            home = proxy.homes.get(shard)
            if home is None:
                return self.send(proxy.term.node, wire.SHARDING_, proxy.id, wire.GET_SHARD_HOME, shard)
            if number in self.back and shard not in proxy.marks:
                self.back.discard(number)
                sent.clear()
            if not sent and shard not in proxy.marks:
                sent.append(home)
                proxy.used[shard] = home
                left = max(1, int((end - time.monotonic()) * 1000))
                self.send(home, wire.ENTITY, proxy.id, shard, 0, wire.Ask(number, left, self.me), [], entity, payload)

        sent = []
        send()
        while number not in self.answers:
            self.run(lambda: number in self.answers or number in self.back or (not sent and shard in proxy.homes),
                     max(0.1, end - time.monotonic()), "the answer", None if sent else send)
            if number not in self.answers:
                send()
        return self.answers.pop(number)[1:]

    def on_ask_reply(self, sender, number, to, result, payload):
        if to == self.me:
            self.answers[number] = (sender, result, payload)

    def on_hand_back(self, sender, kind, shard, hops, ask, chain, entity, payload):
        proxy = self.kinds.get(kind)
        if proxy is not None and ask is not None and ask.asker == self.me:
            self.back.add(ask.id)
            proxy.homes.pop(shard, None)
            self.settle(proxy, shard)


def postcard(value):
    """A text as postcard writes it."""
    data, out = value.encode(), b""
    count = len(data)
    while count >= 0x80:
        out += bytes([count & 0x7F | 0x80])
        count >>= 7
    return out + bytes([count]) + data


def unpostcard(data):
    """A text behind the byte that says that the question could be read."""
    if data[:1] != b"\0":
        raise Failed("the entity could not answer: %r" % data)
    at, count = 1, 0
    while data[at] & 0x80:
        count |= (data[at] & 0x7F) << 7 * (at - 1)
        at += 1
    count |= data[at] << 7 * (at - 1)
    return data[at + 1:at + 1 + count].decode()


def seed(value):
    host, port = value.rsplit(":", 1)
    return host, int(port)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cluster", required=True)
    parser.add_argument("--seed", type=seed, action="append", required=True)
    parser.add_argument("--kind", help="the kind of the entities that are asked")
    parser.add_argument("--shards", type=int, default=128)
    parser.add_argument("--role", default="")
    parser.add_argument("--ask", nargs=2, action="append", default=[], metavar=("ENTITY", "TEXT"))
    options = parser.parse_args()
    if options.ask and not options.kind:
        parser.error("--ask needs --kind")
    member = Member(options.cluster)
    try:
        member.join(options.seed)
        print("up %s:%d" % member.me[:2], flush=True)
        proxy = member.register(options.kind, options.shards, options.role) if options.kind else None
        for entity, question in options.ask:
            result, payload = member.ask(proxy, entity.encode(), postcard(question))
            print("answer %s" % unpostcard(payload) if result == 0 else "failed %d" % result, flush=True)
        member.leave()
        print("left", flush=True)
    except Failed as error:
        print("member: %s" % error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
