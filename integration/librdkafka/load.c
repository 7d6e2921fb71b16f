/*
 * load: an idempotent producer that writes numbered records, then reads every partition back and
 * checks that each record is there once, in order, at the offset that its acknowledgement named.
 *
 * usage: load BOOTSTRAP TOPIC PARTITIONS RECORDS [KEY=VALUE...]
 *
 * The topic is made first. Further words set librdkafka's properties on the producer. Lines "acked N"
 * on stdout tell how far it is, so that whoever drives it can kill the broker in the middle; the
 * client waits for the broker to come back and goes on. The last line is "ok N records".
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <librdkafka/rdkafka.h>

enum {
    VALUE_BYTES = 100,
    PROGRESS_RECORDS = 5000, /* one "acked" line for so many */
    PARTITIONS_MAX = 1000,
    CONSUME_SILENCE_MS = 30000, /* no record for so long: the rest is not there */
};

struct load {
    const char *bootstrap;
    const char *topic;
    int32_t partition_count;
    int64_t record_count;
    int64_t acked;
    int64_t *offsets; /* by record number; -1 until acknowledged */
    bool failed;
};

/* The number's partition and the number's place within it are both plain arithmetic. */
static int32_t partition_of(const struct load *load, int64_t number)
{
    return (int32_t)(number % load->partition_count);
}

static void die(const char *what, const char *why)
{
    fprintf(stderr, "load: %s: %s\n", what, why);
    exit(1);
}

static void set(rd_kafka_conf_t *conf, const char *key, const char *value)
{
    char why[512];

    if (rd_kafka_conf_set(conf, key, value, why, sizeof why) != RD_KAFKA_CONF_OK)
        die(key, why);
}

static void on_delivery(rd_kafka_t *client, const rd_kafka_message_t *message, void *opaque)
{
    struct load *load = opaque;
    int64_t number = (int64_t)(intptr_t)message->_private;

    (void)client;
    if (message->err != RD_KAFKA_RESP_ERR_NO_ERROR) {
        fprintf(stderr, "load: record %" PRId64 ": %s\n", number, rd_kafka_err2str(message->err));
        load->failed = true;
        return;
    }
    load->offsets[number] = message->offset;
    load->acked++;
    if (load->acked % PROGRESS_RECORDS == 0) {
        printf("acked %" PRId64 "\n", load->acked);
        fflush(stdout);
    }
}

static void on_error(rd_kafka_t *client, int err, const char *reason, void *opaque)
{
    char why[512];

    (void)opaque;
    if (err == RD_KAFKA_RESP_ERR__FATAL) {
        (void)rd_kafka_fatal_error(client, why, sizeof why);
        die("fatal", why);
    }
    fprintf(stderr, "load: %s\n", reason); /* a broker that is being restarted: the client retries */
}

static rd_kafka_conf_t *client_conf(struct load *load)
{
    rd_kafka_conf_t *conf = rd_kafka_conf_new();

    set(conf, "bootstrap.servers", load->bootstrap);
    set(conf, "reconnect.backoff.ms", "10");
    set(conf, "reconnect.backoff.max.ms", "100");
    rd_kafka_conf_set_opaque(conf, load);
    rd_kafka_conf_set_error_cb(conf, on_error);
    return conf;
}

static rd_kafka_t *client_new(rd_kafka_type_t type, rd_kafka_conf_t *conf)
{
    char why[512];
    rd_kafka_t *client = rd_kafka_new(type, conf, why, sizeof why);

    if (client == NULL)
        die("client", why);
    return client;
}

static void create_topic(struct load *load, rd_kafka_t *client)
{
    char why[512];
    rd_kafka_queue_t *queue = rd_kafka_queue_new(client);
    rd_kafka_NewTopic_t *topic = rd_kafka_NewTopic_new(load->topic, load->partition_count, 1, why, sizeof why);
    rd_kafka_event_t *event;
    const rd_kafka_topic_result_t **results;
    size_t count = 0;

    if (topic == NULL)
        die("topic", why);
    rd_kafka_CreateTopics(client, &topic, 1, NULL, queue);
    event = rd_kafka_queue_poll(queue, 60000);
    if (event == NULL)
        die("create topic", "no answer");
    if (rd_kafka_event_error(event) != RD_KAFKA_RESP_ERR_NO_ERROR)
        die("create topic", rd_kafka_event_error_string(event));
    results = rd_kafka_CreateTopics_result_topics(rd_kafka_event_CreateTopics_result(event), &count);
    for (size_t i = 0; i < count; i++)
        if (rd_kafka_topic_result_error(results[i]) != RD_KAFKA_RESP_ERR_NO_ERROR)
            die("create topic", rd_kafka_err2str(rd_kafka_topic_result_error(results[i])));
    rd_kafka_event_destroy(event);
    rd_kafka_NewTopic_destroy(topic);
    rd_kafka_queue_destroy(queue);
}

static void value_write(char value[VALUE_BYTES + 1], int64_t number)
{
    int used = snprintf(value, VALUE_BYTES + 1, "%012" PRId64 " ", number);

    for (int i = used; i < VALUE_BYTES; i++)
        value[i] = (char)('a' + (number + i) % 26);
    value[VALUE_BYTES] = '\0';
}

static void produce(struct load *load, rd_kafka_t *client)
{
    char value[VALUE_BYTES + 1];
    rd_kafka_topic_t *topic = rd_kafka_topic_new(client, load->topic, NULL);

    for (int64_t number = 0; number < load->record_count && !load->failed;) {
        value_write(value, number);
        if (rd_kafka_produce(topic, partition_of(load, number), RD_KAFKA_MSG_F_COPY, value, VALUE_BYTES, NULL, 0,
                             (void *)(intptr_t)number) == 0) {
            number++;
            if (number % 1000 == 0)
                rd_kafka_poll(client, 0);
        } else if (rd_kafka_last_error() == RD_KAFKA_RESP_ERR__QUEUE_FULL) {
            rd_kafka_poll(client, 100);
        } else {
            die("produce", rd_kafka_err2str(rd_kafka_last_error()));
        }
    }
    while (load->acked < load->record_count && !load->failed)
        rd_kafka_poll(client, 100);
    rd_kafka_topic_destroy(topic);
}

static void check(const struct load *load, const rd_kafka_message_t *message, int64_t number)
{
    char value[VALUE_BYTES + 1];

    value_write(value, number);
    if (message->len != VALUE_BYTES || memcmp(message->payload, value, VALUE_BYTES) != 0) {
        fprintf(stderr, "load: partition %d offset %" PRId64 ": `%.*s`, expected record %" PRId64 "\n",
                message->partition, message->offset, (int)message->len, (const char *)message->payload, number);
        exit(1);
    }
    if (load->offsets[number] != message->offset) {
        fprintf(stderr, "load: record %" PRId64 " was acknowledged at %" PRId64 " and lies at %" PRId64 "\n", number,
                load->offsets[number], message->offset);
        exit(1);
    }
}

/* Reads to the end of every partition: more than was sent is a fault as much as less. */
static void consume(struct load *load)
{
    rd_kafka_conf_t *conf = client_conf(load);
    rd_kafka_topic_partition_list_t *all = rd_kafka_topic_partition_list_new(load->partition_count);
    rd_kafka_t *client;
    int64_t *next = calloc((size_t)load->partition_count, sizeof *next);
    int64_t seen = 0;
    int32_t at_end = 0;

    if (next == NULL)
        die("memory", "none left");
    set(conf, "group.id", "load"); /* asked for by the client; no group is used */
    set(conf, "enable.auto.commit", "false");
    set(conf, "enable.partition.eof", "true");
    set(conf, "check.crcs", "true");
    client = client_new(RD_KAFKA_CONSUMER, conf);
    for (int32_t p = 0; p < load->partition_count; p++) {
        rd_kafka_topic_partition_list_add(all, load->topic, p)->offset = RD_KAFKA_OFFSET_BEGINNING;
        next[p] = p;
    }
    rd_kafka_poll_set_consumer(client);
    rd_kafka_assign(client, all);
    while (seen < load->record_count || at_end < load->partition_count) {
        rd_kafka_message_t *message = rd_kafka_consumer_poll(client, CONSUME_SILENCE_MS);

        if (message == NULL) {
            fprintf(stderr, "load: %" PRId64 " of %" PRId64 " records read\n", seen, load->record_count);
            exit(1);
        }
        if (message->err == RD_KAFKA_RESP_ERR__PARTITION_EOF) {
            at_end++;
        } else if (message->err != RD_KAFKA_RESP_ERR_NO_ERROR) {
            fprintf(stderr, "load: consume: %s\n", rd_kafka_message_errstr(message));
        } else {
            if (next[message->partition] >= load->record_count)
                die("consume", "more records than were sent");
            check(load, message, next[message->partition]);
            next[message->partition] += load->partition_count;
            seen++;
        }
        rd_kafka_message_destroy(message);
    }
    rd_kafka_topic_partition_list_destroy(all);
    rd_kafka_destroy(client);
    free(next);
}

int main(int argc, char **argv)
{
    struct load load = {0};
    rd_kafka_conf_t *conf;
    rd_kafka_t *client;

    if (argc < 5)
        die("usage", "load BOOTSTRAP TOPIC PARTITIONS RECORDS [KEY=VALUE...]");
    load.bootstrap = argv[1];
    load.topic = argv[2];
    load.partition_count = (int32_t)strtol(argv[3], NULL, 10);
    load.record_count = strtoll(argv[4], NULL, 10);
    if (load.partition_count < 1 || load.partition_count > PARTITIONS_MAX || load.record_count < 1)
        die("usage", "PARTITIONS is 1 to 1000, RECORDS at least 1");
    load.offsets = malloc((size_t)load.record_count * sizeof *load.offsets);
    if (load.offsets == NULL)
        die("memory", "none left");
    for (int64_t i = 0; i < load.record_count; i++)
        load.offsets[i] = -1;

    conf = client_conf(&load);
    set(conf, "enable.idempotence", "true");
    set(conf, "linger.ms", "2");
    set(conf, "message.timeout.ms", "0"); /* a killed broker comes back; nothing is given up before */
    set(conf, "queue.buffering.max.messages", "20000");
    for (int i = 5; i < argc; i++) {
        char *value = strchr(argv[i], '=');

        if (value == NULL)
            die("usage", argv[i]);
        *value = '\0';
        set(conf, argv[i], value + 1);
    }
    rd_kafka_conf_set_dr_msg_cb(conf, on_delivery);
    client = client_new(RD_KAFKA_PRODUCER, conf);
    create_topic(&load, client);
    produce(&load, client);
    rd_kafka_destroy(client);
    if (load.failed)
        die("produce", "not every record was acknowledged");
    consume(&load);
    printf("ok %" PRId64 " records\n", load.record_count);
    free(load.offsets);
    return 0;
}
