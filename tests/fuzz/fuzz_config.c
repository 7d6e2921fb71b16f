/*
 * A properties file out of any bytes. Shows: none crash or hang the start, or write beyond a line; a file that is not
 * accepted says why; what is accepted can be asked for every key, and written back is accepted as the same.
 */
#include <string.h>

#include "base/assert.h"
#include "broker/config.h"
#include "broker/listeners.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void take_line(void *context, bool fatal, const char *line)
{
    assert(strlen(line) < CONFIG_LINE_CHARS);
    *(uint32_t *)context += fatal;
}

/* Each value that was set, set again. */
static void check_values(const struct config *config)
{
    struct config again;

    config_init(&again);
    for (int id = 0; id < CONFIG_KEY_COUNT; id++) {
        const char *text = config_text(config, (enum config_id)id);
        struct config_why why;

        if (!config_is_set(config, (enum config_id)id) || text == NULL)
            continue;
        enum err err = config_set(&again, (enum config_id)id, bytes_of_text(text), CONFIG_FROM_FILE, 1, &why);

        assert(err == ERR_OK);
        assert(strcmp(config_text(&again, (enum config_id)id), text) == 0);
    }
    config_deinit(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint32_t complaints = 0;
    const struct config_report report = {take_line, &complaints};
    struct listeners listeners;
    struct config config;
    enum err err = ERR_OK;

    config_init(&config);
    err = config_read_properties(&config, bytes_of(data, size), "fuzz.properties", &report);
    assert((err == ERR_OK) == (complaints == 0));
    check_values(&config);
    complaints = 0;
    err = config_check_whole(&config, &report);
    assert((err == ERR_OK) == (complaints == 0));
    complaints = 0;
    err = listeners_parse(&config, &listeners, &report);
    assert((err == ERR_OK) == (complaints == 0));
    config_deinit(&config);
    return 0;
}
