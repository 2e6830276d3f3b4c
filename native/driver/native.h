/*
 * The measured process in C, for Rockchip's runtime on boards without Python: the functions that its files share.
 *
 * It takes the steps of a plan, one line each, and stops at a barrier after every one; nothing runs at a barrier. Its
 * calls to the library are the same, one by one, as those of measured/driver.py and measured/runtimes/rknn, which have
 * the reasons. The plan itself and all texts stay with the harness (targets/protocol/c_driver.py): the line of a step
 * has all that the step needs, and the line of a failure has the parts of its message.
 *
 * The same sources are compiled for the GNU C library and for uClibc, without the headers of uClibc: only functions
 * that both have are called, and the few structs that differ (stat, dirent) are read from the kernel.
 */
#ifndef REUSEBENCH_NATIVE_H
#define REUSEBENCH_NATIVE_H

#define _GNU_SOURCE
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "abi.h"

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))
#define NS_PER_S 1000000000LL

/* ---- system.c: the kernel and memory; a lack of memory ends the process, as it would end an application ---- */

int64_t now_ns(void); /* CLOCK_MONOTONIC */
void sleep_ns(int64_t ns);
/* Returns -1 and sets errno if there is no such file. */
int64_t file_bytes(const char *path);
/* Size and inode of an open file. */
int64_t open_file_bytes(int fd);
uint64_t inode_of(int fd);
bool is_regular_file(int fd);
/* Reads the file, or its beginning, as text; returns the length, or -1 and sets errno. */
long read_file(const char *path, char *bytes, size_t space);
/* Calls `take` with the name of every entry but . and ..; false and errno if the folder cannot be read. */
bool for_each_entry(const char *folder, void (*take)(const char *name, void *argument), void *argument);
void *allocate_bytes(size_t bytes); /* zeroed */
/* Returns the array with space for one more item: it doubles whenever its length is a power of two. */
void *with_space(void *array, size_t length, size_t item_bytes);

/* ---- protocol.c: lines from the harness and to it ---- */

/* A string that grows. */
struct text {
    char *bytes; /* NULL: empty; otherwise it ends with a zero */
    size_t length, space;
};

__attribute__((format(printf, 2, 3))) void append(struct text *text, const char *format, ...);
/* Appends a tab, the name, = and the value with tab, newline and backslash escaped. */
void append_field(struct text *text, const char *name, const char *value);
void clear(struct text *text);

/* A line: fields separated by tabs. The first is its kind, the others are NAME=VALUE. */
struct line {
    char *bytes;
    size_t length;
    char **fields;
    size_t count;
};

/* Returns the value of a field if it has this name, otherwise NULL. */
const char *value_of(const char *field, const char *name);
/* Returns the value of the first field of the line with this name, or NULL. */
const char *field(const struct line *line, const char *name);
/* Returns the whole number of this field, or `otherwise` if it is missing. */
int64_t number_field(const struct line *line, const char *name, int64_t otherwise);
int64_t number_of(const char *text);
/* Whether the word is in the field, a list separated by commas. */
bool has_word(const struct line *line, const char *name, const char *word);
struct line *copy_of(const struct line *line);
void free_line(struct line *line);

/* Keeps the harness's pipes for this process; the library prints elsewhere. */
void open_channel(int messages);
/* Returns the next line. If the harness has gone, the process ends, with exit code 0 if `may_end`. */
struct line *next_line(bool may_end);
void send_line(const struct text *text);
/* Waits up to `ns`, or until the harness writes `stop`; returns whether it did. */
bool stopped_within(int64_t ns);

/* The reason of a failure: fields from which c_driver.py makes the message. */
struct failure {
    bool is_not_supported;
    bool is_lack_of_memory;
    struct text fields;
};

void forget(struct failure *failure);
/* These return false, for the caller to return, and replace an earlier failure. */
bool fail(struct failure *failure, const char *code);
bool not_supported(struct failure *failure, const char *code);
bool fail_of_system(struct failure *failure, int error, const char *path);
/* Values of the message: a text, a number, or a message with this code and no values. */
bool add_text(struct failure *failure, const char *name, const char *value);
bool add_number(struct failure *failure, const char *name, int64_t value);
bool add_message(struct failure *failure, const char *name, const char *code);

/* ---- words.c: what the library prints ---- */

void capture_words(void);
/* The number of bytes printed so far. */
int64_t words_bytes(void);
/* Appends the text printed after `since` if the library reports an error in it; returns whether it does. */
bool read_error_words(int64_t since, struct text *words);
/* Passes on and drops the text printed so far; called at barriers, when nothing is printed. */
void hand_over_words(void);

/* ---- facts.c ---- */

/* Appends the facts about this machine now that a diagnosis needs (measured/runtimes/rknn/diagnosis.py). */
void append_facts(struct text *fields, const char *words);

/* ---- library.c, binding.c: Rockchip's library; each call is checked by its code and by the library's output ---- */

struct library {
    bool is_mini;      /* librknnmrt, of RV1103 and RV1106 */
    char version[128]; /* such as "1.6.0 (9a7b5d24c@2023-12-13T17:32:13)" */
    char folder[512];  /* its folder, with a slash at the end; empty if its name has none */
};

bool open_library(struct library *library, struct failure *failure);

void use_library(void *handle);
bool init(rknn_context *context, void *model, uint32_t bytes, uint32_t flags, rknn_init_extend *extend,
          struct failure *failure);
bool dup_context(rknn_context source, rknn_context *context, struct failure *failure);
bool destroy_handle(rknn_context context, struct failure *failure);
bool query(rknn_context context, int command, void *info, uint32_t bytes, struct failure *failure);
bool query_mem_size(rknn_context context, rknn_mem_size *sizes, struct failure *failure);
bool set_inputs(rknn_context context, uint32_t count, rknn_input *inputs, struct failure *failure);
bool run(rknn_context context, struct failure *failure);
bool get_outputs(rknn_context context, uint32_t count, rknn_output *outputs, struct failure *failure);
bool set_input_shapes(rknn_context context, uint32_t count, rknn_tensor_attr *attributes, struct failure *failure);
bool set_core_mask(rknn_context context, int mask, struct failure *failure);
rknn_tensor_mem *create_mem(rknn_context context, uint32_t bytes, struct failure *failure);
rknn_tensor_mem *create_model_mem(uint32_t bytes, struct failure *failure);
rknn_tensor_mem *create_mem_from_fd(rknn_context context, int fd, void *address, uint32_t bytes,
                                    struct failure *failure);
rknn_tensor_mem *create_mem_from_phys(rknn_context context, uint64_t physical, void *address, uint32_t bytes,
                                      struct failure *failure);
bool destroy_mem(rknn_context context, rknn_tensor_mem *memory, struct failure *failure);
bool set_weight_mem(rknn_context context, rknn_tensor_mem *memory, struct failure *failure);
bool set_internal_mem(rknn_context context, rknn_tensor_mem *memory, struct failure *failure);
bool set_io_mem(rknn_context context, rknn_tensor_mem *memory, rknn_tensor_attr *attribute, struct failure *failure);
bool sync_mem(rknn_context context, rknn_tensor_mem *memory, int mode, struct failure *failure);

/* ---- memory.c: memory that the application gives to a context ---- */

enum allocator { CREATE_MEM, DMA_HEAP, PHYSICAL, MMZ };

/* The key by which another context can use the same memory. */
struct place {
    int fd; /* below 1 if there is none */
    void *address;
};

struct piece {
    rknn_context context;
    rknn_tensor_mem *memory;
    struct place place, given; /* given: memory that the library did not make */
    enum allocator allocator;
    rknn_tensor_mem *whole; /* memory by physical address: what the library allocated there */
    void *block;            /* in the media memory zone */
    bool struct_is_librarys;
};

/* Memory allocated in the application's place, for the account. */
struct allocation {
    const char *kind;
    uint32_t bytes;
    uint64_t inode; /* 0 if the memory has none */
};

enum allocator allocator_of(const char *name);
void set_library_folder(const char *folder);
bool allocate(struct piece *piece, enum allocator allocator, rknn_context context, uint32_t bytes,
              struct failure *failure);
/* Uses the first bytes of another context's memory for this context, too. */
bool name_again(struct piece *piece, rknn_context context, struct place place, uint32_t bytes, struct failure *failure);
bool release(struct piece *piece, struct failure *failure);
struct allocation allocation_of(const struct piece *piece, const char *kind);

/* The memory of bound tensors in the order of binding; later contexts use it again. */
struct tensor_memory {
    enum allocator allocator;
    struct place *places;
    size_t count;
};

bool take_memory(struct tensor_memory *memory, size_t number, rknn_context context, uint32_t bytes, bool *is_new,
                 struct piece *piece, struct failure *failure);
void forget_memory(struct tensor_memory *memory);

/* ---- checksum.c ---- */

uint32_t crc32(uint32_t value, const void *bytes, size_t count); /* like zlib's; start with 0 */

/* ---- content.c: content of the application's input buffers ---- */

/* The data for an input; the strings belong to the line of a step. */
struct data {
    const char *name, *type;
    const char *file; /* NULL: the value or noise */
    bool has_value;
    int64_t value;
    uint32_t n_dims, dims[MAX_DIMENSIONS];
};

struct data_list {
    struct data *items;
    size_t count;
};

struct data_list read_data(const struct line *line);
const struct data *data_of(const struct data_list *list, const char *name);

/* An input as the application fills it. */
struct fed_input {
    rknn_tensor_attr attribute; /* with the element type of the application */
    size_t bytes;
    double scale;
    int zero;
    double (*noise)(unsigned char byte);
    const struct data *data; /* NULL: noise */
};

/* For an input that the library copies: pixels, real numbers as float32, or indices. */
bool feed_copied(struct fed_input *input, const rknn_tensor_attr *attribute, const struct data *data,
                 struct failure *failure);
/* For an input that the NPU reads in place: pixels, otherwise elements of the model's own type. */
bool feed_bound(struct fed_input *input, const rknn_tensor_attr *attribute, const struct data *data,
                struct failure *failure);
/* Returns a new buffer with the data of the input; NULL if its file cannot be read. */
uint8_t *filled(const struct fed_input *input, struct failure *failure);

/* ---- attributes.c: the tensors of a model ---- */

/* Returns an array of the attributes, by the query command for their kind; NULL if a query failed. */
rknn_tensor_attr *query_inputs(rknn_context context, int command, uint32_t *count, struct failure *failure);
rknn_tensor_attr *query_outputs(rknn_context context, int command, uint32_t *count, struct failure *failure);
/* Chooses shapes if the model has dynamic ones; until they are chosen, rknn_run aborts. */
bool set_shapes(rknn_context context, const struct data_list *data, bool *is_dynamic, struct failure *failure);
/* Appends the attributes of all tensors, and the shapes that the model allows. */
bool append_interface(rknn_context context, struct text *answer, struct failure *failure);

/* ---- tensors.c: the transfer of a context's inputs and outputs ---- */

/* The library copies; we copy between our buffers and bound memory; the tensors are used in bound memory. */
enum way { COPIED, STAGED, IN_PLACE };

struct tensor {
    rknn_tensor_attr attribute, plain; /* plain: in the model's order; attribute, for outputs, in the NPU's */
    uint8_t *buffer;                   /* NULL: the bound memory itself is used */
    size_t bytes;
    struct piece piece;
    size_t row, pitch; /* bytes of a row, and from one row to the next; all is one row if there is no padding */
};

/* All inputs or all outputs of one context. */
struct tensors {
    bool is_open, is_native;
    enum way way;
    size_t count, bound;
    struct tensor *items;
    rknn_input *inputs;
    rknn_output *outputs;
    struct allocation *allocations;
    size_t allocation_count;
};

bool open_inputs(struct tensors *tensors, enum way way, rknn_context context, rknn_tensor_attr *attributes,
                 uint32_t count, const struct data_list *data, struct tensor_memory *memory, struct failure *failure);
/* `plain` is NULL, except for outputs that stay in the NPU's order. */
bool open_outputs(struct tensors *tensors, enum way way, rknn_context context, const rknn_tensor_attr *attributes,
                  const rknn_tensor_attr *plain, uint32_t count, struct tensor_memory *memory, struct failure *failure);
bool move_in(struct tensors *tensors, rknn_context context, struct failure *failure);
bool move_out(struct tensors *tensors, rknn_context context, struct failure *failure);
/* The checksum of all tensors, with their elements in the order that copied tensors have. */
uint32_t checksum_of(const struct tensors *tensors);
size_t copied_bytes(const struct tensors *tensors);
bool release_tensors(struct tensors *tensors, struct failure *failure);

/* ---- contexts.c: an rknn_context with its tensors and the memory allocated for it outside the library ---- */

#define MOST_PIECES 4 /* model, weights, internal memory, and its second name for the first context that shares it */

struct tensor_memories {
    struct tensor_memory inputs, outputs;
};

struct context {
    struct line *line; /* its description; the strings of `data` belong to it */
    struct data_list data;
    rknn_context handle;
    bool is_dynamic;
    bool shares_internal, internal_outside, weights_outside;
    bool input_in_place, output_in_place, native_output, model_in_place;
    enum allocator allocator;
    struct piece pieces[MOST_PIECES];
    size_t piece_count;
    struct allocation allocations[MOST_PIECES];
    size_t allocation_count;
    struct place weights, shared_internal;
    uint32_t weights_bytes;
    struct tensor_memories own, *memories;
    struct tensors inputs, outputs;
};

extern struct library library;
extern char driver_version[NAME_BYTES]; /* version of the kernel's driver; empty before there is a context */

/* Appends the library's description of the model, for which a context is made. */
bool append_interface_of(const char *path, struct text *answer, struct failure *failure);
/* Makes the context that the line describes; `contexts` are the existing ones. */
struct context *make_context(const struct line *line, struct context **contexts, struct failure *failure);
bool infer(struct context *context, struct failure *failure);
bool append_account(struct context *context, struct text *answer, struct failure *failure);
void append_allocations(const struct context *context, struct text *answer);
/* Gives contexts that run in turn one memory, as large as the largest needs. */
bool share_internal(struct context **members, size_t count, struct failure *failure);
bool join_internal(struct context *context, const struct context *member, struct failure *failure);
bool renew_tensors(struct context *context, struct failure *failure);
bool destroy_context(struct context *context, struct failure *failure);

/* ---- threads.c: one worker for each chain of contexts, and gates that limit how many infer at once ---- */

/* A function for a worker's thread; false and the failure if it failed. */
typedef bool task(void *argument, struct failure *failure);

struct worker;
struct worker *start_worker(bool has_small_stack);
void start_task(struct worker *worker, task *run, void *argument);
bool finish_task(struct worker *worker, struct failure *failure);
void stop_worker(struct worker *worker);

/* Fair: the thread that has waited longest enters first. */
struct gate {
    pthread_mutex_t lock;
    uint64_t free;
    struct waiting *first, *last;
};

void open_gate(struct gate *gate, uint64_t capacity);
void enter(struct gate *gate);
void leave(struct gate *gate);

/* ---- schedule.c: the contexts, chains and gates of a steady phase ---- */

struct turn {
    struct context *context;
    struct gate *gate; /* NULL: none is held */
    size_t number;     /* the index of the context */
};

struct chain {
    struct worker *worker;
    size_t pool; /* the pool that gives it frames */
    struct turn *turns;
    size_t count;
};

struct schedule {
    struct chain *chains;
    size_t count;
    struct gate *gates;
    size_t gate_count;
};

/* Reads the chains of the first `count` contexts, with their threads; further contexts of the plan did not fit. */
struct schedule read_schedule(const struct line *line, struct context **contexts, struct worker **workers,
                              size_t count);
void free_schedule(struct schedule *schedule);

/* ---- usage.c ---- */

/* Bytes of the heap in use, or -1 if this C library does not report them. */
int64_t heap_bytes(void);
bool trim_heap(void);
void append_usage(struct text *answer);

/* ---- rounds.c, streams.c: the two kinds of steady phases ---- */

bool run_rounds(const struct line *line, const struct schedule *schedule, struct text *answer, struct failure *failure);
bool run_streams(const struct line *line, const struct schedule *schedule, struct text *answer,
                 struct failure *failure);

/* ---- steps.c ---- */

/* Takes the step of the line and stops at its barrier; false if the step failed. */
bool take_step(const struct line *line);
/* Answers with the inputs and outputs of a model; false if that failed. */
bool inspect(const struct line *line);

#endif
