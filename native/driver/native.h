/*
 * The measured process in C, for Rockchip's runtime on boards without Python: what its parts offer each other.
 *
 * It takes the steps of a plan, one line each, and stops at a barrier after every one; at a barrier nothing runs. What
 * it does with the library, call for call, is what measured/driver.py and measured/runtimes/rknn do: those say why. The plan
 * itself, and all texts, stay with the harness (lines.py): a step's line has all that the step needs, and a failure's
 * line what the harness makes its message of.
 *
 * The same sources are compiled for the GNU C library and for uClibc, whose headers are not needed: only functions are
 * called that both have, and the few structs on which they differ (stat, dirent) are read from the kernel.
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

/* ---- system.c: the kernel, and memory; what cannot be had ends the process, as it would an application ---- */

int64_t now_ns(void); /* CLOCK_MONOTONIC */
void sleep_ns(int64_t ns);
/* Returns -1 and errno where there is no such file. */
int64_t file_bytes(const char *path);
/* Of an open file: its size, or its inode. */
int64_t open_file_bytes(int fd);
uint64_t inode_of(int fd);
bool is_regular_file(int fd);
/* Reads the file, or its beginning, as a text; returns its length, or -1 and errno. */
long read_file(const char *path, char *bytes, size_t space);
/* Calls back with the name of every entry but . and ..; false and errno where the folder cannot be read. */
bool for_each_entry(const char *folder, void (*take)(const char *name, void *argument), void *argument);
void *allocate_bytes(size_t bytes); /* zeroed */
/* Returns the array with space for one more: it doubles whenever its length is a power of two. */
void *with_space(void *array, size_t length, size_t item_bytes);

/* ---- protocol.c: lines from the harness and to it ---- */

/* A text that grows. */
struct text {
    char *bytes; /* NULL: empty; else it ends with a zero */
    size_t length, space;
};

__attribute__((format(printf, 2, 3))) void append(struct text *text, const char *format, ...);
/* Appends a field of a line: a tab, the name, = and the value with tab, newline and backslash escaped. */
void append_field(struct text *text, const char *name, const char *value);
void clear(struct text *text);

/* A line: fields between tabs, the first of which is its kind, the others NAME=VALUE. */
struct line {
    char *bytes;
    size_t length;
    char **fields;
    size_t count;
};

/* Returns the value of a field of this name, else NULL. */
const char *value_of(const char *field, const char *name);
/* The same for the first field of the line that has the name. */
const char *field(const struct line *line, const char *name);
/* Returns a whole number, or `otherwise` where there is none. */
int64_t number_field(const struct line *line, const char *name, int64_t otherwise);
int64_t number_of(const char *text);
/* Whether the word is among those of the field, which are separated by commas. */
bool has_word(const struct line *line, const char *name, const char *word);
struct line *copy_of(const struct line *line);
void free_line(struct line *line);

/* Keeps the harness's pipes for this process: what the library prints goes elsewhere. */
void open_channel(int messages);
/* Returns the next line; ends the process where the harness has gone, with the code 0 where it may go. */
struct line *next_line(bool may_end);
void send_line(const struct text *text);
/* Waits so long, or until the harness writes `stop`; returns whether it did. */
bool stopped_within(int64_t ns);

/* Why something failed: fields of which lines.py makes the message. */
struct failure {
    bool is_not_supported;
    bool is_lack_of_memory;
    struct text fields;
};

void forget(struct failure *failure);
/* Each returns false, so that it can be returned. What failed before is forgotten. */
bool fail(struct failure *failure, const char *code);
bool not_supported(struct failure *failure, const char *code);
bool fail_of_system(struct failure *failure, int error, const char *path);
/* What stands in the message: a text, a number, or a message of this code without values. */
bool add_text(struct failure *failure, const char *name, const char *value);
bool add_number(struct failure *failure, const char *name, int64_t value);
bool add_message(struct failure *failure, const char *name, const char *code);

/* ---- words.c: what the library prints ---- */

void capture_words(void);
/* How much was printed so far. */
int64_t words_bytes(void);
/* Appends what was printed since then, if it has a line by which the library reports an error; returns whether. */
bool read_error_words(int64_t since, struct text *words);
/* At a barrier, where nothing is printed: hands over what was, and forgets it. */
void hand_over_words(void);

/* ---- facts.c ---- */

/* Appends what the diagnosis of an error needs to know of this machine at this moment (measured/runtimes/rknn/diagnosis.py). */
void append_facts(struct text *fields, const char *words);

/* ---- library.c, binding.c: Rockchip's library; each call is checked by its code and by what it prints ---- */

struct library {
    bool is_mini;      /* librknnmrt, of RV1103 and RV1106 */
    char version[128]; /* as in "1.6.0 (9a7b5d24c@2023-12-13T17:32:13)" */
    char folder[512];  /* that it is in, with a slash at its end; empty where its name has none */
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

/* What names a memory again for another context. */
struct place {
    int fd; /* below 1 where there is none */
    void *address;
};

struct piece {
    rknn_context context;
    rknn_tensor_mem *memory;
    struct place place, given; /* given: what was not the library's own */
    enum allocator allocator;
    rknn_tensor_mem *whole; /* of memory by its physical address: what the library allocated there */
    void *block;            /* of the media memory zone */
    bool struct_is_librarys;
};

/* Memory that was allocated as the application would, for the account. */
struct allocation {
    const char *kind;
    uint32_t bytes;
    uint64_t inode; /* 0 where the memory has none */
};

enum allocator allocator_of(const char *name);
void set_library_folder(const char *folder);
bool allocate(struct piece *piece, enum allocator allocator, rknn_context context, uint32_t bytes,
              struct failure *failure);
/* The first bytes of memory that another context has, for this one too. */
bool name_again(struct piece *piece, rknn_context context, struct place place, uint32_t bytes, struct failure *failure);
bool release(struct piece *piece, struct failure *failure);
struct allocation allocation_of(const struct piece *piece, const char *kind);

/* The memory of bound tensors, in the order in which they are bound; further contexts name it again. */
struct tensor_memory {
    enum allocator allocator;
    struct place *places;
    size_t count;
};

bool take_memory(struct tensor_memory *memory, size_t number, rknn_context context, uint32_t bytes, bool *is_new,
                 struct piece *piece, struct failure *failure);
void forget_memory(struct tensor_memory *memory);

/* ---- checksum.c ---- */

uint32_t crc32(uint32_t value, const void *bytes, size_t count); /* as zlib's; begin with 0 */

/* ---- content.c: what the application's input buffers hold ---- */

/* What an input is fed with; the texts are those of a step's line. */
struct data {
    const char *name, *type;
    const char *file; /* NULL: the value, or noise */
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

/* One input as the application feeds it. */
struct fed_input {
    rknn_tensor_attr attribute; /* with the type of the application's elements */
    size_t bytes;
    double scale;
    int zero;
    double (*noise)(unsigned char byte);
    const struct data *data; /* NULL: noise */
};

/* As the library takes it over: pixels; real numbers as float32, which it converts; indices. */
bool feed_copied(struct fed_input *input, const rknn_tensor_attr *attribute, const struct data *data,
                 struct failure *failure);
/* As the NPU reads it where it is: pixels, else elements of the model's own type. */
bool feed_bound(struct fed_input *input, const rknn_tensor_attr *attribute, const struct data *data,
                struct failure *failure);
/* Returns a new buffer with what the input is fed with; NULL where its file cannot be read. */
uint8_t *filled(const struct fed_input *input, struct failure *failure);

/* ---- attributes.c: what a model's tensors are ---- */

/* Returns an array of the attributes, by the query command of their kind; NULL where a query failed. */
rknn_tensor_attr *query_inputs(rknn_context context, int command, uint32_t *count, struct failure *failure);
rknn_tensor_attr *query_outputs(rknn_context context, int command, uint32_t *count, struct failure *failure);
/* Chooses the inputs' shapes where the model has dynamic shapes: as long as none are chosen, rknn_run aborts. */
bool set_shapes(rknn_context context, const struct data_list *data, bool *is_dynamic, struct failure *failure);
/* Appends the attributes of all tensors, and the shapes that the model allows. */
bool append_interface(rknn_context context, struct text *answer, struct failure *failure);

/* ---- tensors.c: how a context's input gets in and its output out ---- */

/* The library copies; we copy between our buffers and bound memory; the tensors are in bound memory. */
enum way { COPIED, STAGED, IN_PLACE };

struct tensor {
    rknn_tensor_attr attribute, plain; /* plain: in the model's order, of outputs in the NPU's */
    uint8_t *buffer;                   /* NULL: the bound memory itself is used */
    size_t bytes;
    struct piece piece;
    size_t row, pitch; /* bytes of a row, and from one to the next; one row is all where rows stand close */
};

/* All inputs, or all outputs, of one context. */
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
/* `plain` is NULL but for outputs that stay in the NPU's order. */
bool open_outputs(struct tensors *tensors, enum way way, rknn_context context, const rknn_tensor_attr *attributes,
                  const rknn_tensor_attr *plain, uint32_t count, struct tensor_memory *memory, struct failure *failure);
bool move_in(struct tensors *tensors, rknn_context context, struct failure *failure);
bool move_out(struct tensors *tensors, rknn_context context, struct failure *failure);
/* Of all tensors, in the order of elements that copied ones have. */
uint32_t checksum_of(const struct tensors *tensors);
size_t copied_bytes(const struct tensors *tensors);
bool release_tensors(struct tensors *tensors, struct failure *failure);

/* ---- contexts.c: one rknn_context with its tensors and what was allocated for it outside the library ---- */

#define MOST_PIECES 4 /* the model; weights; an internal memory, and its name for the first context that shares it */

struct tensor_memories {
    struct tensor_memory inputs, outputs;
};

struct context {
    struct line *line; /* what it is; the texts of `data` are in it */
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
extern char driver_version[NAME_BYTES]; /* of the kernel's driver; empty before there is a context */

/* Appends what the library says of the model, for which it makes a context. */
bool append_interface_of(const char *path, struct text *answer, struct failure *failure);
/* Returns the context that the line describes; `contexts` are those that are there. */
struct context *make_context(const struct line *line, struct context **contexts, struct failure *failure);
bool infer(struct context *context, struct failure *failure);
bool append_account(struct context *context, struct text *answer, struct failure *failure);
void append_allocations(const struct context *context, struct text *answer);
/* One memory, as large as the largest needs, for contexts that run in turn. */
bool share_internal(struct context **members, size_t count, struct failure *failure);
bool join_internal(struct context *context, const struct context *member, struct failure *failure);
bool renew_tensors(struct context *context, struct failure *failure);
bool destroy_context(struct context *context, struct failure *failure);

/* ---- threads.c: one worker for each chain of contexts, and gates that let so many infer at once ---- */

/* Runs in a thread of its own; false and the failure where it failed. */
typedef bool task(void *argument, struct failure *failure);

struct worker;
struct worker *start_worker(bool has_small_stack);
void start_task(struct worker *worker, task *run, void *argument);
bool finish_task(struct worker *worker, struct failure *failure);
void stop_worker(struct worker *worker);

/* Fair: the thread that waits longest enters first. */
struct gate {
    pthread_mutex_t lock;
    uint64_t free;
    struct waiting *first, *last;
};

void open_gate(struct gate *gate, uint64_t capacity);
void enter(struct gate *gate);
void leave(struct gate *gate);

/* ---- schedule.c: what a line says of a steady phase ---- */

struct turn {
    struct context *context;
    struct gate *gate; /* NULL: none is held */
    size_t number;     /* of the context */
};

struct chain {
    struct worker *worker;
    size_t pool; /* that gives it frames */
    struct turn *turns;
    size_t count;
};

struct schedule {
    struct chain *chains;
    size_t count;
    struct gate *gates;
    size_t gate_count;
};

/* The chains of the first `count` contexts, with their threads; of a plan that fills others did not fit. */
struct schedule read_schedule(const struct line *line, struct context **contexts, struct worker **workers,
                              size_t count);
void free_schedule(struct schedule *schedule);

/* ---- usage.c ---- */

/* Bytes of the heap in use, or -1 where this C library does not say. */
int64_t heap_bytes(void);
bool trim_heap(void);
void append_usage(struct text *answer);

/* ---- rounds.c, streams.c: the two kinds of steady phases ---- */

bool run_rounds(const struct line *line, const struct schedule *schedule, struct text *answer, struct failure *failure);
bool run_streams(const struct line *line, const struct schedule *schedule, struct text *answer,
                 struct failure *failure);

/* ---- steps.c ---- */

/* Takes the step of the line and stops at its barrier; false where the step failed. */
bool take_step(const struct line *line);
/* Answers what a model takes and gives; false where that failed. */
bool inspect(const struct line *line);

#endif
