#include "roaming.h"

#include <check.h>

#include "partition/deleted_dirs.h"
#include "partition/log_path.h"

void roaming_begin(struct roaming *roaming, struct world *world)
{
    *roaming = (struct roaming){.other = world->env};
    roaming->other.log_dir = "/data2";
    ck_assert_int_eq(fs_mkdir(&world->disk.fs, "/data2"), ERR_OK);
    ck_assert_int_eq(fs_sync_dir(&world->disk.fs, "/"), ERR_OK);
}

static void check_ended(struct roaming *roaming)
{
    const struct log_move *op = &roaming->op.op;

    if (!roaming->under_way || !roaming->op.done)
        return;
    ck_assert(op->moved == roaming->op.committed);
    ck_assert_msg(op->err == ERR_OK || op->err == ERR_CLOSED || op->err == ERR_NO_SPACE ||
                      op->err == roaming->op.commit_err || op->err == ERR_KAFKA_STORAGE_ERROR,
                  "not moved: %s", err_name(op->err));
    roaming->under_way = false;
    roaming->moved += op->moved;
}

void roaming_draw(struct roaming *roaming, struct world *world, struct partition_log *log)
{
    check_ended(roaming);
    if (roaming->op.committed && !roaming->under_way)
        return; /* `other` is its home until it is opened again */
    if (!roaming->under_way) {
        roaming->op = (struct moving_op){
            .commit_err = sim_draw(&world->sim, 4) == 0 ? ERR_UNKNOWN_TOPIC_ID : ERR_OK,
            .bytes_per_second = sim_draw(&world->sim, 2) == 0 ? 0 : 1000 + (double)sim_draw(&world->sim, 100000),
        };
        roaming->under_way = true;
        move_world_start(world, log, &roaming->other, &roaming->op);
    }
    if (sim_draw(&world->sim, 2) == 0) {
        roaming->op.bytes_per_second = 0;
        world_run(world, &roaming->op.done);
    }
    check_ended(roaming);
}

bool roaming_settle(struct roaming *roaming, struct world *world)
{
    bool has_moved = roaming->op.committed;
    struct log_path loser;

    check_ended(roaming);
    ck_assert(!roaming->under_way);
    if (has_moved) {
        struct partition_env here = world->env;

        world->env = roaming->other;
        roaming->other = here;
    }
    roaming->op = (struct moving_op){0};
    /* What the metadata do not name is put aside by the start. */
    ck_assert_int_eq(log_path_in(&loser, roaming->other.log_dir, "t-0"), ERR_OK);
    enum err err = deleted_dir_remove(&world->disk.fs, loser.text);

    ck_assert(err == ERR_OK || err == ERR_NOT_FOUND);
    return has_moved;
}
