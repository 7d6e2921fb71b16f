/* Marks that lie beside a log and say what checkpoint files do not know. Everything here blocks. */
#include "partition/log_moved_mark.h"
#include "partition/log_opening.h"
#include "partition/log_truncation_mark.h"

/* A recovery point from before the log was cut says nothing of what was written since. */
enum err log_open_truncation_mark(struct partition_log *log, struct partition_log_spec *believed)
{
    struct log_truncation_mark mark;
    enum err err = log_truncation_mark_read(log->env->fs, log->dir, &mark);

    if (err == ERR_NOT_FOUND)
        return ERR_OK;
    if (err != ERR_OK)
        return err;
    log->truncated_until = mark.until;
    if (mark.offset < believed->recovery_point)
        believed->recovery_point = mark.offset;
    return ERR_OK;
}

/* It came from another directory: the checkpoint files of this one may not know yet what was known there. */
enum err log_open_moved_mark(struct partition_log *log, struct partition_log_spec *believed)
{
    struct log_moved_mark mark;
    enum err err = log_moved_mark_read(log->env->fs, log->dir, &mark);

    if (err == ERR_OK && believed->foreign) /* who knows nothing of the mark may have cut the log and gone on */
        return log_moved_mark_remove(log->env->fs, log->dir);
    if (err == ERR_NOT_FOUND)
        return ERR_OK;
    if (err != ERR_OK)
        return err;
    if (mark.recovery_point > believed->recovery_point)
        believed->recovery_point = mark.recovery_point;
    if (mark.start_offset > believed->start_offset)
        believed->start_offset = mark.start_offset;
    if (mark.cleaned_offset > log->cleaned_offset)
        log->cleaned_offset = mark.cleaned_offset;
    return ERR_OK;
}
