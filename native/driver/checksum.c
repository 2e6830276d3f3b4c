/* The CRC-32 of outputs, which the Python driver has from zlib. */
#include "native.h"

/* The polynomial of ISO 3309 and zlib with its bits reversed. */
#define POLYNOMIAL 0xEDB88320u

static uint32_t table[256];
static pthread_once_t table_filled = PTHREAD_ONCE_INIT;

static void fill_table(void)
{
    for (uint32_t byte = 0; byte < LENGTH(table); byte++) {
        uint32_t value = byte;
        for (int bit = 0; bit < 8; bit++)
            value = value & 1 ? value >> 1 ^ POLYNOMIAL : value >> 1;
        table[byte] = value;
    }
}

uint32_t crc32(uint32_t value, const void *bytes, size_t count)
{
    pthread_once(&table_filled, fill_table);
    value = ~value;
    for (const uint8_t *byte = bytes, *end = byte + count; byte < end; byte++)
        value = value >> 8 ^ table[(value ^ *byte) & 0xFF];
    return ~value;
}
