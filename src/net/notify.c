#include "net/notify.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum err notify_service_manager(const char *socket_path, const char *state)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t size = socket_path == NULL ? 0 : strlen(socket_path);
    enum err err = ERR_OK;
    int fd = -1;

    if (size == 0)
        return ERR_OK;
    if (size >= sizeof(address.sun_path) || (socket_path[0] != '/' && socket_path[0] != '@'))
        return ERR_USAGE;
    memcpy(address.sun_path, socket_path, size);
    if (address.sun_path[0] == '@')
        address.sun_path[0] = '\0';
    fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return err_from_errno(errno);
    if (sendto(fd, state, strlen(state), MSG_NOSIGNAL, (const struct sockaddr *)&address,
               (socklen_t)(offsetof(struct sockaddr_un, sun_path) + size)) < 0)
        err = err_from_errno(errno);
    close(fd);
    return err;
}
