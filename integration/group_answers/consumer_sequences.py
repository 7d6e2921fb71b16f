"""Sequences of the consumer protocol (KIP-848), of groups that go from one protocol to the other, of groups' settings, and
of brokers that restart in the middle; the language is that of sequences.py.
"""

CONSUMER = {
    "joins, shares, leaves": "a hb join topics=t; a cdescribe; b hb join topics=t; a hb; a hb own; a hb; b hb; a cdescribe; "
                             "b hb left; a hb until=4; a hb own; a cdescribe; a hb left; a cdescribe; a hb left",
    "joining twice": "a hb join topics=t; a hb join topics=t; a hb join topics=u; a hb own; a hb; a cdescribe",
    "version 0": "a hb v=0 join topics=t; a hb v=0 own; a cdescribe v=0; a hb v=0 left; a cdescribe v=0",
    "version 0 without an id": "a hb v=0 epoch=1; a hb v=0 left member=; a hb v=0 join topics=t member=; b hb v=0 join topics=t member=; "
                               "a hb v=0 own; b hb v=0",
    "epochs": "a hb join topics=t; a hb epoch=3; a hb epoch=1; a hb epoch=1 none; a hb epoch=0; a hb epoch=-3; a hb; "
              "b hb join topics=t; a hb own; a hb own; a hb epoch=2; a hb epoch=2 own; a hb epoch=2 none; a hb; a hb epoch=9",
    "nobody knows": "a hb epoch=1; a hb left; a hb gone instance=i; b hb join topics=t; a hb epoch=1 instance=i; c hb epoch=1; c hb left; "
                    "c hb gone instance=j",
    "a static member comes back": "a hb join topics=t instance=i; a hb own; a hb gone; a cdescribe; a hb epoch=2; b hb join topics=t instance=i; "
                                  "a hb epoch=2; b hb own; b hb; b cdescribe; a hb left; b hb left; b cdescribe",
    "a static member under its own id": "a hb join topics=t instance=i; a hb join topics=t instance=i; a hb gone; "
                                        "a hb join topics=t instance=i; a hb own; a cdescribe",
    "an instance that is held": "a hb join topics=t instance=i; b hb join topics=t instance=i; b hb epoch=2 instance=i; "
                                "c hb join topics=t member=a; a hb left; b hb join topics=t instance=i",
    "what subscribes to nothing": "a hb join topics=; a hb; b hb join topics=none; b cdescribe; a hb topics=t; a hb own; b hb; a cdescribe",
    "assignors": "a hb join topics=t assignor=range; a cdescribe; a hb assignor=uniform; a hb own; a cdescribe; a hb assignor=sticky; "
                 "a hb assignor=; b hb join topics=t assignor=range; a cdescribe",
    "racks and time-outs": "a hb join topics=t rack=r1; a cdescribe; a hb rack=r2; a cdescribe; a hb rebalance=1000; a hb rack=",
    "subscriptions change": "a hb join topics=t,u; a hb topics=u; a hb own; a hb; a hb topics=t,t; a hb own; a cdescribe",
    "an expression": "a hb join regex={t}|x; a hb until=2; a hb own; a cdescribe; b hb join regex={t}|x; "
                     "a hb own; a hb own; b hb; a hb regex= topics=t; a hb own; b hb own; b hb own; a cdescribe",
    "an expression that matches what others named": "a hb join topics=t; b hb join regex={t}|x; b hb until=3; a hb own; a hb own; b hb own; b hb own; b cdescribe",
    "an expression that is none": "a hb join regex=[; a hb join regex=(?=a); a hb join topics=t regex=; a hb regex=(a)\\1; a hb regex=*; a hb; a cdescribe",
    "an expression that matches nothing": "a hb join regex=nothing.*; - wait 500; a hb; a hb own; a cdescribe",
    "commits": "a hb join topics=t; a commit t/0=1; a commit v=8 t/0=2; a commit gen=0 t/0=3; a commit gen=1 t/0=3; a commit gen=5 t/0=4; "
               "a commit member= gen=-1 t/0=5; a commit member=who gen=2 t/0=6; a commit gen=-1 t/0=7; a fetch t/0; b commit member= gen=-1 t/0=8; "
               "a hb left; b commit member= gen=-1 t/0=9; a fetch t/0",
    "commits of an epoch before": "a hb join topics=t; b hb join topics=u; a hb; a commit gen=2 t/0=1; a hb topics=t,u; a hb own; a hb own; b hb own; b hb own; "
                                  "a hb own; a commit gen=2 t/0=5; a commit gen=2 u/0=6; a fetch t/0,u/0",
    "fetching": "a hb join topics=t; a commit t/0=1; a fetch t/0 member=a epoch=2; a fetch t/0 member=a epoch=1; a fetch t/0 member=a epoch=3; "
                "a fetch t/0 member=who epoch=2; a fetch t/0 member=a epoch=-1; a fetch t/0 stable; a fetch all stable; "
                "a fetch t/0 v=7 stable; a fetch t/0 group=none member=who epoch=1 stable",
    "deleting offsets": "a hb join topics=t; a commit t/0=1 u/0=2; a offsetdelete t/0,u/0,none/0; a fetch all; a hb left; a offsetdelete t/0; "
                        "a fetch all; a cdescribe",
    "deleting offsets with an expression": "a hb join regex={t}|x; a hb until=2; a hb own; a commit t/0=1; a offsetdelete t/0; a fetch all",
    "deleting groups": "a hb join topics=t; a commit t/0=1; b delete; a hb left; b delete; b delete; b cdescribe; b fetch all",
    "listing": "a hb join topics=t; b list; b list v=3; b list v=4 states=Stable; b list types=consumer; b list types=Consumer; b list types=classic; "
               "b list types=consumer,classic states=stable; b list states=Reconciling,Assigning; a hb left; b list states=empty; "
               "b list types=share; b list v=4 states=Dead",
    "describing as the other kind": "a hb join topics=t; b describe; b describe v=5; b cdescribe group=none; a hb left; b describe; "
                                    "c commit group=o gen=-1 member= t/0=1; c cdescribe group=o; c join v=3 group=p; c cdescribe group=p",
    "requests of the classic protocol": "a hb join topics=t; a beat gen=2; a sync gen=2; a leave; b leave; a hb; b join v=3; b join v=3 type=connect; "
                                        "b join protocols=",
}

INTERVAL = {
    "a first subscription": "a hb join topics=; b hb join topics=; b hb; a cdescribe; a hb topics=t; a hb own; b hb topics=t; b hb; a cdescribe",
    "a first expression": "a hb join regex={t}|x; a hb until=2; a hb own; b hb join regex={t}|x; b hb; a cdescribe",
    "a topic that is not there": "a hb join topics=; b hb join topics=none; a cdescribe; b hb topics=t; b hb; a cdescribe",
    "subscribing to nothing, and again": "a hb join topics=t; a hb own; a hb topics=; a hb own; a hb topics=t; a hb; a cdescribe",
    "coming back without a subscription": "a hb join topics=t; a hb left; a hb join topics=; a hb topics=t; a hb own; a cdescribe",
    "a member more": "a hb join topics=t; b hb join topics=t; b hb; a hb own; b hb left; a hb own; a cdescribe",
}

FULL = {
    "a full group": "a hb join topics=t; b hb join topics=t; b join v=3 meta=sub:t; a hb; c hb join topics=t group=h; d join v=3 meta=sub:t group=h; "
                    "a hb left; b hb join topics=t; a cdescribe",
    "a full static group": "a hb join topics=t instance=i; b hb join topics=t instance=j; a hb gone; b hb join topics=t instance=j; "
                           "b hb join topics=t instance=i; b cdescribe",
}

MIGRATION = {
    "to the consumer protocol and back": "a join v=3 meta=sub:t; a sync a=; a commit t/0=1; b hb join topics=t; a beat; a join v=3 meta=sub:t; a sync; "
                                         "b hb own; b hb own; a cdescribe; a describe; b hb left; a beat; a join v=3 meta=sub:t; a sync a=; a describe; a fetch t/0",
    "one after another": "a join v=3 meta=sub:t; a sync a=; b join v=3 meta=sub:t; a join v=3 meta=sub:t; a sync; b sync; a leave; b beat; b join v=3 meta=sub:t; b sync; "
                         "c hb join topics=t; b cdescribe; b leave; c hb own; c hb own; c cdescribe; c hb left; c cdescribe",
    "an empty classic group": "a join v=3 meta=sub:t; a sync a=; a commit t/0=1; a leave; b hb join topics=t; b cdescribe; b fetch t/0; b describe",
    "an empty consumer group": "a hb join topics=t; a commit t/0=1; a hb left; b join v=3 meta=sub:t; b sync b=; b describe; b fetch t/0; b cdescribe",
    "a group of another type": "a join v=3 type=connect protocols=x; a sync type=connect name=x; b hb join topics=t; a beat; a leave; b hb join topics=t; b cdescribe",
    "a subscription that is none": "a join v=3 meta=m; a sync a=; b hb join topics=t; a beat; a describe",
    "a group in a rebalance": "a join v=3 meta=sub:t; a sync a=; b join v=3 meta=sub:t; c hb join topics=t; a join v=3 meta=sub:t; a sync; b join v=3 meta=sub:t; b sync; "
                              "a cdescribe",
    "a group that waits for its leader": "a join v=3 meta=sub:t; b hb join topics=t; a sync a=; a join v=3 meta=sub:t; a sync; b hb own; b cdescribe",
    "a static member changes its protocol": "a join v=9 meta=sub:t instance=i; a sync a=; b hb join topics=t instance=i; a beat; b hb own; b cdescribe; b hb gone; "
                                            "c join v=9 meta=sub:t instance=i; c sync; c describe; b hb epoch=2",
    "a static member, back without leaving": "a hb join topics=t instance=i; b hb join topics=t; a hb own; a hb own; c join v=9 meta=sub:t instance=i; c sync; a hb; "
                                             "c cdescribe; b hb left; c beat; c describe",
    "a static member changes its protocol and its subscription": "a hb join topics=t instance=i; b join v=3 meta=sub:t; c join v=9 meta=sub:u instance=i; b beat; "
                                                                 "b commit t/0=1; b describe; c beat; c join v=9 meta=sub:u; b fetch t/0",
    "classic members of a consumer group": "a hb join topics=t; b join v=9 meta=sub:t; b join v=9 meta=sub:t; b sync; b beat; b beat gen=1; b beat member=who; b sync gen=1; "
                                           "b sync name=sticky; b join v=9 meta=sub:t protocols=sticky; b join v=9 meta=sub:u; b sync; b leave; a hb own; a cdescribe",
    "who is refused has no id": "a hb join topics=t instance=i; b join v=9 meta=sub:t member=who instance=i; b join v=9 meta=sub:t member=who instance=j; a hb left; "
                                "b join v=9 meta=sub:t member=who; b cdescribe; b describe; b join v=3 meta=sub:t member=; b describe",
    "versions of classic requests": "a hb join topics=t; b join v=0 meta=sub:t; b sync v=0; b beat v=0; b join v=4 meta=sub:u; b sync v=3; b leave v=2; b leave v=2; "
                                    "c join v=9 meta=m; c join v=9 meta=m; c join v=3 protocols=; c join v=9 type=connect meta=sub:t",
    "offsets of classic members": "a hb join topics=t; b join v=3 meta=sub:t; b sync; b commit t/0=1; b commit gen=1 t/0=2; b commit v=8 t/0=3; b commit v=8 gen=1 t/0=4; "
                                  "b commit member=who t/0=5; b fetch t/0; c offsetdelete t/0; c delete",
}

POLICY = {
    "no upgrade": "a join v=3 meta=sub:t; a sync a=; b hb join topics=t; a beat; a leave; b hb join topics=t; a join v=3 meta=sub:t; b hb left; b cdescribe",
}

CONFIGS = {
    "settings of a group": "a settings consumer.session.timeout.ms consumer.heartbeat.interval.ms; a alter consumer.session.timeout.ms=50000; a settings consumer.session.timeout.ms; a hb join topics=t; "
                           "a alter consumer.heartbeat.interval.ms=6000; a hb interval=6000; a alter consumer.heartbeat.interval.ms=; a hb interval=5000; "
                           "a settings consumer.session.timeout.ms consumer.heartbeat.interval.ms consumer.assignment.interval.ms",
    "settings that are none": "a alter consumer.session.timeout.ms=1; a alter consumer.session.timeout.ms=60001; a alter consumer.heartbeat.interval.ms=4999; "
                              "a alter consumer.heartbeat.interval.ms=15001; a alter consumer.session.timeout.ms=x; a alter no.such.key=1; "
                              "a alter group= consumer.session.timeout.ms=50000; a settings no.such.key; a settings group=",
    "settings outlive the group": "a alter consumer.session.timeout.ms=50000; a hb join topics=t; a hb left; a delete; a settings consumer.session.timeout.ms",
    "sessions longer than heartbeats": "a alter consumer.session.timeout.ms=45000 consumer.heartbeat.interval.ms=15000; "
                                       "a settings consumer.session.timeout.ms consumer.heartbeat.interval.ms",
}

RESTART = {
    "a consumer group": "a hb join topics=t; b hb join topics=t; a hb own; a hb own; b hb; a commit t/0=5; - restart; a hb; b hb; a cdescribe; a fetch t/0; "
                        "b hb left; a hb until=4; a hb own; a cdescribe",
    "a member that is giving back": "a hb join topics=t; b hb join topics=t; a hb; - restart; b hb; a hb own; a hb own; b hb; a cdescribe",
    "static members": "a hb join topics=t instance=i; a hb gone; - restart; a cdescribe; b hb join topics=t instance=i; a hb epoch=2; b hb own; - restart; "
                      "a hb epoch=2; b hb; b cdescribe",
    "an expression": "a hb join regex={t}|x; a hb until=2; a hb own; - restart; a hb; a hb own; a cdescribe",
    "a mixed group": "a join v=3 meta=sub:t; a sync a=; b hb join topics=t; a join v=3 meta=sub:t; a sync; b hb own; - restart; a beat; b hb own; a cdescribe; b hb left; "
                     "a beat; a join v=3 meta=sub:t; a sync a=; - restart; a beat; a describe",
    "a classic group": "a join v=9 meta=sub:t instance=i; a sync a=x; a commit t/0=5; b join v=9 meta=sub:t instance=i; - restart; a beat instance=i; b beat instance=i; "
                       "b describe; b fetch t/0; b sync",
    "what was deleted": "a hb join topics=t; a commit t/0=5; a hb left; a delete; b commit group=o gen=-1 member= t/0=5; b offsetdelete group=o t/0; - restart; "
                        "a cdescribe; a fetch all; b describe group=o; b fetch all group=o; a list",
}

# Rows of the log of known traps that are of groups and offsets; what others hold cites its row where it stands (git grep B0).
TRAPS = {
    "B074: all offsets, and none": "a commit gen=-1 member= t/0=5 u/1=6; a fetch v=2 all; a fetch v=2; a fetch v=7; a fetch v=8 all; a fetch v=8; a fetch v=9; "
                                   "a fetch v=7 all group=none; a fetch v=8 all group=none",
    "B077: the leader epoch": "a commit gen=-1 member= lepoch=3 t/0=5; a commit gen=-1 member= t/1=6; a fetch v=5 t/0,t/1; a fetch v=9 t/0,t/1; - restart; "
                              "a fetch v=5 t/0,t/1; a fetch v=9 t/0,t/1; a fetch v=4 t/0",
    "B079: known and unknown at once": "a commit gen=-1 member= t/0=5 t/99=6 none/0=7; a fetch all; a commit gen=-1 member= metasize=4097 t/1=5; a fetch all",
    "B080: a group that nobody joined": "a commit v=2 gen=-1 member= t/0=1; a commit v=3 gen=-1 member= t/0=2 group=h; a commit v=4 gen=-1 member= t/0=3 group=i; "
                                        "a fetch t/0; a fetch t/0 group=h; a fetch t/0 group=i; a list",
    "B082: an administrator and members": "a join v=3; a sync; b commit gen=-1 member= t/0=1; a beat; b fetch all",
    "B085: two of the oldest": "a join v=0; b join v=0; a beat v=0; a join v=0; b sync v=0; a sync v=0 a=one b=two; a beat v=0; b beat v=0",
    "B092: fenced after a restart": "a join instance=i; a sync a=x; b join instance=i; - restart; a beat; a sync; a commit t/0=1; b beat; b sync; b commit t/0=2",
    "B145: told all again": "a hb join topics=t; a hb join topics=t; a hb; a hb rebalance=60000 topics=t own; a hb epoch=1; a hb left; a hb left",
}
