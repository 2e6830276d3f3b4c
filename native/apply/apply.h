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
 *   REUSEBENCH_APPLY_DIGESTS  if 1, the report has digests of all outputs
 *   REUSEBENCH_APPLY_PLAN     file with what each context shares (plan.c); unset: what is safe
 *
 * From call to memory: calls.c answers the program's calls, loading.c makes its contexts, layout.c decides what they
 * share, or plan.c says it, memory.c gives them internal memory and turns to run, mini.c does both for librknnmrt,
 * contexts.c knows them, models.c tells equal models, model_file.c reads what the file says, library.c finds the
 * functions of Rockchip's library. outputs.c digests outputs, report.c tells what was done.
 */
#ifndef REUSEBENCH_APPLY_H
#define REUSEBENCH_APPLY_H

#define _GNU_SOURCE
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../driver/abi.h"

#define PAGE_BYTES UINT64_C(4096)
#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))
#define SUCCEEDED 0
/* RKNN_ERR_FAIL and RKNN_ERR_MALLOC_FAIL. */
#define ERROR_FAILED (-1)
#define ERROR_NO_MEMORY (-4)
#define FLAG_DISABLE_FLUSH_OUTPUT_MEM_CACHE 0x8000u

static inline uint64_t whole_pages(uint64_t bytes)
{
    return (bytes + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
}

/* rknn_run_extend. */
struct run_extend {
    uint64_t frame_id;
    int32_t non_block, timeout_ms, fence_fd;
};

int rknn_wait(rknn_context, struct run_extend *);
int rknn_set_batch_core_num(rknn_context, int);
int rknn_register_custom_ops(rknn_context, void *, uint32_t);

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
    void *read;       /* to be given back; NULL if it is the program's own */
    const char *path; /* the file that was read, or NULL */
};

bool read_content(struct content *content, const void *model_or_path, uint32_t size);
void forget_content(struct content *content);
struct model model_of(const struct content *content, uint32_t flags);
bool is_equal_content(const struct model *one, const struct model *other);
bool is_equal_model(const struct model *one, const struct model *other);

/* ---- model_file.c ---- */

enum answer { NO, YES, UNKNOWN };

/* Whether the model has several input shapes, of which the program chooses. */
enum answer has_dynamic_shapes(const struct content *content);
/* Whether a tensor has that many elements by the file; with rknn_batch_size it has more than the file says. */
bool declares_elements(const struct content *content, const char *tensor, uint32_t elements);

/* ---- contexts.c; all except locks and visits are used with `lock` held ---- */

/* A mutex that a thread can ask whether it holds it: a signal handler, or a call of Rockchip's library within itself. */
struct own_mutex {
    pthread_mutex_t mutex;
    pthread_t holder;
    bool is_held;
};

extern struct own_mutex lock;
/* Held while contexts are made and destroyed, before `lock`: loading takes long, and others run meanwhile. */
extern struct own_mutex making;

/* A thread is not cancelled while it holds a lock, or while its context runs in a shared memory. */
int hold(struct own_mutex *mutex);
void let_go(struct own_mutex *mutex, int cancel_state);
bool is_held_here(const struct own_mutex *mutex);
/* Waits, with `lock` held, until another thread has changed something; others may take the lock meanwhile. */
void wait_for_change(void);
void tell_change(void);

struct memory;
struct mini;
struct plan_context;

/* Bytes of the first context of a model, without internal memory: in all, and in the list of its tasks (0: unknown). */
struct loaded_bytes {
    uint64_t bytes, task_bytes;
};

struct context {
    struct context *next;
    rknn_context handle;
    struct model model;
    bool is_managed; /* false: left alone, known for the digests of its outputs only */
    struct plan_context *line; /* NULL: it is not in a plan */
    /* What is shared. */
    bool shares_weights, shares_internal, is_changed;
    /* Contexts of one group share internal memory. */
    int group;
    uint32_t internal_bytes;
    struct memory *memory;
    rknn_tensor_mem *view; /* the memory by this context's own name; it ends before the context */
    struct mini *mini;     /* with librknnmrt, in place of both */
    bool is_bound;     /* its inputs were set: its memory stays */
    pthread_t binder;  /* the thread that did it */
    bool is_ended;     /* destroyed by the program; it still owns a memory that others use */
    bool is_running;
    bool has_ended; /* a run that the program has still to wait for */
    pthread_t runner; /* the thread in which it runs */
    unsigned calls;   /* calls of the program that are under way; it is not duplicated meanwhile */
    bool is_copied;   /* it is being duplicated; calls of the program wait */
    struct loaded_bytes loaded;
    /* Bytes of its buffers, without internal memory: as it would be without this library, and in fact (0: unknown). */
    uint64_t alone_bytes, made_bytes;
    /* What MEM_SIZE tells less than it would without this library. */
    uint64_t hidden_bytes;
    struct output_memory *outputs;
};

extern struct context *contexts;

struct context *find_context(rknn_context handle);
/* Returns a context that can be duplicated in place of loading the model again, for a context with this line. */
struct context *find_equal(const struct model *model, const struct plan_context *line);
struct context *add_context(rknn_context handle, const struct model *model);
void remove_context(struct context *context);

/* ---- layout.c ---- */

/* Contexts of this group have their internal memory for themselves. */
#define OWN_GROUP (-1)
/* From here on groups are those of a plan, below they are core masks. */
#define PLAN_GROUPS 0x10000

bool is_off(void);
/* Whether equal contexts with these lines may share their weights. */
bool may_share_weights(const struct plan_context *one, const struct plan_context *other);
/* The group that a context with this line is in at first. */
int first_group(const struct plan_context *line);
/* Whether contexts with these lines may share internal memory, if they have no core mask. */
bool may_share_internal(const struct plan_context *one, const struct plan_context *other);
/* The group that a context with this line is in whose core mask the program has set. */
int group_of_mask(const struct plan_context *line, int core_mask);
/* Most internal memories of a group, and so most of its contexts that run at once. */
unsigned most_memories(int group);

/* ---- loading.c ---- */

/* Returns NULL if a context was made that shares memory; otherwise the reason to leave it alone. */
const char *load_shared(rknn_context *handle, struct content *content, const struct model *model);
/* Duplicates a context; the result of rknn_dup_context, or ERROR_NO_MEMORY. `content`: NULL if the program does it. */
int duplicate(struct context *source, const struct content *content, rknn_context *handle, struct plan_context *line);

/* ---- memory.c; with the lock held ---- */

/* Gives the context an internal memory of its group, which grows if it is too small. */
bool attach(struct context *context);
/* Takes it away, before the context is destroyed. */
void detach(struct context *context);
/* Puts the context into another group; if there is no memory for that, it stays where it is. */
bool regroup(struct context *context, int group);
/* The program is about to set inputs, or the memory of a tensor: the context keeps its memory from now on. */
void bind(struct context *context, bool has_tensors);
bool has_own_memory(const struct context *context);
bool owns_memory(const struct context *context);
/* Waits until the context may run alone in its memory; false if there is none. */
bool take_turn(struct context *context);
void end_turn(struct context *context);
void wait_until_idle(const struct context *context);
uint64_t memory_bytes(void);
void forget_turns(void);

/* ---- mini.c; all except the first two with the lock held ---- */

/* Whether Rockchip's library is librknnmrt. */
bool is_mini(void);
/* As load_shared. */
const char *load_mini(rknn_context *handle, struct content *content, const struct model *model,
                      struct plan_context *line);
/* The context keeps its internal memory from now on. */
void bind_mini(struct context *context);
/* The program has set memory for the tensor. */
void note_tensor_mini(struct context *context, const rknn_tensor_attr *attribute);
void detach_mini(struct context *context);
bool take_turn_mini(struct context *context);
void end_turn_mini(struct context *context);
void forget_turns_mini(void);
/* The bytes of all weights that contexts share, or of all internal memory. */
uint64_t region_bytes(bool is_weights);

/* ---- outputs.c ---- */

struct outputs_digest {
    uint64_t words[2];
};

bool has_digests(void);
/* Remembers that the program has set the memory of a tensor, if it is an output; with the lock held. */
void note_io_memory(struct context *context, rknn_tensor_mem *mem, const rknn_tensor_attr *attribute);
bool has_output_memory(const struct context *context);
struct outputs_digest digest_of_memory(const struct context *context);
struct outputs_digest digest_of_outputs(const struct context *context, uint32_t count, const rknn_output *outputs);
void forget_outputs(struct context *context);

/* ---- report.c; with the lock held ---- */

/* A further context of the model; NULL if that is not known. */
void note_model(const struct model *model);
void note_version(rknn_context handle);
void note_shared_weights(struct context *context);
void note_shared_internal(struct context *context);
/* To be called after each change of what is shared. */
void note_bytes(void);
/* `reason` is a code of reusebench's apply/reasons.py. */
void note_left_alone(const char *reason);
void note_failure(const char *call);
/* The number of runs under way has changed. */
void note_run(int change);
void note_outputs(const struct model *model, struct outputs_digest digest);
void forget_report(void);

#endif
