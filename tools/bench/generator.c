/*
 * generator: load on a broker through librdkafka, as stock clients would make it. One JSON line on stdout.
 *
 *   generator produce BOOTSTRAP TOPIC RECORDS BYTES ACKS       as fast as the client can
 *   generator consume BOOTSTRAP TOPIC RECORDS                  what was produced, as fast as it can; checks the order
 *   generator latency BOOTSTRAP TOPIC RATE BYTES SECONDS       open loop, end to end
 *
 * Open loop: each record has a time at which it is due, and its latency counts from then, whether or not
 * the client was late in sending it, so that a stall is seen by every record that it delayed.
 */
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <librdkafka/rdkafka.h>

#include "histogram.h"

enum {
    RECORD_BYTES_MAX = 1 << 20,
    SILENCE_MS = 30000,
    ASK_MS = 5000,
};

/* How long a topic may take to have a leader that answers. */
#define LEADER_NS_MAX INT64_C(30000000000)

static int64_t now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void sleep_until_ns(int64_t due_ns)
{
    struct timespec t = {.tv_sec = due_ns / 1000000000, .tv_nsec = due_ns % 1000000000};

    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) != 0)
        ;
}

static void die(const char *what, const char *why)
{
    fprintf(stderr, "generator: %s: %s\n", what, why);
    exit(1);
}

static int64_t number(const char *text, int64_t least, int64_t most)
{
    char *end;
    int64_t value = strtoll(text, &end, 10);

    if (*end != '\0' || value < least || value > most)
        die("not a number in range", text);
    return value;
}

static void set(rd_kafka_conf_t *conf, const char *key, const char *value)
{
    char why[512];

    if (rd_kafka_conf_set(conf, key, value, why, sizeof why) != RD_KAFKA_CONF_OK)
        die(key, why);
}

static rd_kafka_t *client_new(rd_kafka_type_t type, rd_kafka_conf_t *conf)
{
    char why[512];
    rd_kafka_t *client = rd_kafka_new(type, conf, why, sizeof why);

    if (client == NULL)
        die("client", why);
    return client;
}

/* Bytes that do not repeat within a record, from a fixed seed. */
static void fill(uint8_t *bytes, size_t size)
{
    uint64_t state = 88172645463325252u;

    for (size_t i = 0; i < size; i++) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes[i] = (uint8_t)(state >> 56);
    }
}

struct produced {
    int64_t acked;
    int64_t failed;
};

static void on_delivery(rd_kafka_t *client, const rd_kafka_message_t *message, void *opaque)
{
    struct produced *produced = opaque;

    (void)client;
    if (message->err == RD_KAFKA_RESP_ERR_NO_ERROR)
        produced->acked++;
    else if (produced->failed++ == 0)
        fprintf(stderr, "generator: %s\n", rd_kafka_err2str(message->err));
}

static rd_kafka_t *producer_new(const char *bootstrap, const char *acks, const char *linger_ms,
                                struct produced *produced)
{
    rd_kafka_conf_t *conf = rd_kafka_conf_new();

    set(conf, "bootstrap.servers", bootstrap);
    set(conf, "acks", acks);
    set(conf, "linger.ms", linger_ms);
    set(conf, "socket.nagle.disable", "true");
    set(conf, "queue.buffering.max.messages", "1000000");
    set(conf, "queue.buffering.max.kbytes", "262144");
    rd_kafka_conf_set_opaque(conf, produced);
    rd_kafka_conf_set_dr_msg_cb(conf, on_delivery);
    return client_new(RD_KAFKA_PRODUCER, conf);
}

/* Asking for the topic makes it; what is measured starts when its leader answers. (Apache Kafka names a leader a
 * moment before it is one: records sent then come again and out of order.) */
static void await_leader(rd_kafka_t *client, rd_kafka_topic_t *topic)
{
    for (int64_t deadline = now_ns() + LEADER_NS_MAX; now_ns() < deadline;) {
        const struct rd_kafka_metadata *metadata;
        bool led = false;
        int64_t low, high;

        if (rd_kafka_metadata(client, 0, topic, &metadata, ASK_MS) == RD_KAFKA_RESP_ERR_NO_ERROR) {
            led = metadata->topic_cnt == 1 && metadata->topics[0].partition_cnt > 0 &&
                  metadata->topics[0].partitions[0].leader >= 0;
            rd_kafka_metadata_destroy(metadata);
        }
        if (led && rd_kafka_query_watermark_offsets(client, rd_kafka_topic_name(topic), 0, &low, &high, ASK_MS) ==
                       RD_KAFKA_RESP_ERR_NO_ERROR)
            return;
        sleep_until_ns(now_ns() + 10000000);
    }
    die("topic", "no leader came");
}

static void produce(const char *bootstrap, const char *topic_name, int64_t count, size_t size, const char *acks)
{
    static uint8_t value[RECORD_BYTES_MAX];
    struct produced produced = {0};
    rd_kafka_t *client = producer_new(bootstrap, acks, "5", &produced);
    rd_kafka_topic_t *topic = rd_kafka_topic_new(client, topic_name, NULL);
    int64_t started;

    fill(value, size);
    await_leader(client, topic);
    started = now_ns();
    for (int64_t i = 0; i < count;) {
        memcpy(value, &i, sizeof i < size ? sizeof i : size);
        if (rd_kafka_produce(topic, 0, RD_KAFKA_MSG_F_COPY, value, size, NULL, 0, NULL) == 0) {
            i++;
            if (i % 4096 == 0)
                rd_kafka_poll(client, 0);
        } else if (rd_kafka_last_error() == RD_KAFKA_RESP_ERR__QUEUE_FULL) {
            rd_kafka_poll(client, 10);
        } else {
            die("produce", rd_kafka_err2str(rd_kafka_last_error()));
        }
    }
    while (produced.acked + produced.failed < count)
        rd_kafka_poll(client, 10);
    printf("{\"seconds\": %.6f, \"records\": %" PRId64 ", \"failed\": %" PRId64 ", \"bytes\": %" PRId64 "}\n",
           (double)(now_ns() - started) / 1e9, produced.acked, produced.failed, produced.acked * (int64_t)size);
    rd_kafka_topic_destroy(topic);
    rd_kafka_destroy(client);
}

static rd_kafka_t *consumer_new(const char *bootstrap, const char *topic_name, int64_t offset)
{
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    rd_kafka_topic_partition_list_t *parts = rd_kafka_topic_partition_list_new(1);
    rd_kafka_t *client;

    set(conf, "bootstrap.servers", bootstrap);
    set(conf, "group.id", "generator"); /* the client asks for one; no group is used */
    set(conf, "enable.auto.commit", "false");
    set(conf, "queued.min.messages", "1000000");
    set(conf, "socket.nagle.disable", "true");
    client = client_new(RD_KAFKA_CONSUMER, conf);
    rd_kafka_poll_set_consumer(client);
    rd_kafka_topic_partition_list_add(parts, topic_name, 0)->offset = offset;
    rd_kafka_assign(client, parts);
    rd_kafka_topic_partition_list_destroy(parts);
    return client;
}

static void consume(const char *bootstrap, const char *topic_name, int64_t count)
{
    enum { BATCH = 4096 };
    static rd_kafka_message_t *messages[BATCH];
    rd_kafka_t *client = consumer_new(bootstrap, topic_name, RD_KAFKA_OFFSET_BEGINNING);
    rd_kafka_queue_t *queue = rd_kafka_queue_get_consumer(client);
    int64_t seen = 0, bytes = 0, started = now_ns(), first = 0, first_seen = 0, first_bytes = 0;
    int64_t misplaced = 0;

    while (seen < count) {
        /* The call waits until it has as many as it is asked for. */
        size_t wanted = count - seen < BATCH ? (size_t)(count - seen) : BATCH;
        ssize_t got = rd_kafka_consume_batch_queue(queue, SILENCE_MS, messages, wanted);

        if (got <= 0)
            die("consume", "no more records came");
        for (ssize_t i = 0; i < got; i++) {
            if (messages[i]->err == RD_KAFKA_RESP_ERR_NO_ERROR) {
                int64_t head = 0;

                memcpy(&head, messages[i]->payload, messages[i]->len < sizeof head ? messages[i]->len : sizeof head);
                if (head != seen && misplaced++ == 0)
                    fprintf(stderr, "generator: offset %" PRId64 " holds record %" PRId64 "\n", messages[i]->offset,
                            head);
                bytes += (int64_t)messages[i]->len;
                seen++;
            }
            rd_kafka_message_destroy(messages[i]);
        }
        if (first == 0) {
            first = now_ns();
            first_seen = seen;
            first_bytes = bytes;
        }
    }
    /* The client's own start (about a second in looking for its leader) is no broker's rate: what is timed
     * begins after the first records. */
    printf("{\"seconds\": %.6f, \"startup\": %.6f, \"records\": %" PRId64 ", \"timed_records\": %" PRId64
           ", \"timed_bytes\": %" PRId64 ", \"misplaced\": %" PRId64 "}\n",
           (double)(now_ns() - first) / 1e9, (double)(first - started) / 1e9, seen, seen - first_seen,
           bytes - first_bytes, misplaced);
    rd_kafka_queue_destroy(queue);
    rd_kafka_consumer_close(client);
    rd_kafka_destroy(client);
}

struct listener {
    rd_kafka_t *client;
    _Atomic(int64_t) seen;
    int64_t count;
    int64_t warm; /* records that are not counted: connecting, first pages, just-in-time compilers */
    struct histogram latency_us;
};

static void *listen_for_records(void *argument)
{
    struct listener *listener = argument;

    while (listener->seen < listener->count) {
        rd_kafka_message_t *message = rd_kafka_consumer_poll(listener->client, SILENCE_MS);
        int64_t due;

        if (message == NULL)
            die("latency", "no more records came");
        if (message->err == RD_KAFKA_RESP_ERR_NO_ERROR) {
            memcpy(&due, message->payload, sizeof due);
            if (due > 0 && listener->seen >= listener->warm)
                histogram_add(&listener->latency_us, (now_ns() - due) / 1000);
            listener->seen++;
        }
        rd_kafka_message_destroy(message);
    }
    return NULL;
}

static void latency(const char *bootstrap, const char *topic_name, int64_t rate, size_t size, int64_t seconds)
{
    static uint8_t value[RECORD_BYTES_MAX];
    struct produced produced = {0};
    struct listener listener = {.count = rate * seconds + 1, .warm = rate * seconds / 5};
    rd_kafka_t *client = producer_new(bootstrap, "1", "0", &produced);
    rd_kafka_topic_t *topic = rd_kafka_topic_new(client, topic_name, NULL);
    int64_t begin, behind = 0;
    pthread_t thread;

    fill(value, size);
    listener.client = consumer_new(bootstrap, topic_name, RD_KAFKA_OFFSET_BEGINNING);
    /* One record ahead of the clock, so that both ends are connected when it starts. */
    memset(value, 0, sizeof begin);
    rd_kafka_produce(topic, 0, RD_KAFKA_MSG_F_COPY, value, size, NULL, 0, NULL);
    rd_kafka_flush(client, 10000);
    pthread_create(&thread, NULL, listen_for_records, &listener);
    while (listener.seen == 0)
        sleep_until_ns(now_ns() + 1000000);
    begin = now_ns() + 100000000;
    for (int64_t i = 0; i < rate * seconds; i++) {
        int64_t due = begin + i * 1000000000 / rate;
        int64_t late = now_ns() - due;

        if (late < 0)
            sleep_until_ns(due);
        else if (late > behind)
            behind = late;
        memcpy(value, &due, sizeof due);
        while (rd_kafka_produce(topic, 0, RD_KAFKA_MSG_F_COPY, value, size, NULL, 0, NULL) != 0)
            rd_kafka_poll(client, 1);
        if (i % 64 == 0)
            rd_kafka_poll(client, 0);
    }
    rd_kafka_flush(client, 30000);
    pthread_join(thread, NULL);
    printf("{\"p50_us\": %" PRId64 ", \"p99_us\": %" PRId64 ", \"p999_us\": %" PRId64 ", \"max_us\": %" PRId64
           ", \"records\": %" PRId64 ", \"sender_late_us_max\": %" PRId64 "}\n",
           histogram_at(&listener.latency_us, 0.5), histogram_at(&listener.latency_us, 0.99),
           histogram_at(&listener.latency_us, 0.999), listener.latency_us.greatest, listener.latency_us.count,
           behind / 1000);
    rd_kafka_consumer_close(listener.client);
    rd_kafka_destroy(listener.client);
    rd_kafka_topic_destroy(topic);
    rd_kafka_destroy(client);
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";

    if (strcmp(what, "produce") == 0 && argc == 7)
        produce(argv[2], argv[3], number(argv[4], 1, INT64_MAX), (size_t)number(argv[5], 1, RECORD_BYTES_MAX), argv[6]);
    else if (strcmp(what, "consume") == 0 && argc == 5)
        consume(argv[2], argv[3], number(argv[4], 1, INT64_MAX));
    else if (strcmp(what, "latency") == 0 && argc == 7)
        latency(argv[2], argv[3], number(argv[4], 1, 1000000), (size_t)number(argv[5], 8, RECORD_BYTES_MAX),
                number(argv[6], 1, 3600));
    else
        die("usage", "produce BOOTSTRAP TOPIC RECORDS BYTES ACKS | consume BOOTSTRAP TOPIC RECORDS |"
                     " latency BOOTSTRAP TOPIC RATE BYTES SECONDS");
    return 0;
}
