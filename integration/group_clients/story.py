"""Two members share a topic; one dies; the broker is restarted under who is left; a new one goes on at what is committed;
a topic that is made later is found by who subscribed to an expression. What a static member had waits for whoever comes with
its name, and moves like everybody's where nobody does.

All variants of a client go through it at once, since most of it is waiting: each variant is a topic and a group of its
own, each process holds a member of each.
"""

import subprocess
from dataclasses import dataclass, field

from harness.patience import PATIENCE_SECONDS
from harness.runner import Different

from .members import SESSION_MS, Process, until

RETURN_MS = 60_000                      # the session of who comes back within it, also on a busy machine
PARTITIONS = 4
RECORDS = 200
CONFIG = {"group.initial.rebalance.delay.ms": 0, "group.consumer.session.timeout.ms": SESSION_MS,
          "group.consumer.min.session.timeout.ms": SESSION_MS, "group.consumer.heartbeat.interval.ms": 500,
          "group.consumer.min.heartbeat.interval.ms": 500}


@dataclass
class Variant:
    """One way to be in a group."""

    name: str
    protocol: str
    assignor: str = None
    static: bool = False
    lost: bool = False                  # static, and nobody comes back under the name of the one that dies
    regex: bool = False
    topic: str = None
    sent: list = field(default_factory=list)
    members: list = field(default_factory=list)

    def returns(self):
        """Whether somebody comes back under the name of the one that dies."""
        return self.static and not self.lost

    def open(self, process, who):
        member = process.open(f"{self.name}/{who}", RETURN_MS if self.returns() else SESSION_MS, topic=self.topic,
                              group=f"{self.topic}-group", protocol=self.protocol, assignor=self.assignor,
                              instance=f"instance-{who}" if self.static else None,
                              pattern=f"^{self.topic}(-more)?$" if self.regex else None)
        self.members.append(member)
        return member

    def produce(self, node, words, topic=None):
        values = [f"{words}-{number}" for number in range(RECORDS)]
        done = subprocess.run(["kcat", "-b", node.bootstrap, "-P", "-t", topic or self.topic],
                              input="\n".join(values) + "\n", text=True, capture_output=True, timeout=PATIENCE_SECONDS,
                              check=False)
        if done.returncode != 0:
            raise Different(f"kcat: {done.stderr}")
        self.sent += values

    def all_read(self):
        return (len({value for member in self.members for _, _, value in member.read}) == len(self.sent)
                and all(member.committed == len(member.read) for member in self.members))

    def shared_by(self, *members):
        """All partitions are held, each by one of these, and no more than one apart."""
        counts = [len(member.held) for member in members]
        return (sum(counts) == len(set().union(*(member.held for member in members))) == PARTITIONS
                and max(counts) - min(counts) <= (1 if len(members) > 1 else 0))


def run(env, client, variants):
    with env.own_broker(**CONFIG) as node, Process(client, node) as a, Process(client, node) as b, Process(client, node) as c:
        for variant in variants:
            variant.topic = env.topic(PARTITIONS, variant.name, node=node)
            if variant.returns() and variant.protocol == "consumer":
                env.tool("kafka-configs", "--alter", "--entity-type", "groups", "--entity-name", f"{variant.topic}-group",
                         "--add-config", f"consumer.session.timeout.ms={RETURN_MS}", node=node)
        try:
            go(env, node, variants, (a, b, c))
        except Different as difference:  # what the members say is half of it
            members = env.tool("kafka-consumer-groups", "--describe", "--members", "--all-groups", node=node, expect=None)
            raise Different(f"{difference}\n{members}\n{node.log_tail()}") from None


def go(env, node, variants, processes):
    a, b, c = processes
    dynamic = [variant for variant in variants if not variant.static]
    static = [variant for variant in variants if variant.returns()]
    pairs = [(variant, variant.open(a, "a"), variant.open(b, "b")) for variant in variants]
    until("two share", lambda: all(variant.shared_by(one, two) for variant, one, two in pairs), a, b)
    everything(node, variants, "shared", processes)

    marks = [(variant, one, one.told, two.held) for variant, one, two in pairs if variant in static]
    # A member of the new protocol that dies is waited for, whoever comes with its name; one that was closed is not.
    closed = [b.close(f"{variant.name}/b") for variant in static if variant.protocol == "consumer"]
    until("static members close", lambda: all(member.over for member in closed), b)
    b.kill()
    back = {variant.name: variant.open(c, "b") for variant in static}
    for variant in variants:
        variant.produce(node, "dead")
    until("who is left has all", lambda: all(variant.shared_by(one) for variant, one, _ in pairs if variant not in static), a)
    until("all is read after a death", lambda: all(variant.all_read() for variant in variants), a, c)
    for variant, one, told, held in marks:
        env.see(f"{variant.name}: what the other was told", one.told - told, 0)
        env.see(f"{variant.name}: has what it had", back[variant.name].held == held, True)

    node.kill()
    node.start()
    everything(node, variants, "restarted", (a, c))

    for variant in dynamic:
        a.close(f"{variant.name}/a")
    until("all are closed", lambda: all(a.members[f"{variant.name}/a"].over for variant in dynamic), a)
    late = [(variant, variant.open(c, "c")) for variant in dynamic]
    until("a new one has all", lambda: all(variant.shared_by(member) for variant, member in late), c)
    everything(node, variants, "late", (a, c))
    for variant, member in late:
        env.see(f"{variant.name}: the new one read", len(member.read), RECORDS)
    another_topic(env, node, [(variant, member) for variant, member in late if variant.regex], c)
    for process in (a, c):
        process.end()
    for variant in variants:
        read = [record for member in variant.members for record in member.read]
        env.see(f"{variant.name}: read twice", len(read) - len(set(read)), 0)
        env.see(f"{variant.name}: all read", sorted(value for _, _, value in read) == sorted(variant.sent), True)


def another_topic(env, node, late, process):
    """A topic that is made later and fits a member's expression is the member's too."""
    for variant, _ in late:
        env.tool("kafka-topics", "--create", "--topic", f"{variant.topic}-more", "--partitions", 1, node=node)
        variant.produce(node, "another", f"{variant.topic}-more")
    until("the other topic is held", lambda: all(f"{variant.topic}-more-0" in member.held for variant, member in late), process)
    until("the other topic is read", lambda: all(variant.all_read() for variant, _ in late), process)


def everything(node, variants, words, processes):
    for variant in variants:
        variant.produce(node, words)
    until(f"all is read ({words})", lambda: all(variant.all_read() for variant in variants), *processes)
