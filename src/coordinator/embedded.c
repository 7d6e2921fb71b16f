#include "coordinator/embedded.h"

static enum err read_version(struct bytes text, int16_t newest, struct wire_reader *reader, int16_t *version)
{
    if (text.size < EMBEDDED_VERSION_BYTES)
        return ERR_MALFORMED;
    wire_reader_init(reader, text);
    *version = wire_read_i16(reader);
    if (*version < 0)
        return ERR_MALFORMED;
    if (*version > newest)
        *version = newest;
    return ERR_OK;
}

static enum err read_subscription(struct bytes text, int16_t newest, struct arena *arena,
                                  struct consumer_protocol_subscription *subscription)
{
    struct wire_reader reader;
    int16_t version = 0;
    enum err err = read_version(text, newest, &reader, &version);

    return err == ERR_OK ? consumer_protocol_subscription_read(&reader, arena, version, subscription) : err;
}

enum err embedded_read_subscription(struct bytes text, struct arena *arena,
                                    struct consumer_protocol_subscription *subscription)
{
    return read_subscription(text, CONSUMER_PROTOCOL_SUBSCRIPTION_VERSION_MAX, arena, subscription);
}

enum err embedded_read_topics(struct bytes text, struct arena *arena,
                              struct consumer_protocol_subscription *subscription)
{
    return read_subscription(text, 0, arena, subscription);
}

enum err embedded_read_assignment(struct bytes text, struct arena *arena,
                                  struct consumer_protocol_assignment *assignment)
{
    struct wire_reader reader;
    int16_t version = 0;
    enum err err = read_version(text, CONSUMER_PROTOCOL_ASSIGNMENT_VERSION_MAX, &reader, &version);

    return err == ERR_OK ? consumer_protocol_assignment_read(&reader, arena, version, assignment) : err;
}

int16_t embedded_assignment_version(struct bytes subscription)
{
    struct wire_reader reader;
    int16_t version = 0;

    return read_version(subscription, CONSUMER_PROTOCOL_ASSIGNMENT_VERSION_MAX, &reader, &version) == ERR_OK ? version
                                                                                                             : 0;
}
