/* Rule: pieces are zeroed, apart from each other, and their blocks go back to the heap when the last of them does. */
#include <check.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/mem.h"
#include "base/slab.h"

enum { PIECE_BYTES = 600, PIECES = 1000 };

static uint32_t blocks;
static uint32_t blocks_max = UINT32_MAX;

void *__real_mem_alloc(size_t size);
void *__wrap_mem_alloc(size_t size);

void *__wrap_mem_alloc(size_t size)
{
    if (blocks == blocks_max)
        return NULL;
    blocks++;
    return __real_mem_alloc(size);
}

static bool is_all(const uint8_t *piece, uint8_t byte)
{
    for (uint32_t i = 0; i < PIECE_BYTES; i++)
        if (piece[i] != byte)
            return false;
    return true;
}

/* Whatever order they come back in, each piece keeps what was written to it, and is zero when it is taken again. */
START_TEST(pieces_are_apart)
{
    static uint8_t *pieces[PIECES];
    struct slab slab;

    slab_init(&slab, PIECE_BYTES);
    for (uint32_t round = 0; round < 3; round++) {
        for (uint32_t i = 0; i < PIECES; i++) {
            pieces[i] = slab_take(&slab);
            ck_assert_ptr_nonnull(pieces[i]);
            ck_assert(is_all(pieces[i], 0));
            memset(pieces[i], (int)(i % 251) + 1, PIECE_BYTES);
        }
        for (uint32_t i = 0; i < PIECES; i++) {
            uint32_t at = (i * 7 + round) % PIECES; /* 7 and 1000 have no common divisor */

            ck_assert(is_all(pieces[at], (uint8_t)(at % 251 + 1)));
            slab_give_back(&slab, pieces[at]);
        }
        slab_give_back(&slab, NULL);
        ck_assert_uint_eq(slab.taken, 0);
    }
    slab_deinit(&slab);
}
END_TEST

/* Without memory there is no piece, and the slab is as it was. */
START_TEST(no_memory)
{
    struct slab slab;
    void *piece = NULL;

    slab_init(&slab, PIECE_BYTES);
    blocks = 0;
    blocks_max = 0;
    ck_assert_ptr_null(slab_take(&slab));
    blocks_max = 1;
    piece = slab_take(&slab);
    ck_assert_ptr_nonnull(piece);
    slab_give_back(&slab, piece);
    slab_deinit(&slab);
    blocks_max = UINT32_MAX;
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("slab");
    TCase *tcase = tcase_create("slab");
    SRunner *runner = NULL;
    int failed = 0;

    tcase_add_test(tcase, pieces_are_apart);
    tcase_add_test(tcase, no_memory);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
