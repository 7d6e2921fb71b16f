/* The configuration page of the documentation, printed from the table of keys, so that it cannot promise what nothing
 * acts on: docs/configuration.md is this command's output, and a test holds it there. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "broker/config_table.h"
#include "cli/commands.h"

static const char *const type_names[] = {
    [CONFIG_TYPE_BOOLEAN] = "boolean", [CONFIG_TYPE_STRING] = "string", [CONFIG_TYPE_INT] = "int",
    [CONFIG_TYPE_SHORT] = "short",     [CONFIG_TYPE_LONG] = "long",     [CONFIG_TYPE_DOUBLE] = "double",
    [CONFIG_TYPE_LIST] = "list",       [CONFIG_TYPE_CLASS] = "class",   [CONFIG_TYPE_PASSWORD] = "password",
};

static const char *const scope_names[] = {
    [CONFIG_SCOPE_STATIC] = "read-only",     [CONFIG_SCOPE_PER_BROKER] = "per-broker",
    [CONFIG_SCOPE_CLUSTER] = "cluster-wide", [CONFIG_SCOPE_TOPIC] = "topic",
    [CONFIG_SCOPE_GROUP] = "group",
};

static const char *default_text(const struct config_key *key)
{
    return key->value == NULL ? "" : key->value[0] == '\0' ? "empty" : key->value;
}

static void print_synonyms(enum config_id id)
{
    enum config_id other = CONFIG_NONE;

    for (uint32_t n = 0; (other = config_synonym(id, n)) != CONFIG_NONE; n++)
        printf("%s`%s`", n == 0 ? " else " : ", ", config_key(other)->name);
}

static void print_row(enum config_id id)
{
    const struct config_key *key = config_key(id);
    struct config_why accepted;

    config_accepted(id, &accepted);
    printf("| `%s` | %s | %s | %s | %s | %s", key->name, type_names[key->type], default_text(key), accepted.text,
           scope_names[key->scope], key->standing.reason);
    print_synonyms(id);
    printf(" |\n");
}

static void print_section(const char *title, bool (*belongs)(const struct config_key *key))
{
    printf("\n"
           "## %s\n"
           "\n"
           "| key | type | default | accepted | may change | without effect, because |\n"
           "| --- | --- | --- | --- | --- | --- |\n",
           title);
    for (enum config_id id = 0; id < CONFIG_KEY_COUNT; id++)
        if (belongs(config_key(id)) && config_key(id)->standing.status != CONFIG_INTERNAL)
            print_row(id);
}

static bool is_own(const struct config_key *key)
{
    return strncmp(key->name, "ottla.", strlen("ottla.")) == 0;
}

static bool is_topic(const struct config_key *key)
{
    return key->scope == CONFIG_SCOPE_TOPIC;
}

static bool is_group(const struct config_key *key)
{
    return key->scope == CONFIG_SCOPE_GROUP;
}

static bool is_node(const struct config_key *key)
{
    return !is_own(key) && !is_topic(key) && !is_group(key);
}

/* One line a key, tab-separated, the internal ones too: for programs. */
static void print_lines(void)
{
    for (enum config_id id = 0; id < CONFIG_KEY_COUNT; id++) {
        const struct config_key *key = config_key(id);
        struct config_why accepted;

        config_accepted(id, &accepted);
        printf("%s\t%s\t%s\t%s\t%s\t%s\n", scope_names[key->scope], key->name, type_names[key->type],
               key->value == NULL ? "null" : key->value, accepted.text,
               key->standing.status == CONFIG_INTERNAL   ? "internal"
               : key->standing.status == CONFIG_HONOURED ? "honoured"
               : key->standing.status == CONFIG_REFUSED  ? "refused"
                                                         : "without effect");
    }
}

static int run(int argc, char **argv)
{
    if (argc == 1 && strcmp(argv[0], "--lines") == 0) {
        print_lines();
        return EXIT_SUCCESS;
    }
    if (argc > 0) {
        fprintf(stderr, "ottla: %s is not understood; `ottla config --help` says what is\n", argv[0]);
        return EXIT_FAILURE;
    }
    printf(
        "# Configuration\n"
        "\n"
        "The keys of `server.properties` and `--set`, of topics and of groups: Apache Kafka's own, with its units and\n"
        "defaults, and a few that begin with `ottla.`. A key that is accepted without effect says why, here and in a\n"
        "warning at the start. This page is printed by `ottla config` from the table of keys\n"
        "(`src/broker/config_keys.def`).\n");
    print_section("Ottla's own", is_own);
    print_section("Nodes", is_node);
    print_section("Topics", is_topic);
    print_section("Groups", is_group);
    return EXIT_SUCCESS;
}

const struct command command_config = {
    .name = "config",
    .summary = "which configuration keys there are, and which of them act",
    .help = "usage: ottla config [--lines]\n"
            "\n"
            "Prints every configuration key that this build knows, as a page of Markdown: type, default, what is\n"
            "accepted, who may change it, and for those without effect why. --lines: one tab-separated line a key.\n",
    .run = run,
};
