"""Random sequences of group requests in the words of group_answers/script.py: all from one seed."""

import random

LONGEST = 40                        # lines
SHORTEST = 8
ACTORS = "abcd"
GROUPS = ("group=h", "group=h", "group=h", "group=none", "group=")

JOIN_TIMES = "session=60000 rebalance=60000"
SUBSCRIPTIONS = ["meta=sub:t own", "meta=sub:t own", "meta=sub:t", "meta=sub:u", "meta=sub:t,u own", "meta=sub:", "meta=sub:t,v own"]
PLAIN = ["", "", "", "meta=new", "meta="]

# How often each is asked, by what a sequence is about.
WEIGHTS = {
    "classic": {"round": 12, "join": 20, "sync": 10, "beat": 10, "leave": 8, "forget": 3, "commit": 6, "fetch": 3, "describe": 4, "list": 2, "delete": 2,
                "offsetdelete": 1, "find": 1, "hb": 1, "cdescribe": 1},
    "consumer": {"round": 6, "hb": 50, "cdescribe": 6, "commit": 8, "fetch": 6, "forget": 2, "list": 2, "delete": 2, "offsetdelete": 2, "describe": 2,
                 "beat": 1, "sync": 1, "leave": 1, "join": 1, "create": 2, "grow": 1, "drop": 1},
    "mixed": {"round": 12, "join": 12, "sync": 8, "beat": 8, "leave": 4, "hb": 30, "forget": 2, "cdescribe": 4, "describe": 4, "commit": 4, "fetch": 2,
              "list": 2, "delete": 1, "create": 1, "grow": 1, "drop": 1},
    "offsets": {"round": 4, "commit": 26, "fetch": 22, "offsetdelete": 8, "delete": 6, "list": 4, "describe": 4, "cdescribe": 2, "find": 2, "hb": 10,
                "join": 8, "sync": 6, "leave": 2, "create": 4, "drop": 4, "grow": 1},
}


class Generator:
    """The dice, and what a sequence is like."""

    def __init__(self, seed):
        self.dice = random.Random(seed)
        self.about = self.dice.choice(sorted(WEIGHTS))
        self.static = self.dice.random() < (0.7 if self.about == "mixed" else 0.4)
        self.expressions = self.dice.random() < 0.3
        self.classic, self.consumers = set(), set()     # who has joined, as far as can be told before it has
        self.subscribed = {who: self.dice.choice(SUBSCRIPTIONS if self.about == "mixed" else SUBSCRIPTIONS + PLAIN) for who in ACTORS}

    def lines(self):
        weights = WEIGHTS[self.about]
        lines, enough = [], self.dice.randint(SHORTEST, LONGEST)
        while len(lines) < enough:
            verb = self.dice.choices(list(weights), list(weights.values()))[0]
            lines += self.round() if verb == "round" else [self.line(self.dice.choice(ACTORS), verb)]
        return lines[:LONGEST]

    def line(self, who, verb):
        """Who is not in a group mostly joins before it asks for what members do."""
        if verb in ("sync", "beat", "leave") and who not in self.classic and self.dice.random() < 0.7:
            verb = "join"
        words = [who, verb, *getattr(self, f"words_{verb}")(who)]
        if verb not in ("create", "grow", "drop", "forget", "list"):
            words += self.maybe(0.05, *GROUPS)
        return " ".join(words)

    def round(self):
        """Everybody does what brings a rebalance to its end."""
        joins = [f"{who} join {JOIN_TIMES} v=3 {self.subscribed[who]}" for who in sorted(self.classic)]
        syncs = [" ".join([who, "sync", *self.shares()]) for who in sorted(self.classic)]
        beats = [f"{who} hb own" for who in sorted(self.consumers)]
        return joins + syncs + beats + beats

    def maybe(self, chance, *choices):
        return [self.dice.choice(choices)] if self.dice.random() < chance else []

    def version(self, oldest, newest):
        """Mostly a new one."""
        return [f"v={self.dice.randint(oldest, newest)}"] if self.dice.random() < 0.3 else []

    def instance(self, who, chance=0.7):
        """Mostly its own, sometimes another's."""
        return self.maybe(chance, *[f"instance=i{who}"] * 6, "instance=ia", "instance=ib") if self.static else []

    def wrong_member(self, chance=0.06):
        return self.maybe(chance, "member=who", "member=", *(f"member={who}" for who in ACTORS), *(f"as={who}" for who in ACTORS))

    def wrong_generation(self, chance=0.08):
        return self.maybe(chance, *(f"gen={number}" for number in (-1, 0, 1, 2, 3, 5)))

    # ---- the classic protocol ----

    def words_join(self, who):
        self.classic.add(who)
        self.consumers.discard(who)
        words = self.dice.choices([["v=3"], ["v=9"], ["v=4"], [f"v={self.dice.randint(0, 9)}"]], [4, 4, 1, 2])[0]
        words += [JOIN_TIMES] if self.dice.random() < 0.98 else ["session=5999"]
        words += [self.subscribed[who]] if self.dice.random() < 0.8 else self.maybe(0.9, *SUBSCRIPTIONS, *PLAIN)
        # No two orders of the same: which of two with as many votes is chosen, a hash map decides.
        words += self.maybe(0.15, "protocols=range,sticky", "protocols=range,sticky", "protocols=sticky") + self.maybe(0.01, "protocols=")
        return words + self.maybe(0.02, "type=connect", "type=") + self.instance(who) + self.wrong_member(0.04)

    def shares(self):
        if self.about == "mixed" and self.dice.random() < 0.95:
            return [f"{who}=t/{'+'.join(str(3 * at + each) for each in range(3))}" for at, who in enumerate(ACTORS)]
        return [f"{who}=of-{who}" for who in ACTORS]

    def words_sync(self, _):
        shares = self.shares()[:self.dice.choice([4, 4, 4, 4, 1, 0])]
        return self.version(0, 5) + shares + self.maybe(0.04, "type=connect", "name=sticky", "type=null", "name=null") \
            + self.wrong_member() + self.wrong_generation()

    def words_beat(self, who):
        return self.version(0, 4) + self.wrong_member(0.15) + self.wrong_generation(0.15) + self.instance(who, 0.1)

    def words_leave(self, who):
        self.classic.discard(who)
        together = self.maybe(0.15, "members=a,b", "members=", "members=none", "members=@ia", "members=@ib,who", "members=c,c")
        return together or self.version(0, 5) + self.wrong_member(0.15) + self.instance(who, 0.1)

    def words_forget(self, who):
        self.classic.discard(who)
        self.consumers.discard(who)
        return []

    # ---- the consumer protocol ----

    def subscription(self):
        if self.expressions and self.dice.random() < 0.5:
            return [self.dice.choice(["regex={t}|x", "regex={v}|{u}", "regex=.*{v}.*", "regex={t}|{v}", "regex=", "regex=(", "regex=no.*"])] \
                + self.maybe(0.3, "topics=t", "topics=u", "topics=")
        return [self.dice.choice(["topics=t", "topics=t", "topics=t", "topics=u", "topics=t,u", "topics=t,v", "topics=v", "topics=", "topics=none"])]

    def words_hb(self, who):
        form = self.dice.choices(["join", "own", "plain", "left", "gone", "change", "none", "odd"], [24, 36, 10, 7, 4 if self.static else 0.3, 9, 3, 4])[0]
        if who not in self.consumers and self.dice.random() < 0.85:
            form = "join"
        words = self.maybe(0.06, "v=0")
        if form == "join":
            self.consumers.add(who)
            self.classic.discard(who)
            words += ["join"] + self.subscription() + self.instance(who) + self.maybe(0.1, "assignor=range", "assignor=none", "rack=r1", "rebalance=-1", "owned")
        elif form in ("own", "left", "gone", "none"):
            if form in ("left", "gone"):
                self.consumers.discard(who)
            words += [form]
        elif form == "change":
            words += self.subscription() + self.maybe(0.6, "own") + self.maybe(0.3, "rebalance=50000", "rack=r2", "rack=", "assignor=range")
        elif form == "odd":
            words += self.maybe(0.9, *(f"epoch={number}" for number in (-3, -2, -1, 0, 1, 2, 3, 4, 9))) + self.maybe(0.5, "own", "none")
        return words + self.instance(who, 0.1) + self.wrong_member(0.05)

    def words_cdescribe(self, _):
        return self.version(0, 1)

    # ---- offsets ----

    def places(self, put=""):
        count = self.dice.choice([1, 1, 2, 3])
        return sorted({f"{self.dice.choice(['t', 't', 't', 't', 'u', 'u', 'v', 'none'])}/{self.dice.choice([0, 0, 1, 1, 2, 2, 99])}" for _ in range(count)}) if not put else \
            [f"{place}={self.dice.randint(0, 9)}" for place in self.places()]

    def words_commit(self, who):
        alone = ["gen=-1", "member="] if self.dice.random() < (0.5 if self.about == "offsets" else 0.15) else []
        words = (["v=10"] if self.dice.random() < 0.2 else self.version(2, 10)) + self.places("=")
        words += self.maybe(0.2, "meta=hello", "meta=null", "metasize=4096", "metasize=4097", "lepoch=3")
        return words + (alone or self.wrong_member() + self.wrong_generation()) + self.instance(who, 0.05)

    def words_fetch(self, who):
        words = ["v=10"] if self.dice.random() < 0.2 else self.version(1, 10)
        words += self.maybe(0.4, "all") or [",".join(self.places())]
        if words[0] == "v=1" and words[-1] == "all":
            words[0] = "v=2"                    # v1 has no word for all
        words += self.maybe(0.2, "stable")
        if self.dice.random() < 0.3:
            words += [f"member={self.dice.choice([who, who, 'a', 'who'])}", f"epoch={self.dice.choice([-1, 0, 1, 2, 3, 4])}"]
        return words

    def words_offsetdelete(self, _):
        return [",".join(self.places())]

    # ---- groups and topics ----

    def words_describe(self, _):
        return self.version(0, 6)

    def words_find(self, _):
        return self.version(0, 6) + self.maybe(0.1, "type=7")

    def words_list(self, _):
        words = self.version(0, 5)
        version = int(words[0][2:]) if words else 5
        if version >= 4:
            words += self.maybe(0.4, *(f"states={state}" for state in ("Stable", "stable,empty", "Dead", "Assigning,Reconciling", "PreparingRebalance", "None")))
        if version >= 5:
            words += self.maybe(0.4, *(f"types={kind}" for kind in ("classic", "Consumer", "consumer,classic", "share", "none")))
        return words

    def words_delete(self, _):
        return self.maybe(0.2, "twice")

    def words_create(self, _):
        return [f"v={self.dice.choice([1, 3, 4])}"]

    def words_grow(self, _):
        return [f"v={self.dice.choice([2, 4, 5])}"]

    def words_drop(self, _):
        return ["v"]
