"""One run of a worker on all ranks, seen from the caller's process."""

from __future__ import annotations

import os
import pickle
import selectors
import shutil
import struct
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from fsdp_demo.launch import client
from fsdp_demo.launch.activity import Quiet
from fsdp_demo.launch.capture import find_flood, show_output
from fsdp_demo.launch.errors import RankError, SpawnError
from fsdp_demo.launch.events import Asked, note
from fsdp_demo.launch.mismatch import find_mismatch, judge_mismatch
from fsdp_demo.launch.ship import lines_without_file
from fsdp_demo.launch.side import Side
from fsdp_demo.launch.stall import StallDetector, ask_where, find_waiting
from fsdp_demo.launch.verdict import has_cause, judge
from fsdp_demo.launch.waits import judge_stall, judge_timeout
from fsdp_demo.launch.words import clean, first_line

LOOK_S = 0.2  # between looks at ranks that say nothing
SETTLE_S = 0.8  # at most, from the first fault to the verdict
CAUSE_S = 3.0  # likewise, where the cause of that fault has still to show
QUIET_S = 0.1  # ranks that sleep for so long after a fault have nothing to add
COMPARE_S = 0.2  # ranks that sleep for so long may have disagreed
LEAVE_S = 10.0  # for ranks to leave by themselves after a good run: on a busy machine, too


class Job:
    """The ranks of one call of `spawn`."""

    def __init__(self, server: client.Client, world: int, timeout_s: float) -> None:
        self.server = server
        self.world = world
        self.timeout_s = timeout_s
        server.jobs += 1
        self.number = server.jobs
        self.sides: list[Side] = []
        self.selector = selectors.DefaultSelector()
        self.has_begun = False  # the ranks' workers
        self.compared_nbytes = 0  # of the ranks' records of collectives
        try:
            self.folder = tempfile.mkdtemp(prefix="run-", dir=server.folder)
        except OSError as error:  # a full disk, or somebody has cleared /tmp
            self.selector.close()
            raise SpawnError(
                f"no folder can be made for the ranks in {server.folder}: {error.strerror}"
            ) from None

    def run(self, work: bytes) -> list[Any]:
        """Start the ranks, wait for them, show what they printed; return their values or raise."""
        fault: RankError | None = None
        try:
            try:
                try:
                    self.start(work)
                except OSError as error:  # too many open files, a full disk
                    raise SpawnError(
                        f"{self.world} ranks can't be started: {error.strerror}"
                    ) from None
                fault = self.watch() or self.check()
                if fault is None:
                    self.let_go()
            finally:
                self.clear()
                show_output(self.sides)
            if fault is not None:
                raise fault
            values = [load_value(side) for side in self.sides]
            note("return")
            return values
        finally:
            self.close()

    def start(self, work: bytes) -> None:
        """Fork the ranks; what all of them need lies in one file, written once."""
        setup = pickle.dumps(
            {
                "world": self.world,
                "folder": self.folder,
                "timeout_s": self.timeout_s,
                "sys_path": sys.path,
                "environ": dict(os.environ),
                "cwd": str(Path.cwd()),
                "argv": sys.argv,
                "cells": lines_without_file(),
            }
        )
        self.selector.register(self.server.sock, selectors.EVENT_READ)
        with tempfile.TemporaryFile() as payload:
            payload.write(struct.pack("!Q", len(setup)) + setup + work)
            payload.flush()
            for rank in range(self.world):
                side = Side(rank)
                self.sides.append(side)
                note("ask", rank)
                self.server.fork(self.number, rank, [*side.fds, payload.fileno()])
                side.theirs.close()
                self.selector.register(side.sock, selectors.EVENT_READ, side)

    def watch(self) -> RankError | None:
        """Wait until all ranks have returned, or for the first fault."""
        deadline = time.monotonic() + self.timeout_s
        detector = StallDetector()
        while True:
            self.hear(min(LOOK_S, max(0.0, deadline - time.monotonic())))
            if any(side.is_at_fault for side in self.sides):
                self.settle()
                return judge(self.sides)
            if all(side.has_returned for side in self.sides):
                return None
            flood = find_flood(self.sides)
            if flood is not None:
                return flood
            if time.monotonic() > deadline:
                traces = ask_where(self.sides)
                return judge_timeout(self.sides, traces, find_waiting(traces), self.timeout_s)
            stalled = detector.find_stall(self.sides)
            if stalled is not None:
                return judge_stall(self.sides, stalled)
            if detector.quiet_s >= COMPARE_S:
                mismatch = self.compare()
                if mismatch is not None:
                    return mismatch

    def compare(self) -> RankError | None:
        """Return the fault of ranks that have issued different collectives so far.

        Such ranks need not be seen to wait for each other. The records are read when they have
        grown.
        """
        nbytes = sum(side.log_size() for side in self.sides)
        if nbytes == self.compared_nbytes:
            return None
        self.compared_nbytes = nbytes
        mismatch = find_mismatch([side.read_log() for side in self.sides])
        return None if mismatch is None else judge_mismatch(mismatch)

    def check(self) -> RankError | None:
        """Return the fault of a run in which every rank returned, if there is one."""
        mismatch = find_mismatch([side.read_log() for side in self.sides], ended=range(self.world))
        return find_flood(self.sides) or (None if mismatch is None else judge_mismatch(mismatch))

    def hear(self, limit_s: float) -> None:
        """Take what ranks and server say within `limit_s` seconds."""
        for key, _ in self.selector.select(limit_s):
            if key.data is None:
                self.hear_server()
            elif not key.data.hear():
                self.selector.unregister(key.fileobj)
        if not self.has_begun and all(side.has_joined for side in self.sides):
            self.has_begun = True
            for side in self.sides:
                side.go_on()

    def hear_server(self) -> None:
        """Take what the server says: which process a rank is, and how it ended."""
        message = self.server.receive(0.0)
        while message is not None:
            if message[0] == "forked" and message[1] == self.number:
                self.sides[message[2]].pid = message[3]
                note("forked", message[2])
            elif message[0] == "ended" and message[1] == self.number:
                side = self.sides[message[2]]
                side.hear()  # its last words may still lie in the socket
                side.status = message[3]
                note("ended", side.rank, os.waitstatus_to_exitcode(message[3]))
            message = self.server.pop()

    def settle(self) -> None:
        """After the first fault, wait for those that belong to it or came before it.

        A rank that dies closes its sockets: its peers' complaints may be heard before its end is.
        Ranks that share a fault reach it one after the other. Waited for is each rank that still
        does something, for less than a second. Where all that is heard is that a peer has gone,
        the peer itself is waited for: it left its group on its way out, and is still to fail.
        """
        begin = time.monotonic()
        quiet = Quiet()
        while time.monotonic() < begin + (SETTLE_S if has_cause(self.sides) else CAUSE_S):
            self.hear(0.02)
            live = [side for side in self.sides if side.is_live]
            pids = [side.pid for side in live if side.pid is not None]
            if not live or (
                len(pids) == len(live)
                and quiet.update(pids, time.monotonic()) >= QUIET_S
                and has_cause(self.sides)
            ):
                return

    def let_go(self) -> None:
        """Let the ranks leave, now that all have reported."""
        deadline = time.monotonic() + LEAVE_S
        for side in self.sides:
            note("let go", side.rank)
            side.go_on()
        while any(side.status is None for side in self.sides) and time.monotonic() < deadline:
            self.hear(0.1)

    def clear(self) -> None:
        """End what still runs."""
        note("clear")
        try:
            self.server.clear(self.number)
            note("cleared")
        except BaseException:
            # It can't, or this was interrupted: then the server goes, and all of its ranks with it.
            client.discard_server()
            for side in self.sides:
                side.kill()
            raise

    def close(self) -> None:
        """Leave no trace."""
        self.selector.close()
        if Asked.recording is not None:
            Asked.recording.read_ranks(self.sides)
        for side in self.sides:
            side.close()
        shutil.rmtree(self.folder, ignore_errors=True)


def load_value(side: Side) -> Any:  # noqa: ANN401  # whatever a worker returns
    """Return a rank's return value."""
    try:
        return pickle.loads((side.report or {})["value"])  # noqa: S301  # from our own rank
    except Exception as error:  # noqa: BLE001  # unpickling runs anybody's code
        message = first_line(clean(f"{type(error).__name__}: {error}"))
        raise RankError(
            f"rank {side.rank} returned a value that can't be loaded here: {message}",
            kind="return value",
            rank=side.rank,
        ) from None


def run_job(work: bytes, world: int, timeout_s: float) -> list[Any]:
    """Run pickled work on `world` ranks; a call from another thread waits for its turn."""
    with client.Shared.turn:
        try:
            server = client.start_server()
            server.wait_until_ready()
            return Job(server, world, timeout_s).run(work)
        except client.ServerGoneError as error:
            client.discard_server()
            raise SpawnError(f"the process that forks the ranks has ended: {error}") from None
        except SpawnError as error:
            if not isinstance(error, RankError):
                client.discard_server()
            raise
