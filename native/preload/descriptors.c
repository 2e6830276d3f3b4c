/*
 * The file descriptors and mappings of devices and buffers: from open to close, with their duplicates, and from mmap to
 * munmap. What this process has open or mapped keeps buffers alive.
 */
#include "preload.h"

/* ---- open: the file descriptors of devices ---- */

static bool begins_with(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

static enum device_kind kind_of_path(const char *path)
{
    if (!path)
        return NO_DEVICE;
    if (strcmp(path, "/dev/rknpu") == 0)
        return NPU_DEVICE;
    if (begins_with(path, "/dev/dri/"))
        return DRM_DEVICE;
    if (begins_with(path, "/dev/accel/"))
        return ROCKET_DEVICE;
    return begins_with(path, "/dev/dma_heap/") || begins_with(path, "/dev/rk_dma_heap/") ? HEAP_DEVICE : NO_DEVICE;
}

/* For other drivers the same numbers mean other calls, and their nodes are of the same kind. */
static bool is_npu_driver(enum device_kind kind, int fd)
{
    char name[16] = "";
    struct drm_version version = {.name = name, .name_bytes = sizeof name - 1};
    return NEXT(ioctl)(fd, _IOWR('d', DRM_VERSION, struct drm_version), &version) == 0 &&
           strcmp(name, kind == ROCKET_DEVICE ? "rocket" : "rknpu") == 0;
}

static bool maps_buffers(enum device_kind kind)
{
    return kind == DRM_DEVICE || kind == ROCKET_DEVICE;
}

static int remember(enum device_kind kind, int fd)
{
    if (fd < 0 || kind == NO_DEVICE || !is_accounted_process())
        return fd;
    int saved = errno;
    bool is_npu = settings.chip || !maps_buffers(kind) || is_npu_driver(kind, fd);
    pthread_mutex_lock(&lock);
    if (is_npu)
        add_device(fd, kind);
    /* Every open file of rocket has an address space of its own. */
    settings.iommu = settings.iommu || (is_npu && kind == ROCKET_DEVICE);
    pthread_mutex_unlock(&lock);
    errno = saved;
    return fd;
}

#define LEAVE_TO_NEXT (-2)

static const char *const memory_names[] = {
    [NPU_DEVICE] = "rknpu", [HEAP_DEVICE] = "dma_heap", [ROCKET_DEVICE] = "rocket"};

static bool is_on_board(enum device_kind kind, const char *path)
{
    if (settings.chip->device == ROCKET_DEVICE)
        return strcmp(path, "/dev/accel/accel0") == 0;
    return kind == NPU_DEVICE || kind == HEAP_DEVICE;
}

/* Returns a device of the virtual board, -1 if it does not exist, or LEAVE_TO_NEXT for any other path. */
static int open_on_board(const char *call, int folder, const char *path)
{
    char space[PATH_MAX];
    if (!is_virtual())
        return LEAVE_TO_NEXT;
    enum device_kind kind = kind_of_path(resolved(folder, path, space));
    if (!is_on_board(kind, space))
        return is_refused_path(call, space) ? -1 : LEAVE_TO_NEXT;
    if (kind != HEAP_DEVICE && settings.open_error)
        return refused(settings.open_error);
    return remember(kind, memfd_create(memory_names[kind], MFD_CLOEXEC));
}

#define OPEN(name, parameters, arguments, folder, path)                                                                \
    HOOK(int, name, parameters)                                                                                        \
    {                                                                                                                  \
        static int(*next) parameters;                                                                                  \
        if (!next)                                                                                                     \
            next = (int(*) parameters)next_function(#name);                                                            \
        int fd = next ? open_on_board(#name, folder, path) : -1;                                                       \
        return fd == LEAVE_TO_NEXT ? remember(kind_of_path(path), next arguments) : fd;                                \
    }

OPEN(open, (const char *path, int flags, mode_t mode), (path, flags, mode), AT_FDCWD, path)
OPEN(open64, (const char *path, int flags, mode_t mode), (path, flags, mode), AT_FDCWD, path)
OPEN(openat, (int at, const char *path, int flags, mode_t mode), (at, path, flags, mode), at, path)
OPEN(openat64, (int at, const char *path, int flags, mode_t mode), (at, path, flags, mode), at, path)
OPEN(creat, (const char *path, mode_t mode), (path, mode), AT_FDCWD, path)
OPEN(creat64, (const char *path, mode_t mode), (path, mode), AT_FDCWD, path)
/* The names that _FORTIFY_SOURCE makes of these. */
OPEN(__open_2, (const char *path, int flags), (path, flags), AT_FDCWD, path)
OPEN(__open64_2, (const char *path, int flags), (path, flags), AT_FDCWD, path)
OPEN(__openat_2, (int at, const char *path, int flags), (at, path, flags), at, path)
OPEN(__openat64_2, (int at, const char *path, int flags), (at, path, flags), at, path)

/* No runtime opens a device as a stream, but these calls are guarded, too. */
#define OPEN_STREAM(name, parameters, arguments, path)                                                                 \
    HOOK(FILE *, name, parameters)                                                                                     \
    {                                                                                                                  \
        static FILE *(*next)parameters;                                                                                \
        if (!next)                                                                                                     \
            next = (FILE * (*)parameters) next_function(#name);                                                        \
        return !next || is_refused(#name, AT_FDCWD, path) ? NULL : next arguments;                                     \
    }

OPEN_STREAM(fopen, (const char *path, const char *mode), (path, mode), path)
OPEN_STREAM(fopen64, (const char *path, const char *mode), (path, mode), path)
OPEN_STREAM(freopen, (const char *path, const char *mode, FILE *stream), (path, mode, stream), path)
OPEN_STREAM(freopen64, (const char *path, const char *mode, FILE *stream), (path, mode, stream), path)

/* ---- close: the buffers that a closed file descriptor no longer keeps ---- */

static void account_closed(int fd, unsigned buffer)
{
    forget_device(fd);
    settle(buffer);
}

HOOK(int, close, (int fd))
{
    if (!is_accounted_process())
        return NEXT(close)(fd);
    int saved = errno;
    pthread_mutex_lock(&lock);
    unsigned buffer = buffer_of_fd(fd);
    bool is_known = kind_of(fd) != NO_DEVICE || buffer;
    /* Other files may take long to close. */
    if (!is_known)
        pthread_mutex_unlock(&lock);
    errno = saved;
    int result = NEXT(close)(fd);
    if (is_known) {
        saved = errno;
        account_closed(fd, buffer);
        pthread_mutex_unlock(&lock);
        errno = saved;
    }
    return result;
}

/* ---- dup: further descriptors of a device's open file ---- */

static int account_duplicate(int fd, int duplicate)
{
    if (duplicate < 0 || !is_accounted_process())
        return duplicate;
    int saved = errno;
    pthread_mutex_lock(&lock);
    duplicate_device(fd, duplicate);
    pthread_mutex_unlock(&lock);
    errno = saved;
    return duplicate;
}

HOOK(int, dup, (int fd))
{
    return account_duplicate(fd, NEXT(dup)(fd));
}

#define FCNTL(name)                                                                                                    \
    HOOK(int, name, (int fd, int command, void *argument))                                                             \
    {                                                                                                                  \
        int result = NEXT(name)(fd, command, argument);                                                                \
        return command == F_DUPFD || command == F_DUPFD_CLOEXEC ? account_duplicate(fd, result) : result;              \
    }

FCNTL(fcntl)
FCNTL(fcntl64)

/* The descriptor that is replaced is closed. */
static int account_replaced(int fd, int replaced, unsigned buffer, int result)
{
    int saved = errno;
    if (result == replaced && fd != replaced) {
        account_closed(replaced, buffer);
        duplicate_device(fd, replaced);
    }
    errno = saved;
    return result;
}

#define REPLACE(name, parameters, arguments)                                                                           \
    HOOK(int, name, parameters)                                                                                        \
    {                                                                                                                  \
        if (!is_accounted_process())                                                                                   \
            return NEXT(name) arguments;                                                                               \
        pthread_mutex_lock(&lock);                                                                                     \
        unsigned buffer = fd == replaced ? 0 : buffer_of_fd(replaced);                                                 \
        int result = account_replaced(fd, replaced, buffer, NEXT(name) arguments);                                     \
        pthread_mutex_unlock(&lock);                                                                                   \
        return result;                                                                                                 \
    }

REPLACE(dup2, (int fd, int replaced), (fd, replaced))
REPLACE(dup3, (int fd, int replaced, int flags), (fd, replaced, flags))

/* ---- mmap: the mappings by which the process keeps buffers, and by which their register commands are read ---- */

/* Returns the object that is mapped from the device by this offset, or NULL. */
static const struct object *object_at_offset(int file, uint64_t offset)
{
    for (size_t index = object_count; index-- > 0;) {
        const struct object *object = &objects[index];
        if (object->alive && !object->closed && object->file == file && object->map_offset &&
            object->map_offset == offset)
            return object;
    }
    return NULL;
}

static void account_mapped(void *start, uint64_t bytes, int flags, int fd, uint64_t offset)
{
    int saved = errno;
    pthread_mutex_lock(&lock);
    if (flags & MAP_FIXED)
        forget_mappings(start, bytes);
    if (!(flags & MAP_ANONYMOUS) && maps_buffers(kind_of(fd))) {
        const struct object *object = object_at_offset(file_of(fd), offset);
        if (object && object->buffer)
            add_mapping(start, bytes, 0, object->buffer, object->file);
    } else if (!(flags & MAP_ANONYMOUS) && buffer_of_fd(fd))
        add_mapping(start, bytes, offset, buffer_of_fd(fd), -1);
    pthread_mutex_unlock(&lock);
    errno = saved;
}

/* One memfd has the memory of all buffers of an open file of rocket; a mapping begins where a buffer does. */
static bool is_within_buffer(uint64_t bytes, int flags, int fd, uint64_t offset)
{
    const struct object *object = object_at_offset(file_of(fd), offset);
    return object && whole_pages(bytes) <= object->end - object->start && (flags & MAP_TYPE) != MAP_PRIVATE;
}

static bool can_be_mapped(uint64_t bytes, int flags, int fd, uint64_t offset)
{
    if (flags & MAP_ANONYMOUS || !is_accounted_process() || !settings.chip)
        return true;
    pthread_mutex_lock(&lock);
    bool can = kind_of(fd) != ROCKET_DEVICE || is_within_buffer(bytes, flags, fd, offset);
    pthread_mutex_unlock(&lock);
    if (!can)
        errno = EINVAL;
    return can;
}

#define MAP(name, offset_type)                                                                                         \
    HOOK(void *, name, (void *wish, size_t bytes, int protection, int flags, int fd, offset_type offset))              \
    {                                                                                                                  \
        if (!can_be_mapped(bytes, flags, fd, (uint64_t)offset))                                                        \
            return MAP_FAILED;                                                                                         \
        void *start = NEXT(name)(wish, bytes, protection, flags, fd, offset);                                          \
        if (start != MAP_FAILED && (!(flags & MAP_ANONYMOUS) || flags & MAP_FIXED) && is_accounted_process())          \
            account_mapped(start, bytes, flags, fd, (uint64_t)offset);                                                 \
        return start;                                                                                                  \
    }

MAP(mmap, off_t)
MAP(mmap64, off64_t)

HOOK(int, munmap, (void *start, size_t bytes))
{
    if (is_accounted_process()) {
        pthread_mutex_lock(&lock);
        forget_mappings(start, bytes);
        pthread_mutex_unlock(&lock);
    }
    return NEXT(munmap)(start, bytes);
}
