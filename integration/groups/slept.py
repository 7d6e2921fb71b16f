"""A broker that did not run for a while: a virtual machine that was moved, a process that was stopped."""

import contextlib
import signal
import time

from harness.runner import Different, ottla_only
from wire.client import Client

GROUPS = 24                             # on every loop some whose members' connections are on another
SESSION_MS = 1000
SLEEP_S = 2


def joined(client, group):
    """The only member of its group, as Heartbeat has to name it."""
    body = {"GroupId": group, "SessionTimeoutMs": SESSION_MS, "RebalanceTimeoutMs": 10000, "MemberId": "", "GroupInstanceId": None,
            "ProtocolType": "consumer", "Protocols": [{"Name": "range", "Metadata": b""}]}
    deadline = time.monotonic() + 30
    while (reply := client.call("JoinGroup", 7, body))["ErrorCode"]:
        body["MemberId"] = reply["MemberId"]
        if time.monotonic() > deadline:
            raise Different(f"JoinGroup is refused: {reply}")
        if reply["ErrorCode"] != 79:    # MEMBER_ID_REQUIRED
            client.call("FindCoordinator", 4, {"KeyType": 0, "CoordinatorKeys": [group]})
            time.sleep(0.1)
    who = {"GroupId": group, "GenerationId": reply["GenerationId"], "MemberId": reply["MemberId"], "GroupInstanceId": None}
    client.call("SyncGroup", 5, {**who, "ProtocolType": "consumer", "ProtocolName": "range",
                                 "Assignments": [{"MemberId": who["MemberId"], "Assignment": b""}]})
    return who


@ottla_only
def test_a_broker_that_slept(env):
    """A broker that was stopped for longer than sessions last hears its members before it ends their sessions: what they said
    meanwhile lies in its sockets. (Apache Kafka ends them all.)"""
    with env.own_broker(group_min_session_timeout_ms=SESSION_MS, group_initial_rebalance_delay_ms=0) as node, \
            contextlib.ExitStack() as stack:
        clients = [stack.enter_context(Client(node)) for _ in range(GROUPS)]
        members = [joined(client, f"slept-{number}") for number, client in enumerate(clients)]
        for client, who in zip(clients, members):
            client.call("Heartbeat", 4, who)
        node.process.send_signal(signal.SIGSTOP)
        try:
            for client, who in zip(clients, members):
                client.send("Heartbeat", 4, who)
            time.sleep(SLEEP_S)
        finally:
            node.process.send_signal(signal.SIGCONT)
        env.see("heartbeats", {client.receive()["ErrorCode"] for client in clients}, {0})
