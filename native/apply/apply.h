/*
 * Lets the contexts of a program share NPU memory, although the program knows nothing of it.
 *
 * Preloaded into a program that uses librknnrt. A model that was loaded before, with equal content and flags, becomes a
 * duplicate (rknn_dup_context), so that its weights are in memory once. The contexts of a core get one internal memory,
 * in which one runs at a time. What cannot be shared for sure is left alone, with the reason in the report; if a call of
 * this library's own fails, the program goes on as without it.
 *
 *   REUSEBENCH_APPLY_REPORT   file to which the report is appended at the end, one JSON line per process; unset: none
 *   REUSEBENCH_APPLY_AT_ONCE  most runs at once of contexts without a core mask; unset: the cores of the NPU
 *   REUSEBENCH_APPLY_OFF      if set, everything is left alone
 *
 * From call to memory: calls.c answers the program's calls, contexts.c knows its contexts, memory.c gives them internal
 * memory and turns to run, models.c tells equal models, library.c finds the functions of Rockchip's library, report.c
 * tells what was done.
 */
#ifndef REUSEBENCH_APPLY_H
#define REUSEBENCH_APPLY_H

#define _GNU_SOURCE
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../driver/abi.h"

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))
#define SUCCEEDED 0
/* RKNN_ERR_TIMEOUT of rknn_wait: the run goes on. */
#define ERROR_TIMEOUT (-2)

/* rknn_run_extend: of a run that does not wait, and of rknn_wait. */
struct run_extend {
    uint64_t frame_id;
    int32_t non_block, timeout_ms, fence_fd;
};

int rknn_wait(rknn_context, struct run_extend *);

/* ---- library.c ---- */

/* Returns the function of Rockchip's library; NULL if the program has not loaded one with it. */
void *function_of_library(const char *name);

#define REAL(name)                                                                                                     \
    (__extension__({                                                                                                   \
        static __typeof__(&name) function;                                                                             \
        if (!function)                                                                                                 \
            function = (__typeof__(&name))function_of_library(#name);                                                  \
        function;                                                                                                      \
    }))

/* ---- models.c ---- */

struct model {
    uint64_t digest[2];
    uint32_t bytes, flags;
};

/* A model's content: the program's own, or read from the file that it names. */
struct content {
    const void *bytes;
    uint32_t size;
    void *read; /* to be freed; NULL if it is the program's own */
};

bool read_content(struct content *content, const void *model_or_path, uint32_t size);
struct model model_of(const struct content *content, uint32_t flags);
bool is_equal_content(const struct model *one, const struct model *other);
bool is_equal_model(const struct model *one, const struct model *other);

/* ---- contexts.c; all except `lock` are used with it held ---- */

struct memory;

/*
 * RUNS: in a call of the program, which ends it. STARTED: the program has not waited for it yet. ENDING: this library
 * waits for it in place of the program.
 */
enum run_state { IDLE, RUNS, STARTED, ENDING };

struct context {
    struct context *next;
    rknn_context handle;
    struct model model;
    uint32_t internal_bytes;
    int core_mask;
    struct memory *memory;
    rknn_tensor_mem *view; /* the memory by this context's own name; it ends before the context */
    enum run_state state;
    bool has_ended;  /* a started run that this library has waited for in place of the program */
    int ended_code;  /* what the program's own wait returns then */
    rknn_mem_size told; /* the answer to RKNN_QUERY_MEM_SIZE as if nothing were shared */
};

extern pthread_mutex_t lock;
/* Held while contexts are made and destroyed, before `lock`: loading takes long, and others run meanwhile. */
extern pthread_mutex_t making;
extern struct context *contexts;

struct context *find_context(rknn_context handle);
struct context *find_equal(const struct model *model);
struct context *add_context(rknn_context handle, const struct model *model, const rknn_mem_size *told);
void remove_context(struct context *context);

/* ---- memory.c; with the lock held ---- */

/* Gives the context an internal memory of its core, which grows if it is too small. */
bool attach(struct context *context);
/* Takes it away, before the context is destroyed or goes to another core. */
void detach(struct context *context);
/* Waits until the context may run alone in its memory; other threads may take the lock meanwhile. */
void take_turn(struct context *context);
void end_turn(struct context *context);
/* Waits until the context does not run; also for a run that the program has started and not waited for. */
void wait_until_idle(struct context *context);
/* Waits until this library does not wait for the context any more. */
void wait_until_ended(struct context *context);
unsigned memory_count(void);
uint64_t memory_bytes(void);

/* ---- report.c; with the lock held ---- */

void note_context(const struct context *context, bool is_dup);
/* `reason` is a name that reusebench explains (messages of apply). */
void note_left_alone(const char *reason);
void note_failure(const char *call, int code);

#endif
