"""Members that are sick, or lie, over plain TCP: each joins as `member.py` does, and then does one thing wrong for a while.

    python3 tests/peer/sick.py --cluster NAME --seed HOST:PORT --members N --does WHAT [--to COUNT] --for SECONDS

`WHAT`: `undecodable` (frames that nobody can read, to so many of the others), `claims` (links in the name of the first of the others, to
the rest), `reads-nothing`, `refuses` (every link, with reason 5), `removed` (tells so many of the others that they were removed). Begins
when it sees so many members Up. Prints `up`, how often it was believed, and `done`, one a line; then it ends without a word to the others.
"""

import argparse
import os
import sys
import time

import wire
from member import Failed, Link, Member, exactly, seed

QUARANTINED = 5


class Sick(Member):
    """A member that does one thing wrong once it has begun."""

    def __init__(self, cluster, does, to):
        super().__init__(cluster)
        self.does, self.to, self.begun, self.believed = does, to, False, 0

    def victims(self):
        return sorted(self.others(), key=wire.node_order)[:self.to]

    def is_complete(self, members):
        return self.state is not None and sum(of.status == wire.UP for of in self.state.members) == members

    def act(self):
        if self.does == "undecodable":
            for of in self.victims():
                self.send_raw(of, 0, wire.HEARTBEAT, b"\1")
        elif self.does == "removed":
            for of in self.victims():
                self.send(of, wire.REMOVED, of)
        elif self.does == "claims":
            victim, *rest = sorted(self.others(), key=wire.node_order)
            for of in rest:
                self.claim(victim, of)

    def claim(self, victim, to):
        """A link that is newer than any of the victim's, and a frame on it that nobody can read."""
        class Claim:
            cluster, me = self.cluster, victim

            @staticmethod
            def next_epoch(_):
                return 0xFFFFFFFF
        try:
            Link(Claim, tuple(to[:2]), 0).send(wire.HEARTBEAT, b"\1")
            self.believed += 1
        except (OSError, EOFError, Failed):
            pass

    def send_raw(self, to, link_kind, kind, body):
        try:
            super().send_raw(to, link_kind, kind, body)
        except Failed:
            pass

    def on_removed(self, sender, to):
        pass

    def _read(self, stream):
        if self.begun and self.does == "refuses":
            try:
                wire.read_handshake(exactly(stream))
                stream.sendall(wire.hello_reject(QUARANTINED))
            except (OSError, EOFError):
                pass
            return stream.close()
        return super()._read(stream)

    def _taken(self, frame):
        while self.begun and self.does == "reads-nothing":
            time.sleep(1)
        if self.begun and self.does == "refuses":
            raise EOFError
        super()._taken(frame)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cluster", required=True)
    parser.add_argument("--seed", type=seed, action="append", required=True)
    parser.add_argument("--members", type=int, required=True)
    parser.add_argument("--does", required=True)
    parser.add_argument("--to", type=int, default=1)
    parser.add_argument("--for", type=float, dest="time", required=True)
    options = parser.parse_args()
    member = Sick(options.cluster, options.does, options.to)
    member.join(options.seed)
    member.run(lambda: member.is_complete(options.members), 30, "seeing the others Up")
    print("up", flush=True)
    member.begun = True
    end = time.monotonic() + options.time
    member.run(lambda: time.monotonic() >= end, options.time + 10, "the end", member.act)
    print("believed %d" % member.believed)
    print("done", flush=True)
    os._exit(0)


if __name__ == "__main__":
    try:
        main()
    except Failed as error:
        print("sick: %s" % error, file=sys.stderr)
        sys.exit(1)
