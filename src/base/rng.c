#include "base/rng.h"

#include <errno.h>
#include <sys/random.h>

#include "base/assert.h"

static void real_fill(struct rng *rng, void *to, size_t size)
{
    uint8_t *at = to;

    (void)rng;
    while (size > 0) {
        ssize_t got = getrandom(at, size, 0);

        if (got < 0 && errno == EINTR)
            continue;
        /* Ids and hash seeds that are not random would be worse than a stop, and the kernel has had this call since
         * 3.17. */
        assert(got > 0);
        at += got;
        size -= (size_t)got;
    }
}

void rng_init_real(struct rng *rng)
{
    *rng = (struct rng){.fill = real_fill};
}
