/* What a group subscribes to, as its last generation has it: OffsetDelete and the expiry of offsets ask, in a rebalance
 * too, when its members say something else by now or are gone for a moment. */
#include "base/mem.h"
#include "coordinator/classic_internal.h"
#include "coordinator/embedded.h"

void classic_topics_forget(struct classic_group *classic)
{
    uint32_t cursor = 0;
    void *value = NULL;

    while (map_next(&classic->topics, &cursor, NULL, &value))
        mem_free(value);
    map_deinit(&classic->topics);
    classic->topics_known = false;
}

static enum err add_topic(struct classic_group *classic, struct bytes name)
{
    char *copy = NULL;
    enum err err = ERR_OK;

    if (map_get(&classic->topics, name) != NULL)
        return ERR_OK;
    copy = mem_copy_text(name.data, name.size);
    if (copy == NULL)
        return ERR_NOMEM;
    err = map_insert(&classic->topics, bytes_of(copy, name.size), copy);
    if (err != ERR_OK)
        mem_free(copy);
    return err;
}

/* False: its bytes are not to be read. */
static bool add_topics(struct classic_group *classic, const struct classic_member *member)
{
    struct consumer_protocol_subscription subscription;
    struct arena arena;
    enum err err = ERR_OK;

    arena_init(&arena, EMBEDDED_BYTES_MAX);
    err = embedded_read_topics(classic_member_metadata(member, classic->protocol), &arena, &subscription);
    for (uint32_t i = 0; err == ERR_OK && i < subscription.topics_count; i++)
        err = add_topic(classic, subscription.topics[i]);
    arena_deinit(&arena);
    return err == ERR_OK;
}

void classic_topics_note(struct classic_group *classic)
{
    uint32_t cursor = 0;
    void *value = NULL;
    bool known = bytes_equal(classic_protocol_type(classic), BYTES_LITERAL("consumer"));

    classic_topics_forget(classic);
    while (known && map_next(&classic->members, &cursor, NULL, &value))
        known = add_topics(classic, value);
    classic->topics_known = known;
}

bool classic_subscribes(const struct classic_group *classic, struct bytes topic, bool *known)
{
    *known = classic->topics_known;
    return classic->topics_known && map_get(&classic->topics, topic) != NULL;
}
