/* Text in the kernel's files. */
#include "reader.h"

size_t text_length(const char *text)
{
    size_t length = 0;
    while (text[length])
        length++;
    return length;
}

/* Returns the rest of the text if it begins with `start`, otherwise NULL. */
const char *after(const char *text, const char *start)
{
    while (*start)
        if (*text++ != *start++)
            return NULL;
    return text;
}

/* Returns the next decimal number, and moves behind it. */
uint64_t number_at(const char **text)
{
    uint64_t number = 0;
    while (**text == ' ')
        ++*text;
    while (**text >= '0' && **text <= '9')
        number = number * 10 + (uint64_t)(*(*text)++ - '0');
    return number;
}
