/*
 * The kernel's own interface, since the reader has no C library. Numbers and structures are those of the kernel's
 * headers.
 */
#pragma once
#include <asm/errno.h>
#include <asm/statfs.h>
#include <asm/unistd.h>
#include <linux/fcntl.h>
#include <linux/stat.h>
#include <linux/time.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* A call returns its result, or the negative error number. */
#if defined(__x86_64__)
static inline long system_call(long number, long a, long b, long c, long d, long e, long f)
{
    long result;
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    register long r9 __asm__("r9") = f;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return result;
}
#elif defined(__aarch64__)
static inline long system_call(long number, long a, long b, long c, long d, long e, long f)
{
    register long x8 __asm__("x8") = number;
    register long x0 __asm__("x0") = a;
    register long x1 __asm__("x1") = b;
    register long x2 __asm__("x2") = c;
    register long x3 __asm__("x3") = d;
    register long x4 __asm__("x4") = e;
    register long x5 __asm__("x5") = f;
    __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5) : "memory");
    return x0;
}
#elif defined(__arm__)
static inline long system_call(long number, long a, long b, long c, long d, long e, long f)
{
    register long r7 __asm__("r7") = number;
    register long r0 __asm__("r0") = a;
    register long r1 __asm__("r1") = b;
    register long r2 __asm__("r2") = c;
    register long r3 __asm__("r3") = d;
    register long r4 __asm__("r4") = e;
    register long r5 __asm__("r5") = f;
    __asm__ volatile("svc 0" : "+r"(r0) : "r"(r7), "r"(r1), "r"(r2), "r"(r3), "r"(r4), "r"(r5) : "memory");
    return r0;
}
#else
#error "x86_64, aarch64 and armhf are known"
#endif

/* Calls with the given arguments; the others are 0. */
#define CALL(...) CALL_OF(__VA_ARGS__, 0, 0, 0, 0, 0, 0)
#define CALL_OF(name, a, b, c, d, e, f, ...) \
    system_call(__NR_##name, (long)(a), (long)(b), (long)(c), (long)(d), (long)(e), (long)(f))

#define LENGTH(array) (sizeof(array) / sizeof *(array))

/* From linux/signal.h and its neighbours, whose structures differ between architectures. */
enum {
    SIGNAL_HANGUP = 1,
    SIGNAL_INTERRUPT = 2,
    SIGNAL_KILL = 9,
    SIGNAL_PIPE = 13,
    SIGNAL_TERMINATE = 15,
    SIGNAL_CHILD = 17
};
/* The kernel's set of signals: 64 bits. */
typedef uint64_t SignalSet;
#define SIGNAL_BIT(number) (UINT64_C(1) << ((number) - 1))
enum { MASK_SET = 2, WAIT_NO_HANG = 1 };
