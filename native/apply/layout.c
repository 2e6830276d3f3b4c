/* What contexts share: by their lines of a plan, or the safe default. */
#include "plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool is_off(void)
{
    return getenv("REUSEBENCH_APPLY_OFF");
}

bool may_share_weights(const struct plan_context *one, const struct plan_context *other)
{
    return !one || !other || one->weights == other->weights;
}

int first_group(const struct plan_context *line)
{
    if (!line)
        return 0;
    return line->memory < 0 ? OWN_GROUP : PLAN_GROUPS + line->memory;
}

bool may_share_internal(const struct plan_context *one, const struct plan_context *other)
{
    return first_group(one) == first_group(other) && first_group(one) != OWN_GROUP;
}

/* A mask of the program's own goes before that of the plan. */
int group_of_mask(const struct plan_context *line, int core_mask)
{
    bool is_as_planned = line && (line->core < 0 || core_mask == 1 << line->core);
    return is_as_planned ? first_group(line) : core_mask;
}

/* The chips whose NPU has several cores, by the device tree or by the name of a virtual board. */
static unsigned core_count(void)
{
    static const struct {
        const char *name;
        unsigned cores;
    } chips[] = {{"rk3588", 3}, {"rk3576", 2}};
    char text[256] = "";
    const char *board = getenv("REUSEBENCH_BOARD");
    FILE *file = board ? NULL : fopen("/proc/device-tree/compatible", "re");
    if (board)
        snprintf(text, sizeof text, "%s", board);
    size_t count = file ? fread(text, 1, sizeof text - 1, file) : strlen(text);
    if (file)
        fclose(file);
    for (size_t index = 0; index < LENGTH(chips); index++)
        if (memmem(text, count, chips[index].name, strlen(chips[index].name)))
            return chips[index].cores;
    return 1;
}

unsigned most_memories(int group)
{
    static unsigned most;
    if (group)
        return 1;
    if (!most) {
        const char *setting = getenv("REUSEBENCH_APPLY_AT_ONCE");
        long number = setting ? strtol(setting, NULL, 10) : 0;
        most = number > 0 ? (unsigned)number : core_count();
    }
    return most;
}
