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
    else if (number == ROCKET_SUBMIT)
        account_failed_submit(file_of(fd), &call.submit, errno);
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
