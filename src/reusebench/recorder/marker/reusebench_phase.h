/* reusebench_phase("name") marks the beginning of a phase for `reusebench record`.
 *
 * With `record --marker 3` it waits until the memory of the phase that ends has been read, so that
 * the figures are exact. With `record --phases FILE` it appends the name to the file. Otherwise it
 * does nothing: it may stay in the program.
 *
 * C99 or C++ on Linux, without a library. Copy this file into your sources.
 */
#ifndef REUSEBENCH_PHASE_H
#define REUSEBENCH_PHASE_H

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

/* Writes the line to the socket of --marker, and waits for the answer. */
static inline void reusebench_phase_to_socket(int marker, const char *line, size_t size)
{
    struct sockaddr address;
    socklen_t length = sizeof address;
    char answer;

    /* A child may have the variable without the socket, and another file in its place. */
    if (getsockname(marker, &address, &length) != 0 || address.sa_family != AF_UNIX)
        return;
    if (send(marker, line, size, MSG_NOSIGNAL) != (ssize_t)size)
        return; /* Nobody records any more. */
    while (recv(marker, &answer, 1, 0) < 0 && errno == EINTR)
        continue;
}

/* Appends the line to the file of --phases. */
static inline void reusebench_phase_to_file(const char *path, const char *line, size_t size)
{
    int file = open(path, O_WRONLY | O_APPEND);

    if (file < 0)
        return; /* Nobody records any more. */
    while (write(file, line, size) < 0 && errno == EINTR)
        continue;
    close(file);
}

static inline void reusebench_phase(const char *name)
{
    const char *marker = getenv("REUSEBENCH_MARKER");
    const char *path = getenv("REUSEBENCH_PHASES");
    const int error_before = errno;
    char line[512];
    size_t size;

    if (marker == NULL && path == NULL)
        return;
    for (size = 0; name[size] != '\0' && size < sizeof line - 1; size++)
        line[size] = name[size] == '\n' ? ' ' : name[size];
    line[size++] = '\n';
    if (marker != NULL)
        reusebench_phase_to_socket(atoi(marker), line, size);
    else
        reusebench_phase_to_file(path, line, size);
    errno = error_before;
}

#endif
