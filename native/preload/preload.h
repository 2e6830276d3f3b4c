/*
 * Keeps a ledger of the NPU buffers of one process, and plays the NPU's driver where there is none.
 *
 * Preloaded into a process that uses Rockchip's runtime. In pass-through mode every call goes on to the real driver,
 * and the ledger is kept from what it answers. In virtual mode (REUSEBENCH_BOARD names a chip) this library answers
 * itself: buffers are memfds, a submitted job is done at once and nothing is computed. The accounting is the same code
 * in both modes.
 *
 *   REUSEBENCH_LEDGER  file to which the ledger is appended, one JSON line per event; unset: none
 *   REUSEBENCH_BOARD   chip to play; unset: pass-through
 *   REUSEBENCH_NPU_MEMORY  bytes that all buffers of a virtual board may take at once; unset: no limit
 *   REUSEBENCH_FAULTS  faults of the virtual board, comma-separated: no-device, no-permission (to open it),
 *                      driver=0.7.2, submit-error=ERRNO[@N] (from the Nth submit on), sram=BYTES
 *
 * A buffer is alive while the driver has an object of it or this process has a file descriptor of it open. That is
 * when the kernel keeps its memory, save for one case: a mapping that outlives both. The live total is the sum of the
 * page-rounded sizes of live buffers, with their parts in SRAM. An import makes another object of the same buffer
 * and adds no bytes. Only the process that loaded this library is accounted for, not what it forks or starts.
 *
 * From call to ledger: calls.c hooks what the runtime calls, has board.c or the real driver answer, and records it in ledger.c;
 * submitted.c reads the jobs; guard.c keeps a virtual board away from the host's own devices.
 */
#ifndef REUSEBENCH_PRELOAD_H
#define REUSEBENCH_PRELOAD_H

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "interfaces.h"

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))

/* ---- settings.c ---- */

struct chip {
    const char *name;
    uint32_t hardware_version;
    bool iommu;
};

extern struct settings {
    const struct chip *chip; /* NULL: pass-through */
    const char *ledger;      /* NULL: none is kept */
    /* In pass-through mode once the runtime has asked the driver, as librknnrt does at first. */
    uint32_t hardware_version;
    bool iommu;
    pid_t process;
    uint64_t page_bytes;
    int open_error; /* of the NPU's device; 0: none */
    uint32_t driver_version;
    uint64_t memory_bytes; /* creating a buffer fails when the live total would exceed it */
    uint64_t sram_bytes;
    int submit_error; /* 0: none */
    uint64_t first_failing_submit;
} settings;

/* Reads the settings once; every hook asks one of these first, since it may run before this library's constructor. */
bool is_virtual(void);
/* False after a fork: the child has a copy of the tables, but nothing it does is accounted for. */
bool is_accounted_process(void);

/* ---- hooks ---- */

/* Returns the function that would have been called without this library; NULL and ENOSYS where there is none. */
void *next_function(const char *name);

#define NEXT(name)                                                                                                     \
    (__extension__({                                                                                                   \
        static __typeof__(&name) function;                                                                             \
        if (!function)                                                                                                 \
            function = (__typeof__(&name))next_function(#name);                                                        \
        function;                                                                                                      \
    }))

/*
 * Hooks are defined under other names than they are exported by: the headers declare several with types that differ
 * between C libraries, and the variadic ones are defined with the arguments that they may have, which every calling
 * convention of Linux passes alike.
 */
#define HOOK(type, name, parameters)                                                                                   \
    __attribute__((visibility("default"))) type hook_##name parameters __asm__(#name);                                 \
    type hook_##name parameters

/* ---- ledger.c; all but write_event and append_line with the lock held ---- */

struct buffer {
    uint64_t bytes, sram_bytes;
    dev_t device;
    ino_t inode;
    bool has_inode; /* a DRM buffer has none before it is exported */
    bool alive;
    unsigned objects;
};

struct object {
    int device_fd;
    bool drm, alive;
    uint32_t handle;
    uint64_t name;       /* by which the driver calls it: the address of its own record */
    unsigned buffer;     /* 0: a buffer that was made elsewhere */
    int domain;          /* of the IOMMU, in which its addresses are; 0 without one */
    uint64_t start, end; /* NPU addresses; empty for what was imported into DRM and not yet into the NPU */
    uint64_t map_offset; /* DRM: where on the device the buffer is mapped from */
};

enum device_kind { NO_DEVICE, NPU_DEVICE, DRM_DEVICE, HEAP_DEVICE };

extern pthread_mutex_t lock;
extern struct buffer *buffers; /* of number n at n - 1; numbers are never given out twice */
extern struct object *objects;
extern size_t object_count;
extern uint64_t live_bytes, live_sram_bytes;
extern uint64_t generation; /* counts every change of what an address may mean */

__attribute__((format(printf, 2, 3))) void write_event(const char *event, const char *format, ...);
void append_line(const char *line, size_t bytes);
uint64_t now_ns(void);
long thread_id(void);

/* Returns the array with space for one more: it doubles whenever its length is a power of two. */
void *with_room(void *array, size_t length, size_t item_bytes);

#define APPEND(array, length, ...)                                                                                     \
    ((array) = with_room((array), (length), sizeof *(array)), (array)[(length)++] = (__VA_ARGS__))

#define REMOVE(array, length, index)                                                                                   \
    ((length)--, memmove((array) + (index), (array) + (index) + 1, ((length) - (index)) * sizeof *(array)))

uint64_t whole_pages(uint64_t bytes);
enum device_kind kind_of(int fd);
void set_device(int fd, enum device_kind kind);
unsigned buffer_of_fd(int fd);

unsigned add_buffer(uint64_t requested_bytes, uint64_t flags, uint64_t sram_bytes, const char *source);
/* Notes the inode by which all file descriptors of the buffer are known. */
void identify(unsigned buffer, int fd);
/* Ends the buffer's life in the ledger where nothing keeps its memory any more. */
void settle(unsigned buffer);
void write_import(unsigned buffer, int fd);

void add_object(struct object object);
/* Gives an object, which has none, the name and the addresses it has from now on: those of `placed`. */
void place_object(struct object *object, const struct object *placed);
void end_object(struct object *object);
/* The driver drops all objects of a device that is closed. */
void end_objects_of(int device_fd);
struct object *object_of_handle(int device_fd, uint32_t handle);
struct object *object_named(uint64_t name);
/* The live object at that NPU address of the domain, else the dead one that was last there, else NULL. */
const struct object *object_holding(int domain, uint64_t address);
/* The live object that ends last before that NPU address of the domain; NULL where none does. */
const struct object *object_before(int domain, uint64_t address);

void add_mapping(void *start, uint64_t bytes, uint64_t offset, unsigned buffer);
void forget_mappings(void *start, uint64_t bytes);
/* Returns what the buffer holds there by the process's own mapping, or NULL. */
const uint8_t *contents(unsigned buffer, uint64_t offset, uint64_t bytes);

/* ---- submitted.c, board.c, guard.c ---- */

/* Writes what the job reads and writes, unless it is what was written of it last. With the lock held. */
void account_submit(const struct npu_submit *submit);

/* What the driver of the settings' chip answers: as ioctl does. With the lock held. */
int answer_npu(unsigned number, void *argument);
int answer_heap(struct heap_allocation *allocation);

/* The absolute path without links and dots, as far as it exists. */
const char *resolved(int folder, const char *path, char space[PATH_MAX]);
/* True, with ENOENT and an event, for a call that a virtual board must not make. */
bool is_refused(const char *call, int folder, const char *path);
bool is_refused_path(const char *call, const char *resolved_path);

#endif
