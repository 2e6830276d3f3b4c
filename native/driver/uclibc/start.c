/*
 * The start of a program that is linked for uClibc without its toolchain, in place of crt1.o. After argv, the arguments
 * of __uClibc_main are the program's own constructors and destructors, of which there are none, then the function that
 * the loader wants called at the end, and the end of the stack.
 */
#include <stddef.h>

int main(void);
void __uClibc_main(int (*main)(void), int argc, char **argv, void (*begin)(void), void (*end)(void),
                   void (*loader_end)(void), void *stack_end);

__attribute__((used)) static void start(void (*loader_end)(void), long *stack)
{
    __uClibc_main(main, (int)stack[0], (char **)(stack + 1), NULL, NULL, loader_end, stack);
}

/* The kernel leaves argc on the stack, and the loader its function in r0. */
__asm__(".globl _start\n"
        ".type _start, %function\n"
        "_start:\n"
        "    mov fp, #0\n"
        "    mov lr, #0\n"
        "    mov r1, sp\n"
        "    b start\n");
