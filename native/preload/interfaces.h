/*
 * The interfaces between the runtime and the NPU's driver: /dev/rknpu (ioctl type 'r'), the same numbers as a DRM
 * driver (type 'd'), dma-heaps, and the mainline driver, rocket (type 'd'). Facts from the kernel's headers
 * (drivers/rknpu, drm/drm.h, linux/dma-heap.h, drm/rocket_accel.h).
 */
#ifndef REUSEBENCH_INTERFACES_H
#define REUSEBENCH_INTERFACES_H

#include <stddef.h>
#include <stdint.h>

enum {
    NPU_ACTION,
    NPU_SUBMIT,
    NPU_CREATE,
    NPU_MAP,
    NPU_DESTROY,
    NPU_SYNC,
    /* The first number of a DRM driver's own calls. */
    DRM_DRIVER = 0x40,
    DRM_VERSION = 0x00,
    DRM_CLOSE_HANDLE = 0x09,
    DRM_HANDLE_TO_FD = 0x2d,
    DRM_FD_TO_HANDLE = 0x2e,
    HEAP_ALLOCATE = 0,
    ROCKET_CREATE = DRM_DRIVER,
    ROCKET_SUBMIT,
    ROCKET_PREPARE,
    ROCKET_FINISH,
};

enum {
    ACTION_HARDWARE_VERSION = 0,
    ACTION_DRIVER_VERSION = 1,
    ACTION_IOMMU_ENABLED = 18,
    ACTION_SRAM_BYTES = 22,
    ACTION_FREE_SRAM_BYTES = 23,
    ACTION_GET_DOMAIN = 24,
    ACTION_SET_DOMAIN = 25,
};

/* Answers to ACTION_HARDWARE_VERSION. */
#define HARDWARE_RK3576 0x46495247
#define HARDWARE_RV1126B 0x46495248

/*
 * The number of address spaces, of 32 bits each, that an NPU with an IOMMU has; drivers before 0.9.0 have only the
 * first.
 */
#define DOMAINS 16
#define DOMAIN_BYTES (UINT64_C(1) << 32)

/* Flag of MEM_CREATE to request SRAM. */
#define TRY_SRAM (1u << 8)

struct npu_action {
    uint32_t action, value;
};

/* For drivers and runtimes from before 0.9.0 this ends before iommu_domain: 40 bytes instead of 48. */
struct npu_create {
    uint32_t handle, flags;
    uint64_t bytes, object, address, sram_bytes;
    int32_t iommu_domain;
    uint32_t core_mask;
};

struct npu_map {
    uint32_t handle, reserved;
    uint64_t offset;
};

struct npu_destroy {
    uint32_t handle, reserved;
    uint64_t object;
};

struct npu_submit {
    uint32_t flags, timeout, task_start, task_count, task_counter;
    int32_t priority;
    uint64_t task_object;
    int32_t iommu_domain;
    uint32_t reserved;
    uint64_t base_address;
    int64_t hardware_ns;
    uint32_t core_mask;
    int32_t fence;
    struct {
        uint32_t start, count;
    } core[5];
};

struct npu_task {
    uint32_t flags, operation, enable_mask, interrupt_mask, interrupt_clear, interrupt_status;
    uint32_t command_count, command_offset;
    uint64_t command_address;
};

struct drm_prime {
    uint32_t handle, flags;
    int32_t fd;
};

struct drm_version {
    int major, minor, patch;
    size_t name_bytes;
    char *name;
    size_t date_bytes;
    char *date;
    size_t description_bytes;
    char *description;
};

struct heap_allocation {
    uint64_t bytes;
    uint32_t fd, fd_flags;
    uint64_t heap_flags;
};

struct rocket_create {
    uint32_t bytes, handle;
    uint64_t address, map_offset;
};

struct rocket_task {
    uint32_t command_address, command_count;
};

/* The lists are given by their addresses in the process. */
struct rocket_job {
    uint64_t tasks, input_handles, output_handles;
    uint32_t task_count, task_bytes, input_count, output_count;
};

struct rocket_submit {
    uint64_t jobs;
    uint32_t job_count, job_bytes;
    uint64_t reserved;
};

/* ROCKET_PREPARE waits for the jobs that write a buffer; ROCKET_FINISH has no time limit. */
struct rocket_access {
    uint32_t handle, reserved;
    int64_t until_ns;
};

union rocket_call {
    uint32_t handle; /* DRM_CLOSE_HANDLE */
    struct drm_version version;
    struct drm_prime prime;
    struct rocket_create create;
    struct rocket_submit submit;
    struct rocket_access access;
};

#endif
