#include "base/err.h"

#include <errno.h>

#include "base/assert.h"

struct row {
    const char *name;
    const char *text;
    int16_t wire;
    enum err_fate fate;
};

#define ERR_ROW(name, wire, fate, text) {#name, text, wire, fate},
static const struct row table[ERR_COUNT] = {ERR_LIST(ERR_ROW)};

int16_t err_wire(enum err err)
{
    assert(err < ERR_COUNT);
    return table[err].wire;
}

const char *err_name(enum err err)
{
    assert(err < ERR_COUNT);
    return table[err].name + sizeof("ERR_") - 1;
}

const char *err_text(enum err err)
{
    assert(err < ERR_COUNT);
    return table[err].text;
}

enum err_fate err_fate(enum err err)
{
    assert(err < ERR_COUNT);
    return table[err].fate;
}

enum err err_from_wire(int16_t wire)
{
    for (enum err err = ERR_OK; err <= ERR_CONTROLLER_ID_NOT_REGISTERED; err++)
        if (table[err].wire == wire)
            return err;
    return ERR_UNKNOWN_SERVER_ERROR;
}

enum err err_from_errno(int errno_value)
{
    switch (errno_value) {
    case ENOENT:
    case ENOTDIR:
        return ERR_NOT_FOUND;
    case EEXIST:
    case ENOTEMPTY:
        return ERR_EXISTS;
    case ENOSPC:
    case EDQUOT:
    case EFBIG: /* the limit on file size: for the caller the same as a full disk */
        return ERR_NO_SPACE;
    case EACCES:
    case EPERM:
    case EROFS:
        return ERR_PERMISSION;
    case EMFILE:
    case ENFILE:
        return ERR_NO_DESCRIPTORS;
    case EAGAIN:
        return ERR_WOULD_BLOCK;
    case ENOMEM:
        return ERR_NOMEM;
    case EBUSY:
        return ERR_BUSY;
    default:
        return ERR_IO;
    }
}
