#include "coordinator/coordinator_key.h"

#include "base/assert.h"
#include "base/utf8.h"

int32_t coordinator_key_hash(struct bytes key)
{
    uint32_t hash = 0;

    while (key.size > 0) {
        uint16_t units[2];
        uint32_t code = 0;
        uint32_t count = 0;

        utf8_take(&key, &code);
        count = utf8_units(code, units);
        for (uint32_t i = 0; i < count; i++)
            hash = 31 * hash + units[i];
    }
    return (int32_t)hash;
}

int32_t coordinator_key_partition(struct bytes key, uint32_t partitions)
{
    int32_t hash = coordinator_key_hash(key);

    assert(partitions > 0 && partitions <= INT32_MAX);
    if (hash == INT32_MIN)
        hash = 0;
    return (hash < 0 ? -hash : hash) % (int32_t)partitions;
}
