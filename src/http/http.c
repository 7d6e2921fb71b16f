#include "http/http.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "http/group_pages.h"
#include "http/http_server.h"
#include "net/address.h"

/* ottla.http.listener: where there is anything to serve. */
struct http {
    struct group_pages pages;
    struct http_server *server;
};

static bool is_wanted(const struct config *config)
{
    return config_text(config, CONFIG_OTTLA_HTTP_LISTENER)[0] != '\0';
}

static enum err start(const struct process_companion_env *env, void **state, char message[BROKER_MESSAGE_CHARS])
{
    const char *text = config_text(env->config, CONFIG_OTTLA_HTTP_LISTENER);
    struct http *http = mem_calloc(1, sizeof(*http));
    struct http_server_spec spec = {.net = env->net, .loop = env->loop, .log = env->log, .asked = group_pages_asked};
    struct net_address bound;
    enum err err = ERR_NOMEM;

    if (http == NULL)
        return ERR_NOMEM;
    http->pages = (struct group_pages){.broker = env->broker, .loop = env->loop, .clock = env->clock};
    spec.context = &http->pages;
    err = address_parse(bytes_of_text(text), &spec.address) ? http_server_new(&spec, &bound, &http->server) : ERR_USAGE;
    if (err == ERR_OK) {
        log_info(env->log, "http ready address=%s port=%u", bound.host, bound.port);
        broker_tell_http_port(env->broker, bound.port);
        *state = http;
        return ERR_OK;
    }
    mem_free(http);
    *state = NULL;
    if (err == ERR_BUSY && !config_is_set(env->config, CONFIG_OTTLA_HTTP_LISTENER)) {
        /* Nobody asked for it: another node of this machine has it, and a broker is worth more than its pages. */
        broker_tell_http_port(env->broker, 0);
        log_warn(env->log, "no http, the port is in use; ottla.http.listener names another address=%s", text);
        return ERR_OK;
    }
    (void)snprintf(message, BROKER_MESSAGE_CHARS, "ottla.http.listener=%.200s: %s", text, err_text(err));
    return err;
}

static void stop(void *state, void (*stopped)(void *context), void *context)
{
    struct http *http = state;

    http_server_stop(http->server, stopped, context);
}

static void release(void *state)
{
    struct http *http = state;

    if (http == NULL)
        return;
    http_server_free(http->server);
    mem_free(http);
}

const struct process_companion http_companion = {
    .name = "http", .is_wanted = is_wanted, .start = start, .stop = stop, .release = release};
