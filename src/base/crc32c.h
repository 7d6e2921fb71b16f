/*
 * crc32c: the Castagnoli checksum that record batches, our journal and our marks carry (RFC 3720 B.4, KIP-98).
 *
 * Threads  any.
 */
#ifndef OTTLA_BASE_CRC32C_H
#define OTTLA_BASE_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* Of one run: crc32c(0, data, size). Of several: feed each result into the next call; 0 begins. */
uint32_t crc32c(uint32_t crc, const void *data, size_t size);

#endif
