"""What is asked, one request a line: `who verb [how=what ...] [what=what ...]`; script.py has the verbs.

Add a sequence and run `OTTLA_WRITE_ANSWERS=1 integration/run --kafka group_answers`: Apache Kafka's answers go into answers.json,
which Ottla's are held against.
"""

WARM = "a join v=3; a sync; a commit t/0=1; a fetch all; a describe; a list; a leave"       # a JVM is slow at first

CLASSIC = {
    "one member": "a join; a join; a describe; a sync a=all; a beat; a describe; a leave; a beat; a describe",
    "a group nobody knows": "a beat; a beat member=who; a sync member=who gen=1; a leave member=who; a leave v=2 member=who; "
                            "a join member=who; a describe; a describe v=5",
    "no group id": "a join group=; a sync group= gen=1; a beat group=; a leave group=; a describe group=",
    "session times": "a join session=5999; a join session=6000; b join session=1800000; c join session=1800001; d join session=0",
    "protocols": "a join protocols=; a join type=; a join type= protocols=; a join; a join; b join type=connect; "
                 "b join protocols=sticky; b join protocols=sticky,range",
    "every version of JoinGroup": "a join v=0 group=g0; b join v=1 group=g1; c join v=2 group=g2; d join v=3 group=g3; "
                                  "e join v=4 group=g4; f join v=5 group=g5; h join v=6 group=g6; i join v=7 group=g7; "
                                  "j join v=8 group=g8; k join v=9 group=g9",
    "every version of an error": "a join v=0 session=1; a join v=1 session=1; a join v=4 session=1; a join v=6 session=1; "
                                 "a join v=7 session=1; a join v=9 session=1",
    "unknown members, by version": "a join v=3; b join v=3 member=who; b join v=6 member=who; b join v=7 member=who; "
                                   "b join v=9 member=who; b join v=9 instance=i member=who",
    "two members": "a join v=3; b join v=3; a beat; a join v=3; b sync; a sync a=one b=two; a describe; "
                   "b sync; a beat; b beat; b leave; a beat; a join v=3; a sync a=all",
    "the leader forgets one": "a join v=3; b join v=3; a join v=3; a sync b=two; b sync; a describe",
    "the leader invents one": "a join v=3; a sync a=one who=two; a describe",
    "a follower says who has what": "a join v=3; b join v=3; a join v=3; b sync b=all; a sync a=one; b beat",
    "wrong generations": "a join v=3; a beat gen=0; a beat gen=2; a sync gen=0; a sync gen=2; a sync a=x; a sync gen=2; a beat gen=2; "
                         "a beat gen=-1",
    "wrong protocol in SyncGroup": "a join v=3; a sync type=connect; a sync name=sticky; a sync type=null; a sync name=null; "
                                   "a sync v=4; a sync",
    "every version of SyncGroup": "a join v=3; a sync v=0 a=x; a sync v=1; a sync v=2; a sync v=3; a sync v=4; a sync v=5",
    "every version of Heartbeat": "a join v=3; a sync; a beat v=0; a beat v=1; a beat v=2; a beat v=3; a beat v=4",
    "leaving, by version": "a join v=3; a sync; a leave v=0; a join v=3 member=; a sync; a leave v=1; a join v=3 member=; a sync; "
                           "a leave v=2; a join v=3 member=; a sync; a leave v=3; a join v=3 member=; a sync; a leave v=5",
    "leaving together": "a join v=3; b join v=3; a join v=3; a sync; a leave members=a,b,who; a describe",
    "leaving nobody": "a join v=3; a sync; a leave members=; a beat; a leave members=none; a beat",
    "leaving while it waits": "a join v=3; b join v=3; c leave member=b; a beat; a join v=3; a sync a=x; a describe",
    "leaving with an id not used": "a join v=3; a sync; b join; b leave; b join",
    "joining again unchanged": "a join v=3; b join v=3; a join v=3; a join v=3; b join v=3; a sync a=one b=two; b sync; b join v=3; b beat",
    "joining again changed": "a join v=3; b join v=3; a join v=3; a sync a=one b=two; b sync; b join v=3 meta=new; a beat; a join v=3; "
                             "a sync a=one b=two; b sync",
    "the leader joins again": "a join v=3; b join v=3; a join v=3; a sync; b sync; a join v=3; b beat; b join v=3; a sync; b sync",
    "another subscription while completing": "a join v=3; b join v=3; a join v=3; b sync; b join v=3 meta=new; a beat; a join v=3; a sync",
    "the follower syncs first": "a join v=3; b join v=3; a join v=3; b sync; a beat; b beat; a sync b=mine",
    "votes": "a join v=3 protocols=range,sticky; b join v=3 protocols=range,sticky; a join v=3 protocols=range,sticky; "
             "c join v=3 protocols=sticky; b join v=3 protocols=range,sticky; a join v=3 protocols=range,sticky; "
             "d join v=3 protocols=other",
    "not a consumer": "a join v=3 type=connect protocols=default; a sync type=connect name=default a=x; a describe; a leave; a describe",
    "describing, by version": "a join v=3; a sync a=x; a describe v=0; a describe v=1; a describe v=3; a describe v=4; a describe v=5; "
                              "a describe v=6; a describe v=6 group=none; a describe v=0 group=none",
    "an id that is asked for": "a join; a describe; a join; b join; b beat gen=1; b sync gen=1; a describe",
    "a reason": "a join v=8 reason=because; a join v=8 reason=because; a sync; a leave reason=enough",
}

STATIC = {
    "joining": "a join instance=i; a sync a=x; a describe; a beat; a leave; a describe",
    "back in a stable group": "a join instance=i; b join instance=j; a join instance=i; a sync a=one b=two; b sync; "
                              "c join instance=i; c sync; a beat; a sync; a join instance=i; a leave; c describe",
    "back before v9": "a join instance=i; b join instance=j; a join instance=i; a sync a=one b=two; b sync; "
                      "c join v=8 instance=i; c sync; b beat",
    "a follower back": "a join instance=i; b join instance=j; a join instance=i; a sync a=one b=two; b sync; c join instance=j; "
                       "c sync; a beat; b beat",
    "back while completing": "a join instance=i; b join instance=j; a join instance=i; b sync; c join instance=j; b beat; a join instance=i; "
                             "a sync; c sync",
    "back while preparing": "a join instance=i; b join instance=j; a beat; c join instance=j; a join instance=i; a sync; c sync; b beat",
    "back with another protocol": "a join instance=i protocols=range,sticky; a sync a=x; b join instance=i protocols=sticky; b sync b=y",
    "back with another subscription": "a join instance=i; a sync a=x; b join instance=i meta=new; b sync; b describe",
    "a name nobody has": "a join instance=i; a sync; b beat member=a instance=j; b sync member=a instance=j gen=1; b leave member=a instance=j",
    "a name another has": "a join instance=i; a sync; b beat member=who instance=i gen=1; b sync member=who instance=i gen=1; "
                          "b join member=who instance=i; b leave member=who instance=i; b commit member=who instance=i gen=1 t/0=1",
    "removed by name": "a join instance=i; a sync; b leave members=@i; a beat; a describe; b leave members=@i,@j",
    "without its name": "a join instance=i; a sync; a beat instance=; a leave instance=; a describe",
}

OFFSETS = {
    "a group of offsets alone": "a commit gen=-1 member= t/0=5 t/1=6; a fetch t/0,t/1,t/2; a fetch all; a describe; a fetch all group=none; "
                                "a fetch t/0 group=none",
    "every version of OffsetCommit": "a commit v=2 gen=-1 member= t/0=1; a commit v=3 gen=-1 member= t/0=2; a commit v=5 gen=-1 member= t/0=3; "
                                     "a commit v=6 gen=-1 member= t/0=4; a commit v=7 gen=-1 member= t/0=5; "
                                     "a commit v=8 gen=-1 member= t/0=6; a commit v=9 gen=-1 member= t/0=7; a fetch t/0",
    "every version of OffsetFetch": "a commit gen=-1 member= t/0=5; a fetch v=1 t/0,t/1; a fetch v=2 t/0,t/1; a fetch v=2 all; a fetch v=3 t/0; "
                                    "a fetch v=5 t/0; a fetch v=6 t/0; a fetch v=7 t/0; a fetch v=7 all; a fetch v=8 t/0; a fetch v=9 t/0",
    "topics that are not there": "a commit gen=-1 member= none/0=5 t/0=1; a commit gen=-1 member= t/9=5; a fetch none/0,t/9",
    "topics that are not there, and a group that refuses": "a join v=3; b commit gen=-1 member= none/0=5; b commit gen=-1 member= none/0=5 t/9=6 t/0=7; "
                                                           "a commit none/0=5; a commit none/0=5 t/0=6; b commit v=10 gen=3 none/0=5 group=no; "
                                                           "b commit v=10 gen=3 none/0=5 t/0=6 group=no",
    "metadata": "a commit gen=-1 member= meta=hello t/0=5; a fetch t/0; a commit gen=-1 member= metasize=4096 t/0=6; "
                "a commit gen=-1 member= metasize=4097 t/0=7; a commit gen=-1 member= meta=null t/1=8; a fetch t/0,t/1",
    "a generation without a group": "a commit gen=0 member=who t/0=5; a commit v=8 gen=0 member=who t/0=5; a commit gen=5 member= t/0=5",
    "members commit": "a join v=3; a commit t/0=1; a sync; a commit t/0=1; a commit gen=0 t/0=2; a commit gen=2 t/0=2; a commit gen=-1 t/0=2; "
                      "a commit member=who t/0=2; a commit member= t/0=2; a fetch t/0",
    "an administrator with members": "a join v=3; a sync; b commit gen=-1 member= t/0=1; a leave; b commit gen=-1 member= t/0=1; b fetch t/0",
    "commits in a rebalance": "a join v=3; a sync; b join v=3; a commit t/0=3; a join v=3; a commit t/0=4; b commit t/0=4; a sync; a commit t/0=5; "
                              "b fetch t/0",
    "negative offsets": "a commit gen=-1 member= t/0=-1; a fetch t/0; a commit gen=-1 member= t/0=-5; a fetch t/0",
    "fetching as a member": "a join v=3; a sync; a commit t/0=1; a fetch t/0 member=a epoch=1; a fetch t/0 member=who epoch=1; "
                            "a fetch t/0 member=a epoch=7; a fetch t/0 member=a epoch=-1",
    "deleting offsets": "a offsetdelete t/0; a commit gen=-1 member= t/0=5 t/1=6; a offsetdelete t/0,t/2,none/0; a fetch all; "
                        "a offsetdelete t/1; a fetch all; a describe",
    "deleting offsets of no partition": "a commit gen=-1 member= t/0=5; a offsetdelete t/9,t/-1,t/0; a fetch all",
    "deleting offsets of members": "a join v=3 meta=sub:t; a sync; a commit t/0=5 u/0=6; a offsetdelete t/0,u/0; a fetch all; "
                                   "a leave; a offsetdelete t/0; a fetch all",
    "deleting offsets in a rebalance": "a join v=3 meta=sub:t; a sync; a commit t/0=5 u/0=6; b join v=3 meta=sub:u; c offsetdelete t/0,u/0; c fetch all; "
                                       "a leave; c offsetdelete t/0,u/0; c fetch all",
    "deleting offsets when one has left": "a join v=3 meta=sub:t; b join v=3 meta=sub:u; a join v=3 meta=sub:t; a sync; b sync; a commit t/0=5 u/0=6; b leave; "
                                          "a offsetdelete u/0; a join v=3 meta=sub:t; a offsetdelete t/0,u/0; a fetch all",
    "deleting what is not there": "a commit gen=-1 member= t/0=5; a offsetdelete t/3,t/0; a fetch all; a offsetdelete group= t/0; a cdescribe group=; a delete group=",
    "deleting offsets of something else": "a join v=3 type=connect protocols=x; a sync type=connect name=x; a commit t/0=5; a offsetdelete t/0; a leave; "
                                          "a offsetdelete t/0",
    "deleting groups": "a delete; a commit gen=-1 member= t/0=5; a delete; a fetch all; a describe; a join v=3; a delete; a sync; a delete; a leave; "
                       "a delete; a describe",
    "deleting a group that is named twice": "a commit gen=-1 member= t/0=5; a delete twice; a fetch all; a delete twice",
    "listing": "a commit gen=-1 member= t/0=5; a list; a list v=3; a list v=4 states=Empty; a list states=empty; a list states=Stable; "
               "a list types=classic; a list types=consumer; a list v=4 states=Nonsense; a list types=nonsense; a join v=3; a list; "
               "a sync; a list states=Stable,Empty; a list types=Classic states=stable",
}
