/*
 * A libc.so.0 for librknnmrt, which was linked against uClibc, on a system with the GNU C library. It brings in the
 * libraries that have nearly all of it, and has itself the part that only uClibc has: its tables of characters.
 */
#include <ctype.h>
#include <math.h>
#include <stdint.h>

/* Tables are indexed from EOF and from negative char on. */
#define LOWEST (-128)
#define ABOVE 256

/* A library is brought in only if something of it is used. Zig has much of libm built in, but not this. */
double (*const reusebench_needs_libm)(double) = rint;

const unsigned short *__ctype_b;
const int16_t *__ctype_tolower;

static int16_t lower[ABOVE - LOWEST];

__attribute__((constructor)) static void fill(void)
{
    for (int character = LOWEST; character < ABOVE; character++)
        lower[character - LOWEST] = (int16_t)(character < 0 ? character : tolower(character));
    __ctype_tolower = lower - LOWEST;
    /* The bits are the same in both libraries. */
    __ctype_b = *__ctype_b_loc();
}
