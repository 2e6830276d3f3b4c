/*
 * The virtual board with the mainline driver, rocket: the answers of drivers/accel/rocket. A buffer is a range of its
 * open file's memfd, since the process maps it from the device and has no descriptor of it. Prime is left out.
 */
#include "preload.h"

/* Where the kernel puts its first buffer (DRM_FILE_PAGE_OFFSET_START). No two buffers have one offset. */
#define FIRST_OFFSET (sizeof(long) > 4 ? UINT64_C(1) << 32 : UINT64_C(1) << 28)

/* The driver counts the bytes that it has mapped in an int, and takes a negative number for a failure. */
#define FEWEST_UNMAPPABLE_BYTES (UINT64_C(1) << 31)

static int by_start(const void *one, const void *other)
{
    const struct object *a = *(const struct object *const *)one, *b = *(const struct object *const *)other;
    return a->start < b->start ? -1 : a->start > b->start;
}

/*
 * Finds the smallest range of addresses that is free in the open file and large enough, and the first of equal ones.
 * Addresses begin at 0, and there is nothing between buffers.
 */
static bool find_address(int file, uint64_t bytes, uint64_t *address)
{
    const struct object **placed = calloc(object_count + 1, sizeof *placed);
    uint64_t free_from = 0, smallest = UINT64_MAX;
    size_t count = 0;
    for (size_t index = 0; placed && index < object_count; index++)
        if (objects[index].alive && objects[index].file == file)
            placed[count++] = &objects[index];
    if (placed)
        qsort(placed, count, sizeof *placed, by_start);
    for (size_t index = 0; placed && index <= count; index++) {
        uint64_t free_bytes = (index < count ? placed[index]->start : DOMAIN_BYTES) - free_from;
        if (bytes <= free_bytes && free_bytes < smallest) {
            smallest = free_bytes;
            *address = free_from;
        }
        free_from = index < count ? placed[index]->end : DOMAIN_BYTES;
    }
    free(placed);
    if (smallest == UINT64_MAX)
        write_event("fault", ",\"fault\":\"domain-full\",\"domain\":%d", file);
    return smallest != UINT64_MAX;
}

/* Returns the lowest number above 0 that is no handle of the open file; 0 without memory. */
static uint32_t free_handle(int file)
{
    bool *is_used = calloc(object_count + 2, sizeof *is_used);
    uint32_t handle = is_used ? 1 : 0;
    for (size_t index = 0; is_used && index < object_count; index++) {
        const struct object *object = &objects[index];
        if (object->alive && !object->closed && object->file == file && object->handle <= object_count)
            is_used[object->handle] = true;
    }
    while (handle && is_used[handle])
        handle++;
    free(is_used);
    return handle;
}

static int answer_create(int fd, struct rocket_create *create)
{
    static uint64_t offset_end = FIRST_OFFSET;
    uint64_t bytes = whole_pages(create->bytes), address;
    if (!bytes)
        return refused(ENOSPC);
    if (exceeds_memory(bytes))
        return refused(ENOMEM);
    if (!find_address(file_of(fd), bytes, &address))
        return refused(ENOSPC);
    uint32_t handle = free_handle(file_of(fd));
    if (bytes >= FEWEST_UNMAPPABLE_BYTES || !handle || NEXT(ftruncate64)(fd, (off64_t)(offset_end + bytes)))
        return refused(ENOMEM);
    create->handle = handle;
    create->address = address;
    create->map_offset = offset_end;
    offset_end += bytes;
    return 0;
}

/* Errors of single jobs are not returned: such a job is not run, and the others are. */
static int answer_submit(const struct rocket_submit *submit)
{
    if (!submit->job_count)
        return 0;
    if (submit->job_bytes < sizeof(struct rocket_job) || submit->reserved)
        return refused(EINVAL);
    return count_submit();
}

static int answer_access(int file, const struct rocket_access *access)
{
    if (access->reserved)
        return refused(EINVAL);
    return object_of_handle(file, access->handle) ? 0 : refused(ENOENT);
}

/* Copies as much as there is space for, without an end, and tells the whole length. */
static void copy_text(char *to, size_t *bytes, const char *text)
{
    size_t length = strlen(text);
    if (to)
        memcpy(to, text, *bytes < length ? *bytes : length);
    *bytes = length;
}

static int answer_version(struct drm_version *version)
{
    version->major = (int)(settings.driver_version / 10000);
    version->minor = (int)(settings.driver_version / 100 % 100);
    version->patch = (int)(settings.driver_version % 100);
    copy_text(version->name, &version->name_bytes, "rocket");
    copy_text(version->date, &version->date_bytes, "");
    copy_text(version->description, &version->description_bytes, "rocket DRM");
    return 0;
}

int answer_rocket(int fd, unsigned number, union rocket_call *call)
{
    switch (number) {
    case DRM_VERSION:
        return answer_version(&call->version);
    case DRM_CLOSE_HANDLE:
        return object_of_handle(file_of(fd), call->handle) ? 0 : refused(EINVAL);
    case ROCKET_CREATE:
        return answer_create(fd, &call->create);
    case ROCKET_SUBMIT:
        return answer_submit(&call->submit);
    case ROCKET_PREPARE:
    case ROCKET_FINISH:
        return answer_access(file_of(fd), &call->access);
    default:
        return refused(EINVAL);
    }
}

void give_back(int fd, const struct object *object)
{
    NEXT(fallocate64)
    (fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off64_t)object->map_offset,
     (off64_t)(object->end - object->start));
}
