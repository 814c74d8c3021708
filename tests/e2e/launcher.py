#!/usr/bin/env python3
"""Starts a job as torchrun does: a process for each rank, told by its environment who it is, and when
one fails, all of them again, at most so many times.

  launcher.py [--ranks N] [--nodes N --node K --meet DIR] [--max-restarts N] [--leave-others]
              [--restart-when FILE] -- COMMAND...

With several nodes a launcher runs on each; they agree through files in the folder DIR. --leave-others:
the ranks that are left run on, and none is started again. --restart-when: not before that file exists.
"""

import argparse
import os
import signal
import subprocess
import sys
import time

PERIOD = 0.01  # seconds between two looks


class Launcher:
    def __init__(self, args):
        self.args = args
        self.local = args.ranks // args.nodes
        self.workers = []
        self.told = 0  # the signal that ends everything
        signal.signal(signal.SIGTERM, self.on_signal)
        signal.signal(signal.SIGINT, self.on_signal)

    def on_signal(self, number, _):
        self.told = number

    def pause(self):
        time.sleep(PERIOD)
        if self.told:
            self.stop()
            sys.exit(128 + self.told)

    def path(self, what, count, node=None):
        return os.path.join(self.args.meet, f"{what}.{count}" + ("" if node is None else f".{node}"))

    def say(self, what, count, node=None):
        if self.args.meet:
            open(self.path(what, count, node), "w").close()

    def heard(self, what, count, node=None):
        return bool(self.args.meet) and os.path.exists(self.path(what, count, node))

    def start(self, count):
        for local in range(self.local):
            env = dict(os.environ, RANK=str(self.args.node * self.local + local), LOCAL_RANK=str(local),
                       GROUP_RANK=str(self.args.node), WORLD_SIZE=str(self.args.ranks),
                       LOCAL_WORLD_SIZE=str(self.local), TORCHELASTIC_RESTART_COUNT=str(count),
                       TORCHELASTIC_MAX_RESTARTS=str(self.args.max_restarts))
            self.workers.append(subprocess.Popen(self.args.command, env=env))

    def stop(self):
        for worker in self.workers:
            if worker.poll() is None:
                worker.send_signal(signal.SIGTERM)
        deadline = time.monotonic() + 10
        for worker in self.workers:
            try:
                worker.wait(max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                worker.kill()
                worker.wait()
        self.workers = []

    def watch(self, count):
        """True: the ranks of all nodes have ended well. False: one has failed, here or elsewhere."""
        others = [n for n in range(self.args.nodes) if n != self.args.node]
        while True:
            codes = [worker.poll() for worker in self.workers]
            if self.args.leave_others and None in codes:
                pass
            elif any(codes) or self.heard("failed", count):
                self.say("failed", count)
                return False
            elif None not in codes:
                self.say("done", count, self.args.node)
                if all(self.heard("done", count, n) for n in others):
                    return True
            self.pause()

    def run(self):
        restarts = 0 if self.args.leave_others else self.args.max_restarts
        for count in range(restarts + 1):
            self.start(count)
            if self.watch(count):
                return 0
            if count < restarts:
                while self.args.restart_when and not os.path.exists(self.args.restart_when):
                    self.pause()
            self.stop()
            # Nobody may meet a rank of the incarnation before.
            self.say("stopped", count, self.args.node)
            while self.args.meet and not all(self.heard("stopped", count, n) for n in range(self.args.nodes)):
                self.pause()
        return 1


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=3, help="of all nodes together")
    parser.add_argument("--nodes", type=int, default=1)
    parser.add_argument("--node", type=int, default=0)
    parser.add_argument("--meet", default="")
    parser.add_argument("--max-restarts", type=int, default=1)
    parser.add_argument("--leave-others", action="store_true")
    parser.add_argument("--restart-when", default="")
    parser.add_argument("command", nargs="+")
    sys.exit(Launcher(parser.parse_args()).run())


if __name__ == "__main__":
    main()
