#include "net/garbage.h"

#include <stddef.h>

static bool starts_with(struct bytes start, const char *text)
{
    struct bytes wanted = bytes_of_text(text);

    return start.size >= wanted.size && bytes_equal(bytes_of(start.data, wanted.size), wanted);
}

const char *garbage_cause(struct bytes start, bool is_first)
{
    /* A request line begins with one of these (RFC 9110); "PRI " is HTTP/2's preface (RFC 9113). */
    static const char *const http[] = {"GET ", "POST", "PUT ", "HEAD", "DELE", "OPTI",
                                       "PATC", "CONN", "TRAC", "PRI ", "HTTP"};

    if (!is_first)
        return NULL;
    for (size_t i = 0; i < sizeof(http) / sizeof(http[0]); i++)
        if (starts_with(start, http[i]))
            return "HTTP: an HTTP client on a Kafka port";
    /* Record type handshake, then major version 3 (RFC 8446 5.1). */
    if (start.size >= 2 && start.data[0] == 0x16 && start.data[1] == 0x03)
        return "TLS: a TLS client on a plaintext port";
    if (starts_with(start, "SSH-"))
        return "SSH: an SSH client on a Kafka port";
    return NULL;
}
