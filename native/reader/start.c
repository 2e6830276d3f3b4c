/* The program's start, and functions that compilers call without being told to. */
#include "system.h"

#if defined(__x86_64__)
__asm__(".globl _start\n_start:\nxor %ebp, %ebp\nmov %rsp, %rdi\nand $-16, %rsp\ncall run\n");
#elif defined(__aarch64__)
__asm__(".globl _start\n_start:\nmov x29, 0\nmov x0, sp\nbl run\n");
#elif defined(__arm__)
__asm__(".globl _start\n.type _start, %function\n_start:\nmov fp, #0\nmov r0, sp\nbl run\n");
#endif

void *memcpy(void *to, const void *from, size_t bytes)
{
    for (size_t index = 0; index < bytes; index++)
        ((volatile uint8_t *)to)[index] = ((const uint8_t *)from)[index];
    return to;
}

void *memmove(void *to, const void *from, size_t bytes)
{
    if ((uintptr_t)to <= (uintptr_t)from)
        return memcpy(to, from, bytes);
    while (bytes--)
        ((volatile uint8_t *)to)[bytes] = ((const uint8_t *)from)[bytes];
    return to;
}

void *memset(void *to, int byte, size_t bytes)
{
    for (size_t index = 0; index < bytes; index++)
        ((volatile uint8_t *)to)[index] = (uint8_t)byte;
    return to;
}
