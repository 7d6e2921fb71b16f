#include "net/address.h"

enum { PORT_MAX = 65535, DECIMAL = 10 };

bool address_parse(struct bytes text, struct net_address *address)
{
    size_t colon = text.size;
    uint32_t port = 0;

    while (colon > 0 && text.data[colon - 1] != ':')
        colon--;
    if (colon == 0 || colon == text.size)
        return false;
    for (size_t i = colon; i < text.size; i++) {
        if (text.data[i] < '0' || text.data[i] > '9')
            return false;
        port = port * DECIMAL + (uint32_t)(text.data[i] - '0');
        if (port > PORT_MAX)
            return false;
    }
    text.size = colon - 1;
    if (text.size >= 2 && text.data[0] == '[' && text.data[text.size - 1] == ']')
        text = bytes_of(text.data + 1, text.size - 2);
    else if (text.size > 0 && memchr(text.data, ':', text.size) != NULL)
        return false; /* an IPv6 address without its brackets: which colon is the port's? */
    if (text.size > NET_HOST_CHARS_MAX || (text.size > 0 && memchr(text.data, '\0', text.size) != NULL))
        return false;
    if (text.size > 0)
        memcpy(address->host, text.data, text.size);
    address->host[text.size] = '\0';
    address->port = (uint16_t)port;
    return true;
}
