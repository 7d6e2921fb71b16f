#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fs.h"
#include "base/mem.h"
#include "broker/process.h"
#include "cli/cli.h"
#include "cli/commands.h"

enum { SETS_MAX = 256 };

struct arguments {
    const char *config_file;
    const char *sets[SETS_MAX];
    int set_count;
    struct process_options options;
};

static void report_line(void *context, bool fatal, const char *line)
{
    (void)context;
    fprintf(stderr, "ottla: %s%s\n", fatal ? "" : "warning: ", line);
}

/* --name value or --name=value: the value, and how many arguments that took; NULL when it is another option. */
static const char *value_of(const char *name, int argc, char **argv, int *took)
{
    size_t size = strlen(name);

    if (strncmp(argv[0], name, size) != 0)
        return NULL;
    if (argv[0][size] == '=') {
        *took = 1;
        return argv[0] + size + 1;
    }
    if (argv[0][size] != '\0' || argc < 2)
        return NULL;
    *took = 2;
    return argv[1];
}

static bool parse(int argc, char **argv, struct arguments *arguments)
{
    int took = 0;

    for (int i = 0; i < argc; i += took) {
        const char *value = NULL;

        if ((value = value_of("--config", argc - i, argv + i, &took)) != NULL) {
            arguments->config_file = value;
        } else if ((value = value_of("--ready-file", argc - i, argv + i, &took)) != NULL) {
            arguments->options.ready_file = value;
        } else if ((value = value_of("--set", argc - i, argv + i, &took)) != NULL) {
            if (arguments->set_count == SETS_MAX) {
                fprintf(stderr, "ottla: more than %d times --set; use a file and --config\n", SETS_MAX);
                return false;
            }
            arguments->sets[arguments->set_count++] = value;
        } else {
            fprintf(stderr, "ottla: %s is not understood; `ottla serve --help` says what is\n", argv[i]);
            return false;
        }
    }
    return true;
}

static enum err read_file(struct config *config, const char *path, const struct config_report *report)
{
    struct fs fs;
    struct fs_file *file = NULL;
    uint8_t *text = NULL;
    uint64_t size = 0;
    size_t got = 0;
    enum err err = ERR_OK;

    fs_init_real(&fs);
    err = fs_open(&fs, path, FS_READ, &file);
    if (err == ERR_OK)
        err = fs_size(file, &size);
    if (err == ERR_OK && size > CONFIG_FILE_BYTES_MAX)
        err = ERR_LIMIT;
    if (err != ERR_OK)
        goto out;
    text = mem_alloc((size_t)size + 1);
    if (text == NULL) {
        err = ERR_NOMEM;
        goto out;
    }
    err = fs_read(file, 0, text, (size_t)size, &got);
    if (err == ERR_OK) {
        err = config_read_properties(config, bytes_of(text, got), path, report);
        goto told;
    }
out:
    if (err != ERR_OK)
        config_report_line(report, true, "%s: %s", path, err_text(err));
told:
    mem_free(text);
    fs_file_drop(file);
    return err;
}

/* All problems are told before the start is refused. */
static enum err configure(struct config *config, const struct arguments *arguments)
{
    struct config_report report = {report_line, NULL};
    enum err refused = ERR_OK;
    enum err err = arguments->config_file == NULL ? config_use_single_node(config)
                                                  : read_file(config, arguments->config_file, &report);

    if (err != ERR_OK)
        refused = err;
    for (int i = 0; i < arguments->set_count; i++) {
        err = config_read_assignment(config, bytes_of_text(arguments->sets[i]), &report);
        if (err != ERR_OK)
            refused = err;
    }
    if (refused == ERR_OK)
        refused = config_check_whole(config, &report);
    return refused;
}

static int run(int argc, char **argv, const struct process_companion *companion)
{
    struct arguments arguments = {.options = {.notify_socket = getenv("NOTIFY_SOCKET"), .companion = companion}};
    struct config *config = NULL;
    int status = EXIT_USAGE;

    if (!parse(argc, argv, &arguments))
        return EXIT_USAGE;
    config = mem_alloc(sizeof(*config));
    if (config == NULL) {
        fprintf(stderr, "ottla: out of memory\n");
        return EXIT_FAILURE;
    }
    config_init(config);
    if (configure(config, &arguments) == ERR_OK)
        status = process_serve(config, &arguments.options);
    config_deinit(config);
    mem_free(config);
    return status;
}

const struct command command_serve = {
    .name = "serve",
    .summary = "run a broker, alone with nothing configured, or as server.properties says",
    .help = "usage: ottla serve [--config FILE] [--set KEY=VALUE ...] [--ready-file PATH]\n"
            "\n"
            "Without --config this is a complete node of its own: it listens on 127.0.0.1:9092 (controller on\n"
            "127.0.0.1:9093), keeps its data in ./ottla-data, and formats an empty directory by itself.\n"
            "\n"
            "  --config FILE      a server.properties: Kafka's keys, units and defaults\n"
            "  --set KEY=VALUE    changes one key of the file, or of the node without a file; may be repeated\n"
            "  --ready-file PATH  gets the listeners' addresses once clients may come (useful with port 0)\n"
            "\n"
            "A second node on the same machine needs addresses and a directory of its own:\n"
            "  ottla serve --set listeners=PLAINTEXT://127.0.0.1:9192,CONTROLLER://127.0.0.1:9193 \\\n"
            "              --set log.dirs=/var/lib/ottla-2\n"
            "Every acknowledged record on the disk before it is acknowledged, for new topics:\n"
            "  ottla serve --set log.flush.interval.messages=1\n"
            "One reactor (thread) a core is the default; ottla.reactors says otherwise.\n"
            "\n"
            "Signals: SIGTERM and SIGINT stop cleanly (answer, sync, mark), SIGUSR1 writes a report of all\n"
            "threads. Exit: 0 after a clean stop, 2 when arguments or configuration are not usable, 1 otherwise.\n",
    .run_beside = run,
};
