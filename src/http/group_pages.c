#include "http/group_pages.h"

#include <jansson.h>
#include <stdlib.h>

#include "base/mem.h"
#include "http/group_json.h"

struct page {
    struct group_pages *pages;
    struct http_exchange *exchange;
};

/* ---- paths ---- */

/* %2F and its like; false: that is none. */
static bool unescape(struct bytes from, uint8_t *to, struct bytes *text)
{
    size_t size = 0;

    for (size_t i = 0; i < from.size; i++) {
        if (from.data[i] != '%') {
            to[size++] = from.data[i];
            continue;
        }
        if (i + 2 >= from.size || byte_hex_digit(from.data[i + 1]) < 0 || byte_hex_digit(from.data[i + 2]) < 0)
            return false;
        to[size++] = (uint8_t)(byte_hex_digit(from.data[i + 1]) * 16 + byte_hex_digit(from.data[i + 2]));
        i += 2;
    }
    *text = bytes_of(to, size);
    return true;
}

static bool take_prefix(struct bytes *path, struct bytes prefix)
{
    if (path->size < prefix.size || memcmp(path->data, prefix.data, prefix.size) != 0)
        return false;
    *path = bytes_of(path->data + prefix.size, path->size - prefix.size);
    return true;
}

bool group_pages_parse(struct bytes path, uint8_t *to, enum group_query_kind *kind, struct bytes *group_id)
{
    const uint8_t *question = memchr(path.data, '?', path.size);
    const uint8_t *slash = NULL;
    struct bytes rest = {0};

    if (question != NULL)
        path.size = (size_t)(question - path.data);
    *group_id = BYTES_LITERAL("");
    *kind = GROUP_QUERY_LIST;
    if (!take_prefix(&path, BYTES_LITERAL("/groups")))
        return false;
    if (path.size == 0 || bytes_equal(path, BYTES_LITERAL("/")))
        return true;
    if (!take_prefix(&path, BYTES_LITERAL("/")))
        return false;
    slash = memchr(path.data, '/', path.size);
    if (slash != NULL) {
        rest = bytes_of(slash + 1, path.size - (size_t)(slash - path.data) - 1);
        path.size = (size_t)(slash - path.data);
    }
    *kind = GROUP_QUERY_DESCRIBE;
    if (bytes_equal(rest, BYTES_LITERAL("lag")))
        *kind = GROUP_QUERY_LAG;
    else if (bytes_equal(rest, BYTES_LITERAL("history")))
        *kind = GROUP_QUERY_HISTORY;
    else if (rest.size > 0)
        return false;
    return unescape(path, to, group_id) && group_id->size > 0;
}

/* ---- answers ---- */

static void reply(struct http_exchange *exchange, int status, json_t *value)
{
    size_t flags = JSON_INDENT(2) | JSON_REAL_PRECISION(12);
    size_t size = value == NULL ? 0 : json_dumpb(value, NULL, 0, flags);
    char *text = size == 0 ? NULL : mem_alloc(size);

    if (text == NULL || json_dumpb(value, text, size, flags) != size)
        http_reply(exchange, 500, BYTES_LITERAL("{\"error\": \"out of memory\"}"));
    else
        http_reply(exchange, status, bytes_of(text, size));
    json_decref(value);
    mem_free(text);
}

static void reply_error(struct http_exchange *exchange, int status, const char *why, enum err err)
{
    reply(exchange, status, group_json_error(why, err));
}

static int status_of(enum err err)
{
    switch (err) {
    case ERR_GROUP_ID_NOT_FOUND:
        return 404;
    case ERR_NOT_COORDINATOR:
    case ERR_COORDINATOR_NOT_AVAILABLE:
    case ERR_COORDINATOR_LOAD_IN_PROGRESS:
    case ERR_BUSY:
        return 503;
    default:
        return 500;
    }
}

static void done(struct group_query *query)
{
    struct page *page = query->context;

    page->pages->queries--;
    if (query->err != ERR_OK)
        reply_error(page->exchange, status_of(query->err), err_text(query->err), query->err);
    else
        reply(page->exchange, 200, group_json(query, clock_wall_ms(page->pages->clock)));
    group_query_free(query);
    mem_free(page);
}

void group_pages_asked(void *context, struct http_exchange *exchange, struct bytes path)
{
    struct group_pages *pages = context;
    uint8_t group_text[HTTP_REQUEST_BYTES_MAX];
    struct group_query *query = NULL;
    struct page *page = NULL;
    struct bytes group_id = {0};
    enum group_query_kind kind = GROUP_QUERY_LIST;

    if (!group_pages_parse(path, group_text, &kind, &group_id)) {
        reply_error(exchange, 404, "there are /groups, /groups/<id>, /groups/<id>/lag and /groups/<id>/history",
                    ERR_OK);
        return;
    }
    if (pages->queries == GROUP_PAGES_QUERIES_MAX) {
        reply_error(exchange, 503, "too many questions at once", ERR_BUSY);
        return;
    }
    page = mem_calloc(1, sizeof(*page));
    if (page == NULL || group_query_new(pages->broker, pages->loop, kind, group_id, &query) != ERR_OK) {
        mem_free(page);
        reply_error(exchange, 500, "out of memory", ERR_NOMEM);
        return;
    }
    *page = (struct page){pages, exchange};
    query->context = page;
    query->done = done;
    pages->queries++;
    group_query_run(query);
}
