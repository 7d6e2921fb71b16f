"""How long others have to wait for a broker of one reactor that is asked something large: a connection that asks the
smallest question over and over beside the one that asks the large one. Where we may, reactor and asking connection run
before everything else (SCHED_FIFO): what is left is the broker's own."""

import os
import re
import threading
import time
from pathlib import Path

import pump

REST_SECONDS = 0.2
WARM_SECONDS = 0.05
PAUSE = 0.00005             # between two questions of the one that waits


class Pinger(threading.Thread):
    """Asks the smallest question there is, over and over; in between it tells the longest time that one took."""

    def __init__(self, node, first):
        super().__init__(daemon=True)
        self.connection, self.longest, self.stopping, self.first = pump.connect(node), 0, False, first
        self.start()

    def run(self):
        if self.first:
            os.sched_setscheduler(threading.get_native_id(), os.SCHED_FIFO, os.sched_param(1))
        question = pump.frame(18, 0, b"")
        while not self.stopping:
            began = time.perf_counter()
            pump.ask(self.connection, question)
            self.longest = max(self.longest, time.perf_counter() - began)
            time.sleep(PAUSE)

    def stop(self):
        self.stopping = True
        self.join()
        self.connection.close()
        return self.longest


def longest_wait(node, question, first):
    """(what it gave, seconds that took, the longest wait of somebody else meanwhile)"""
    pinger = Pinger(node, first)
    time.sleep(WARM_SECONDS)
    pinger.longest, began = 0, time.monotonic()
    answer = question()
    took = time.monotonic() - began
    time.sleep(REST_SECONDS)
    return answer, took, pinger.stop()


def put_first(pid):
    """Reactors run before all else. False: we may not have that."""
    try:
        for task in Path(f"/proc/{pid}/task").iterdir():
            if re.match(r"reactor-", (task / "comm").read_text(encoding="ascii")):
                os.sched_setscheduler(int(task.name), os.SCHED_FIFO, os.sched_param(1))
        return True
    except PermissionError:
        return False
