#include "base/json_text.h"

#include "base/mem.h"

json_t *json_text(struct bytes text)
{
    json_t *value = text.data == NULL ? json_null() : json_stringn((const char *)text.data, text.size);
    char *clean = NULL;

    if (value != NULL)
        return value;
    clean = mem_copy_text(text.data, text.size);
    for (size_t i = 0; clean != NULL && i < text.size; i++)
        if ((unsigned char)clean[i] >= 0x80)
            clean[i] = '?';
    value = clean == NULL ? NULL : json_stringn(clean, text.size);
    mem_free(clean);
    return value;
}
