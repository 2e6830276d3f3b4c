/* Files that the harness reads and writes. */
#include <linux/inotify.h>

#include "reader.h"

static char space[MOST_DATA_BYTES];
/* Readable after the watched file was written to. */
long watch = -1;

long open_file(const char *path, int flags, int mode)
{
    return CALL(openat, AT_FDCWD, path, flags | O_CLOEXEC | O_NOCTTY, mode);
}

/* Reads a file of the kernel at once, as text; returns its length, or the negative error. */
long read_small(const char *path, char *text, size_t bytes)
{
    long file = open_file(path, O_RDONLY, 0);
    if (file < 0)
        return file;
    long count = CALL(read, file, text, bytes - 1);
    CALL(close, file);
    text[count > 0 ? count : 0] = 0;
    return count;
}

/* Opens a file of a process in /proc; its name begins with a slash. */
long open_of_process(uint32_t pid, const char *name)
{
    char path[32] = "/proc/", digits[12];
    size_t length = 6, count = 0;
    for (; pid; pid /= 10)
        digits[count++] = (char)('0' + pid % 10);
    while (count)
        path[length++] = digits[--count];
    memcpy(path + length, name, text_length(name) + 1);
    return open_file(path, O_RDONLY, 0);
}

static void read_file(uint32_t number, const char *data)
{
    uint32_t most_bytes;
    memcpy(&most_bytes, data, sizeof most_bytes);
    /* Without O_NONBLOCK this could wait: the kernel's log has no end, and a pipe may have no writer. */
    long file = open_file(data + sizeof most_bytes, O_RDONLY | O_NONBLOCK, 0), count = file;
    uint32_t sent = 0;
    while (count >= 0 && (count = CALL(read, file, space, sizeof space)) > 0) {
        if ((uint32_t)count > most_bytes - sent) {
            count = -EFBIG;
            break;
        }
        sent += (uint32_t)count;
        send(number, REPLY_PART, space, (size_t)count);
    }
    if (file >= 0)
        CALL(close, file);
    reply_result(number, count == -EAGAIN ? 0 : count);
}

/* Sends the highest byte of each entry of pagemap: it has the flags that every user may see. */
static void tell_pages(uint32_t number, const char *data)
{
    enum { ENTRY_BYTES = 8, SEEK_FROM_START = 0 };
    struct Pages pages;
    memcpy(&pages, data, sizeof pages);
    long file = open_of_process(pages.pid, "/pagemap"), count = file;
    /* 32-bit addresses have 8 MiB of entries, so that a long is enough. */
    if (file >= 0)
        count = CALL(lseek, file, (long)(pages.first * ENTRY_BYTES), SEEK_FROM_START);
    while (count >= 0 && pages.count) {
        uint64_t most = sizeof space / ENTRY_BYTES;
        size_t wanted = (size_t)(pages.count < most ? pages.count : most);
        count = CALL(read, file, space, wanted * ENTRY_BYTES);
        if (count <= 0)
            break;
        size_t told = (size_t)count / ENTRY_BYTES;
        for (size_t index = 0; index < told; index++)
            space[index] = space[index * ENTRY_BYTES + ENTRY_BYTES - 1];
        send(number, REPLY_PART, space, told);
        pages.count -= told;
    }
    if (file >= 0)
        CALL(close, file);
    reply_result(number, count < 0 ? count : 0);
}

/* An entry of getdents64. */
struct Entry {
    uint64_t inode, offset;
    uint16_t bytes;
    uint8_t kind;
    char name[];
};

static void list_names(uint32_t number, const char *path)
{
    long folder = open_file(path, O_RDONLY | O_DIRECTORY, 0), count = folder;
    while (count >= 0 && (count = CALL(getdents64, folder, space, sizeof space)) > 0) {
        size_t kept = 0;
        for (long at = 0; at < count;) {
            struct Entry *entry = (struct Entry *)(void *)(space + at);
            at += entry->bytes;
            const char *name = entry->name;
            size_t length = text_length(name) + 1;
            if (name[0] == '.' && (!name[1] || (name[1] == '.' && !name[2])))
                continue;
            /* Names move to the front, over the entries that were read. */
            memmove(space + kept, name, length);
            kept += length;
        }
        send(number, REPLY_PART, space, kept);
    }
    if (folder >= 0)
        CALL(close, folder);
    reply_result(number, count);
}

static void read_link(uint32_t number, const char *path)
{
    long length = CALL(readlinkat, AT_FDCWD, path, space, sizeof space);
    if (length < 0)
        reply_result(number, length);
    else
        reply(number, space, (size_t)length);
}

static void tell_status(uint32_t number, const char *path)
{
    enum { BLOCK_BYTES = 512 }; /* of stx_blocks, on every file system */
    struct statx found;
    long result = CALL(statx, AT_FDCWD, path, 0, STATX_BASIC_STATS, &found);
    if (result < 0) {
        reply_result(number, result);
        return;
    }
    struct Status status = {.inode = found.stx_ino, .size_bytes = found.stx_size, .mode = found.stx_mode};
    status.device_major = found.stx_dev_major;
    status.device_minor = found.stx_dev_minor;
    status.stored_bytes = found.stx_blocks * BLOCK_BYTES;
    reply(number, &status, sizeof status);
}

static void tell_space(uint32_t number, const char *path)
{
#if defined(__arm__)
    struct statfs64 found;
    long result = CALL(statfs64, path, sizeof found, &found);
#else
    struct statfs found;
    long result = CALL(statfs, path, &found);
#endif
    if (result < 0) {
        reply_result(number, result);
        return;
    }
    struct Space room = {.kind = (uint64_t)found.f_type};
    room.free_bytes = (uint64_t)found.f_bavail * (uint64_t)found.f_bsize;
    reply(number, &room, sizeof room);
}

static void write_file(uint32_t number, const char *data, uint32_t bytes)
{
    uint32_t flags, mode;
    memcpy(&flags, data, sizeof flags);
    memcpy(&mode, data + sizeof flags, sizeof mode);
    const char *path = data + sizeof flags + sizeof mode, *content = path + text_length(path) + 1;
    int ways = (flags & WRITE_CREATES ? O_CREAT | O_TRUNC : 0) | (flags & WRITE_APPENDS ? O_APPEND : 0);
    long file = open_file(path, O_WRONLY | ways, (int)mode), result = file;
    if (file >= 0) {
        size_t length = (size_t)(data + bytes - content);
        result = CALL(write, file, content, length);
        if (result >= 0 && (size_t)result < length)
            result = -ENOSPC; /* a full disk still takes a part */
        if (result >= 0 && flags & WRITE_SYNCS)
            result = CALL(fsync, file);
        CALL(close, file);
    }
    reply_result(number, result);
}

static long remove_path(const char *path)
{
    long result = CALL(unlinkat, AT_FDCWD, path, 0);
    return result == -EISDIR ? CALL(unlinkat, AT_FDCWD, path, AT_REMOVEDIR) : result;
}

/* Keeps the file open: the lock ends with the reader. */
static long lock_file(const char *path)
{
    enum { EXCLUSIVE = 2, AT_ONCE = 4 };
    long file = open_file(path, O_RDWR | O_CREAT, 0666);
    long result = file < 0 ? file : CALL(flock, file, EXCLUSIVE | AT_ONCE);
    if (file >= 0 && result < 0)
        CALL(close, file);
    return result;
}

/* Watches one file at a time. All writes since the last look make one event. */
static long watch_file(const char *path)
{
    if (watch >= 0)
        CALL(close, watch);
    watch = CALL(inotify_init1, IN_NONBLOCK | IN_CLOEXEC);
    long result = watch < 0 ? watch : CALL(inotify_add_watch, watch, path, IN_MODIFY);
    return result < 0 ? result : 0;
}

void note_changes(void)
{
    while (CALL(read, watch, space, sizeof space) > 0)
        ;
    send(0, EVENT_CHANGED, NULL, 0);
}

/* Answers a request about files; false if it is not one. */
bool answer_file(const struct Header *header, char *data)
{
    uint32_t number = header->number;
    switch (header->kind) {
    case REQUEST_READ:
        read_file(number, data);
        break;
    case REQUEST_NAMES:
        list_names(number, data);
        break;
    case REQUEST_LINK:
        read_link(number, data);
        break;
    case REQUEST_STATUS:
        tell_status(number, data);
        break;
    case REQUEST_PAGES:
        tell_pages(number, data);
        break;
    case REQUEST_SPACE:
        tell_space(number, data);
        break;
    case REQUEST_WRITE:
        write_file(number, data, header->bytes);
        break;
    case REQUEST_FOLDER:
        reply_result(number, CALL(mkdirat, AT_FDCWD, data, 0755));
        break;
    case REQUEST_RENAME:
        reply_result(number, CALL(renameat2, AT_FDCWD, data, AT_FDCWD, data + text_length(data) + 1, 0));
        break;
    case REQUEST_REMOVE:
        reply_result(number, remove_path(data));
        break;
    case REQUEST_LOCK:
        reply_result(number, lock_file(data));
        break;
    case REQUEST_WATCH:
        reply_result(number, watch_file(data));
        break;
    default:
        return false;
    }
    return true;
}
