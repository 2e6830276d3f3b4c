/* The calls that make, share, map and free NPU memory: passed on or answered here, and accounted for. */
#include "preload.h"

static void account_created(int device_fd, bool drm, const struct npu_create *requested, const struct npu_create *given)
{
    struct object *known = drm ? object_of_handle(device_fd, given->handle) : NULL;
    struct object object = {
        .device_fd = device_fd,
        .drm = drm,
        .handle = given->handle,
        .name = given->object,
        .domain = requested->iommu_domain,
        .start = given->address,
        /* The driver may answer with only the last part of the buffer, the part outside SRAM. */
        .end = given->address + whole_pages(given->bytes > requested->bytes ? given->bytes : requested->bytes),
    };
    if (known || (!drm && requested->handle)) {
        object.buffer = known ? known->buffer : buffer_of_fd((int)requested->handle);
        write_import(object.buffer, drm ? -1 : (int)requested->handle);
    } else {
        uint64_t sram_bytes = requested->flags & TRY_SRAM ? given->sram_bytes : 0;
        object.buffer = add_buffer(requested->bytes, requested->flags, sram_bytes, "rknpu");
        if (!drm)
            identify(object.buffer, (int)given->handle);
    }
    if (known)
        place_object(known, &object);
    else
        add_object(object);
}

/* DRM gives the same handle again if the device already has a handle for the buffer. */
static void account_handle_of_fd(int device_fd, const struct drm_prime *prime)
{
    if (!object_of_handle(device_fd, prime->handle))
        add_object((struct object){
            .device_fd = device_fd, .drm = true, .handle = prime->handle, .buffer = buffer_of_fd(prime->fd)});
}

static void account_fd_of_handle(int device_fd, const struct drm_prime *prime)
{
    struct object *object = object_of_handle(device_fd, prime->handle);
    if (object && object->buffer)
        identify(object->buffer, prime->fd);
}

static void account_map(int device_fd, const struct npu_map *map)
{
    struct object *object = object_of_handle(device_fd, map->handle);
    if (object)
        object->map_offset = map->offset;
}

static void account_action(const struct npu_action *action)
{
    if (action->action == ACTION_HARDWARE_VERSION)
        settings.hardware_version = action->value;
    if (action->action == ACTION_IOMMU_ENABLED)
        settings.iommu = action->value;
}

static void account_allocated(const struct heap_allocation *allocation)
{
    identify(add_buffer(allocation->bytes, allocation->heap_flags, 0, "dma_heap"), (int)allocation->fd);
}

static unsigned mapped_buffer(int fd, uint64_t *offset)
{
    if (kind_of(fd) != DRM_DEVICE)
        return buffer_of_fd(fd);
    for (size_t index = object_count; index-- > 0;) {
        struct object *object = &objects[index];
        if (object->alive && object->device_fd == fd && object->map_offset && object->map_offset == *offset) {
            *offset = 0;
            return object->buffer;
        }
    }
    return 0;
}

static int answer(int fd, unsigned long request, enum device_kind kind, unsigned number, void *argument)
{
    if (!settings.chip)
        return NEXT(ioctl)(fd, request, argument);
    return kind == HEAP_DEVICE ? answer_heap(argument) : answer_npu(number, argument);
}

static int create_and_account(int fd, unsigned long request, bool drm, void *argument)
{
    /* The runtime's structure may be shorter than ours: it is read and written by its own size. */
    struct npu_create requested = {0}, given = {0};
    size_t bytes = _IOC_SIZE(request) < sizeof requested ? _IOC_SIZE(request) : sizeof requested;
    memcpy(&requested, argument, bytes);
    int result;
    if (settings.chip) {
        given = requested;
        result = answer_npu(NPU_CREATE, &given);
        memcpy(argument, &given, bytes);
    } else {
        result = NEXT(ioctl)(fd, request, argument);
        memcpy(&given, argument, bytes);
    }
    if (result == 0)
        account_created(fd, drm, &requested, &given);
    return result;
}

/* A job may take long: the lock is not held while the driver runs it. */
static int submit_and_account(int fd, unsigned long request, enum device_kind kind, void *argument)
{
    account_submit(argument);
    if (settings.chip)
        return answer_npu(NPU_SUBMIT, argument);
    pthread_mutex_unlock(&lock);
    int result = answer(fd, request, kind, NPU_SUBMIT, argument);
    pthread_mutex_lock(&lock);
    return result;
}

static int npu_ioctl(int fd, unsigned long request, enum device_kind kind, unsigned number, void *argument)
{
    bool drm = kind == DRM_DEVICE;
    if (number == NPU_CREATE)
        return create_and_account(fd, request, drm, argument);
    if (number == NPU_SUBMIT)
        return submit_and_account(fd, request, kind, argument);
    struct npu_destroy destroy = {0};
    if (number == NPU_DESTROY)
        memcpy(&destroy, argument, sizeof destroy);
    int result = answer(fd, request, kind, number, argument);
    if (result == 0 && number == NPU_DESTROY)
        end_object(drm ? object_of_handle(fd, destroy.handle) : object_named(destroy.object));
    if (result == 0 && number == NPU_MAP && drm)
        account_map(fd, argument);
    if (result == 0 && number == NPU_ACTION)
        account_action(argument);
    return result;
}

static int drm_ioctl(int fd, unsigned long request, void *argument)
{
    int result = NEXT(ioctl)(fd, request, argument);
    if (result)
        return result;
    if (_IOC_NR(request) == DRM_FD_TO_HANDLE)
        account_handle_of_fd(fd, argument);
    else if (_IOC_NR(request) == DRM_HANDLE_TO_FD)
        account_fd_of_handle(fd, argument);
    else if (_IOC_NR(request) == DRM_CLOSE_HANDLE)
        end_object(object_of_handle(fd, *(uint32_t *)argument));
    return 0;
}

static int heap_ioctl(int fd, unsigned long request, void *argument)
{
    int result = answer(fd, request, HEAP_DEVICE, HEAP_ALLOCATE, argument);
    if (result == 0 && _IOC_NR(request) == HEAP_ALLOCATE)
        account_allocated(argument);
    return result;
}

static int ioctl_and_account(int fd, unsigned long request, void *argument)
{
    unsigned number = _IOC_NR(request);
    switch (kind_of(fd)) {
    case NPU_DEVICE:
        return npu_ioctl(fd, request, NPU_DEVICE, number, argument);
    case DRM_DEVICE:
        return number >= DRM_DRIVER ? npu_ioctl(fd, request, DRM_DEVICE, number - DRM_DRIVER, argument)
                                    : drm_ioctl(fd, request, argument);
    case HEAP_DEVICE:
        return heap_ioctl(fd, request, argument);
    default:
        /* Requests of type 'b' write back and drop the caches of a dma-buf, which memfds do not have. */
        return settings.chip && _IOC_TYPE(request) == 'b' && buffer_of_fd(fd)
                   ? 0
                   : NEXT(ioctl)(fd, request, argument);
    }
}

static bool is_ours(unsigned long request)
{
    unsigned type = _IOC_TYPE(request);
    return type == 'r' || type == 'd' || type == 'H' || type == 'R' || type == 'b';
}

static int hooked_ioctl(int fd, unsigned long request, void *argument)
{
    if (!is_ours(request) || !is_accounted_process())
        return NEXT(ioctl)(fd, request, argument);
    pthread_mutex_lock(&lock);
    int result = ioctl_and_account(fd, request, argument);
    pthread_mutex_unlock(&lock);
    return result;
}

HOOK(int, ioctl, (int fd, unsigned long request, void *argument))
{
    return hooked_ioctl(fd, request, argument);
}

/* Name of ioctl on 32-bit systems with 64-bit time. */
HOOK(int, __ioctl_time64, (int fd, unsigned long request, void *argument))
{
    return hooked_ioctl(fd, request, argument);
}

/*
 * ---- open: the file descriptors of devices --------------------------------------------------------------------------
 */

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
    return begins_with(path, "/dev/dma_heap/") || begins_with(path, "/dev/rk_dma_heap/") ? HEAP_DEVICE : NO_DEVICE;
}

/* For other drivers the same numbers mean other calls, and their nodes are of the same kind. */
static bool is_npu_driver(int fd)
{
    char name[16] = "";
    struct drm_version version = {.name = name, .name_bytes = sizeof name - 1};
    return NEXT(ioctl)(fd, _IOWR('d', DRM_VERSION, struct drm_version), &version) == 0 && strcmp(name, "rknpu") == 0;
}

static int remember(enum device_kind kind, int fd)
{
    if (fd < 0 || !is_accounted_process() || (kind == DRM_DEVICE && !is_npu_driver(fd)))
        return fd;
    int saved = errno;
    pthread_mutex_lock(&lock);
    set_device(fd, kind);
    pthread_mutex_unlock(&lock);
    errno = saved;
    return fd;
}

#define LEAVE_TO_NEXT (-2)

/* Returns a device of the virtual board, -1 if it does not exist, or LEAVE_TO_NEXT for any other path. */
static int open_on_board(const char *call, int folder, const char *path)
{
    char space[PATH_MAX];
    if (!is_virtual())
        return LEAVE_TO_NEXT;
    enum device_kind kind = kind_of_path(resolved(folder, path, space));
    if (kind != NPU_DEVICE && kind != HEAP_DEVICE)
        return is_refused_path(call, space) ? -1 : LEAVE_TO_NEXT;
    if (kind == NPU_DEVICE && settings.open_error) {
        errno = settings.open_error;
        return -1;
    }
    return remember(kind, memfd_create(kind == NPU_DEVICE ? "rknpu" : "dma_heap", MFD_CLOEXEC));
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

/*
 * ---- close: the buffers that a closed file descriptor no longer keeps
 * ------------------------------------------------
 */

static void account_closed(int fd, enum device_kind kind, unsigned buffer)
{
    if (kind != NO_DEVICE) {
        set_device(fd, NO_DEVICE);
        end_objects_of(fd);
    }
    settle(buffer);
}

HOOK(int, close, (int fd))
{
    if (!is_accounted_process())
        return NEXT(close)(fd);
    int saved = errno;
    pthread_mutex_lock(&lock);
    enum device_kind kind = kind_of(fd);
    unsigned buffer = buffer_of_fd(fd);
    bool is_known = kind != NO_DEVICE || buffer;
    /* Other files may take long to close. */
    if (!is_known)
        pthread_mutex_unlock(&lock);
    errno = saved;
    int result = NEXT(close)(fd);
    if (is_known) {
        saved = errno;
        account_closed(fd, kind, buffer);
        pthread_mutex_unlock(&lock);
        errno = saved;
    }
    return result;
}

/*
 * ---- mmap: the mappings by which the process sees buffers, to read register commands there
 * ---------------------------
 */

static void account_mapped(void *start, uint64_t bytes, int flags, int fd, uint64_t offset)
{
    int saved = errno;
    pthread_mutex_lock(&lock);
    if (flags & MAP_FIXED)
        forget_mappings(start, bytes);
    unsigned buffer = flags & MAP_ANONYMOUS ? 0 : mapped_buffer(fd, &offset);
    if (buffer)
        add_mapping(start, bytes, offset, buffer);
    pthread_mutex_unlock(&lock);
    errno = saved;
}

#define MAP(name, offset_type)                                                                                         \
    HOOK(void *, name, (void *wish, size_t bytes, int protection, int flags, int fd, offset_type offset))              \
    {                                                                                                                  \
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
