/* Resources of the process, read by itself: memory, heap in use, descriptors, mappings, threads (measured/usage.py). */
#include "native.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

/* struct mallinfo2 (since glibc 2.33) and mallinfo of malloc.h: ten numbers in this order, of which two are used. */
struct heap_in_words {
    size_t arena, ordblks, smblks, hblks, hblkhd, usmblks, fsmblks, uordblks, fordblks, keepcost;
};
struct heap_in_ints {
    unsigned arena, ordblks, smblks, hblks, hblkhd, usmblks, fsmblks, uordblks, fordblks, keepcost;
};

static void *function_of_process(const char *name)
{
    return dlsym(dlopen(NULL, RTLD_NOW), name);
}

int64_t heap_bytes(void)
{
    struct heap_in_words (*mallinfo2)(void) = (struct heap_in_words (*)(void))function_of_process("mallinfo2");
    if (mallinfo2) {
        struct heap_in_words heap = mallinfo2();
        return (int64_t)(heap.uordblks + heap.hblkhd);
    }
    struct heap_in_ints (*mallinfo)(void) = (struct heap_in_ints (*)(void))function_of_process("mallinfo");
    if (!mallinfo)
        return -1;
    struct heap_in_ints heap = mallinfo();
    return (int64_t)heap.uordblks + heap.hblkhd;
}

bool trim_heap(void)
{
    int (*trim)(size_t) = (int (*)(size_t))function_of_process("malloc_trim");
    if (trim)
        trim(0);
    return trim;
}

static void count_entry(const char *name, void *count)
{
    (void)name;
    ++*(int *)count;
}

static int count_lines(const char *path)
{
    char piece[4096];
    ssize_t length;
    int lines = 0, fd = open(path, O_RDONLY | O_CLOEXEC);
    while (fd >= 0 && (length = read(fd, piece, sizeof piece)) > 0)
        for (ssize_t index = 0; index < length; index++)
            lines += piece[index] == '\n';
    close(fd);
    return lines;
}

/* Anonymous and shared memory as the kernel counts it: precise to some pages per CPU. */
static int64_t resident_bytes(void)
{
    char status[4096];
    int64_t bytes = 0;
    read_file("/proc/self/status", status, sizeof status);
    for (char *rest = status, *line; (line = strsep(&rest, "\n"));)
        if (strncmp(line, "RssAnon:", 8) == 0 || strncmp(line, "RssShmem:", 9) == 0)
            bytes += 1024 * number_of(line + strcspn(line, "0123456789"));
    return bytes;
}

void append_usage(struct text *answer)
{
    int descriptors = -1, threads = 0; /* the descriptor that lists them is not counted */
    append(answer, "\tallocated_bytes=%lld", (long long)resident_bytes());
    trim_heap();
    for_each_entry("/proc/self/fd", count_entry, &descriptors);
    for_each_entry("/proc/self/task", count_entry, &threads);
    append(answer, "\theap_bytes=%lld\tfds=%d\tmappings=%d\tthreads=%d", (long long)heap_bytes(), descriptors,
           count_lines("/proc/self/maps"), threads);
}
