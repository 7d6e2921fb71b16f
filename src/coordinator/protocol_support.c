#include "coordinator/protocol_support.h"

#include <string.h>

#include "base/assert.h"
#include "base/mem.h"
#include "protocol/gen/consumer_group_member_metadata_record.h" /* struct classic_protocol */

struct supported {
    struct bytes name; /* its own copy, behind it */
    uint32_t members;
    uint64_t pass; /* that counted it last */
};

void protocol_support_init(struct protocol_support *support, uint64_t seed)
{
    map_init(&support->names, seed, MAP_COUNT_MAX);
    support->pass = 0;
}

void protocol_support_deinit(struct protocol_support *support)
{
    uint32_t cursor = 0;
    void *value = NULL;

    while (map_next(&support->names, &cursor, NULL, &value))
        mem_free(value);
    map_deinit(&support->names);
}

static enum err add(struct protocol_support *support, struct bytes name)
{
    struct supported *entry = map_get(&support->names, name);
    enum err err = ERR_OK;

    if (entry == NULL) {
        entry = mem_alloc(sizeof(*entry) + name.size + 1);
        if (entry == NULL)
            return ERR_NOMEM;
        if (name.size > 0)
            memcpy(entry + 1, name.data, name.size);
        *entry = (struct supported){.name = bytes_of(entry + 1, name.size)};
        err = map_insert(&support->names, entry->name, entry);
        if (err != ERR_OK) {
            mem_free(entry);
            return ERR_NOMEM;
        }
    }
    if (entry->pass != support->pass)
        entry->members++;
    entry->pass = support->pass;
    return ERR_OK;
}

enum err protocol_support_add(struct protocol_support *support, const struct classic_protocol *protocols,
                              uint32_t count)
{
    enum err err = ERR_OK;
    uint32_t added = 0;

    support->pass++;
    while (added < count && err == ERR_OK) {
        err = add(support, protocols[added].name);
        if (err == ERR_OK)
            added++;
    }
    if (err != ERR_OK)
        protocol_support_remove(support, protocols, added);
    return err;
}

void protocol_support_remove(struct protocol_support *support, const struct classic_protocol *protocols, uint32_t count)
{
    support->pass++;
    for (uint32_t i = 0; i < count; i++) {
        struct supported *entry = map_get(&support->names, protocols[i].name);

        if (entry == NULL || entry->pass == support->pass)
            continue; /* named twice */
        assert(entry->members > 0);
        entry->pass = support->pass;
        if (--entry->members == 0) {
            (void)map_remove(&support->names, entry->name);
            mem_free(entry);
        }
    }
}

uint32_t protocol_support_count(const struct protocol_support *support, struct bytes name)
{
    const struct supported *entry = map_get(&support->names, name);

    return entry == NULL ? 0 : entry->members;
}
