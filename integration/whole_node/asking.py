"""What a node says of its topics, in a form that two nodes can be compared by."""

from wire import records
from wire.client import Client

SPECIAL = (-1, -2, -3, -4, -5)


def list_offsets(client, topic, timestamp, isolation, end=None):
    """(error, offset, timestamp, leader epoch of the record there)."""
    part = client.call("ListOffsets", 9, {
        "ReplicaId": -1, "IsolationLevel": isolation,
        "Topics": [{"Name": topic, "Partitions": [{"PartitionIndex": 0, "Timestamp": timestamp,
                                                   "CurrentLeaderEpoch": -1}]}]})["Topics"][0]["Partitions"][0]
    # Where there is no record the present epoch is told, which a restart raises.
    epoch = None if part["Offset"] == end else part["LeaderEpoch"]
    return part["ErrorCode"], part["Offset"], part["Timestamp"], epoch


def pages(client, topic, start, isolation, size):
    """Reads on to the end in pages; each as (offset asked, bytes, aborted that began before its end), then the marks."""
    found, offset = [], start
    while True:
        part = client.fetch(topic, offset, isolation=isolation, partition_max_bytes=size)
        found_batches = records.batches(part["Records"])
        if part["ErrorCode"] != 0 or not found_batches:
            return found, (part["ErrorCode"], offset, part["HighWatermark"], part["LastStableOffset"],
                           part["LogStartOffset"])
        end = found_batches[-1]["last_offset"] + 1
        taken = sum(len(batch["body"]) + 61 for batch in found_batches)
        aborted = part["AbortedTransactions"]
        if aborted is not None:
            aborted = sorted((txn["ProducerId"], txn["FirstOffset"]) for txn in aborted if txn["FirstOffset"] < end)
        found.append((offset, part["Records"][:taken], aborted))
        offset = end


def times_of(data):
    """Every time around those that its batches begin and end with."""
    wanted = {0, 1, 10 ** 13, 2 ** 62}
    for batch in records.batches(data):
        for time in (batch["first_timestamp"], batch["max_timestamp"]):
            wanted |= {at for at in (time - 1, time, time + 1) if at >= 0}
    return sorted(wanted)


def ask(client, topic):
    """Everything at once."""
    start = list_offsets(client, topic, -2, 0)[1]
    whole, _ = pages(client, topic, start, 0, 1 << 20)
    data = b"".join(page[1] for page in whole)
    starts = [batch["base_offset"] for batch in records.batches(data)]
    times = times_of(data)
    ends = [list_offsets(client, topic, -1, isolation)[1] for isolation in (0, 1)]
    answers = {
        "offsets": {(time, isolation): list_offsets(client, topic, time, isolation, ends[isolation])
                    for time in (*SPECIAL, *times[::1 + len(times) // 100]) for isolation in (0, 1)},
        "bytes": data,
        "ends": ends,
        "marks": [pages(client, topic, at, 0, 1 << 20)[1] for at in (start, start - 1)],
    }
    # All that a page holds may depend on where a broker cuts it: which transactions concern each batch does not.
    for size in (1, 40000, 1 << 20):
        for at in [start, *starts[1::1 + len(starts) // 3]]:
            read, marks = pages(client, topic, at, 1, size)
            answers[f"committed from {at} by {size}"] = (b"".join(page[1] for page in read), marks)
            if size == 1:
                answers[f"aborted from {at}"] = [page[2] for page in read]
    return answers


def ask_all(node, ids):
    """{topic: what it says}."""
    with Client(node) as client:
        client.ids = ids
        for topic in ids:
            client.await_leaders(topic, 1)
        return {topic: ask(client, topic) for topic in ids}


def is_known(topic, key, ours, theirs):
    """Behind what was deleted Apache Kafka finds nothing by an earlier time until the segment itself is removed."""
    return topic.startswith("emptied") and key[0] >= 0 and theirs[1] == -1 and ours[1] >= 0


def differences(ours, theirs):
    """One line for each answer of Apache Kafka that is not the same as ours."""
    found = []
    for topic, answers in theirs.items():
        for question, answer in answers.items():
            mine = ours[topic].get(question)
            if mine == answer:
                continue
            if isinstance(answer, dict):
                found += [f"{topic} {question} {key}: ours {mine.get(key)}, Kafka's {value}"
                          for key, value in answer.items()
                          if mine.get(key) != value and not is_known(topic, key, mine.get(key), value)]
            else:
                found.append(f"{topic} {question}: ours {str(mine)[:300]}, Kafka's {str(answer)[:300]}")
    return found
