/*
 * image_edit: what image_edit.c and the files that apply each kind of record share. Inside the image only.
 */
#ifndef OTTLA_RAFTMETA_IMAGE_EDIT_H
#define OTTLA_RAFTMETA_IMAGE_EDIT_H

#include "raftmeta/image_rows.h"
#include "raftmeta/metadata_record.h"

struct image_edit {
    struct image *base;
    struct image *next;        /* with all changes so far */
    struct image_delta *delta; /* being filled; its rows are held */
    uint32_t topic_room, broker_room, configs_room;
    char message[IMAGE_MESSAGE_BYTES_MAX];
};

/* Says why. */
void edit_say(struct image_edit *edit, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The same, and gives ERR_DAMAGED. */
MUST_CHECK enum err edit_fail(struct image_edit *edit, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* A row of this topic that may be changed in place: the one that is there when the edit made it, else a copy of it that
 * takes its place. topic is a row of edit->next. */
MUST_CHECK enum err edit_topic(struct image_edit *edit, const struct image_topic *topic, struct image_topic **mine);
/* Notes a change from before to after (either NULL) and puts after into the image, or takes before out. References of
 * the caller stay his. */
MUST_CHECK enum err edit_put_topic(struct image_edit *edit, const struct image_topic *before,
                                   struct image_topic *after);
MUST_CHECK enum err edit_put_broker(struct image_edit *edit, const struct image_broker *before,
                                    struct image_broker *after);
MUST_CHECK enum err edit_put_configs(struct image_edit *edit, const struct image_configs *before,
                                     struct image_configs *after);

/* One for each group of kinds; ERR_DAMAGED with a message, or ERR_NOMEM. */
MUST_CHECK enum err image_apply_topic(struct image_edit *edit, const struct topic_record *record);
MUST_CHECK enum err image_apply_remove_topic(struct image_edit *edit, const struct remove_topic_record *record);
MUST_CHECK enum err image_apply_partition(struct image_edit *edit, const struct partition_record *record);
MUST_CHECK enum err image_apply_partition_change(struct image_edit *edit, const struct partition_change_record *record);
MUST_CHECK enum err image_apply_clear_elr(struct image_edit *edit, const struct clear_elr_record *record);
MUST_CHECK enum err image_apply_register_broker(struct image_edit *edit, const struct register_broker_record *record,
                                                int64_t offset);
MUST_CHECK enum err image_apply_unregister_broker(struct image_edit *edit,
                                                  const struct unregister_broker_record *record);
MUST_CHECK enum err image_apply_broker_change(struct image_edit *edit,
                                              const struct broker_registration_change_record *record);
MUST_CHECK enum err image_apply_fence(struct image_edit *edit, int32_t id, int64_t epoch, bool fenced);
MUST_CHECK enum err image_apply_register_controller(struct image_edit *edit,
                                                    const struct register_controller_record *record, int64_t offset);
MUST_CHECK enum err image_apply_config(struct image_edit *edit, const struct config_record *record);
/* All configurations of one resource go. */
MUST_CHECK enum err image_apply_remove_configs(struct image_edit *edit, enum config_resource_type type,
                                               struct bytes resource);
MUST_CHECK enum err image_apply_kept(struct image_edit *edit, const struct metadata_record *record);

#endif
