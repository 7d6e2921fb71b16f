#include "raftmeta/publisher.h"

#include "base/assert.h"
#include "base/list.h"
#include "base/mem.h"

struct delivery {
    struct loop_task task;
    struct metadata_listener *listener;
    struct publication *publication;
};

struct publication {
    struct publisher *publisher;
    struct publication *next;
    struct image *image;
    struct image_delta *delta;
    int64_t covers;
    bool told;               /* listeners hear of it */
    bool applied;            /* by all of them */
    atomic_uint remaining;   /* listeners that have not applied it */
    struct loop_task report; /* by the last of them, to the controller loop */
    struct delivery deliveries[];
};

struct publication *publication_new(struct publisher *publisher, struct image *image, struct image_delta *delta,
                                    int64_t covers)
{
    struct publication *publication =
        mem_calloc(1, sizeof(*publication) + publisher->listener_count * sizeof(struct delivery));

    if (publication == NULL)
        return NULL;
    publication->publisher = publisher;
    publication->image = image_keep(image);
    publication->delta = image_delta_keep(delta);
    publication->covers = covers;
    return publication;
}

void publication_free(struct publication *publication)
{
    if (publication == NULL)
        return;
    image_drop(publication->image);
    image_delta_drop(publication->delta);
    mem_free(publication);
}

struct image *publication_image(const struct publication *publication)
{
    return publication->image;
}

const struct image_delta *publication_delta(const struct publication *publication)
{
    return publication->delta;
}

/* Takes off the front what all have applied. Reports come from several threads, so one may overtake that of an earlier
 * publication; that one's is then about to come. */
static void settle(struct publisher *publisher)
{
    while (publisher->first != NULL && publisher->first->applied) {
        struct publication *head = publisher->first;

        publisher->first = head->next;
        if (publisher->first == NULL)
            publisher->last = NULL;
        publisher->covered_offset = head->covers;
        if (head->told)
            publisher->image_offset = image_offset(head->image);
        publication_free(head);
    }
    publisher->applied(publisher->context);
}

static void all_applied(struct loop_task *task)
{
    struct publication *publication = LIST_ENTRY(task, struct publication, report);

    publication->applied = true;
    settle(publication->publisher);
}

static void deliver(struct loop_task *task)
{
    struct delivery *delivery = LIST_ENTRY(task, struct delivery, task);
    struct publication *publication = delivery->publication;
    struct loop *loop = publication->publisher->loop;

    delivery->listener->publish(delivery->listener, publication->image, publication->delta);
    if (atomic_fetch_sub_explicit(&publication->remaining, 1, memory_order_acq_rel) == 1)
        loop_post(loop, &publication->report);
}

void publisher_publish(struct publisher *publisher, struct publication *publication)
{
    uint32_t place = 0;

    if (publisher->last != NULL)
        publisher->last->next = publication;
    else
        publisher->first = publication;
    publisher->last = publication;
    publication->told = !publisher->begun || !image_delta_is_empty(publication->delta);
    publisher->begun = true;
    if (!publication->told || publisher->listener_count == 0) {
        publication->applied = true;
        settle(publisher);
        return;
    }
    atomic_store_explicit(&publication->remaining, publisher->listener_count, memory_order_release);
    publication->report.run = all_applied;
    for (struct metadata_listener *at = publisher->listeners; at != NULL; at = at->next) {
        struct delivery *delivery = &publication->deliveries[place++];

        *delivery = (struct delivery){.task = {.run = deliver}, .listener = at, .publication = publication};
        loop_post(at->loop, &delivery->task);
    }
    assert(place == publisher->listener_count);
}

bool publisher_is_idle(const struct publisher *publisher)
{
    return publisher->first == NULL;
}
