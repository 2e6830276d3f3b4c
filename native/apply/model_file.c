/* What a model's file says in the clear. */
#include "apply.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Returns the text that follows the first occurrence of `words`; NULL if there is none. */
static const char *text_after(const struct content *content, const char *words)
{
    const char *found = memmem(content->bytes, content->size, words, strlen(words));
    return found ? found + strlen(words) : NULL;
}

/* Toolkits that know dynamic shapes list them, or write that there are none. */
enum answer has_dynamic_shapes(const struct content *content)
{
    static const char key[] = "'dynamic_shapes': ", none[] = "{}";
    const char *end = (const char *)content->bytes + content->size;
    const char *value = text_after(content, key);
    if (!value || (size_t)(end - value) < sizeof none - 1)
        return UNKNOWN;
    return memcmp(value, none, sizeof none - 1) == 0 ? NO : YES;
}

/* The product of the numbers in a list, which begins behind its bracket. */
static uint64_t product(const char *list, const char *end)
{
    uint64_t result = 1, number = 0;
    for (; list < end; list++) {
        if (*list >= '0' && *list <= '9') {
            number = number * 10 + (uint64_t)(*list - '0');
            continue;
        }
        result *= number;
        number = 0;
        if (*list == ']')
            return result;
    }
    return 0;
}

bool declares_elements(const struct content *content, const char *tensor, uint32_t elements)
{
    static const char key[] = "\"size\":[";
    char words[NAME_BYTES + 16];
    snprintf(words, sizeof words, ",\"url\":\"%.*s\"}", NAME_BYTES, tensor);
    const char *begin = content->bytes, *end = text_after(content, words);
    if (!end)
        return false;
    for (const char *place = end; place - begin > (ptrdiff_t)sizeof key && end - place < 1024; place--)
        if (memcmp(place - sizeof key, key, sizeof key - 1) == 0)
            return product(place - 1, end) == elements;
    return false;
}
