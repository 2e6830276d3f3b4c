/* The filter of system calls. */
#include "sandbox.h"

#include "calls.h"

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>

#if defined(__x86_64__)
#define ARCHITECTURE AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define ARCHITECTURE AUDIT_ARCH_AARCH64
#else
#define ARCHITECTURE AUDIT_ARCH_ARM
#endif
/* Calls of x86-64 under other numbers (x32). No other architecture has this many calls. */
#define X32_CALLS 0x40000000

static const unsigned short equal = BPF_JMP | BPF_JEQ | BPF_K, has_bits = BPF_JMP | BPF_JSET | BPF_K;
static struct sock_filter filter[1024];
static unsigned short filter_length;

static void add(unsigned short code, unsigned value, unsigned if_true, unsigned if_false)
{
    filter[filter_length++] = (struct sock_filter)BPF_JUMP(code, value, (unsigned char)if_true, (unsigned char)if_false);
}

static void add_load(size_t offset)
{
    add(BPF_LD | BPF_W | BPF_ABS, (unsigned)offset, 0, 0);
}

/* The lower half, which comes first on all these architectures; the kernel takes no more of these arguments. */
static void add_load_argument(unsigned number)
{
    add_load(offsetof(struct seccomp_data, args) + 8 * number);
}

static void add_permission(void)
{
    add(BPF_RET | BPF_K, SECCOMP_RET_ALLOW, 0, 0);
}

static void add_refusal(int error)
{
    add(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (unsigned)error, 0, 0);
}

static void add_value_limit(const struct value_limit *limit)
{
    add(equal, limit->number, 0, 2 * limit->count + 2);
    add_load_argument(limit->argument);
    for (unsigned index = 0; index < limit->count; index++) {
        add(equal, limit->values[index], 0, 1);
        add_permission();
    }
    add_refusal(limit->error);
}

static void add_bit_limit(const struct bit_limit *limit)
{
    add(equal, limit->number, 0, 6);
    add_load_argument(limit->other_argument);
    add(has_bits, limit->when, 0, 3);
    add_load_argument(limit->argument);
    add(has_bits, limit->bits, 0, 1);
    add_refusal(EPERM);
    add_permission();
}

static void build_filter(void)
{
    add_load(offsetof(struct seccomp_data, arch));
    add(equal, ARCHITECTURE, 1, 0);
    add_refusal(EPERM);
    add_load(offsetof(struct seccomp_data, nr));
    add(BPF_JMP | BPF_JGE | BPF_K, X32_CALLS, 0, 1);
    add_refusal(EPERM);
    for (size_t index = 0; index < LENGTH(allowed_calls); index++) {
        add(equal, allowed_calls[index], 0, 1);
        add_permission();
    }
    for (size_t index = 0; index < LENGTH(bit_limits); index++)
        add_bit_limit(&bit_limits[index]);
    for (size_t index = 0; index < LENGTH(value_limits); index++)
        add_value_limit(&value_limits[index]);
#ifdef SYS_clone3
    /* A filter cannot see the arguments of clone3: C libraries then use clone. */
    add(equal, SYS_clone3, 0, 1);
    add_refusal(ENOSYS);
#endif
    add(BPF_JMP | BPF_JGT | BPF_K, NEWEST_CALL, 0, 1);
    add_refusal(ENOSYS);
    add_refusal(EPERM);
}

void give_up_rights(void)
{
    for (unsigned long capability = 0; prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) == 0; capability++)
        ;
    build_filter();
    struct sock_fprog program = {filter_length, filter};
    /* Without this flag older kernels would slow the processor down for the filter. */
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
        syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_SPEC_ALLOW, &program) < 0)
        fail("filtering", "system calls");
}
