/*
 * Functions that the preload library, compiled with the headers of the GNU C library, needs and uClibc 1.0.31 lacks.
 * They are not visible from outside.
 */
#include <stdarg.h>
#include <stddef.h>
#include <sys/syscall.h>

long syscall(long number, ...);
extern const unsigned short *__ctype_b;
/* Declared here, since the header would give it another name. */
int vsscanf(const char *text, const char *format, va_list values);
int __register_atfork(void (*before)(void), void (*in_parent)(void), void (*in_child)(void), void *library);

/* The bits are the same in both libraries. */
const unsigned short **__ctype_b_loc(void)
{
    return &__ctype_b;
}

/* The name of sscanf in those headers. */
int __isoc99_sscanf(const char *text, const char *format, ...)
{
    va_list values;
    va_start(values, format);
    int count = vsscanf(text, format, values);
    va_end(values);
    return count;
}

int memfd_create(const char *name, unsigned flags)
{
    return (int)syscall(SYS_memfd_create, name, flags);
}

int pthread_atfork(void (*before)(void), void (*in_parent)(void), void (*in_child)(void))
{
    return __register_atfork(before, in_parent, in_child, NULL);
}
