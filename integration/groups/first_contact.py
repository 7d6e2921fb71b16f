"""What someone does first with Kafka's own tools, once groups are there: each form in both protocols, and what those say
that are for kinds of groups that a broker may not have."""

import re

from harness.runner import Different, ottla_only

PROTOCOLS = ("classic", "consumer")
CONFIG = {"group.initial.rebalance.delay.ms": 0}
WAIT_MS = 60_000                        # a console consumer ends by itself after so long without a record
POLL_MS = 1000                          # a share consumer says why only when its poll is over


def fill(env, node, partitions, count, name):
    """A topic with so many records in each partition; its name and the values."""
    topic = env.topic(partitions, name, node=node)
    for partition in range(partitions):
        env.run(["kcat", "-b", node.bootstrap, "-P", "-t", topic, "-p", partition],
                input="".join(f"{topic}/{partition}/{number}\n" for number in range(count)))
    return topic, [f"{topic}/{partition}/{number}" for partition in range(partitions) for number in range(count)]


def speaking(protocol):
    return "--command-property", f"group.protocol={protocol}"


def console(env, node, *arguments):
    """The console consumer; its lines, and its last words."""
    said = env.tool("kafka-console-consumer", "--timeout-ms", WAIT_MS, *arguments, node=node)
    return said.out.split(), re.findall(r"Processed a total of \d+ messages", said.err)


def test_console_consumer(env):
    """The console consumer without a group and with one, by an expression (--include), up to a number of records, of one
    partition from an offset, with both isolation levels, in both protocols; each tells how much it read, and a second run of
    a group goes on where the first has committed."""
    with env.own_broker(**CONFIG) as node:
        (one, of_one), (two, of_two), _ = (fill(env, node, 2, 30, name) for name in ("seen", "seen", "other"))
        for protocol in PROTOCOLS:
            how = speaking(protocol)
            lines, _ = console(env, node, "--topic", one, "--from-beginning", "--max-messages", 60, *how)
            env.see(f"{protocol}: without a group", sorted(lines) == sorted(of_one), True)
            lines, said = console(env, node, "--include", "seen-.*", "--group", f"include-{protocol}", "--from-beginning",
                                  "--max-messages", 120, *how)
            env.see(f"{protocol}: --include", (sorted(lines) == sorted(of_one + of_two), said),
                    (True, ["Processed a total of 120 messages"]))
            for level in ("read_committed", "read_uncommitted"):
                group = ("--group", f"{level}-{protocol}", "--isolation-level", level)
                first, said = console(env, node, "--topic", one, "--from-beginning", "--max-messages", 25, *group, *how)
                rest, _ = console(env, node, "--topic", one, "--max-messages", 35, *group, *how)
                env.see(f"{protocol}: {level}, twice", (said, len(first), sorted(first + rest) == sorted(of_one)),
                        (["Processed a total of 25 messages"], 25, True))
            for offset, start in (("7", 7), ("earliest", 0)):
                lines, _ = console(env, node, "--topic", two, "--partition", 1, "--offset", offset, "--max-messages", 5, *how)
                env.see(f"{protocol}: --offset {offset}", lines == [f"{two}/1/{start + at}" for at in range(5)], True)


def test_perf_consumer(env):
    """kafka-consumer-perf-test by name and by expression, in both protocols, counts all records."""
    with env.own_broker(**CONFIG) as node:
        (topic, _), _ = (fill(env, node, 2, 40, "perf") for _ in range(2))
        for protocol in PROTOCOLS:
            for what, count in (("--topic", 80), ("--include", 160)):
                name = topic if what == "--topic" else "perf-.*"
                said = env.tool("kafka-consumer-perf-test", what, name, "--group", f"{what[2:]}-{protocol}", "--num-records",
                                count, "--timeout", WAIT_MS, *speaking(protocol), node=node).out
                table = [[cell.strip() for cell in line.split(",")] for line in said.splitlines()]
                env.see(f"{protocol}: {what}", table[-1][table[0].index("data.consumed.in.nMsg")], str(count))


def listed(env, node, *form):
    said = env.tool("kafka-groups", "--list", *form, node=node).out
    return sorted(" ".join(line.split()) for line in said.splitlines()[1:])


def test_groups_listed(env):
    """kafka-groups in all its forms: groups of both protocols, and one that has no members but offsets."""
    with env.own_broker(**CONFIG) as node:
        topic, _ = fill(env, node, 1, 5, "listed")
        for protocol in PROTOCOLS:
            console(env, node, "--topic", topic, "--group", f"of-{protocol}", "--from-beginning", "--max-messages", 5,
                    *speaking(protocol))
        env.tool("kafka-consumer-groups", "--group", "of-offsets", "--reset-offsets", "--to-earliest", "--topic", topic,
                 "--execute", node=node)
        classic, consumer, offsets = "of-classic Classic consumer", "of-consumer Consumer consumer", "of-offsets Classic"
        everyone = [classic, consumer, offsets]
        for form, wanted in (((), everyone), (("--consumer",), everyone), (("--share",), []), (("--streams",), []),
                             (("--group-type", "classic"), [classic, offsets]), (("--group-type", "consumer"), [consumer]),
                             (("--group-type", "share"), []), (("--group-type", "streams"), []),
                             (("--protocol", "consumer"), [classic, consumer]), (("--protocol", "connect"), []),
                             (("--protocol", ""), [offsets]), (("--group-type", "classic", "--protocol", "consumer"), [classic])):
            env.see(f"kafka-groups {' '.join(form)}", listed(env, node, *form), wanted)


def test_tools_of_other_groups(env):
    """kafka-share-groups and kafka-streams-groups list none of the others' groups, and delete none."""
    with env.own_broker(**CONFIG) as node:
        topic, _ = fill(env, node, 1, 5, "others")
        console(env, node, "--topic", topic, "--group", "g", "--from-beginning", "--max-messages", 5)
        for kind in ("share", "streams"):
            tool = f"kafka-{kind}-groups"
            for form in (("--list",), ("--list", "--state"), ("--describe", "--all-groups"), ("--delete", "--group", "none"),
                         ("--delete", "--group", "g")):
                said = env.tool(tool, *form, node=node, expect=None)
                env.see(f"{tool} {' '.join(form)}", (said.code, [" ".join(line.split()) for line in said.out.splitlines()]))
        env.see("the group is still there", listed(env, node), ["g Classic consumer"])


@ottla_only
def test_share_consumers_are_told(env):
    """There are no share groups and no streams groups yet: whoever asks for one is told so in words."""
    with env.own_broker() as node:
        topic = env.topic(1, "share", node=node)
        said = env.tool("kafka-console-share-consumer", "--topic", topic, "--max-messages", 1, "--timeout-ms", POLL_MS, node=node)
        if "UnsupportedVersionException: The cluster does not support the share group protocol" not in said.err:
            raise Different(f"kafka-console-share-consumer: {said}")
        for kind in ("share", "streams"):
            said = env.tool(f"kafka-{kind}-groups", "--describe", "--group", "g", node=node, expect=None)
            if f"The node does not support {kind.upper()}_GROUP_DESCRIBE" not in said.out:
                raise Different(f"kafka-{kind}-groups: {said}")
