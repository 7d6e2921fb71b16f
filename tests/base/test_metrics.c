/*
 * Rules: a reader sees the sum of what all reactors counted, also while they count; the text is Prometheus', with one
 * heading for all labels of a name.
 */
#include <check.h>
#include <pthread.h>

#include "base/metrics.h"

enum { STEPS = 200000 };

struct text {
    char data[4096];
    size_t size;
};

static void append(void *context, struct bytes piece)
{
    struct text *text = context;

    ck_assert_uint_lt(text->size + piece.size, sizeof(text->data));
    memcpy(text->data + text->size, piece.data, piece.size);
    text->size += piece.size;
    text->data[text->size] = '\0';
}

START_TEST(sums_over_blocks)
{
    struct metrics *metrics = NULL;
    struct metrics_block *blocks[2];
    struct histogram sum;
    struct metric records;
    struct metric connections;
    struct metric latency;

    ck_assert_int_eq(metrics_new(&metrics), ERR_OK);
    records = metrics_add_counter(metrics, "records_total", "Records.");
    connections = metrics_add_gauge(metrics, "connections", "Connections.");
    latency = metrics_add_histogram(metrics, "latency_seconds", "Latency.", 1e-9);
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(metrics_block_new(metrics, &blocks[i]), ERR_OK);
    metrics_count(blocks[0], records, 5);
    metrics_count(blocks[1], records, 7);
    metrics_move(blocks[0], connections, 3);
    metrics_move(blocks[0], connections, -1);
    metrics_set(blocks[1], connections, -4);
    metrics_record(blocks[0], latency, 100);
    metrics_record(blocks[1], latency, 300);
    histogram_init(&sum);
    metrics_read_histogram(metrics, latency, &sum);
    ck_assert_uint_eq(metrics_read_counter(metrics, records), 12);
    ck_assert_int_eq(metrics_read_gauge(metrics, connections), -2);
    ck_assert_uint_eq(histogram_count(&sum), 2);
    ck_assert_uint_eq(histogram_quantile(&sum, 1), 300);
    metrics_free(metrics);
}
END_TEST

START_TEST(prometheus_text)
{
    struct metrics *metrics = NULL;
    struct metrics_block *block = NULL;
    struct metric fetch;
    struct metric latency;
    struct text text = {0};

    ck_assert_int_eq(metrics_new(&metrics), ERR_OK);
    (void)metrics_add_counter(metrics, "requests_total{api=\"Produce\"}", "Requests.");
    fetch = metrics_add_counter(metrics, "requests_total{api=\"Fetch\"}", "Requests.");
    (void)metrics_add_gauge(metrics, "requests", "Requests under way.");
    latency = metrics_add_histogram(metrics, "latency_seconds{api=\"Fetch\"}", "Latency.", 0.001);
    ck_assert_int_eq(metrics_block_new(metrics, &block), ERR_OK);
    metrics_count(block, fetch, 3);
    metrics_record(block, latency, 2);
    metrics_record(block, latency, 4);
    metrics_dump(metrics, append, &text);
    ck_assert_str_eq(text.data, "# HELP requests_total Requests.\n"
                                "# TYPE requests_total counter\n"
                                "requests_total{api=\"Produce\"} 0\n"
                                "requests_total{api=\"Fetch\"} 3\n"
                                "# HELP requests Requests under way.\n"
                                "# TYPE requests gauge\n"
                                "requests 0\n"
                                "# HELP latency_seconds Latency.\n"
                                "# TYPE latency_seconds summary\n"
                                "latency_seconds{api=\"Fetch\",quantile=\"0.5\"} 0.002\n"
                                "latency_seconds{api=\"Fetch\",quantile=\"0.9\"} 0.004\n"
                                "latency_seconds{api=\"Fetch\",quantile=\"0.99\"} 0.004\n"
                                "latency_seconds{api=\"Fetch\",quantile=\"0.999\"} 0.004\n"
                                "latency_seconds{api=\"Fetch\",quantile=\"1\"} 0.004\n"
                                "latency_seconds_sum{api=\"Fetch\"} 0.006\n"
                                "latency_seconds_count{api=\"Fetch\"} 2\n");
    metrics_free(metrics);
}
END_TEST

struct writer {
    struct metrics_block *block;
    struct metric counter;
    struct metric histogram;
};

static void *write_many(void *context)
{
    struct writer *writer = context;

    for (uint64_t i = 0; i < STEPS; i++) {
        metrics_count(writer->block, writer->counter, 1);
        metrics_record(writer->block, writer->histogram, i);
    }
    return NULL;
}

START_TEST(reading_while_two_write)
{
    struct metrics *metrics = NULL;
    struct writer writers[2];
    pthread_t threads[2];
    uint64_t before = 0;
    bool rising = true;

    ck_assert_int_eq(metrics_new(&metrics), ERR_OK);
    writers[0].counter = metrics_add_counter(metrics, "steps_total", "Steps.");
    writers[0].histogram = metrics_add_histogram(metrics, "step", "Steps.", 1);
    writers[1] = writers[0];
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(metrics_block_new(metrics, &writers[i].block), ERR_OK);
        ck_assert_int_eq(pthread_create(&threads[i], NULL, write_many, &writers[i]), 0);
    }
    while (before < STEPS) {
        uint64_t now = metrics_read_counter(metrics, writers[0].counter);
        struct histogram sum;

        histogram_init(&sum);
        metrics_read_histogram(metrics, writers[0].histogram, &sum);
        rising = rising && now >= before && histogram_count(&sum) <= 2 * STEPS;
        before = now;
    }
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    ck_assert(rising);
    ck_assert_uint_eq(metrics_read_counter(metrics, writers[0].counter), 2 * STEPS);
    metrics_free(metrics);
}
END_TEST

START_TEST(blocks_are_bounded)
{
    struct metrics *metrics = NULL;
    struct metrics_block *block = NULL;

    ck_assert_int_eq(metrics_new(&metrics), ERR_OK);
    for (int i = 0; i < METRICS_BLOCKS_MAX; i++)
        ck_assert_int_eq(metrics_block_new(metrics, &block), ERR_OK);
    ck_assert_int_eq(metrics_block_new(metrics, &block), ERR_LIMIT);
    metrics_free(metrics);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("metrics");
    TCase *tcase = tcase_create("metrics");
    SRunner *runner = srunner_create(suite);
    int failed = 0;

    tcase_add_test(tcase, sums_over_blocks);
    tcase_add_test(tcase, prometheus_text);
    tcase_add_test(tcase, reading_while_two_write);
    tcase_add_test(tcase, blocks_are_bounded);
    suite_add_tcase(suite, tcase);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
