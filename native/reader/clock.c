/*
 * Times in nanoseconds. There is no division: 32-bit ARM has no 64-bit one, and no library is linked that would do it.
 */
#include "reader.h"

enum { CLOCK_OF_MONOTONIC = 1 };

uint64_t clock_ns(int clock)
{
    struct timespec time = {0};
    CALL(clock_gettime, clock, &time);
    return (uint64_t)time.tv_sec * SECOND_NS + (uint64_t)time.tv_nsec;
}

uint64_t now_ns(void)
{
    return clock_ns(CLOCK_OF_MONOTONIC);
}

/* Returns the time until then, a second at most. */
struct timespec time_until(uint64_t deadline_ns)
{
    uint64_t now = now_ns();
    uint64_t left_ns = deadline_ns > now ? deadline_ns - now : 0;
    if (left_ns >= SECOND_NS)
        return (struct timespec){.tv_sec = 1};
    return (struct timespec){.tv_nsec = (long)left_ns};
}

void pause_ms(unsigned milliseconds)
{
    struct timespec time = {.tv_nsec = (long)milliseconds * 1000000};
    CALL(ppoll, 0, 0, &time);
}
