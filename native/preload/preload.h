/*
 * Keeps a ledger of the NPU buffers of one process, and simulates the NPU's driver if there is none.
 *
 * Preloaded into a process that uses Rockchip's runtime with Rockchip's driver, or Mesa's Teflon with the mainline
 * driver, rocket. In pass-through mode every call goes on to the real driver, whose answers make the ledger. In virtual
 * mode (REUSEBENCH_BOARD names a board) this library answers itself: buffers are memfds, a submitted job is done at
 * once and nothing is computed. The accounting is the same code in both modes.
 *
 *   REUSEBENCH_LEDGER  file to which the ledger is appended, one JSON line per event; unset: none
 *   REUSEBENCH_BOARD   chip to simulate, with Rockchip's driver; or "rocket", an RK3588 with the mainline driver;
 *                      unset: pass-through
 *   REUSEBENCH_NPU_MEMORY  limit in bytes of all buffers of a virtual board together; unset: no limit
 *   REUSEBENCH_FAULTS  faults of the virtual board, comma-separated: no-device, no-permission (to open it),
 *                      driver=0.7.2, submit-error=ERRNO[@N] (from the Nth submit on), sram=BYTES (not on rocket)
 *
 * A buffer is alive, as its memory is in the kernel, while the driver has an object of it or this process has an open
 * file descriptor or a mapping of it. The live total is the sum of the page-rounded sizes of live buffers, including
 * their parts in SRAM. An import makes another object of the same buffer and adds no bytes. Only the process that
 * loaded this library is accounted for, not its children.
 *
 * From call to ledger: descriptors.c hooks what opens, closes and maps; calls.c hooks the calls of the driver, lets
 * board.c, rocket.c or the real driver answer, and records them in ledger.c; submitted.c reads the jobs; guard.c keeps
 * a virtual board away from the host's own devices.
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

enum device_kind { NO_DEVICE, NPU_DEVICE, DRM_DEVICE, HEAP_DEVICE, ROCKET_DEVICE };

struct chip {
    const char *name;
    enum device_kind device;
    uint32_t hardware_version, driver_version;
    bool iommu;
};

extern struct settings {
    const struct chip *chip; /* NULL: pass-through */
    const char *ledger;      /* NULL: none is kept */
    /* in pass-through mode, set once the runtime has asked the driver, as librknnrt does at first */
    uint32_t hardware_version;
    bool iommu;
    pid_t process;
    uint64_t page_bytes;
    int open_error; /* errno of opening the NPU's device; 0: none */
    uint32_t driver_version;
    uint64_t memory_bytes; /* if the live total would exceed it, creating a buffer fails */
    uint64_t sram_bytes;
    int submit_error; /* 0: none */
    uint64_t first_failing_submit;
} settings;

/* Reads the settings once. Every hook calls one of these first, since it may run before this library's constructor. */
bool is_virtual(void);
/* False after a fork: the child has a copy of the tables, but its calls are not accounted for. */
bool is_accounted_process(void);

/* ---- hooks ---- */

/* Returns the function that would have been called without this library; NULL and ENOSYS if there is none. */
void *next_function(const char *name);

#define NEXT(name)                                                                                                     \
    (__extension__({                                                                                                   \
        static __typeof__(&name) function;                                                                             \
        if (!function)                                                                                                 \
            function = (__typeof__(&name))next_function(#name);                                                        \
        function;                                                                                                      \
    }))

/*
 * Hooks are defined under other names than they are exported by, since the types in the headers of C libraries differ.
 * Variadic functions are defined with the arguments that they may have, which every calling convention of Linux passes
 * alike.
 */
#define HOOK(type, name, parameters)                                                                                   \
    __attribute__((visibility("default"))) type hook_##name parameters __asm__(#name);                                 \
    type hook_##name parameters

/* ---- ledger.c; all except write_event and append_line are called with the lock held ---- */

struct buffer {
    uint64_t bytes, sram_bytes;
    dev_t device;
    ino_t inode;
    bool has_inode; /* false for a DRM buffer that was not exported yet */
    bool alive;
    bool has_failed; /* it has commands of a job that was not run, and an event says so */
    unsigned objects;
};

struct object {
    int file; /* the open file of the device that it belongs to */
    bool drm, alive;
    bool closed; /* it has no handle any more, but lives on by a mapping */
    uint32_t handle;
    uint64_t name;       /* the driver's name for it: the address of its record */
    unsigned buffer;     /* 0: the buffer was made elsewhere */
    int domain;          /* address space of its addresses; 0 without an IOMMU */
    uint64_t start, end; /* NPU addresses; empty if it was imported into DRM but not into the NPU yet */
    uint64_t map_offset; /* DRM: offset on the device by which the buffer is mapped */
};

extern pthread_mutex_t lock;
extern struct buffer *buffers; /* number n is at n - 1; numbers are never used again */
extern struct object *objects;
extern size_t object_count;
extern uint64_t live_bytes, live_sram_bytes;
extern uint64_t generation; /* counts all changes to the meaning of addresses */

__attribute__((format(printf, 2, 3))) void write_event(const char *event, const char *format, ...);
void append_line(const char *line, size_t bytes);
uint64_t now_ns(void);
long thread_id(void);

/* Returns the array with space for one more item: it doubles whenever its length is a power of two. */
void *with_room(void *array, size_t length, size_t item_bytes);

#define APPEND(array, length, ...)                                                                                     \
    ((array) = with_room((array), (length), sizeof *(array)), (array)[(length)++] = (__VA_ARGS__))

#define REMOVE(array, length, index)                                                                                   \
    ((length)--, memmove((array) + (index), (array) + (index) + 1, ((length) - (index)) * sizeof *(array)))

uint64_t whole_pages(uint64_t bytes);
enum device_kind kind_of(int fd);
/* Returns the number of the open file, which its duplicates have, too; -1 if it is no device. */
int file_of(int fd);
/* Notes a newly opened file of a device. Files are numbered from 0 in the order of their opening. */
void add_device(int fd, enum device_kind kind);
void duplicate_device(int fd, int duplicate);
/* Notes that the descriptor is closed. The driver drops a file's objects with its last descriptor and mapping. */
void forget_device(int fd);
unsigned buffer_of_fd(int fd);

unsigned add_buffer(uint64_t requested_bytes, uint64_t flags, uint64_t sram_bytes, const char *source);
/* Notes the inode, by which all file descriptors of the buffer are recognised. */
void identify(unsigned buffer, int fd);
/* Ends the buffer's life in the ledger if nothing keeps its memory any more. */
void settle(unsigned buffer);
void write_import(unsigned buffer, int fd);

void add_object(struct object object);
/* Gives an object without addresses the name and addresses of `placed`. */
void place_object(struct object *object, const struct object *placed);
/* Ends an object without a handle, or once its mappings are gone if it is mapped from a DRM device. */
void end_object(struct object *object);
struct object *object_of_handle(int file, uint32_t handle);
struct object *object_named(uint64_t name);
/* Returns the live object at this NPU address of the domain, or the last dead one there, or NULL. */
const struct object *object_holding(int domain, uint64_t address);
/* Returns the live object that ends last before this NPU address of the domain, or NULL. */
const struct object *object_before(int domain, uint64_t address);

/* `file`: the open file of the device that it is mapped from; -1 for a buffer's own descriptor. */
void add_mapping(void *start, uint64_t bytes, uint64_t offset, unsigned buffer, int file);
void forget_mappings(void *start, uint64_t bytes);
/* Returns the content of the buffer through a mapping of the process, or NULL. */
const uint8_t *contents(unsigned buffer, uint64_t offset, uint64_t bytes);
/* Returns a new mapping of a whole buffer from its DRM device, without accounting for it; NULL if that fails. */
void *map_object(const struct object *object);

/* ---- submitted.c, board.c, rocket.c, guard.c ---- */

/*
 * Write the memory that the jobs read and write, unless the last event of these tasks has the same. Called with the
 * lock held.
 */
void account_submit(const struct npu_submit *submit);
void account_rocket_submit(int file, const struct rocket_submit *submit);
/* Writes that the driver refused a whole submit. */
void account_failed_submit(int file, const struct rocket_submit *submit, int error);

/* Answer calls as the driver of the simulated board would, with ioctl's return value. Called with the lock held. */
int answer_npu(unsigned number, void *argument);
int answer_heap(struct heap_allocation *allocation);
int answer_rocket(int fd, unsigned number, union rocket_call *call);
/* Gives the memory of a dead buffer, which was in the device's memfd, back to the host. */
void give_back(int fd, const struct object *object);

/* Returns -1 with this errno. */
int refused(int error);
/* Whether another buffer of this size would exceed the limit of all buffers; writes an event. */
bool exceeds_memory(uint64_t bytes);
/* Counts a submit; returns 0, or -1 if a fault was asked for. */
int count_submit(void);

/* Returns the absolute path without dots, and without links as far as it exists. */
const char *resolved(int folder, const char *path, char space[PATH_MAX]);
/* Returns true, with ENOENT and an event, for a call that a virtual board must not make. */
bool is_refused(const char *call, int folder, const char *path);
bool is_refused_path(const char *call, const char *resolved_path);

#endif
