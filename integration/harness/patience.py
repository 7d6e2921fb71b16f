"""How long to wait for what must come. It says nothing of a broker's speed: the machine may be busy, and who waits goes on
as soon as it is there. So it is long: it ends what hangs."""

import time

PATIENCE_SECONDS = 120
INTERVAL_SECONDS = 0.02


def eventually(ask, wanted):
    """The answer, once it is as wanted; as it still is when patience is over."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not wanted(answer := ask()) and time.monotonic() < deadline:
        time.sleep(INTERVAL_SECONDS)
    return answer


def until(what, happened):
    """Asks until the answer is true; gives it."""
    answer = eventually(happened, bool)
    if not answer:
        raise TimeoutError(f"{what}: not in {PATIENCE_SECONDS} s")
    return answer
