/*
 * The measured process: reads a step's line from standard input, takes it and writes its barrier to standard output,
 * until there are no more. `inspect` in place of the first step asks what a model takes and gives.
 */
#include "native.h"

#include <string.h>
#include <unistd.h>

int main(void)
{
    /* The harness's pipe is kept apart from what a runtime prints. */
    open_channel(dup(1));
    capture_words();
    while (true) {
        struct line *line = next_line(true);
        bool is_inspection = strcmp(line->fields[0], "inspect") == 0;
        bool is_well = is_inspection ? inspect(line) : take_step(line);
        free_line(line);
        hand_over_words();
        if (is_inspection || !is_well)
            return !is_well;
    }
}
