/* The ledger: its events, the buffers, the driver's objects of them, and the process's mappings of them. */
#include "preload.h"

#include <ctype.h>
#include <dirent.h>
#include <stdarg.h>
#include <sys/resource.h>

pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

uint64_t now_ns(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

long thread_id(void)
{
    return NEXT(syscall)(SYS_gettid);
}

static long open_ledger(void)
{
    return NEXT(syscall)(SYS_openat, AT_FDCWD, settings.ledger, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
}

/*
 * If the process has used up its descriptors, raises its limit by one for the time of a line, if the hard limit
 * permits.
 */
static long open_ledger_beyond_limit(void)
{
    struct rlimit own;
    if (getrlimit(RLIMIT_NOFILE, &own) || own.rlim_cur >= own.rlim_max)
        return -1;
    setrlimit(RLIMIT_NOFILE, &(struct rlimit){own.rlim_cur + 1, own.rlim_max});
    long fd = open_ledger();
    setrlimit(RLIMIT_NOFILE, &own);
    return fd;
}

/*
 * Opens the file for each line, since the process could close a descriptor that is kept open and get its number again.
 * System calls are made directly: other libraries may hook the C library's functions and call back into this one.
 */
void append_line(const char *line, size_t bytes)
{
    int saved = errno;
    long fd = open_ledger();
    if (fd < 0 && errno == EMFILE)
        fd = open_ledger_beyond_limit();
    if (fd >= 0) {
        NEXT(syscall)(SYS_write, fd, line, bytes);
        NEXT(syscall)(SYS_close, fd);
    }
    errno = saved;
}

void write_event(const char *event, const char *format, ...)
{
    if (!settings.ledger)
        return;
    char line[PATH_MAX + 512];
    int begin = snprintf(line, sizeof line, "{\"event\":\"%s\",\"at_ns\":%" PRIu64, event, now_ns());
    va_list arguments;
    va_start(arguments, format);
    int end = begin + vsnprintf(line + begin, sizeof line - (size_t)begin - 3, format, arguments);
    va_end(arguments);
    memcpy(line + end, "}\n", 2);
    append_line(line, (size_t)end + 2);
}

struct mapping {
    uintptr_t start;
    uint64_t bytes, offset;
    unsigned buffer;
    int file;
};

struct device {
    int fd, file;
    enum device_kind kind;
};

/* Up to this many dead objects are kept, to tell a read of freed memory from a read outside all buffers. */
#define DEAD_OBJECTS_KEPT 1024

struct buffer *buffers;
struct object *objects;
static struct mapping *mappings;
static struct device *devices;
static size_t buffer_count, mapping_count, device_count, dead_object_count;
size_t object_count;
uint64_t live_bytes, live_sram_bytes;
static unsigned live_buffers;
uint64_t generation;

void *with_room(void *array, size_t length, size_t item_bytes)
{
    if (length & (length - 1))
        return array;
    void *grown = realloc(array, (length ? 2 * length : 1) * item_bytes);
    if (!grown)
        abort();
    return grown;
}

uint64_t whole_pages(uint64_t bytes)
{
    return (bytes + settings.page_bytes - 1) / settings.page_bytes * settings.page_bytes;
}

static struct device *device_of(int fd)
{
    for (size_t index = 0; index < device_count; index++)
        if (devices[index].fd == fd)
            return &devices[index];
    return NULL;
}

enum device_kind kind_of(int fd)
{
    const struct device *device = device_of(fd);
    return device ? device->kind : NO_DEVICE;
}

int file_of(int fd)
{
    const struct device *device = device_of(fd);
    return device ? device->file : -1;
}

void add_device(int fd, enum device_kind kind)
{
    static int files_opened;
    forget_device(fd);
    APPEND(devices, device_count, (struct device){fd, files_opened++, kind});
}

void duplicate_device(int fd, int duplicate)
{
    const struct device *device = device_of(fd);
    if (!device || fd == duplicate)
        return;
    struct device other = {duplicate, device->file, device->kind};
    forget_device(duplicate);
    APPEND(devices, device_count, other);
}

/* The kernel keeps a file open as long as it has a descriptor or a mapping. */
static void settle_file(int file)
{
    for (size_t index = 0; index < device_count; index++)
        if (devices[index].file == file)
            return;
    for (size_t index = 0; index < mapping_count; index++)
        if (mappings[index].file == file)
            return;
    for (size_t index = 0; index < object_count; index++)
        if (objects[index].alive && objects[index].file == file)
            end_object(&objects[index]);
}

void forget_device(int fd)
{
    struct device *device = device_of(fd);
    if (!device)
        return;
    int file = device->file;
    REMOVE(devices, device_count, device - devices);
    settle_file(file);
}

static unsigned buffer_of_inode(const struct stat *status)
{
    for (size_t index = buffer_count; index-- > 0;) {
        struct buffer *buffer = &buffers[index];
        if (buffer->alive && buffer->has_inode && buffer->inode == status->st_ino && buffer->device == status->st_dev)
            return (unsigned)index + 1;
    }
    return 0;
}

unsigned buffer_of_fd(int fd)
{
    struct stat status;
    return live_buffers && fstat(fd, &status) == 0 ? buffer_of_inode(&status) : 0;
}

void identify(unsigned number, int fd)
{
    struct stat status;
    struct buffer *buffer = &buffers[number - 1];
    if (buffer->has_inode || fstat(fd, &status))
        return;
    buffer->device = status.st_dev;
    buffer->inode = status.st_ino;
    buffer->has_inode = true;
    write_event("inode", ",\"buffer\":%u,\"inode\":%" PRIu64, number, (uint64_t)status.st_ino);
}

static bool has_open_fd(const struct buffer *buffer)
{
    bool is_open = false;
    struct dirent *entry;
    DIR *folder = buffer->has_inode ? NEXT(opendir)("/proc/self/fd") : NULL;
    while (folder && !is_open && (entry = readdir(folder))) {
        struct stat status;
        is_open = isdigit((unsigned char)entry->d_name[0]) && fstat(atoi(entry->d_name), &status) == 0 &&
                  status.st_ino == buffer->inode && status.st_dev == buffer->device;
    }
    if (folder)
        closedir(folder);
    return is_open;
}

static bool is_mapped(unsigned buffer)
{
    for (size_t index = 0; index < mapping_count; index++)
        if (mappings[index].buffer == buffer)
            return true;
    return false;
}

unsigned add_buffer(uint64_t requested_bytes, uint64_t flags, uint64_t sram_bytes, const char *source)
{
    struct buffer buffer = {.bytes = whole_pages(requested_bytes), .sram_bytes = sram_bytes, .alive = true};
    APPEND(buffers, buffer_count, buffer);
    live_buffers++;
    live_bytes += buffer.bytes;
    live_sram_bytes += sram_bytes;
    generation++;
    write_event("create",
                ",\"buffer\":%zu,\"asked_bytes\":%" PRIu64 ",\"bytes\":%" PRIu64 ",\"flags\":%" PRIu64
                ",\"sram_bytes\":%" PRIu64 ",\"source\":\"%s\",\"thread\":%ld",
                buffer_count, requested_bytes, buffer.bytes, flags, sram_bytes, source, thread_id());
    return (unsigned)buffer_count;
}

void settle(unsigned number)
{
    struct buffer *buffer = number ? &buffers[number - 1] : NULL;
    if (!buffer || !buffer->alive || buffer->objects || is_mapped(number) || has_open_fd(buffer))
        return;
    buffer->alive = false;
    live_buffers--;
    live_bytes -= buffer->bytes;
    live_sram_bytes -= buffer->sram_bytes;
    generation++;
    write_event("destroy", ",\"buffer\":%u", number);
}

void write_import(unsigned buffer, int fd)
{
    struct stat status;
    if (buffer || fstat(fd, &status))
        write_event("import", ",\"buffer\":%u,\"thread\":%ld", buffer, thread_id());
    else
        write_event("import", ",\"buffer\":0,\"bytes\":%" PRIu64 ",\"thread\":%ld", (uint64_t)status.st_size,
                    thread_id());
}

/* Forgets dead objects at addresses that are in use again. */
static void forget_dead(const struct object *placed)
{
    for (size_t index = object_count; index-- > 0;) {
        struct object *object = &objects[index];
        if (object->alive || object->domain != placed->domain || object->end <= placed->start ||
            placed->end <= object->start)
            continue;
        dead_object_count--;
        REMOVE(objects, object_count, index);
    }
}

static void forget_oldest_dead(void)
{
    size_t index = 0;
    while (objects[index].alive)
        index++;
    dead_object_count--;
    REMOVE(objects, object_count, index);
}

/* Writes the addresses that an object takes in its domain, or gives back: "map" or "unmap". */
static void write_addresses(const char *event, const struct object *object)
{
    if (settings.iommu && object->start < object->end)
        write_event(event, ",\"buffer\":%u,\"domain\":%d,\"bytes\":%" PRIu64, object->buffer, object->domain,
                    object->end - object->start);
}

void add_object(struct object object)
{
    forget_dead(&object);
    if (dead_object_count > DEAD_OBJECTS_KEPT)
        forget_oldest_dead();
    object.alive = true;
    APPEND(objects, object_count, object);
    if (object.buffer)
        buffers[object.buffer - 1].objects++;
    generation++;
    write_addresses("map", &object);
}

void place_object(struct object *object, const struct object *placed)
{
    if (object->end)
        return;
    /* The object may have moved in the array, past forgotten ones; its handle finds it again. */
    forget_dead(placed);
    object = object_of_handle(placed->file, placed->handle);
    object->name = placed->name;
    object->domain = placed->domain;
    object->start = placed->start;
    object->end = placed->end;
    generation++;
    write_addresses("map", object);
}

struct object *object_of_handle(int file, uint32_t handle)
{
    for (size_t index = object_count; index-- > 0;) {
        struct object *object = &objects[index];
        if (object->alive && object->drm && !object->closed && object->file == file && object->handle == handle)
            return object;
    }
    return NULL;
}

struct object *object_named(uint64_t name)
{
    for (size_t index = object_count; index-- > 0;)
        if (objects[index].alive && objects[index].name == name)
            return &objects[index];
    return NULL;
}

const struct object *object_holding(int domain, uint64_t address)
{
    const struct object *last_dead = NULL;
    for (size_t index = object_count; index-- > 0;) {
        const struct object *object = &objects[index];
        if (object->domain != domain || address < object->start || object->end <= address)
            continue;
        if (object->alive)
            return object;
        if (!last_dead)
            last_dead = object;
    }
    return last_dead;
}

const struct object *object_before(int domain, uint64_t address)
{
    const struct object *last = NULL;
    for (size_t index = 0; index < object_count; index++) {
        const struct object *object = &objects[index];
        if (object->alive && object->domain == domain && object->buffer && object->end <= address &&
            (!last || object->end > last->end))
            last = object;
    }
    return last;
}

void end_object(struct object *object)
{
    if (!object)
        return;
    if (object->drm && object->buffer && is_mapped(object->buffer)) {
        object->closed = true;
        return;
    }
    object->alive = false;
    dead_object_count++;
    generation++;
    write_addresses("unmap", object);
    if (object->buffer) {
        buffers[object->buffer - 1].objects--;
        settle(object->buffer);
    }
}

void *map_object(const struct object *object)
{
    for (size_t index = 0; object->map_offset && index < device_count; index++)
        if (devices[index].file == object->file) {
            void *start = NEXT(mmap64)(NULL, object->end - object->start, PROT_READ, MAP_SHARED, devices[index].fd,
                                       (off64_t)object->map_offset);
            return start == MAP_FAILED ? NULL : start;
        }
    return NULL;
}

void add_mapping(void *start, uint64_t bytes, uint64_t offset, unsigned buffer, int file)
{
    APPEND(mappings, mapping_count, (struct mapping){(uintptr_t)start, whole_pages(bytes), offset, buffer, file});
}

/* Ends what a mapping that is gone has kept alive. */
static void settle_unmapped(const struct mapping *gone)
{
    if (!is_mapped(gone->buffer)) {
        for (size_t index = 0; index < object_count; index++)
            if (objects[index].alive && objects[index].closed && objects[index].buffer == gone->buffer)
                end_object(&objects[index]);
        settle(gone->buffer);
    }
    if (gone->file >= 0)
        settle_file(gone->file);
}

void forget_mappings(void *start, uint64_t bytes)
{
    uintptr_t first = (uintptr_t)start;
    for (size_t index = mapping_count; index-- > 0;) {
        struct mapping mapping = mappings[index];
        if (mapping.start >= first + bytes || first >= mapping.start + mapping.bytes)
            continue;
        REMOVE(mappings, mapping_count, index);
        settle_unmapped(&mapping);
    }
}

const uint8_t *contents(unsigned buffer, uint64_t offset, uint64_t bytes)
{
    for (size_t index = 0; index < mapping_count; index++) {
        struct mapping *mapping = &mappings[index];
        if (mapping->buffer == buffer && mapping->offset <= offset &&
            offset + bytes <= mapping->offset + mapping->bytes)
            return (const uint8_t *)mapping->start + (offset - mapping->offset);
    }
    return NULL;
}
