/*
 * The measured process: reads the line of a step from standard input, takes the step and writes its barrier to standard
 * output, until there are no more steps. `inspect` instead of the first step asks for the inputs and outputs of a
 * model.
 */
#include "native.h"

#include <string.h>
#include <unistd.h>

int main(void)
{
    /* A descriptor of its own keeps the harness's pipe apart from what a runtime prints. */
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
