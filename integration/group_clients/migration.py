"""Groups that change their protocol while they are used, both ways, between members of the two that share a topic."""

from .members import Process, until
from .story import CONFIG, PARTITIONS, Variant, everything


class Migrating(Variant):
    """A group; which client its members of the classic protocol have, and those of the other."""

    def __init__(self, old, new, assignor):
        super().__init__(f"{old}-{new}", None, assignor)
        self.old, self.new = old, new

    def open_as(self, process, protocol, number):
        assignor = self.assignor if protocol == "classic" else None
        member = process.open(f"{self.name}/{protocol}-{number}", topic=self.topic, group=f"{self.topic}-group",
                              protocol=protocol, assignor=assignor)
        self.members.append(member)
        return member


def types(env, node, groups):
    """What kafka-groups prints of each: its type and its protocol."""
    rows = [line.split() for line in env.tool("kafka-groups", "--list", node=node).out.splitlines()]
    found = {row[0]: " ".join(row[1:]) for row in rows if len(row) > 1}
    return [found.get(f"{group.topic}-group") for group in groups]


def run(env):
    groups = [Migrating("java", "java", "range"), Migrating("confluent", "confluent", "cooperative-sticky"),
              Migrating("java", "confluent", "cooperative-sticky"), Migrating("confluent", "java", "range")]
    with env.own_broker(**CONFIG, **{"group.consumer.migration.policy": "bidirectional"}) as node, \
            Process("java", node) as java, Process("confluent", node) as confluent, Process("confluent", node) as doomed:
        for group in groups:
            group.topic = env.topic(PARTITIONS, group.name, node=node)
        go(env, node, groups, {"java": java, "confluent": confluent}, {"java": java, "confluent": doomed})


def go(env, node, groups, old, new):
    processes = (*old.values(), new["confluent"])

    def settle(words, *members):
        """Each group's members share, all that is written is read, and this is how the groups are listed."""
        until(words, lambda: all(group.shared_by(*who) for group, *who in zip(groups, *members)), *processes)
        everything(node, groups, words, processes)
        env.see(words, types(env, node, groups), ["Classic consumer" if words.endswith("old") else "Consumer consumer"] * 4)

    first = [group.open_as(old[group.old], "classic", 1) for group in groups]
    settle("only-old", first)
    second = [group.open_as(new[group.new], "consumer", 2) for group in groups]
    settle("a-new-one-came", first, second)
    for group in groups:
        old[group.old].close(f"{group.name}/classic-1")
    settle("only-new", second)
    third = [group.open_as(old[group.old], "classic", 3) for group in groups]
    settle("an-old-one-came", second, third)
    for group in groups:
        if group.new == "java":
            new["java"].close(f"{group.name}/consumer-2")
    new["confluent"].kill()                 # nobody says goodbye: the session has to end
    settle("only-the-last-old", third)
    for process in old.values():
        process.end()
    for group in groups:
        read = [record for member in group.members for record in member.read]
        env.see(f"{group.name}: read twice", len(read) - len(set(read)), 0)
        env.see(f"{group.name}: all read", sorted(value for _, _, value in read) == sorted(group.sent), True)
