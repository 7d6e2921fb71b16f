#include "base/metrics.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/assert.h"
#include "base/mem.h"

enum { LINE_BYTES_MAX = 512 };

enum kind { KIND_COUNTER, KIND_GAUGE, KIND_HISTOGRAM };

struct row {
    const char *name;
    const char *help;
    enum kind kind;
    double scale;
};

/* A number, or a histogram that is made at its first value: most APIs of most reactors never see one. */
union cell {
    atomic_uint_least64_t number;
    _Atomic(struct histogram *) histogram;
};

struct metrics_block {
    uint32_t count;
    atomic_uint_least64_t lost; /* values without memory */
    union cell cells[];
};

struct metrics {
    struct row rows[METRICS_MAX];
    uint32_t row_count;
    atomic_uint block_count;
    struct metrics_block *blocks[METRICS_BLOCKS_MAX];
};

enum err metrics_new(struct metrics **metrics)
{
    *metrics = mem_calloc(1, sizeof(**metrics));
    return *metrics == NULL ? ERR_NOMEM : ERR_OK;
}

static uint32_t block_count(const struct metrics *metrics)
{
    return atomic_load_explicit(&metrics->block_count, memory_order_acquire);
}

void metrics_free(struct metrics *metrics)
{
    if (metrics == NULL)
        return;
    for (uint32_t b = 0; b < block_count(metrics); b++) {
        for (uint32_t i = 0; i < metrics->row_count; i++)
            if (metrics->rows[i].kind == KIND_HISTOGRAM)
                mem_free(atomic_load(&metrics->blocks[b]->cells[i].histogram));
        mem_free(metrics->blocks[b]);
    }
    mem_free(metrics);
}

static struct metric add(struct metrics *metrics, struct row row)
{
    assert(metrics->row_count < METRICS_MAX && block_count(metrics) == 0);
    metrics->rows[metrics->row_count] = row;
    return (struct metric){metrics->row_count++};
}

struct metric metrics_add_counter(struct metrics *metrics, const char *name, const char *help)
{
    return add(metrics, (struct row){name, help, KIND_COUNTER, 1});
}

struct metric metrics_add_gauge(struct metrics *metrics, const char *name, const char *help)
{
    return add(metrics, (struct row){name, help, KIND_GAUGE, 1});
}

struct metric metrics_add_histogram(struct metrics *metrics, const char *name, const char *help, double scale)
{
    return add(metrics, (struct row){name, help, KIND_HISTOGRAM, scale});
}

enum err metrics_block_new(struct metrics *metrics, struct metrics_block **block)
{
    uint32_t count = block_count(metrics);
    struct metrics_block *made = NULL;

    if (count == METRICS_BLOCKS_MAX)
        return ERR_LIMIT;
    made = mem_calloc(1, sizeof(*made) + metrics->row_count * sizeof(made->cells[0]));
    if (made == NULL)
        return ERR_NOMEM;
    made->count = metrics->row_count;
    metrics->blocks[count] = made;
    atomic_store_explicit(&metrics->block_count, count + 1, memory_order_release);
    *block = made;
    return ERR_OK;
}

/* One writer: a plain add, of which readers see the old or the new value. */
static void add_number(atomic_uint_least64_t *number, uint64_t more)
{
    atomic_store_explicit(number, atomic_load_explicit(number, memory_order_relaxed) + more, memory_order_relaxed);
}

void metrics_count(struct metrics_block *block, struct metric metric, uint64_t more)
{
    assert(metric.slot < block->count);
    add_number(&block->cells[metric.slot].number, more);
}

void metrics_set(struct metrics_block *block, struct metric metric, int64_t level)
{
    assert(metric.slot < block->count);
    atomic_store_explicit(&block->cells[metric.slot].number, (uint64_t)level, memory_order_relaxed);
}

void metrics_move(struct metrics_block *block, struct metric metric, int64_t by)
{
    metrics_count(block, metric, (uint64_t)by); /* two's complement: a negative step falls */
}

void metrics_record(struct metrics_block *block, struct metric metric, uint64_t value)
{
    struct histogram *histogram = NULL;

    assert(metric.slot < block->count);
    histogram = atomic_load_explicit(&block->cells[metric.slot].histogram, memory_order_relaxed);
    if (histogram == NULL) {
        histogram = mem_calloc(1, sizeof(*histogram));
        if (histogram == NULL) {
            add_number(&block->lost, 1);
            return;
        }
        atomic_store_explicit(&block->cells[metric.slot].histogram, histogram, memory_order_release);
    }
    histogram_record(histogram, value);
}

uint64_t metrics_read_counter(const struct metrics *metrics, struct metric metric)
{
    uint64_t sum = 0;

    assert(metric.slot < metrics->row_count && metrics->rows[metric.slot].kind != KIND_HISTOGRAM);
    for (uint32_t b = 0; b < block_count(metrics); b++)
        sum += atomic_load_explicit(&metrics->blocks[b]->cells[metric.slot].number, memory_order_relaxed);
    return sum;
}

int64_t metrics_read_gauge(const struct metrics *metrics, struct metric metric)
{
    return (int64_t)metrics_read_counter(metrics, metric);
}

void metrics_read_histogram(const struct metrics *metrics, struct metric metric, struct histogram *into)
{
    assert(metric.slot < metrics->row_count && metrics->rows[metric.slot].kind == KIND_HISTOGRAM);
    for (uint32_t b = 0; b < block_count(metrics); b++) {
        const struct histogram *from =
            atomic_load_explicit(&metrics->blocks[b]->cells[metric.slot].histogram, memory_order_acquire);

        if (from != NULL)
            histogram_merge(into, from);
    }
}

/* Where the output goes. */
struct sink {
    metrics_write_fn *write;
    void *context;
};

static void write_line(const struct sink *sink, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void write_line(const struct sink *sink, const char *format, ...)
{
    char line[LINE_BYTES_MAX];
    va_list arguments;
    int size = 0;

    va_start(arguments, format);
    size = vsnprintf(line, sizeof(line), format, arguments);
    va_end(arguments);
    /* Names and helps are ours, so a line that does not fit is a mistake of ours. */
    assert(size > 0 && size < LINE_BYTES_MAX);
    sink->write(sink->context, bytes_of(line, (size_t)size));
}

/* A name without its labels, and the labels without their braces. */
static int base_size(const char *name)
{
    return (int)strcspn(name, "{");
}

static int labels_of(const char *name, const char **labels)
{
    size_t size = strlen(name);
    size_t base = (size_t)base_size(name);

    *labels = base == size ? "" : name + base + 1;
    return base == size ? 0 : (int)(size - base - 2);
}

static void write_histogram(const struct sink *sink, const struct metrics *metrics, uint32_t slot)
{
    static const double shares[] = {0.5, 0.9, 0.99, 0.999, 1};
    const struct row *row = &metrics->rows[slot];
    struct histogram sum;
    const char *labels = NULL;
    int labels_size = labels_of(row->name, &labels);
    const char *brace[2] = {labels_size > 0 ? "{" : "", labels_size > 0 ? "}" : ""};

    histogram_init(&sum);
    metrics_read_histogram(metrics, (struct metric){slot}, &sum);
    for (size_t i = 0; i < sizeof(shares) / sizeof(shares[0]); i++)
        write_line(sink, "%.*s{%.*s%squantile=\"%g\"} %.9g\n", base_size(row->name), row->name, labels_size, labels,
                   labels_size > 0 ? "," : "", shares[i], (double)histogram_quantile(&sum, shares[i]) * row->scale);
    write_line(sink, "%.*s_sum%s%.*s%s %.9g\n", base_size(row->name), row->name, brace[0], labels_size, labels,
               brace[1], (double)atomic_load(&sum.sum) * row->scale);
    write_line(sink, "%.*s_count%s%.*s%s %" PRIu64 "\n", base_size(row->name), row->name, brace[0], labels_size, labels,
               brace[1], histogram_count(&sum));
}

static void write_row(const struct sink *sink, const struct metrics *metrics, uint32_t slot)
{
    const struct row *row = &metrics->rows[slot];

    switch (row->kind) {
    case KIND_COUNTER:
        write_line(sink, "%s %" PRIu64 "\n", row->name, metrics_read_counter(metrics, (struct metric){slot}));
        break;
    case KIND_GAUGE:
        write_line(sink, "%s %" PRId64 "\n", row->name, metrics_read_gauge(metrics, (struct metric){slot}));
        break;
    case KIND_HISTOGRAM:
        write_histogram(sink, metrics, slot);
        break;
    }
}

void metrics_dump(const struct metrics *metrics, metrics_write_fn *write, void *context)
{
    static const char *const types[] = {"counter", "gauge", "summary"};
    struct sink sink = {write, context};
    const char *before = "";

    for (uint32_t i = 0; i < metrics->row_count; i++) {
        const struct row *row = &metrics->rows[i];
        int base = base_size(row->name);

        /* One heading for all labels of a name. */
        if (base != base_size(before) || strncmp(before, row->name, (size_t)base) != 0) {
            write_line(&sink, "# HELP %.*s %s\n", base, row->name, row->help);
            write_line(&sink, "# TYPE %.*s %s\n", base, row->name, types[row->kind]);
        }
        before = row->name;
        write_row(&sink, metrics, i);
    }
}
