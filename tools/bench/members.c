/*
 * members: consumer groups of many members in one process (member.h), which come and go as the lines on stdin say:
 *
 *   members ADDRESS PORT SESSION_MS HEARTBEAT_MS
 *
 *   join GROUP classic|consumer MEMBERS TOPIC PARTITIONS   all members of a new group at once
 *   leave GROUP                                            one member leaves
 *   kill GROUP                                             one member's connection is closed, and nothing said
 *
 * Connections are there, and have asked for the versions, before the first member asks to be let in.
 * Once a group has settled after that, a line of JSON says so on stdout. Different groups may be under way at the same
 * time. The end of stdin ends it. SESSION_MS and HEARTBEAT_MS are those of the classic protocol; with the other the
 * broker sets them.
 *
 * The group requests alone are spoken. A thousand whole clients in one process fetch, and look for metadata of a
 * thousand partitions each, and it is their work that is measured then (franz_members.go).
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

#include "member.h"

enum {
    EVENTS = 256,
    GROUPS_MAX = 10000,
    LINE_BYTES_MAX = 1024,
    TICK_MS = 5,            /* how late a heartbeat may be */
    PATIENCE_SECONDS = 300, /* for a group to settle */
};

struct program {
    const char *address;
    uint16_t port;
    int32_t session_timeout_ms, heartbeat_ms;
    int epoll;
    struct group *groups[GROUPS_MAX];
    uint32_t group_count;
    uint32_t under_way; /* groups that have yet to settle */
    char line[LINE_BYTES_MAX];
    size_t line_bytes;
    bool ended; /* stdin */
};

void bench_die(const char *what, const char *why)
{
    fprintf(stderr, "members: %s: %s\n", what, why);
    exit(1);
}

int64_t bench_now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static uint32_t number(const char *text, uint32_t most)
{
    char *end = NULL;
    unsigned long value = text == NULL ? 0 : strtoul(text, &end, 10);

    if (text == NULL || *end != '\0' || value < 1 || value > most)
        bench_die("not a number in range", text == NULL ? "" : text);
    return (uint32_t)value;
}

/* --- commands --- */

static void copy_word(char to[MEMBER_NAME_BYTES_MAX], const char *word)
{
    if (word == NULL || strlen(word) >= MEMBER_NAME_BYTES_MAX)
        bench_die("not a name", word == NULL ? "" : word);
    strcpy(to, word);
}

static void join(struct program *program, char **words)
{
    struct group *group = calloc(1, sizeof(*group));
    uint32_t count = number(words[3], GROUP_MEMBERS_MAX);

    if (program->group_count == GROUPS_MAX)
        bench_die("too many groups", words[1]);
    copy_word(group->name, words[1]);
    copy_word(group->topic, words[4]);
    group->consumer = words[2] != NULL && strcmp(words[2], "consumer") == 0;
    group->partition_count = number(words[5], GROUP_PARTITIONS_MAX);
    group->owners = calloc(group->partition_count, sizeof(*group->owners));
    group->session_timeout_ms = program->session_timeout_ms;
    group->heartbeat_ms = program->heartbeat_ms;
    group->members = calloc(count, sizeof(*group->members));
    program->groups[program->group_count++] = group;
    program->under_way++;
    for (uint32_t i = 0; i < count; i++)
        member_connect(&group->members[i], group, program->address, program->port);
    for (uint32_t i = 0; i < count; i++) {
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = &group->members[i]};

        member_await(&group->members[i]);
        epoll_ctl(program->epoll, EPOLL_CTL_ADD, group->members[i].fd, &event);
    }
    group_begin(group, "join");
    for (uint32_t i = 0; i < count; i++)
        member_tick(&group->members[i], bench_now_ns());
}

/* Neither the first nor the last to come. */
static struct member *one_of(struct group *group)
{
    for (uint32_t i = 0; i < group->member_count; i++) {
        struct member *member = &group->members[(i + group->member_count / 2) % group->member_count];

        if (member->state == MEMBER_STABLE)
            return member;
    }
    bench_die(group->name, "has no member that is not joining");
}

static void obey(struct program *program, char *line)
{
    char *words[6] = {NULL};
    size_t count = 0;

    for (char *word = strtok(line, " "); word != NULL && count < 6; word = strtok(NULL, " "))
        words[count++] = word;
    if (count == 6 && strcmp(words[0], "join") == 0) {
        join(program, words);
        return;
    }
    for (uint32_t i = 0; count == 2 && i < program->group_count; i++) {
        struct group *group = program->groups[i];

        if (strcmp(words[1], group->name) != 0)
            continue;
        program->under_way++;
        if (strcmp(words[0], "leave") == 0) {
            group_begin(group, "leave");
            member_leave(one_of(group));
            return;
        }
        if (strcmp(words[0], "kill") == 0) {
            group_begin(group, "kill");
            member_kill(one_of(group));
            return;
        }
    }
    bench_die("no such command, or no such group", words[0] == NULL ? "" : words[0]);
}

static void take_commands(struct program *program)
{
    ssize_t moved =
        read(STDIN_FILENO, program->line + program->line_bytes, sizeof(program->line) - program->line_bytes);
    char *end = NULL;

    if (moved <= 0) {
        program->ended = true;
        return;
    }
    program->line_bytes += (size_t)moved;
    while ((end = memchr(program->line, '\n', program->line_bytes)) != NULL) {
        size_t taken = (size_t)(end + 1 - program->line);

        *end = '\0';
        obey(program, program->line);
        program->line_bytes -= taken;
        memmove(program->line, end + 1, program->line_bytes);
    }
    if (program->line_bytes == sizeof(program->line))
        bench_die("command", "too long");
}

/* --- time --- */

static void look_at(struct program *program, struct group *group)
{
    char text[512];

    if (group->event == NULL)
        return;
    if (group_settled(group)) {
        group_report(group);
        program->under_way--;
    } else if (bench_now_ns() - group->began_ns > PATIENCE_SECONDS * INT64_C(1000000000)) {
        group_explain(group, text, sizeof(text));
        bench_die("not settled in time", text);
    }
}

static void tick(struct program *program, int64_t now_ns)
{
    for (uint32_t i = 0; i < program->group_count; i++) {
        struct group *group = program->groups[i];

        for (uint32_t j = 0; j < group->member_count; j++)
            member_tick(&group->members[j], now_ns);
        look_at(program, group);
    }
}

int main(int argc, char **argv)
{
    static struct program program;
    struct epoll_event events[EVENTS];
    struct epoll_event commands = {.events = EPOLLIN, .data.ptr = NULL};
    int64_t ticked_ns = 0;

    if (argc != 5)
        bench_die("usage", "members ADDRESS PORT SESSION_MS HEARTBEAT_MS");
    program.address = argv[1];
    program.port = (uint16_t)number(argv[2], 65535);
    program.session_timeout_ms = (int32_t)number(argv[3], 3600000);
    program.heartbeat_ms = (int32_t)number(argv[4], 3600000);
    program.epoll = epoll_create1(0);
    epoll_ctl(program.epoll, EPOLL_CTL_ADD, STDIN_FILENO, &commands);
    while (!program.ended) {
        int ready = epoll_wait(program.epoll, events, EVENTS, TICK_MS);
        int64_t now_ns = bench_now_ns();

        for (int i = 0; i < ready; i++) {
            struct member *member = events[i].data.ptr;

            if (member == NULL)
                take_commands(&program);
            else if (member->state != MEMBER_GONE && member_read(member))
                look_at(&program, member->group);
        }
        if (now_ns - ticked_ns >= TICK_MS * INT64_C(1000000)) {
            ticked_ns = now_ns;
            tick(&program, now_ns);
        }
    }
    return 0;
}
