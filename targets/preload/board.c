/* The virtual board: what the driver of the chip would answer. */
#include "preload.h"

/* NPU addresses that the virtual board gives out, with a page between buffers, so that one read past an end shows. */
#define FIRST_ADDRESS UINT64_C(0x10000000)
#define LAST_ADDRESS UINT64_C(0xfffff000)

static uint64_t next_address = FIRST_ADDRESS;
static uint64_t objects_made, submits_made;

static int refused(int error)
{
    errno = error;
    return -1;
}

static int answer_action(struct npu_action *action)
{
    switch (action->action) {
    case ACTION_HARDWARE_VERSION:
        action->value = settings.chip->hardware_version;
        break;
    case ACTION_DRIVER_VERSION:
        action->value = settings.driver_version;
        break;
    case ACTION_IOMMU_ENABLED:
        action->value = settings.chip->iommu;
        break;
    case ACTION_SRAM_BYTES:
        action->value = (uint32_t)settings.sram_bytes;
        break;
    case ACTION_FREE_SRAM_BYTES:
        action->value = (uint32_t)(settings.sram_bytes - live_sram_bytes);
        break;
    default:
        action->value = 0;
    }
    return 0;
}

/* Returns the first address from `from` on where that much is free. */
static uint64_t free_address(uint64_t from, uint64_t bytes)
{
    for (size_t index = 0; index < object_count; index++) {
        const struct object *object = &objects[index];
        if (object->alive && from < object->end + settings.page_bytes &&
            object->start < from + bytes + settings.page_bytes)
            return free_address(object->end + settings.page_bytes, bytes);
    }
    return from;
}

/* Addresses grow; only when the 4 GiB are used up are those of dead buffers given out again. Returns 0 if none is. */
static uint64_t new_address(uint64_t bytes)
{
    uint64_t address = free_address(next_address, bytes);
    if (address + bytes > LAST_ADDRESS)
        address = free_address(FIRST_ADDRESS, bytes);
    if (address + bytes > LAST_ADDRESS)
        return 0;
    next_address = address + bytes + settings.page_bytes;
    return address;
}

/* Returns a new memfd, or -1. */
static int new_memory(const char *name, uint64_t requested_bytes)
{
    uint64_t bytes = whole_pages(requested_bytes);
    if (!bytes)
        return refused(EINVAL);
    if (bytes > settings.memory_bytes || live_bytes > settings.memory_bytes - bytes) {
        write_event("fault", ",\"fault\":\"enomem\"");
        return refused(ENOMEM);
    }
    int fd = memfd_create(name, MFD_CLOEXEC);
    if (fd >= 0 && ftruncate(fd, (off_t)bytes)) {
        NEXT(close)(fd);
        fd = refused(ENOMEM);
    }
    return fd;
}

/* As rknpu_gem.c does: all that is free of what was requested, and at most the buffer. 0 asks for as much as fits. */
static uint64_t granted_sram(const struct npu_create *create)
{
    uint64_t free_bytes = settings.sram_bytes - live_sram_bytes, granted = whole_pages(create->bytes);
    if (!(create->flags & TRY_SRAM))
        return 0;
    if (create->sram_bytes && whole_pages(create->sram_bytes) < granted)
        granted = whole_pages(create->sram_bytes);
    return granted < free_bytes ? granted : free_bytes;
}

/* Without an IOMMU a buffer has one address for all; with one every object has its own. */
static uint64_t address_of_import(int fd, uint64_t bytes)
{
    unsigned buffer = settings.chip->iommu ? 0 : buffer_of_fd(fd);
    for (size_t index = 0; buffer && index < object_count; index++)
        if (objects[index].alive && objects[index].buffer == buffer)
            return objects[index].start;
    return new_address(bytes);
}

static int answer_import(struct npu_create *create)
{
    struct stat status;
    if (fstat((int)create->handle, &status))
        return -1;
    create->bytes = whole_pages(create->bytes ? create->bytes : (uint64_t)status.st_size);
    create->address = address_of_import((int)create->handle, create->bytes);
    return create->address ? 0 : refused(ENOMEM);
}

static int answer_new(struct npu_create *create)
{
    uint64_t address = new_address(whole_pages(create->bytes));
    int fd = address ? new_memory("rknpu", create->bytes) : refused(ENOMEM);
    if (fd < 0)
        return -1;
    create->handle = (uint32_t)fd;
    create->bytes = whole_pages(create->bytes);
    create->sram_bytes = granted_sram(create);
    create->address = address;
    return 0;
}

static int answer_create(struct npu_create *create)
{
    int result = create->handle ? answer_import(create) : answer_new(create);
    /* As unlike a pointer of the process as the kernel's own are. */
    if (result == 0)
        create->object = UINT64_C(0xffffff8000000000) + ++objects_made * 0x100;
    return result;
}

static int answer_submit(struct npu_submit *submit)
{
    if (!object_named(submit->task_object))
        return refused(EINVAL);
    if (settings.submit_error && ++submits_made >= settings.first_failing_submit) {
        write_event("fault", ",\"fault\":\"submit-error\"");
        return refused(settings.submit_error);
    }
    submit->task_counter = submit->task_count;
    submit->hardware_ns = 1;
    return 0;
}

int answer_npu(unsigned number, void *argument)
{
    switch (number) {
    case NPU_ACTION:
        return answer_action(argument);
    case NPU_CREATE:
        return answer_create(argument);
    case NPU_SUBMIT:
        return answer_submit(argument);
    case NPU_MAP:
        ((struct npu_map *)argument)->offset = 0;
        return 0;
    case NPU_DESTROY:
        return object_named(((struct npu_destroy *)argument)->object) ? 0 : refused(EINVAL);
    case NPU_SYNC:
        return 0;
    default:
        return refused(EINVAL);
    }
}

int answer_heap(struct heap_allocation *allocation)
{
    int fd = new_memory("dma_heap", allocation->bytes);
    if (fd < 0)
        return -1;
    allocation->fd = (uint32_t)fd;
    return 0;
}
