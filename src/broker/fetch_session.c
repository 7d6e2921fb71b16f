#include "broker/fetch_session.h"

#include "base/assert.h"
#include "base/mem.h"

enum { INDEX_FROM = 16 }; /* entries from which a map pays off */

void fetch_sessions_init(struct fetch_sessions *sessions, uint32_t slots, const struct fetch_session_limits *limits,
                         uint32_t shard, struct rng *rng)
{
    *sessions =
        (struct fetch_sessions){.slots = slots, .limits = *limits, .shard = shard, .rng = rng, .seed = rng_u64(rng)};
    map_u64_init(&sessions->by_id, rng_u64(rng), slots > 0 ? slots : 1);
    list_init(&sessions->by_use);
}

void fetch_sessions_deinit(struct fetch_sessions *sessions)
{
    for (struct list_node *node = NULL; (node = list_take_first(&sessions->by_use)) != NULL;)
        fetch_session_free(LIST_ENTRY(node, struct fetch_session, by_use));
    map_u64_deinit(&sessions->by_id);
}

/* ---- entries ---- */

/* A name or an id, and a partition. */
struct key {
    struct bytes name;
    struct uuid id;
    int32_t index;
};

static bool entry_is(const struct fetch_session *session, const struct fetch_entry *entry, const struct key *key)
{
    if (entry->index != key->index)
        return false;
    return session->by_id ? uuid_equal(entry->topic_id, key->id) : bytes_equal(entry->name, key->name);
}

enum { KEY_BYTES_MAX = INT16_MAX + 4 };

/* In the map the key is the id or name with the partition in front. */
static struct bytes map_key(const struct fetch_session *session, const struct key *key, uint8_t *buffer)
{
    struct bytes topic = session->by_id ? bytes_of(key->id.bytes, UUID_BYTES) : key->name;

    memcpy(buffer, &key->index, sizeof(key->index));
    memcpy(buffer + sizeof(key->index), topic.data, topic.size);
    return bytes_of(buffer, sizeof(key->index) + topic.size);
}

static struct fetch_entry *find(const struct fetch_session *session, const struct key *key)
{
    uint8_t buffer[KEY_BYTES_MAX];

    if (session->indexed)
        return map_get(&session->index, map_key(session, key, buffer));
    list_each (&session->entries, node) {
        struct fetch_entry *entry = LIST_ENTRY(node, struct fetch_entry, node);

        if (entry_is(session, entry, key))
            return entry;
    }
    return NULL;
}

static struct key key_of(const struct fetch_entry *entry)
{
    return (struct key){entry->name, entry->topic_id, entry->index};
}

static struct bytes entry_key(const struct fetch_entry *entry)
{
    return bytes_of(entry->key, entry->key_size);
}

static enum err index_add(struct fetch_session *session, struct fetch_entry *entry)
{
    return map_insert(&session->index, entry_key(entry), entry);
}

static void index_remove(struct fetch_session *session, struct fetch_entry *entry)
{
    if (session->indexed)
        (void)map_remove(&session->index, entry_key(entry));
}

static enum err index_begin(struct fetch_session *session)
{
    session->indexed = true;
    list_each (&session->entries, node) {
        enum err err = index_add(session, LIST_ENTRY(node, struct fetch_entry, node));

        if (err != ERR_OK)
            return err;
    }
    return ERR_OK;
}

static void entry_free(struct fetch_entry *entry)
{
    assert(entry->part == NULL);
    mem_free(entry);
}

static size_t entry_bytes(size_t key_size)
{
    return sizeof(struct fetch_entry) + key_size;
}

static struct fetch_entry *entry_new(const struct fetch_session *session, const struct key *key)
{
    uint8_t buffer[KEY_BYTES_MAX];
    struct bytes bytes = map_key(session, key, buffer);
    struct fetch_entry *entry = mem_calloc(1, entry_bytes(bytes.size));

    if (entry == NULL)
        return NULL;
    list_node_init(&entry->node);
    list_node_init(&entry->changed);
    list_node_init(&entry->ready);
    list_node_init(&entry->all);
    entry->key_size = bytes.size;
    memcpy(entry->key, bytes.data, bytes.size);
    entry->index = key->index;
    if (session->by_id)
        entry->topic_id = key->id;
    else
        entry->name = bytes_of(entry->key + sizeof(key->index), bytes.size - sizeof(key->index));
    entry->told_high_watermark = -1;
    entry->told_log_start = -1;
    return entry;
}

static enum err entry_add(struct fetch_session *session, const struct key *key, struct fetch_entry **added)
{
    struct fetch_entry *entry = NULL;
    enum err err = ERR_OK;

    if (session->count == FETCH_PARTITIONS_MAX)
        return ERR_LIMIT;
    if (session->count == INDEX_FROM && !session->indexed) {
        err = index_begin(session);
        if (err != ERR_OK)
            return err;
    }
    entry = entry_new(session, key);
    if (entry == NULL)
        return ERR_NOMEM;
    if (entry_bytes(entry->key_size) > session->bytes_max - session->bytes)
        err = ERR_LIMIT;
    if (err == ERR_OK && session->indexed)
        err = index_add(session, entry);
    if (err != ERR_OK) {
        entry_free(entry);
        return err;
    }
    entry->order = session->next_order++;
    list_add_last(&session->entries, &entry->node);
    list_add_last(&session->unplaced, &entry->all);
    session->count++;
    session->bytes += entry_bytes(entry->key_size);
    *added = entry;
    return ERR_OK;
}

static enum err entry_take(struct fetch_session *session, const struct key *key,
                           const struct fetch_request_fetch_partition *partition)
{
    struct fetch_entry *entry = find(session, key);
    enum err err = ERR_OK;

    if (entry == NULL)
        err = entry_add(session, key, &entry);
    if (err != ERR_OK)
        return err;
    entry->offset = partition->fetch_offset;
    entry->bytes_max = partition->partition_max_bytes;
    entry->leader_epoch = partition->current_leader_epoch;
    entry->last_fetched_epoch = partition->last_fetched_epoch;
    entry->log_start_offset = partition->log_start_offset;
    if (!list_node_is_linked(&entry->changed))
        list_add_last(&session->changed, &entry->changed);
    return ERR_OK;
}

static void entry_forget(struct fetch_session *session, struct fetch_entry *entry)
{
    index_remove(session, entry);
    list_remove(&entry->changed);
    list_remove(&entry->node);
    session->stale_count -= entry->stale;
    if (entry->part == NULL)
        list_remove(&entry->all);
    list_add_last(&session->forgotten, &entry->node);
    session->count--;
    session->bytes -= entry_bytes(entry->key_size);
}

void fetch_session_move_last(struct fetch_session *session, struct fetch_entry *entry)
{
    list_remove(&entry->node);
    entry->order = session->next_order++;
    list_add_last(&session->entries, &entry->node);
}

enum err fetch_session_renew(struct fetch_session *session, struct fetch_entry *entry)
{
    struct fetch_entry *fresh = NULL;
    struct key key = key_of(entry);
    enum err err = ERR_OK;

    entry_forget(session, entry);
    err = entry_add(session, &key, &fresh);
    if (err != ERR_OK)
        return err;
    fresh->offset = entry->offset;
    fresh->bytes_max = entry->bytes_max;
    fresh->leader_epoch = entry->leader_epoch;
    fresh->last_fetched_epoch = entry->last_fetched_epoch;
    fresh->log_start_offset = entry->log_start_offset;
    return ERR_OK;
}

bool fetch_entry_shows(struct fetch_entry *entry, bool incremental, enum err err, size_t record_bytes, bool diverging,
                       int64_t high_watermark, int64_t log_start)
{
    bool shows = !incremental || record_bytes > 0 || err != ERR_OK || diverging;

    if (entry->told_high_watermark != high_watermark) {
        shows = true;
        entry->told_high_watermark = high_watermark;
    }
    if (entry->told_log_start != log_start) {
        shows = true;
        entry->told_log_start = log_start;
    }
    /* So that it shows once more when the error is over (KIP-227). */
    if (err != ERR_OK)
        entry->told_high_watermark = -1;
    entry->told_missing = err == ERR_UNKNOWN_TOPIC_OR_PARTITION || err == ERR_UNKNOWN_TOPIC_ID;
    return shows;
}

/* ---- sessions ---- */

static struct fetch_session *session_new(struct fetch_sessions *sessions, bool by_id, bool follower, int64_t now_ns)
{
    uint64_t seed = sessions->seed++;
    struct fetch_session *session = mem_calloc(1, sizeof(*session));

    if (session == NULL)
        return NULL;
    session->by_id = by_id;
    session->follower = follower;
    session->created_ns = now_ns;
    session->used_ns = now_ns;
    session->bytes_max = sessions->limits.one_bytes_max;
    list_init(&session->entries);
    list_init(&session->changed);
    list_init(&session->forgotten);
    list_init(&session->unplaced);
    list_node_init(&session->by_use);
    map_init(&session->index, seed, FETCH_PARTITIONS_MAX + 1);
    return session;
}

static void free_entries(struct list *list)
{
    for (struct list_node *node = NULL; (node = list_take_first(list)) != NULL;)
        entry_free(LIST_ENTRY(node, struct fetch_entry, node));
}

void fetch_session_free(struct fetch_session *session)
{
    if (session == NULL)
        return;
    assert(session->parts == NULL && !session->in_use);
    map_deinit(&session->index);
    free_entries(&session->entries);
    free_entries(&session->forgotten);
    mem_free(session);
}

static void uncache(struct fetch_sessions *sessions, struct fetch_session *session)
{
    if (!session->cached)
        return;
    session->cached = false;
    sessions->bytes -= session->counted_bytes;
    session->counted_bytes = 0;
    (void)map_u64_remove(&sessions->by_id, (uint64_t)session->id);
    list_remove(&session->by_use);
}

static void count_bytes(struct fetch_sessions *sessions, struct fetch_session *session)
{
    sessions->bytes += session->bytes - session->counted_bytes;
    session->counted_bytes = session->bytes;
}

static void end(struct fetch_sessions *sessions, struct fetch_session *session)
{
    if (sessions->closed != NULL)
        sessions->closed(sessions->context, session);
    else
        fetch_session_free(session);
}

void fetch_session_close(struct fetch_sessions *sessions, struct fetch_session *session)
{
    uncache(sessions, session);
    if (!session->in_use)
        end(sessions, session);
}

void fetch_sessions_close_all(struct fetch_sessions *sessions)
{
    for (struct list_node *node = NULL; (node = list_first(&sessions->by_use)) != NULL;)
        fetch_session_close(sessions, LIST_ENTRY(node, struct fetch_session, by_use));
}

static bool has_room(const struct fetch_sessions *sessions, size_t bytes)
{
    return map_u64_count(&sessions->by_id) < sessions->slots &&
           sessions->bytes <= sessions->limits.cached_bytes_max - bytes;
}

/* The session that nobody used for longest may go: unused for two minutes, or a consumer's where a follower asks. */
static struct fetch_session *find_spare(const struct fetch_sessions *sessions, bool follower, int64_t now_ns)
{
    list_each (&sessions->by_use, node) {
        struct fetch_session *oldest = LIST_ENTRY(node, struct fetch_session, by_use);

        if (now_ns - oldest->used_ns >= FETCH_SESSION_IDLE_NS || (follower && !oldest->follower))
            return oldest;
    }
    return NULL;
}

static bool make_room(struct fetch_sessions *sessions, const struct fetch_session *session, int64_t now_ns)
{
    if (session->bytes > sessions->limits.cached_bytes_max)
        return false;
    while (!has_room(sessions, session->bytes)) {
        struct fetch_session *spare = find_spare(sessions, session->follower, now_ns);

        if (spare == NULL)
            return false;
        sessions->evictions++;
        fetch_session_close(sessions, spare);
    }
    return true;
}

/* Ids are positive; the low bits tell shards apart. */
static int32_t draw_id(struct fetch_sessions *sessions)
{
    for (;;) {
        uint32_t draw = (uint32_t)rng_u64(sessions->rng);
        int32_t id = (int32_t)((draw << 8 | (sessions->shard & 0xff)) & INT32_MAX);

        if (id > 0 && map_u64_get(&sessions->by_id, (uint64_t)id) == NULL)
            return id;
    }
}

uint32_t fetch_session_shard(int32_t id)
{
    return (uint32_t)id & 0xff;
}

static void cache(struct fetch_sessions *sessions, struct fetch_session *session, int64_t now_ns)
{
    if (!make_room(sessions, session, now_ns))
        return;
    session->id = draw_id(sessions);
    if (map_u64_insert(&sessions->by_id, (uint64_t)session->id, session) != ERR_OK) {
        session->id = 0;
        return;
    }
    session->cached = true;
    count_bytes(sessions, session);
    session->next_epoch = 1;
    list_add_last(&sessions->by_use, &session->by_use);
}

static enum err take_topics(struct fetch_session *session, const struct fetch_request *request)
{
    for (uint32_t i = 0; i < request->topics_count; i++) {
        const struct fetch_request_fetch_topic *topic = &request->topics[i];

        for (uint32_t j = 0; j < topic->partitions_count; j++) {
            struct key key = {topic->topic, topic->topic_id, topic->partitions[j].partition};
            enum err err = entry_take(session, &key, &topic->partitions[j]);

            if (err != ERR_OK)
                return err;
        }
    }
    return ERR_OK;
}

static void forget_topics(struct fetch_session *session, const struct fetch_request *request)
{
    for (uint32_t i = 0; i < request->forgotten_topics_data_count; i++) {
        const struct fetch_request_forgotten_topic *topic = &request->forgotten_topics_data[i];

        for (uint32_t j = 0; j < topic->partitions_count; j++) {
            struct key key = {topic->topic, topic->topic_id, topic->partitions[j]};
            struct fetch_entry *entry = find(session, &key);

            if (entry != NULL)
                entry_forget(session, entry);
        }
    }
}

static struct fetch_session *find_session(const struct fetch_sessions *sessions, int32_t id)
{
    return id <= 0 ? NULL : map_u64_get(&sessions->by_id, (uint64_t)id);
}

static void begin_full(struct fetch_sessions *sessions, const struct fetch_request *request, bool by_id, int64_t now_ns,
                       struct fetch_plan *plan)
{
    struct fetch_session *old = find_session(sessions, request->session_id);
    bool follower = request->replica_id >= 0 || request->replica_state.replica_id >= 0;
    struct fetch_session *session = session_new(sessions, by_id, follower, now_ns);

    if (old != NULL)
        fetch_session_close(sessions, old);
    plan->err = session == NULL ? ERR_NOMEM : take_topics(session, request);
    if (plan->err != ERR_OK) {
        fetch_session_free(session);
        return;
    }
    if (request->session_epoch == FETCH_SESSION_EPOCH_FIRST && session->count > 0)
        cache(sessions, session, now_ns);
    plan->session = session;
}

static void begin_incremental(struct fetch_sessions *sessions, const struct fetch_request *request, bool by_id,
                              int64_t now_ns, struct fetch_plan *plan)
{
    struct fetch_session *session = find_session(sessions, request->session_id);

    if (session == NULL) {
        plan->err = ERR_FETCH_SESSION_ID_NOT_FOUND;
        return;
    }
    /* In use: a fetch of another connection under the same id; only one of them can have the right epoch. */
    if (session->in_use || request->session_epoch != session->next_epoch) {
        plan->err = ERR_INVALID_FETCH_SESSION_EPOCH;
        return;
    }
    if (session->by_id != by_id) {
        plan->err = ERR_FETCH_SESSION_TOPIC_ID_ERROR;
        return;
    }
    plan->err = take_topics(session, request);
    if (plan->err != ERR_OK) {
        fetch_session_close(sessions, session);
        return;
    }
    forget_topics(session, request);
    session->next_epoch = session->next_epoch == INT32_MAX ? 1 : session->next_epoch + 1;
    session->used_ns = now_ns;
    list_remove(&session->by_use);
    list_add_last(&sessions->by_use, &session->by_use);
    plan->session = session;
    plan->incremental = true;
    count_bytes(sessions, session);
    if (sessions->bytes > sessions->limits.cached_bytes_max) /* it has outgrown the cache: ends with this fetch */
        uncache(sessions, session);
}

void fetch_session_begin(struct fetch_sessions *sessions, const struct fetch_request *request, int16_t version,
                         int64_t now_ns, struct fetch_plan *plan)
{
    bool by_id = version >= 13;

    *plan = (struct fetch_plan){.err = ERR_OK};
    if (request->session_epoch == FETCH_SESSION_EPOCH_FIRST || request->session_epoch == FETCH_SESSION_EPOCH_NONE)
        begin_full(sessions, request, by_id, now_ns, plan);
    else
        begin_incremental(sessions, request, by_id, now_ns, plan);
    if (plan->session != NULL)
        plan->session->in_use = true;
}

int32_t fetch_session_reply_id(const struct fetch_session *session)
{
    return session->cached && session->count > 0 ? session->id : 0;
}

int32_t fetch_session_done(struct fetch_sessions *sessions, struct fetch_session *session)
{
    int32_t id = fetch_session_reply_id(session);

    assert(session->in_use);
    session->in_use = false;
    free_entries(&session->forgotten);
    for (struct list_node *node = NULL; (node = list_take_first(&session->changed)) != NULL;)
        ;
    if (id == 0) {
        uncache(sessions, session);
        end(sessions, session);
    }
    return id;
}
