/*
 * The names of Rockchip's interface that the snippets use, so that they compile without the vendor's SDK, whose own
 * rknn_api.h is no part of this project. test_rknn_snippets.py compares numbers and layouts with measured/runtimes/rknn/abi.py.
 */
#pragma once

#include <stdint.h>

#if UINTPTR_MAX == UINT32_MAX
typedef uint32_t rknn_context;
#else
typedef uint64_t rknn_context;
#endif

#define RKNN_SUCC 0

#define RKNN_FLAG_MEM_ALLOC_OUTSIDE 0x10
#define RKNN_FLAG_SHARE_WEIGHT_MEM 0x20
#define RKNN_FLAG_INTERNAL_ALLOC_OUTSIDE 0x200
#define RKNN_FLAG_MODEL_BUFFER_ZERO_COPY 0x10000
#define RKNN_MEM_FLAG_ALLOC_NO_CONTEXT 0x20000

typedef enum {
    RKNN_QUERY_IN_OUT_NUM = 0,
    RKNN_QUERY_INPUT_ATTR = 1,
    RKNN_QUERY_OUTPUT_ATTR = 2,
    RKNN_QUERY_MEM_SIZE = 6,
    RKNN_QUERY_NATIVE_INPUT_ATTR = 8,
    RKNN_QUERY_NATIVE_OUTPUT_ATTR = 9,
} rknn_query_cmd;

typedef enum {
    RKNN_TENSOR_FLOAT32,
    RKNN_TENSOR_FLOAT16,
    RKNN_TENSOR_INT8,
    RKNN_TENSOR_UINT8,
    RKNN_TENSOR_INT16,
} rknn_tensor_type;

typedef enum { RKNN_TENSOR_NCHW, RKNN_TENSOR_NHWC, RKNN_TENSOR_NC1HWC2 } rknn_tensor_format;
typedef enum { RKNN_NPU_CORE_AUTO, RKNN_NPU_CORE_0 = 1, RKNN_NPU_CORE_1 = 2, RKNN_NPU_CORE_2 = 4 } rknn_core_mask;
typedef enum { RKNN_MEMORY_SYNC_TO_DEVICE = 1, RKNN_MEMORY_SYNC_FROM_DEVICE = 2 } rknn_mem_sync_mode;

typedef struct {
    uint32_t n_input, n_output;
} rknn_input_output_num;

typedef struct {
    uint32_t index, n_dims, dims[16];
    char name[256];
    uint32_t n_elems, size;
    rknn_tensor_format fmt;
    rknn_tensor_type type;
    int32_t qnt_type;
    int8_t fl;
    int32_t zp;
    float scale;
    uint32_t w_stride, size_with_stride;
    uint8_t pass_through;
    uint32_t h_stride;
} rknn_tensor_attr;

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
    rknn_tensor_type type;
    rknn_tensor_format fmt;
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

int rknn_init(rknn_context *context, void *model, uint32_t size, uint32_t flags, rknn_init_extend *extend);
int rknn_dup_context(rknn_context *source, rknn_context *context);
int rknn_destroy(rknn_context context);
int rknn_query(rknn_context context, rknn_query_cmd command, void *info, uint32_t size);
int rknn_inputs_set(rknn_context context, uint32_t count, rknn_input inputs[]);
int rknn_run(rknn_context context, void *extend);
int rknn_outputs_get(rknn_context context, uint32_t count, rknn_output outputs[], void *extend);
int rknn_set_core_mask(rknn_context context, rknn_core_mask mask);
rknn_tensor_mem *rknn_create_mem(rknn_context context, uint32_t size);
rknn_tensor_mem *rknn_create_mem2(rknn_context context, uint64_t size, uint64_t flags);
rknn_tensor_mem *rknn_create_mem_from_fd(
    rknn_context context, int32_t fd, void *address, uint32_t size, int32_t offset);
int rknn_destroy_mem(rknn_context context, rknn_tensor_mem *mem);
int rknn_set_weight_mem(rknn_context context, rknn_tensor_mem *mem);
int rknn_set_internal_mem(rknn_context context, rknn_tensor_mem *mem);
int rknn_set_io_mem(rknn_context context, rknn_tensor_mem *mem, rknn_tensor_attr *attr);
int rknn_mem_sync(rknn_context context, rknn_tensor_mem *mem, rknn_mem_sync_mode mode);
