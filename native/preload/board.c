/* The virtual board with Rockchip's driver: the answers that it would give on the chip. */
#include "preload.h"

/*
 * The first NPU addresses of the virtual board are above most values that a runtime takes for addresses by mistake.
 * There is a page between buffers, so that a read past the end of one is seen.
 */
#define FIRST_ADDRESS UINT64_C(0x1000000)

/* Per domain; 0: FIRST_ADDRESS. */
static uint64_t next_addresses[DOMAINS];
static int current_domain;
static uint64_t objects_made;

int refused(int error)
{
    errno = error;
    return -1;
}

bool exceeds_memory(uint64_t bytes)
{
    bool exceeds = bytes > settings.memory_bytes || live_bytes > settings.memory_bytes - bytes;
    if (exceeds)
        write_event("fault", ",\"fault\":\"enomem\"");
    return exceeds;
}

int count_submit(void)
{
    static uint64_t submits_made;
    if (!settings.submit_error || ++submits_made < settings.first_failing_submit)
        return 0;
    write_event("fault", ",\"fault\":\"submit-error\"");
    return refused(settings.submit_error);
}

/*
 * Every call that concerns addresses makes the NPU use their domain from then on (rknpu_iommu.c). The current domain is
 * always valid; without an IOMMU no other one is.
 */
static int switch_domain(int domain)
{
    if (domain != current_domain && (!settings.iommu || domain < 0 || domain >= DOMAINS))
        return refused(EINVAL);
    current_domain = domain;
    return 0;
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
    case ACTION_GET_DOMAIN:
        action->value = (uint32_t)current_domain;
        break;
    case ACTION_SET_DOMAIN:
        return switch_domain((int)action->value);
    default:
        action->value = 0;
    }
    return 0;
}

/* Returns the first free range of that size in the current domain, at `from` or above. */
static uint64_t free_address(uint64_t from, uint64_t bytes)
{
    for (size_t index = 0; index < object_count; index++) {
        const struct object *object = &objects[index];
        if (object->alive && object->domain == current_domain && from < object->end + settings.page_bytes &&
            object->start < from + bytes + settings.page_bytes)
            return free_address(object->end + settings.page_bytes, bytes);
    }
    return from;
}

/* Addresses grow; those of dead buffers are used again only when the domain is used up. Returns 0 if none is free. */
static uint64_t new_address(uint64_t bytes)
{
    uint64_t *next = &next_addresses[current_domain];
    uint64_t address = free_address(*next ? *next : FIRST_ADDRESS, bytes);
    if (address + bytes > DOMAIN_BYTES)
        address = free_address(settings.page_bytes, bytes);
    if (address + bytes > DOMAIN_BYTES) {
        write_event("fault", ",\"fault\":\"domain-full\",\"domain\":%d", current_domain);
        return 0;
    }
    *next = address + bytes + settings.page_bytes;
    return address;
}

/* Returns a new memfd, or -1. */
static int new_memory(const char *name, uint64_t requested_bytes)
{
    uint64_t bytes = whole_pages(requested_bytes);
    if (!bytes)
        return refused(EINVAL);
    if (exceeds_memory(bytes))
        return refused(ENOMEM);
    int fd = memfd_create(name, MFD_CLOEXEC);
    if (fd >= 0 && ftruncate(fd, (off_t)bytes)) {
        NEXT(close)(fd);
        fd = refused(ENOMEM);
    }
    return fd;
}

/*
 * Grants as much of the request as is free, and at most the size of the buffer, like rknpu_gem.c. 0 requests as much as
 * possible.
 */
static uint64_t granted_sram(const struct npu_create *create)
{
    uint64_t free_bytes = settings.sram_bytes - live_sram_bytes, granted = whole_pages(create->bytes);
    if (!(create->flags & TRY_SRAM))
        return 0;
    if (create->sram_bytes && whole_pages(create->sram_bytes) < granted)
        granted = whole_pages(create->sram_bytes);
    return granted < free_bytes ? granted : free_bytes;
}

/* Without an IOMMU a buffer has one address for all objects; with one every object has its own. */
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
    if (switch_domain(create->iommu_domain))
        return -1;
    int result = create->handle ? answer_import(create) : answer_new(create);
    /* As different from a pointer of the process as the kernel's own pointers are. */
    if (result == 0)
        create->object = UINT64_C(0xffffff8000000000) + ++objects_made * 0x100;
    return result;
}

static int answer_submit(struct npu_submit *submit)
{
    if (!object_named(submit->task_object))
        return refused(EINVAL);
    if (switch_domain(submit->iommu_domain))
        return -1;
    if (count_submit())
        return -1;
    submit->task_counter = submit->task_count;
    submit->hardware_ns = 1;
    return 0;
}

static int answer_destroy(const struct npu_destroy *destroy)
{
    const struct object *object = object_named(destroy->object);
    return object ? switch_domain(object->domain) : refused(EINVAL);
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
        return answer_destroy(argument);
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
