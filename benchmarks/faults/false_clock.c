/* A wrong wall clock: preloaded (LD_PRELOAD) into a process and its children.
 *
 *   FAULTS_CLOCK_S  seconds since 1970 at which it begins in each process
 *   FAULTS_JUMP_S   seconds that it jumps at each reading, forward and back in turn
 *
 * Monotonic clocks are unchanged, since nobody can set them. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>

static int (*real_clock)(clockid_t, struct timespec *);
static struct timespec start;
static long begin_s, jump_s;
static atomic_uint readings;

static long number(const char *name)
{
    const char *text = getenv(name);
    return text ? atol(text) : 0;
}

__attribute__((constructor)) static void begin(void)
{
    real_clock = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    begin_s = number("FAULTS_CLOCK_S");
    jump_s = number("FAULTS_JUMP_S");
    real_clock(CLOCK_REALTIME, &start);
}

int clock_gettime(clockid_t clock, struct timespec *now)
{
    if (!real_clock)
        begin();
    int result = real_clock(clock, now);
    if (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE) {
        now->tv_sec += begin_s - start.tv_sec;
        if (atomic_fetch_add(&readings, 1) % 2)
            now->tv_sec += jump_s;
    }
    return result;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone)
{
    struct timespec read;
    (void)zone;
    int result = clock_gettime(CLOCK_REALTIME, &read);
    now->tv_sec = read.tv_sec;
    now->tv_usec = read.tv_nsec / 1000;
    return result;
}

time_t time(time_t *now)
{
    struct timespec read;
    clock_gettime(CLOCK_REALTIME, &read);
    if (now)
        *now = read.tv_sec;
    return read.tv_sec;
}
