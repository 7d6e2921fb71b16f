#include "cli/http_get.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "net/dial.h"

enum { REQUEST_BYTES_MAX = 128 * 1024, READ_BYTES = 64 * 1024, STATUS_OK = 200, DECIMAL = 10 };

/* Everything up to the end of the connection; it asks for one. */
static enum err read_all(struct dial *dial, uint8_t **data, uint32_t *size)
{
    uint32_t room = 0;
    size_t got = 1;
    enum err err = ERR_OK;

    while (err == ERR_OK && got > 0) {
        if (*size > HTTP_GET_BYTES_MAX)
            return ERR_LIMIT;
        err = mem_grow(data, &room, *size + READ_BYTES, READ_BYTES, 1);
        if (err == ERR_OK)
            err = dial_read_some(dial, *data + *size, READ_BYTES, &got);
        *size += err == ERR_OK ? (uint32_t)got : 0;
    }
    return err;
}

/* "HTTP/1.1 200 OK": the number; -1 for anything else. */
static long status_of(struct bytes answer)
{
    char text[4] = "";

    if (answer.size < sizeof("HTTP/1.1 200") || memcmp(answer.data, "HTTP/1.", 7) != 0)
        return -1;
    memcpy(text, answer.data + 9, 3);
    return strtol(text, NULL, DECIMAL);
}

static json_t *parse(struct bytes answer, char message[HTTP_GET_MESSAGE_CHARS])
{
    const uint8_t *body = memmem(answer.data, answer.size, "\r\n\r\n", 4);
    long status = status_of(answer);
    json_error_t error;
    json_t *value = NULL;

    if (body == NULL || status < 0) {
        (void)snprintf(message, HTTP_GET_MESSAGE_CHARS, "the answer is not HTTP");
        return NULL;
    }
    body += 4;
    value = json_loadb((const char *)body, answer.size - (size_t)(body - answer.data), 0, &error);
    if (value == NULL)
        (void)snprintf(message, HTTP_GET_MESSAGE_CHARS, "the answer is no JSON: %.200s", error.text);
    if (value != NULL && status != STATUS_OK) {
        const char *why = json_string_value(json_object_get(value, "error"));

        (void)snprintf(message, HTTP_GET_MESSAGE_CHARS, "%.400s", why == NULL ? "the answer is an error" : why);
        json_decref(value);
        value = NULL;
    }
    return value;
}

json_t *http_get(struct clock *clock, const struct net_address *address, const char *path, int64_t timeout_ms,
                 char message[HTTP_GET_MESSAGE_CHARS])
{
    struct dial dial;
    char *request = NULL;
    uint8_t *data = NULL;
    uint32_t size = 0;
    int request_size = 0;
    json_t *value = NULL;
    enum err err = dial_open(&dial, clock, address->host, address->port, timeout_ms);

    if (err != ERR_OK)
        goto out;
    request = mem_alloc(REQUEST_BYTES_MAX);
    err = ERR_NOMEM;
    if (request == NULL)
        goto out;
    request_size = snprintf(request, REQUEST_BYTES_MAX,
                            "GET %s HTTP/1.1\r\nHost: %s:%u\r\nAccept: application/json\r\nConnection: close\r\n\r\n",
                            path, address->host, address->port);
    err = ERR_LIMIT;
    if (request_size < 0 || request_size >= REQUEST_BYTES_MAX)
        goto out;
    err = dial_write(&dial, bytes_of(request, (size_t)request_size));
    if (err == ERR_OK)
        err = read_all(&dial, &data, &size);
    if (err == ERR_OK)
        value = parse(bytes_of(data, size), message);
out:
    if (err != ERR_OK)
        (void)snprintf(message, HTTP_GET_MESSAGE_CHARS, "http://%.200s:%u: %s", address->host, address->port,
                       err == ERR_CLOSED ? "nobody listens there" : err_text(err));
    mem_free(request);
    mem_free(data);
    dial_close(&dial);
    return value;
}
