/* Rule: host:port is read as people write it, and nothing else passes for it. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "net/address.h"
#include "partition/run_tests.h"

static void holds(const char *text, const char *host, int port)
{
    struct net_address address;

    ck_assert_msg(address_parse(bytes_of_text(text), &address), "%s", text);
    ck_assert_str_eq(address.host, host);
    ck_assert_int_eq(address.port, port);
}

START_TEST(addresses)
{
    holds("127.0.0.1:9092", "127.0.0.1", 9092);
    holds("broker-1.example:1", "broker-1.example", 1);
    holds("[::1]:65535", "::1", 65535);
    holds(":0", "", 0);
    holds("[]:7", "", 7);
}
END_TEST

/* Beyond PORT_MAX, too. */
START_TEST(what_is_none)
{
    static const char *const texts[] = {"",           ":",       "host",    "host:", ":x",
                                        "host:65536", "host:-1", "host:1x", "::1:7", "host:99999999999999999999"};
    char longest[NET_HOST_CHARS_MAX + 8];
    struct net_address address;

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        ck_assert_msg(!address_parse(bytes_of_text(texts[i]), &address), "%s", texts[i]);
    memset(longest, 'h', sizeof(longest));
    memcpy(longest + NET_HOST_CHARS_MAX, ":1", 3);
    ck_assert(address_parse(bytes_of_text(longest), &address));
    memcpy(longest + NET_HOST_CHARS_MAX, "h:1", 4);
    ck_assert(!address_parse(bytes_of_text(longest), &address));
    ck_assert(!address_parse(bytes_of("a\0b:1", 5), &address));
}
END_TEST

RUN_TESTS("address", addresses, what_is_none)
