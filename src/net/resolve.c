#include "net/resolve.h"

#include <netdb.h>
#include <stddef.h>
#include <sys/socket.h>

enum err resolve_host(const char *host)
{
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;

    if (getaddrinfo(host, NULL, &hints, &found) != 0)
        return ERR_NOT_FOUND;
    freeaddrinfo(found);
    return ERR_OK;
}
