/* The calls that make, share, map and free NPU memory: passed on or answered here, and accounted for. */
#include "preload.h"

static void account_created(int file, bool drm, const struct npu_create *requested, const struct npu_create *given)
{
    struct object *known = drm ? object_of_handle(file, given->handle) : NULL;
    struct object object = {
        .file = file,
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
static void account_handle_of_fd(int file, const struct drm_prime *prime)
{
    if (!object_of_handle(file, prime->handle))
        add_object((struct object){
            .file = file, .drm = true, .handle = prime->handle, .buffer = buffer_of_fd(prime->fd)});
}

static void account_fd_of_handle(int file, const struct drm_prime *prime)
{
    struct object *object = object_of_handle(file, prime->handle);
    if (object && object->buffer)
        identify(object->buffer, prime->fd);
}

static void account_map(int file, const struct npu_map *map)
{
    struct object *object = object_of_handle(file, map->handle);
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

static bool maps_buffers(enum device_kind kind)
{
    return kind == DRM_DEVICE || kind == ROCKET_DEVICE;
}

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
        account_created(file_of(fd), drm, &requested, &given);
    return result;
}

/* A job may take long: the lock is not held while the driver runs it. */
static int wait_for_driver(int fd, unsigned long request, void *argument)
{
    pthread_mutex_unlock(&lock);
    int result = NEXT(ioctl)(fd, request, argument);
    pthread_mutex_lock(&lock);
    return result;
}

static int submit_and_account(int fd, unsigned long request, void *argument)
{
    account_submit(argument);
    return settings.chip ? answer_npu(NPU_SUBMIT, argument) : wait_for_driver(fd, request, argument);
}

static int npu_ioctl(int fd, unsigned long request, enum device_kind kind, unsigned number, void *argument)
{
    bool drm = kind == DRM_DEVICE;
    if (number == NPU_CREATE)
        return create_and_account(fd, request, drm, argument);
    if (number == NPU_SUBMIT)
        return submit_and_account(fd, request, argument);
    struct npu_destroy destroy = {0};
    if (number == NPU_DESTROY)
        memcpy(&destroy, argument, sizeof destroy);
    int result = answer(fd, request, kind, number, argument);
    if (result == 0 && number == NPU_DESTROY)
        end_object(drm ? object_of_handle(file_of(fd), destroy.handle) : object_named(destroy.object));
    if (result == 0 && number == NPU_MAP && drm)
        account_map(file_of(fd), argument);
    if (result == 0 && number == NPU_ACTION)
        account_action(argument);
    return result;
}

/* The calls that all DRM drivers have. */
static void account_drm(int file, unsigned number, const void *argument)
{
    if (number == DRM_FD_TO_HANDLE)
        account_handle_of_fd(file, argument);
    else if (number == DRM_HANDLE_TO_FD)
        account_fd_of_handle(file, argument);
    else if (number == DRM_CLOSE_HANDLE)
        end_object(object_of_handle(file, *(const uint32_t *)argument));
}

static int drm_ioctl(int fd, unsigned long request, void *argument)
{
    int result = NEXT(ioctl)(fd, request, argument);
    if (result == 0)
        account_drm(file_of(fd), _IOC_NR(request), argument);
    return result;
}

static void account_rocket_buffer(int file, const struct rocket_create *create)
{
    add_object((struct object){
        .file = file,
        .drm = true,
        .handle = create->handle,
        .buffer = add_buffer(create->bytes, 0, 0, "rocket"),
        .domain = file,
        .start = create->address,
        .end = create->address + whole_pages(create->bytes),
        .map_offset = create->map_offset,
    });
}

static void account_rocket(int fd, unsigned number, const union rocket_call *call)
{
    int file = file_of(fd);
    const struct object *closed = number == DRM_CLOSE_HANDLE ? object_of_handle(file, call->handle) : NULL;
    if (number == ROCKET_CREATE)
        account_rocket_buffer(file, &call->create);
    else
        account_drm(file, number, call);
    if (settings.chip && closed && !closed->alive)
        give_back(fd, closed);
}

static int rocket_ioctl(int fd, unsigned long request, void *argument)
{
    unsigned number = _IOC_NR(request);
    int result;
    /* The kernel, too, takes what a shorter structure lacks for 0. */
    union rocket_call call = {0};
    size_t bytes = _IOC_SIZE(request) < sizeof call ? _IOC_SIZE(request) : sizeof call;
    memcpy(&call, argument, bytes);
    if (number == ROCKET_SUBMIT)
        account_rocket_submit(file_of(fd), &call.submit);
    if (settings.chip) {
        result = answer_rocket(fd, number, &call);
        memcpy(argument, &call, bytes);
    } else {
        bool waits = number == ROCKET_SUBMIT || number == ROCKET_PREPARE;
        result = waits ? wait_for_driver(fd, request, argument) : NEXT(ioctl)(fd, request, argument);
        memcpy(&call, argument, bytes);
    }
    if (result == 0)
        account_rocket(fd, number, &call);
    return result;
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
    case ROCKET_DEVICE:
        return rocket_ioctl(fd, request, argument);
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

static int remember(enum device_kind kind, int fd)
{
    if (fd < 0 || kind == NO_DEVICE || !is_accounted_process())
        return fd;
    int saved = errno;
    bool is_npu = settings.chip || kind == NPU_DEVICE || kind == HEAP_DEVICE || is_npu_driver(kind, fd);
    pthread_mutex_lock(&lock);
    if (is_npu)
        add_device(fd, kind);
    else
        forget_device(fd);
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

/*
 * ---- close: the buffers that a closed file descriptor no longer keeps
 * ------------------------------------------------
 */

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

/*
 * ---- dup: further descriptors of a device's open file
 * ----------------------------------------------------------------
 */

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
    if (!(flags & MAP_ANONYMOUS) && maps_buffers(kind_of(fd))) {
        const struct object *object = object_at_offset(file_of(fd), offset);
        if (object && object->buffer)
            add_mapping(start, bytes, 0, object->buffer, object->file);
    } else if (!(flags & MAP_ANONYMOUS) && buffer_of_fd(fd))
        add_mapping(start, bytes, offset, buffer_of_fd(fd), -1);
    pthread_mutex_unlock(&lock);
    errno = saved;
}

/* The memory of all buffers of an open file of rocket is one memfd, of which only whole buffers can be mapped. */
static bool cannot_be_mapped(uint64_t bytes, int flags, int fd, uint64_t offset)
{
    if (flags & MAP_ANONYMOUS || !is_accounted_process() || !settings.chip)
        return false;
    pthread_mutex_lock(&lock);
    const struct object *object = object_at_offset(file_of(fd), offset);
    bool valid = object && whole_pages(bytes) <= object->end - object->start && (flags & MAP_TYPE) != MAP_PRIVATE;
    bool cannot = kind_of(fd) == ROCKET_DEVICE && !valid;
    pthread_mutex_unlock(&lock);
    if (cannot)
        errno = EINVAL;
    return cannot;
}

#define MAP(name, offset_type)                                                                                         \
    HOOK(void *, name, (void *wish, size_t bytes, int protection, int flags, int fd, offset_type offset))              \
    {                                                                                                                  \
        if (cannot_be_mapped(bytes, flags, fd, (uint64_t)offset))                                                      \
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
