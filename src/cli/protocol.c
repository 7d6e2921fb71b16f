/* The protocol page of the documentation, printed from the API table, so that it cannot say what the broker does not
 * do: docs/protocol.md is this command's output, and a test holds it there. */
#include <stdio.h>
#include <stdlib.h>

#include "broker/api_table.h"
#include "cli/commands.h"

static const char *const operation_names[] = {
    [MAY_READ] = "Read",
    [MAY_WRITE] = "Write",
    [MAY_CREATE] = "Create",
    [MAY_DELETE] = "Delete",
    [MAY_ALTER] = "Alter",
    [MAY_DESCRIBE] = "Describe",
    [MAY_CLUSTER_ACTION] = "ClusterAction",
    [MAY_DESCRIBE_CONFIGS] = "DescribeConfigs",
    [MAY_ALTER_CONFIGS] = "AlterConfigs",
    [MAY_IDEMPOTENT_WRITE] = "IdempotentWrite",
};

static const char *const resource_names[] = {
    [ON_TOPIC] = "topic",
    [ON_GROUP] = "group",
    [ON_CLUSTER] = "cluster",
    [ON_TRANSACTIONAL_ID] = "transactional id",
};

static const char *const quota_names[] = {
    [QUOTA_NONE] = "none",   [QUOTA_REQUEST] = "request",   [QUOTA_PRODUCE] = "produce",
    [QUOTA_FETCH] = "fetch", [QUOTA_MUTATION] = "mutation",
};

static const char *listeners_text(uint8_t listeners)
{
    return listeners == (ON_BROKER | ON_CONTROLLER) ? "all" : listeners == ON_BROKER ? "brokers" : "controllers";
}

static void print_row(const struct api *api)
{
    printf("| %d | %s | %d-%d |", api->key, api->name, api->version_min, api->version_max);
    printf(" %s |", listeners_text(api->listeners));
    if (api->gate.operation == 0)
        printf(" none |");
    else
        printf(" %s on %s |", operation_names[api->gate.operation], resource_names[api->gate.resource]);
    printf(" %s |", quota_names[api->quota]);
    printf(" %s |", api->feature == NULL ? "" : api->feature);
    printf("%s%s", api->overlaps ? " starts beside others of its kind;" : "",
           api->forwarded ? " decided by the active controller;" : "");
    if (api->advertised_min != api->version_min)
        printf(" listed from %d on, refused below %d;", api->advertised_min, api->version_min);
    printf(" |\n");
}

static int run(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    printf(
        "# Protocol\n"
        "\n"
        "The APIs of Kafka's protocol that a broker serves, in these versions; what is not here is not listed in\n"
        "ApiVersions either, and a request for it closes its connection. This page is printed by `ottla protocol` from "
        "the\n"
        "API table (`src/broker/api_table.c`).\n"
        "\n"
        "| key | name | versions | listeners | first permission | quota | feature | |\n"
        "| ---: | --- | --- | --- | --- | --- | --- | --- |\n");
    for (uint32_t i = 0; i < api_count(); i++)
        print_row(api_at(i));
    return EXIT_SUCCESS;
}

const struct command command_protocol = {
    .name = "protocol",
    .summary = "which APIs and versions a broker serves",
    .help = "usage: ottla protocol\n"
            "\n"
            "Prints the APIs that a broker of this build serves, as a page of Markdown.\n",
    .run = run,
};
