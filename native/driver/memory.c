/*
 * Memory that the application gives to a context, by its allocator (measured/runtimes/rknn/application_memory.py has the reasons).
 */
#include "native.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

/* Heaps whose buffers every NPU can reach. The first ones are contiguous, as chips without an IOMMU need. */
static const char *const heaps[] = {
    "/dev/rk_dma_heap/rk-dma-heap-cma",    "/dev/dma_heap/cma",          "/dev/dma_heap/linux,cma",
    "/dev/dma_heap/system-uncached-dma32", "/dev/dma_heap/system-dma32", "/dev/dma_heap/system",
};

/* linux/dma-heap.h: struct dma_heap_allocation_data; the struct in rk-dma-heap.h is the same. */
struct heap_request {
    uint64_t bytes;
    uint32_t fd, fd_flags;
    uint64_t heap_flags;
};
#define DMA_HEAP_ALLOC 0xC0184800u
#define RK_DMA_HEAP_ALLOC 0xC0185200u

/* Rockchip's media memory zone: its libraries, and RK_MMZ_ALLOC_TYPE_CMA | RK_MMZ_ALLOC_UNCACHEABLE (rk_mpi_mmz.h). */
static const char *const zone_libraries[] = {"libmpimmz.so", "librockit.so"};
#define ZONE_FLAGS 0x11u

static const char *library_folder = "";

void set_library_folder(const char *folder)
{
    library_folder = folder;
}

enum allocator allocator_of(const char *name)
{
    static const char *const names[] = {"create_mem", "dma_heap", "physical", "mmz"};
    for (size_t index = 0; index < LENGTH(names); index++)
        if (strcmp(names[index], name) == 0)
            return (enum allocator)index;
    return CREATE_MEM;
}

/* Keeps the memory if the library gave any. */
static bool hold(struct piece *piece, rknn_tensor_mem *memory)
{
    if (!memory)
        return false;
    piece->memory = memory;
    piece->place = (struct place){memory->fd, memory->virt_addr};
    return true;
}

static bool from_runtime(struct piece *piece, uint32_t bytes, struct failure *failure)
{
    return hold(piece, create_mem(piece->context, bytes, failure));
}

bool name_again(struct piece *piece, rknn_context context, struct place place, uint32_t bytes, struct failure *failure)
{
    *piece = (struct piece){.context = context};
    return hold(piece, create_mem_from_fd(context, place.fd, place.address, bytes, failure));
}

/*
 * Uses memory by a file descriptor that the library did not make. With ALLOC_INSIDE set, librknnrt 1.5.2 and 1.6.0 were
 * seen to hang in every rknn_set_*_mem of such memory if the driver is /dev/rknpu; rknn_destroy_mem needs the flag
 * again.
 */
static bool from_foreign_fd(struct piece *piece, struct place place, uint32_t bytes, struct failure *failure)
{
    piece->given = place;
    if (!hold(piece, create_mem_from_fd(piece->context, place.fd, place.address, bytes, failure)))
        return false;
    piece->struct_is_librarys = piece->memory->flags & ALLOC_INSIDE;
    piece->memory->flags &= ~ALLOC_INSIDE;
    return true;
}

static int heap_buffer(const char *heap, uint32_t bytes)
{
    int device = open(heap, O_RDWR | O_CLOEXEC);
    if (device < 0)
        return -1;
    struct heap_request request = {.bytes = bytes, .fd_flags = O_RDWR | O_CLOEXEC};
    bool is_rockchips = strncmp(heap, "/dev/rk", strlen("/dev/rk")) == 0;
    int code = ioctl(device, is_rockchips ? RK_DMA_HEAP_ALLOC : DMA_HEAP_ALLOC, &request);
    int error = errno;
    close(device);
    errno = error;
    return code ? -1 : (int)request.fd;
}

/* Returns the file descriptor of a new buffer from the first heap that gives one. */
static int open_heap_buffer(uint32_t bytes, struct failure *failure)
{
    struct text refusals = {0};
    int fd = -1;
    for (size_t index = 0; fd < 0 && index < LENGTH(heaps); index++) {
        fd = heap_buffer(heaps[index], bytes);
        if (fd < 0)
            append(&refusals, "%s%s: %s", index ? "; " : "", heaps[index], strerror(errno));
    }
    if (fd < 0) {
        not_supported(failure, "rknn_no_dma_heap");
        add_number(failure, "size", bytes);
        add_text(failure, "reasons", refusals.bytes);
    }
    clear(&refusals);
    return fd;
}

static bool from_dma_heap(struct piece *piece, uint32_t bytes, struct failure *failure)
{
    int fd = open_heap_buffer(bytes, failure);
    if (fd < 0)
        return false;
    void *address = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (address == MAP_FAILED)
        return fail_of_system(failure, errno, NULL);
    return from_foreign_fd(piece, (struct place){fd, address}, bytes, failure);
}

/* Lets the library allocate the memory, since an application rarely has memory of a known physical address. */
static bool from_physical_address(struct piece *piece, uint32_t bytes, struct failure *failure)
{
    if (!from_runtime(piece, bytes, failure))
        return false;
    piece->whole = piece->memory;
    int fd = piece->whole->fd;
    if (!hold(piece,
              create_mem_from_phys(piece->context, piece->whole->phys_addr, piece->place.address, bytes, failure)))
        return false;
    piece->place.fd = fd;
    return true;
}

static struct zone {
    int (*allocate)(void **block, uint32_t bytes, uint32_t flags);
    void *(*address_of)(void *block);
    int (*fd_of)(void *block);
    int (*free)(void *block);
} zone;

static void *load_zone(struct failure *failure)
{
    struct text refusals = {0};
    void *handle = NULL;
    for (size_t index = 0; !handle && index < 2 * LENGTH(zone_libraries); index++) {
        char path[600];
        const char *folder = index < LENGTH(zone_libraries) ? "" : library_folder;
        snprintf(path, sizeof path, "%s%s", folder, zone_libraries[index % LENGTH(zone_libraries)]);
        handle = dlopen(path, RTLD_NOW);
        const char *words = handle ? NULL : dlerror();
        /* The loader's message says more than "not found" only if the file exists. */
        if (!handle && access(path, F_OK) == 0)
            append(&refusals, "%s%s", refusals.length ? "; " : "", words);
    }
    if (!handle) {
        not_supported(failure, "rknn_no_mmz_library");
        add_text(failure, "one", zone_libraries[0]);
        add_text(failure, "other", zone_libraries[1]);
        if (refusals.length)
            add_text(failure, "reason", refusals.bytes);
        else
            add_message(failure, "reason", "mmz_library_not_found");
    }
    clear(&refusals);
    return handle;
}

static bool open_zone(struct failure *failure)
{
    static const char *const names[] = {"RK_MPI_MMZ_Alloc", "RK_MPI_MMZ_Handle2VirAddr", "RK_MPI_MMZ_Handle2Fd",
                                        "RK_MPI_MMZ_Free"};
    void *handle = load_zone(failure), *functions[LENGTH(names)];
    for (size_t index = 0; handle && index < LENGTH(names); index++) {
        functions[index] = dlsym(handle, names[index]);
        if (!functions[index]) {
            not_supported(failure, "rknn_function_missing");
            return add_text(failure, "function", names[index]);
        }
    }
    if (handle)
        memcpy(&zone, functions, sizeof zone);
    return handle;
}

static bool from_zone(struct piece *piece, uint32_t bytes, struct failure *failure)
{
    if (!zone.allocate && !open_zone(failure))
        return false;
    int code = zone.allocate(&piece->block, bytes, ZONE_FLAGS);
    if (code) {
        not_supported(failure, "rknn_mmz_refused");
        add_number(failure, "size", bytes);
        return add_number(failure, "code", code);
    }
    struct place place = {zone.fd_of(piece->block), zone.address_of(piece->block)};
    return from_foreign_fd(piece, place, bytes, failure);
}

bool allocate(struct piece *piece, enum allocator allocator, rknn_context context, uint32_t bytes,
              struct failure *failure)
{
    static bool (*const ways[])(struct piece *, uint32_t, struct failure *) = {
        [CREATE_MEM] = from_runtime,
        [DMA_HEAP] = from_dma_heap,
        [PHYSICAL] = from_physical_address,
        [MMZ] = from_zone,
    };
    *piece = (struct piece){.context = context, .allocator = allocator};
    return ways[allocator](piece, bytes, failure);
}

bool release(struct piece *piece, struct failure *failure)
{
    uint32_t bytes = piece->memory->size;
    if (piece->struct_is_librarys)
        piece->memory->flags |= ALLOC_INSIDE;
    if (!destroy_mem(piece->context, piece->memory, failure))
        return false;
    if (piece->whole)
        return destroy_mem(piece->context, piece->whole, failure);
    if (piece->block)
        zone.free(piece->block);
    if (piece->allocator == DMA_HEAP) {
        munmap(piece->given.address, bytes);
        close(piece->given.fd);
    }
    return true;
}

struct allocation allocation_of(const struct piece *piece, const char *kind)
{
    int fd = piece->place.fd;
    return (struct allocation){kind, piece->memory->size, fd > 0 ? inode_of(fd) : 0};
}

bool take_memory(struct tensor_memory *memory, size_t number, rknn_context context, uint32_t bytes, bool *is_new,
                 struct piece *piece, struct failure *failure)
{
    *is_new = number >= memory->count;
    if (!*is_new)
        return name_again(piece, context, memory->places[number], bytes, failure);
    if (!allocate(piece, memory->allocator, context, bytes, failure))
        return false;
    memory->places = with_space(memory->places, memory->count, sizeof *memory->places);
    memory->places[memory->count++] = piece->place;
    return true;
}

void forget_memory(struct tensor_memory *memory)
{
    free(memory->places);
    memory->places = NULL;
    memory->count = 0;
}
