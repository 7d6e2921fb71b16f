"""`ottla group` against a node with live kcat members: what it shows, resets, undoes and deletes; history and ages over
HTTP, and the pages under fire.

Sources: cli/group_delete.c, cli/group_facts.c, cli/group_show.c, cli/http_get.c, cli/kafka_client.c,
cli/kafka_offsets.c
"""

import contextlib
import itertools
import json
import re
import socket
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request

from harness.patience import PATIENCE_SECONDS, until
from harness.runner import Different, ottla_only

NEEDS = ("kcat",)
WAITS = True
_numbers = itertools.count(1)


def name(kind):
    return f"group-{kind}-{next(_numbers)}"


def kcat(env, *arguments, **how):
    return env.run(["kcat", "-b", env.broker.bootstrap, *arguments], **how)


def produce(env, topic, count, *options):
    kcat(env, "-P", "-t", topic, *options, input="".join(f"record {number}\n" for number in range(count)))


def consume(env, group, topic, count):
    """A member that reads, commits and goes."""
    kcat(env, "-G", group, "-c", str(count), "-X", "auto.offset.reset=earliest", topic)


def group(env, part, *words, expect=0, text=False):
    """What the command says, as JSON unless as text."""
    patience = [] if "--timeout" in words else ["--timeout", PATIENCE_SECONDS * 1000]
    done = env.run([env.build / "src/ottla", "group", part, "--bootstrap-server", env.broker.bootstrap, *patience,
                    *([] if text else ["--json"]), *words], expect=None)
    if done.returncode != expect:
        raise Different(f"ottla group {part} {words}: exit {done.returncode}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}")
    if text:
        return done.stdout + done.stderr
    return json.loads(done.stdout) if done.stdout.strip() else done.stderr


def committed(env, name_of_group):
    found, = group(env, "lag", name_of_group)
    return {(row["topic"], row["partition"]): row["committed"] for row in found["partitions"]}


class Beside:
    """The test's env, with another broker."""

    def __init__(self, env, node):
        self.env, self.broker = env, node

    def __getattr__(self, what):
        return getattr(self.env, what)


@contextlib.contextmanager
def node_with_pages(env):
    """A broker of its own, on a port that the system chooses and the broker tells: the default is the first comer's."""
    with env.own_broker(ottla_http_listener="127.0.0.1:0", group_initial_rebalance_delay_ms=0) as node:
        port, = re.findall(r" http ready address=\S+ port=(\d+)$", node.log_path.read_text(), re.MULTILINE)
        yield Beside(env, node), int(port)


def get(port, path, headers=None):
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", headers=headers or {})
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE_SECONDS) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read())


@ottla_only
def test_reset_and_undo(env):
    """A dry run changes nothing; --execute does, and the file that it leaves undoes it, deletions included."""
    topic, mine = name("reset"), name("g")
    produce(env, topic, 50)
    consume(env, mine, topic, 20)
    before = committed(env, mine)
    env.see("committed", sorted(before.values()), [20])
    group(env, "reset", mine, "--topic", topic, "--to-earliest")
    env.see("after a dry run", committed(env, mine) == before, True)
    undo = env.folder / f"{mine}.csv"
    done = group(env, "reset", mine, "--topic", topic, "--shift-by", "-5", "--execute", "--undo", undo)
    env.see("reset", [(row["before"], row["after"], row["change"]) for row in done["partitions"]], [(20, 15, -5)])
    env.see("committed then", committed(env, mine), {(topic, 0): 15})
    env.see("the file", undo.read_text(), f"{topic},0,20\n")
    group(env, "reset", mine, "--from-file", undo, "--execute", "--undo", env.folder / f"{mine}-2.csv")
    env.see("undone", committed(env, mine) == before, True)
    group(env, "reset", mine, "--from-file", undo, "--execute", "--undo", undo, expect=1)
    fresh = name("fresh")
    undo = env.folder / f"{fresh}.csv"
    group(env, "reset", fresh, "--topic", topic, "--to-offset", "999", "--execute", "--undo", undo)
    env.see("bounded", committed(env, fresh), {(topic, 0): 50})
    group(env, "reset", fresh, "--from-file", undo, "--execute", "--undo", env.folder / f"{fresh}-2.csv")
    env.see("nothing is committed again", committed(env, fresh), {})


@ottla_only
def test_by_time(env):
    """--to-datetime and --by-duration find the record; where none is as late, the end."""
    topic, mine = name("time"), name("g")
    produce(env, topic, 10)
    time.sleep(1.2)
    at = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime()) + "Z"
    produce(env, topic, 5)

    def planned(*how):
        return [row["after"] for row in group(env, "reset", mine, "--topic", topic, *how)["partitions"]]

    env.see("to a time between", planned("--to-datetime", at), [10])
    env.see("to a time that is not yet", planned("--to-datetime", "2999-01-01T00:00:00Z"), [15])
    env.see("by a duration", planned("--by-duration", "PT1H"), [0])
    env.see("by none", planned("--by-duration", "PT0S"), [15])


@ottla_only
def test_live_groups_are_left_alone(env):
    """A group with members is neither reset nor deleted, and who is in it is shown."""
    topic, mine = name("live"), name("g")
    produce(env, topic, 3)
    member = subprocess.Popen(["kcat", "-b", env.broker.bootstrap, "-G", mine, "-X", "auto.offset.reset=earliest", topic],
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        until("it is stable", lambda: [row for row in group(env, "list") if row["group"] == mine and row["state"] == "Stable"])
        described, = group(env, "describe", mine)
        env.see("state", described["state"], "Stable")
        env.see("members", [(one["client_id"], one["partitions"]) for one in described["members"]],
                [("rdkafka", f"{topic}:0")])
        said = group(env, "reset", mine, "--topic", topic, "--to-latest", "--execute", expect=1)
        if "members" not in said:
            raise Different(said)
        group(env, "delete", mine, expect=1)
    finally:
        member.terminate()
        member.wait()
    until("its member is gone", lambda: group(env, "describe", mine)[0]["state"] == "Empty")
    group(env, "delete", mine, "--topic", topic)
    env.see("offsets deleted", committed(env, mine), {})
    group(env, "delete", mine)
    env.see("group deleted", [row for row in group(env, "list") if row["group"] == mine], [])


@ottla_only
def test_clear_errors(env):
    """What cannot be done is said in a line that says what can, with the exit code of its kind."""
    for words, code, part in ((("lag", "no-such-group"), 1, "there is no group"),
                              (("history", "no-such-group"), 1, "there is no group no-such-group"), (("lag",), 2, "of which group"),
                              (("reset", "g"), 2, "to what"), (("reset", "g", "--to-latest"), 2, "of which topics"),
                              (("reset", "g", "--topic", "no-such-topic", "--to-latest"), 1, "no-such-topic"),
                              (("reset", "g", "--to-offset", "x"), 2, "an offset"), (("list", "--nonsense"), 2, "--help"),
                              (("reset", "g", "--to-latest", "--to-earliest"), 2, "only one"),
                              (("lag", "g", "--all"), 2, "not both")):
        said = group(env, *words, expect=code, text=True)
        if part not in said:
            raise Different(f"{words}: {said}")
    done = env.run([env.build / "src/ottla", "group", "list", "-b", "127.0.0.1:1"], expect=None)
    env.see("nobody there", (done.returncode, "127.0.0.1:1" in done.stderr), (1, True))


@ottla_only
def test_no_coordinator(env):
    """Where coordinators cannot be, a command gives up and says so, not before its time; the log tells why in one line."""
    with env.own_broker(offsets_topic_replication_factor=3) as node:
        there = Beside(env, node)
        for part in ("describe", "lag", "delete", "history"):
            began = time.monotonic()
            said = group(there, part, "g", "--timeout", "3000", expect=1, text=True)
            env.see(f"{part} gives up", (time.monotonic() - began > 2.9, "COORDINATOR_NOT_AVAILABLE" in said or
                                         "coordinator" in said), (True, True))
        lines = [line for line in node.log_path.read_text().splitlines() if "coordinators are not available" in line]
        env.see("told why, once", [re.findall(r"replication_factor=(\d+)", line) for line in lines], [["3"]])


@ottla_only
def test_foreign_names(env):
    """A name that a terminal would obey shows and does nothing; the command that undoes a reset can be pasted; programs
    get the name as it is."""
    topic, mine = name("foreign"), f"-{name('g')} a;b\x1b[2J"
    produce(env, topic, 5)
    undo = env.folder / "it's the undo.csv"
    said = group(env, "reset", "--topic", topic, "--to-offset", "3", "--execute", "--undo", undo, "--", mine, text=True)
    for words in (("lag", "--", mine), ("describe", "--all"), ("list",)):
        shown = group(env, *words, text=True)
        env.see(f"{words[0]} shows it", ("\x1b" in shown, mine.replace("\x1b", "?") in shown), (False, True))
    env.see("as it is", mine in [row["group"] for row in group(env, "list")], True)
    command = said.split("To undo it: ottla group reset ", 1)[1].strip()
    env.run(["bash", "-c", f"{env.build / 'src/ottla'} group reset -b {env.broker.bootstrap} {command}"], cwd=env.folder)
    env.see("undone", group(env, "lag", "--", mine)[0]["partitions"], [])


def during(happens):
    """When it began and when it was over."""
    began = time.time()
    happens()
    return began, time.time()


def see_age(env, mine, what, written):
    """The age of the oldest record that is not read, which was written in that time; ages are told to the millisecond."""
    ages = []
    asked = during(lambda: ages.append(group(env, "lag", mine)[0]["partitions"][0]["age_s"]))
    env.see(f"the age of {what}", asked[0] - written[1] - 0.002 <= ages[0] <= asked[1] - written[0] + 0.002, True)


@ottla_only
def test_lag_in_seconds_and_history(env):
    """The oldest unread record has an age, compressed or not, without any member; each rebalance is told with its cause."""
    with node_with_pages(env) as (env, port):
        topic, mine = name("pages"), "a group/of two"
        produce(env, topic, 10)
        older = during(lambda: produce(env, topic, 10, "-z", "zstd"))
        time.sleep(1.5)
        younger = during(lambda: produce(env, topic, 5))
        consume(env, mine, topic, 15)
        see_age(env, mine, "a record inside of a compressed batch", older)
        group(env, "reset", mine, "--all-topics", "--to-offset", "20", "--execute", "--undo", env.folder / "u1.csv")
        see_age(env, mine, "the next", younger)
        group(env, "reset", mine, "--all-topics", "--to-latest", "--execute", "--undo", env.folder / "u2.csv")
        env.see("nothing unread", [(row["lag"], row["age_s"]) for row in group(env, "lag", mine)[0]["partitions"]],
                [(0, 0.0)])
        told = group(env, "history", mine)["rebalances"]
        env.see("causes", [entry["cause"] for entry in told], ["joined", "left"])
        env.see("who", {entry["client_id"] for entry in told}, {"rdkafka"})
        if "a member joined" not in group(env, "history", mine, text=True):
            raise Different("the history is not told in words")
        escaped = urllib.parse.quote(mine, safe="")
        env.see("pages", [get(port, f"/groups{path}")[0] for path in ("", f"/{escaped}", f"/{escaped}/lag",
                                                                      f"/{escaped}/history", "/nobody", "/nobody/lag",
                                                                      f"/{escaped}/x")],
                [200, 200, 200, 200, 404, 404, 404])
        env.see("groups", [row["group"] for row in get(port, "/groups")[1]], [mine])
        env.see("what kind of group it is, by page and command", [found["type"] for found in (
            get(port, "/groups")[1][0], get(port, f"/groups/{escaped}")[1], *group(env, "list"))], ["Classic"] * 3)
        env.see("by another name of this machine", get(port, "/groups", {"Host": "evil.example:80"})[0], 403)


@ottla_only
def test_pages_under_fire(env):
    """Connections that say nothing, nonsense, or too much, cost neither the broker nor its pages their life."""
    with node_with_pages(env) as (env, port):
        topic, mine = name("fire"), name("g")
        produce(env, topic, 10)
        consume(env, mine, topic, 5)
        idle = [socket.create_connection(("127.0.0.1", port)) for _ in range(64)]
        env.see("a crowd is turned away", get_raw(port, b"GET /groups HTTP/1.1\r\n\r\n")[:12] in (b"", b"HTTP/1.1 503"), True)
        for one in idle:
            one.close()
        until("there is room again", lambda: get_raw(port, b"GET /groups HTTP/1.1\r\nHost: localhost\r\n\r\n")[:12] == b"HTTP/1.1 200")
        for nonsense in (b"\x00" * 100, b"GET " + b"/" * 100000, b"\n\n\n", b"GET /groups/%ff/lag HTTP/1.1\r\n\r\n",
                         b"GET /groups HTTP/1.1\r\n" + b"x: y\r\n" * 5000):
            get_raw(port, nonsense)
        env.see("still there", get(port, f"/groups/{mine}/lag")[1]["lag"], 5)
        for _ in range(200):
            with socket.create_connection(("127.0.0.1", port)) as one:
                one.sendall(f"GET /groups/{mine}/lag HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        env.see("and after askers that left", committed(env, mine), {(topic, 0): 5})


def get_raw(port, request):
    """What comes back, whatever is sent."""
    got = b""
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_SECONDS) as one:
        try:
            one.sendall(request)
            one.shutdown(socket.SHUT_WR)
            while piece := one.recv(65536):
                got += piece
        except OSError:
            pass
    return got
