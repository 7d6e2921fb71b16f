#include <stdio.h>
#include <stdlib.h>

#include "base/assert.h"

void assert_failed(const char *expression, const char *file, int line, const char *function)
{
    fprintf(stderr, "assertion failed: %s at %s:%d in %s\n", expression, file, line, function);
    abort();
}
