/* Declarations that the files of this program share. */
#ifndef SANDBOX_H
#define SANDBOX_H

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#define LENGTH(array) (sizeof(array) / sizeof *(array))

/* The exit code if the sandbox cannot be made. */
enum { FAILED = 125 };

_Noreturn void fail(const char *step, const char *subject);

/* Writes into `space`, and returns it. */
__attribute__((format(printf, 2, 3))) const char *text(char space[PATH_MAX], const char *format, ...);

/* ---- processes.c ---- */

/*
 * Forks the command's process, and returns in it. This process waits for it and ends as it did; a third one is the init
 * of their PID namespace. `harness` is a socket, or -1: it gets the id of the command's process, and when its other end
 * is closed, all processes end.
 */
void fork_command(int harness);

/* ---- root.c ---- */

/* Mounts an empty root over the folder `root`, and shows the system's files in it. */
void make_root(const char *root);

/* Shows a file or folder at the same path in the new root; MS_RDONLY as a flag makes it readable only. */
void show(const char *path, unsigned long flags);

/* Shows the ledger's file alone, so that nothing else can take its place. */
void show_ledger(void);

/* Goes to the folder in the new root, and leaves the old one. */
void enter_root(const char *folder);

/* ---- rights.c ---- */

/* Gives up all capabilities that a later program could have, and all system calls but those of the list. */
void give_up_rights(void);

#endif
