/* Lines from and to the harness: fields separated by tabs, in which tab, newline and backslash are escaped. */
#include "native.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define READ_BYTES 4096

static int messages_fd;
/* Bytes that were read and are not part of a line yet. */
static struct text pending;

static void make_space(struct text *text, size_t bytes)
{
    if (text->length + bytes + 1 <= text->space)
        return;
    size_t space = text->space ? text->space : 256;
    while (space < text->length + bytes + 1)
        space *= 2;
    char *bigger = allocate_bytes(space);
    memcpy(bigger, text->bytes ? text->bytes : "", text->length);
    free(text->bytes);
    text->bytes = bigger;
    text->space = space;
}

static void append_bytes(struct text *text, const char *bytes, size_t count)
{
    make_space(text, count);
    memcpy(text->bytes + text->length, bytes, count);
    text->length += count;
    text->bytes[text->length] = '\0';
}

void append(struct text *text, const char *format, ...)
{
    va_list values, again;
    va_start(values, format);
    va_copy(again, values);
    int count = vsnprintf(NULL, 0, format, values);
    va_end(values);
    make_space(text, (size_t)count);
    vsnprintf(text->bytes + text->length, (size_t)count + 1, format, again);
    va_end(again);
    text->length += (size_t)count;
}

void append_field(struct text *text, const char *name, const char *value)
{
    append(text, "\t%s=", name);
    for (; *value; value++) {
        const char *escaped = *value == '\t' ? "\\t" : *value == '\n' ? "\\n" : *value == '\\' ? "\\\\" : NULL;
        append_bytes(text, escaped ? escaped : value, escaped ? 2 : 1);
    }
}

void clear(struct text *text)
{
    free(text->bytes);
    *text = (struct text){0};
}

static void unescape(char *field)
{
    char *end = field;
    for (const char *next = field; *next; next++) {
        if (*next == '\\' && next[1]) {
            next++;
            *end++ = *next == 't' ? '\t' : *next == 'n' ? '\n' : *next;
        } else {
            *end++ = *next;
        }
    }
    *end = '\0';
}

static struct line *split(char *bytes, size_t length)
{
    struct line *line = allocate_bytes(sizeof *line);
    line->bytes = bytes;
    line->length = length;
    for (char *rest = bytes, *one; (one = strsep(&rest, "\t"));) {
        unescape(one);
        line->fields = with_space(line->fields, line->count, sizeof *line->fields);
        line->fields[line->count++] = one;
    }
    return line;
}

struct line *copy_of(const struct line *line)
{
    struct line *copy = allocate_bytes(sizeof *copy);
    *copy = (struct line){allocate_bytes(line->length + 1), line->length, NULL, line->count};
    memcpy(copy->bytes, line->bytes, line->length);
    copy->fields = allocate_bytes(line->count * sizeof *copy->fields);
    for (size_t index = 0; index < line->count; index++)
        copy->fields[index] = copy->bytes + (line->fields[index] - line->bytes);
    return copy;
}

void free_line(struct line *line)
{
    free(line->fields);
    free(line->bytes);
    free(line);
}

const char *value_of(const char *field, const char *name)
{
    size_t length = strlen(name);
    return strncmp(field, name, length) == 0 && field[length] == '=' ? field + length + 1 : NULL;
}

const char *field(const struct line *line, const char *name)
{
    for (size_t index = 1; index < line->count; index++)
        if (value_of(line->fields[index], name))
            return value_of(line->fields[index], name);
    return NULL;
}

int64_t number_of(const char *text)
{
    bool is_negative = *text == '-';
    uint64_t number = 0;
    for (text += is_negative; *text >= '0' && *text <= '9'; text++)
        number = 10 * number + (uint64_t)(*text - '0');
    return (int64_t)(is_negative ? -number : number);
}

int64_t number_field(const struct line *line, const char *name, int64_t otherwise)
{
    const char *value = field(line, name);
    return value ? number_of(value) : otherwise;
}

bool has_word(const struct line *line, const char *name, const char *word)
{
    const char *words = field(line, name);
    size_t length = strlen(word);
    while (words && *words) {
        size_t next = strcspn(words, ",");
        if (next == length && strncmp(words, word, length) == 0)
            return true;
        words += next + (words[next] == ',');
    }
    return false;
}

void open_channel(int messages)
{
    messages_fd = messages;
}

struct line *next_line(bool may_end)
{
    char *end;
    while (!pending.length || !(end = memchr(pending.bytes, '\n', pending.length))) {
        make_space(&pending, READ_BYTES);
        ssize_t count = read(0, pending.bytes + pending.length, READ_BYTES);
        if (count < 0 && errno == EINTR)
            continue;
        if (count <= 0)
            exit(may_end ? 0 : 1);
        pending.length += (size_t)count;
    }
    size_t length = (size_t)(end - pending.bytes);
    char *bytes = allocate_bytes(length + 1);
    memcpy(bytes, pending.bytes, length);
    pending.length -= length + 1;
    memmove(pending.bytes, end + 1, pending.length);
    return split(bytes, length);
}

void send_line(const struct text *text)
{
    struct text whole = {0};
    append_bytes(&whole, text->bytes, text->length);
    append_bytes(&whole, "\n", 1);
    for (size_t sent = 0; sent < whole.length;) {
        ssize_t count = write(messages_fd, whole.bytes + sent, whole.length - sent);
        if (count < 0 && errno != EINTR)
            exit(1);
        sent += count > 0 ? (size_t)count : 0;
    }
    clear(&whole);
}

bool stopped_within(int64_t ns)
{
    struct pollfd commands = {.fd = 0, .events = POLLIN};
    int64_t end_ns = now_ns() + ns, left_ns = ns > 0 ? ns : 0;
    bool is_there;
    while (!(is_there = pending.length || poll(&commands, 1, (int)(left_ns / 1000000)) > 0)) {
        left_ns = end_ns - now_ns();
        if (left_ns < 1000000)
            break;
    }
    if (!is_there && left_ns > 0)
        sleep_ns(left_ns);
    if (!is_there)
        return false;
    struct line *line = next_line(false);
    bool is_stop = strcmp(line->fields[0], "stop") == 0;
    free_line(line);
    return is_stop;
}

void forget(struct failure *failure)
{
    clear(&failure->fields);
    *failure = (struct failure){0};
}

static bool begin_failure(struct failure *failure, const char *name, const char *value)
{
    forget(failure);
    append_field(&failure->fields, name, value);
    return false;
}

bool fail(struct failure *failure, const char *code)
{
    return begin_failure(failure, "code", code);
}

bool not_supported(struct failure *failure, const char *code)
{
    begin_failure(failure, "code", code);
    failure->is_not_supported = true;
    append_field(&failure->fields, "kind", "not_supported");
    return false;
}

bool fail_of_system(struct failure *failure, int error, const char *path)
{
    char number[16];
    snprintf(number, sizeof number, "%d", error);
    begin_failure(failure, "errno", number);
    if (path)
        append_field(&failure->fields, "path", path);
    return false;
}

static bool add(struct failure *failure, const char *kind, const char *name, const char *value)
{
    char whole[64];
    snprintf(whole, sizeof whole, "%s.%s", kind, name);
    append_field(&failure->fields, whole, value);
    return false;
}

bool add_text(struct failure *failure, const char *name, const char *value)
{
    return add(failure, "text", name, value);
}

bool add_number(struct failure *failure, const char *name, int64_t value)
{
    char number[24];
    snprintf(number, sizeof number, "%lld", (long long)value);
    return add(failure, "number", name, number);
}

bool add_message(struct failure *failure, const char *name, const char *code)
{
    return add(failure, "message", name, code);
}
