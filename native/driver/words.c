/*
 * What the library prints. It reports some failures there alone, in lines with "E RKNN", and returns 0. Where standard
 * error is a file that can be read, the harness's own, the words stay in it; else they go into memory of the kernel's
 * and from there to standard error: at barriers, and when the process is ended by a signal that it can see.
 */
#include "native.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PIECE_BYTES 4096

/* Where words go, and what they go on to; -1 where they stay. */
static int words_fd = 2, errors_fd = -1;

/* Only calls that a signal's handler may make. */
static void pass_on(void)
{
    char piece[PIECE_BYTES];
    long start = 0, count;
    while (errors_fd >= 0 && (count = pread(words_fd, piece, sizeof piece, start)) > 0) {
        for (long sent = 0, part; sent < count; sent += part)
            if ((part = write(errors_fd, piece + sent, (size_t)(count - sent))) <= 0)
                return;
        start += count;
    }
}

static void end_by_signal(int number)
{
    pass_on();
    signal(number, SIG_DFL);
    raise(number);
}

static void pass_on_at_the_end_of_the_process(void)
{
    static const int signals[] = {SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGSEGV, SIGTERM};
    for (size_t index = 0; index < LENGTH(signals); index++)
        signal(signals[index], end_by_signal);
}

void capture_words(void)
{
    /* The C library would buffer what is printed into a file, line by line it does not. */
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (!is_regular_file(2) || (fcntl(2, F_GETFL) & O_ACCMODE) != O_RDWR) {
        errors_fd = dup(2);
        words_fd = (int)syscall(SYS_memfd_create, "words", 0);
        dup2(words_fd, 2);
        pass_on_at_the_end_of_the_process();
    }
    dup2(2, 1);
}

int64_t words_bytes(void)
{
    return open_file_bytes(words_fd);
}

void hand_over_words(void)
{
    if (errors_fd < 0 || !words_bytes())
        return;
    pass_on();
    if (ftruncate(words_fd, 0) == 0)
        lseek(words_fd, 0, SEEK_SET);
}

/* As in "E RKNN: [10:01:02.345] failed to ...", at the beginning of a line, colours before it aside. */
static bool has_error_line(const char *words)
{
    for (const char *line = words; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        const char *start = line;
        while (start[0] == '\x1b' && start[1] == '[' && start[2 + strspn(start + 2, "0123456789;")] == 'm')
            start += 3 + strspn(start + 2, "0123456789;");
        if (strncmp(start, "E RKNN", strlen("E RKNN")) == 0)
            return true;
    }
    return false;
}

bool read_error_words(int64_t since, struct text *words)
{
    if (words_bytes() <= since)
        return false;
    char piece[PIECE_BYTES];
    long count;
    while ((count = pread(words_fd, piece, sizeof piece - 1, (long)since)) > 0) {
        piece[count] = '\0';
        append(words, "%s", piece);
        since += count;
    }
    return words->length && has_error_line(words->bytes);
}
