/*
 * The part of Rockchip's rknn_api.h that is used here: the same structs, flags and numbers as in
 * measured/runtimes/rknn/abi.py (header of SDK 2.3.2; versions 1.4.0 to 2.3.2 read the same). Functions are declared
 * only for their types and looked up in the library.
 */
#ifndef REUSEBENCH_ABI_H
#define REUSEBENCH_ABI_H

#include <stdint.h>

#define MAX_DIMENSIONS 16
#define MAX_DYNAMIC_SHAPES 512
#define NAME_BYTES 256

/* Flags of rknn_init. */
#define FLAG_MEM_ALLOC_OUTSIDE 0x10
#define FLAG_SHARE_WEIGHT_MEM 0x20
#define FLAG_INTERNAL_ALLOC_OUTSIDE 0x200
#define FLAG_MODEL_BUFFER_ZERO_COPY 0x10000
/* Flag of rknn_create_mem2. */
#define MEM_FLAG_ALLOC_NO_CONTEXT 0x20000
/* RKNN_TENSOR_MEMORY_FLAGS_ALLOC_INSIDE: rknn_destroy_mem frees the rknn_tensor_mem itself. */
#define ALLOC_INSIDE 1u

/* Commands of rknn_query. */
enum {
    QUERY_IN_OUT_NUM = 0,
    QUERY_INPUT_ATTR = 1,
    QUERY_OUTPUT_ATTR = 2,
    QUERY_SDK_VERSION = 5,
    QUERY_MEM_SIZE = 6,
    QUERY_NATIVE_INPUT_ATTR = 8,
    QUERY_NATIVE_OUTPUT_ATTR = 9,
    QUERY_INPUT_DYNAMIC_RANGE = 13,
    /* Models with dynamic shapes only, after their shapes are set. */
    QUERY_CURRENT_INPUT_ATTR = 14,
    QUERY_CURRENT_OUTPUT_ATTR = 15,
    QUERY_CURRENT_NATIVE_INPUT_ATTR = 16,
    QUERY_CURRENT_NATIVE_OUTPUT_ATTR = 17,
};

/* rknn_tensor_type. */
enum {
    TYPE_FLOAT32,
    TYPE_FLOAT16,
    TYPE_INT8,
    TYPE_UINT8,
    TYPE_INT16,
    TYPE_UINT16,
    TYPE_INT32,
    TYPE_UINT32,
    TYPE_INT64,
    TYPE_BOOL,
    TYPE_INT4,
    TYPE_BFLOAT16,
};

/* rknn_tensor_format. NC1HWC2 is the NPU's own format: groups of channels, side by side for each pixel. */
enum { FORMAT_NHWC = 1, FORMAT_NC1HWC2 = 2 };

/* Modes of rknn_mem_sync. */
enum { SYNC_TO_DEVICE = 1, SYNC_FROM_DEVICE = 2 };

#if UINTPTR_MAX == UINT32_MAX
typedef uint32_t rknn_context;
#else
typedef uint64_t rknn_context;
#endif

typedef struct {
    uint32_t n_input, n_output;
} rknn_input_output_num;

typedef struct {
    uint32_t index, n_dims, dims[MAX_DIMENSIONS];
    char name[NAME_BYTES];
    uint32_t n_elems, size;
    int32_t fmt, type, qnt_type;
    int8_t fl;
    int32_t zp;
    float scale;
    uint32_t w_stride, size_with_stride;
    uint8_t pass_through;
    uint32_t h_stride;
} rknn_tensor_attr;

typedef struct {
    uint32_t index, shape_number;
    int32_t fmt;
    char name[NAME_BYTES];
    uint32_t dyn_range[MAX_DYNAMIC_SHAPES][MAX_DIMENSIONS], n_dims;
} rknn_input_range;

/* Sizes in bytes. They are not additive: total_dma_allocated_size of a dup includes the shared weights. */
typedef struct {
    uint32_t total_weight_size, total_internal_size;
    uint64_t total_dma_allocated_size;
    uint32_t total_sram_size, free_sram_size, reserved[10];
} rknn_mem_size;

typedef struct {
    void *virt_addr;
    uint64_t phys_addr;
    int32_t fd, offset;
    uint32_t size, flags;
    void *priv_data;
} rknn_tensor_mem;

typedef struct {
    uint32_t index;
    void *buf;
    uint32_t size;
    uint8_t pass_through;
    int32_t type, fmt;
} rknn_input;

typedef struct {
    uint8_t want_float, is_prealloc;
    uint32_t index;
    void *buf;
    uint32_t size;
} rknn_output;

typedef struct {
    rknn_context ctx;
    int32_t real_model_offset;
    uint32_t real_model_size;
    int32_t model_buffer_fd;
    uint32_t model_buffer_flags;
    uint8_t reserved[112];
} rknn_init_extend;

typedef struct {
    char api_version[NAME_BYTES], drv_version[NAME_BYTES];
} rknn_sdk_version;

int rknn_init(rknn_context *, void *, uint32_t, uint32_t, rknn_init_extend *);
int rknn_dup_context(rknn_context *, rknn_context *);
int rknn_destroy(rknn_context);
int rknn_query(rknn_context, int, void *, uint32_t);
int rknn_inputs_set(rknn_context, uint32_t, rknn_input *);
int rknn_run(rknn_context, void *);
int rknn_outputs_get(rknn_context, uint32_t, rknn_output *, void *);
int rknn_set_input_shapes(rknn_context, uint32_t, rknn_tensor_attr *);
int rknn_set_core_mask(rknn_context, int);
rknn_tensor_mem *rknn_create_mem(rknn_context, uint32_t);
rknn_tensor_mem *rknn_create_mem2(rknn_context, uint64_t, uint64_t);
rknn_tensor_mem *rknn_create_mem_from_fd(rknn_context, int32_t, void *, uint32_t, int32_t);
rknn_tensor_mem *rknn_create_mem_from_phys(rknn_context, uint64_t, void *, uint32_t);
int rknn_destroy_mem(rknn_context, rknn_tensor_mem *);
int rknn_set_weight_mem(rknn_context, rknn_tensor_mem *);
int rknn_set_internal_mem(rknn_context, rknn_tensor_mem *);
int rknn_set_io_mem(rknn_context, rknn_tensor_mem *, rknn_tensor_attr *);
int rknn_mem_sync(rknn_context, rknn_tensor_mem *, int);

#endif
