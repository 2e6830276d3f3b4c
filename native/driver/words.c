/*
 * The library's output. The library reports some failures only there, in lines with "E RKNN", and returns 0. If
 * standard error is a readable file, the harness's own, the text stays in it. Otherwise it goes to memory of the kernel
 * and from there to standard error: at barriers, and when a signal that can be caught ends the process.
 */
#include "native.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PIECE_BYTES 4096

/* The file that takes the text, and the file to which it is passed on; -1 if it stays. */
static int words_fd = 2, errors_fd = -1;

/* Makes only calls that are safe in a signal handler. */
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
    /* The C library would buffer text that goes to a file; with line buffering it does not. */
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

/* Whether a line begins with "E RKNN", such as "E RKNN: [10:01:02.345] failed to ...", possibly after colour codes. */
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
