/* json_text: text of clients and topics, which may be any bytes, in JSON, which may not. */
#ifndef OTTLA_BASE_JSON_TEXT_H
#define OTTLA_BASE_JSON_TEXT_H

#include <jansson.h>

#include "base/bytes.h"

/* A string, or null where text.data is NULL; what is no UTF-8 has '?' for its bytes beyond ASCII. A new reference, NULL
 * without memory. */
json_t *json_text(struct bytes text);

#endif
