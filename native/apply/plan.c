/*
 * The plan: what each context of a model shares, in lines that reusebench writes (apply/plan.py).
 *
 *   reusebench-apply-plan 1
 *   model rknn DIGEST BYTES NAME          a model of the plan, by its content
 *   context CONTEXT WEIGHTS MEMORY CORE   each of its contexts, in the order in which the plan makes them
 *
 * The n-th living context of a model has the n-th line. Lines of other runtimes and unknown ones are passed over.
 */
#include "plan.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define VARIABLE "REUSEBENCH_APPLY_PLAN"
#define FIRST_LINE "reusebench-apply-plan 1\n"
#define MOST_UNKNOWN 16
#define MOST_NAME 64

struct planned_model {
    struct planned_model *next;
    struct model model;
    struct plan_context *lines; /* linked, in the order of the plan */
    unsigned with_line, beyond; /* contexts of the program */
};

static struct planned_model *models;
static bool is_read;
static struct {
    char name[MOST_NAME];
    unsigned count;
} unknown[MOST_UNKNOWN];

static struct planned_model *add_model(const char *line)
{
    struct model model = {0};
    const char *form = "model rknn %16" SCNx64 "%16" SCNx64 " %" SCNu32;
    if (sscanf(line, form, &model.digest[0], &model.digest[1], &model.bytes) != 3)
        return NULL;
    struct planned_model *added = calloc(1, sizeof *added);
    if (!added)
        return NULL;
    added->model = model;
    added->next = models;
    models = added;
    return added;
}

static void add_line(struct planned_model *model, const char *line)
{
    struct plan_context read = {0}, **place = &model->lines;
    if (sscanf(line, "context %*d %d %d %d", &read.weights, &read.memory, &read.core) != 3)
        return;
    struct plan_context *added = malloc(sizeof *added);
    if (!added)
        return;
    *added = read;
    while (*place)
        place = &(*place)->next;
    *place = added;
}

static void read_lines(char *text)
{
    struct planned_model *model = NULL;
    char *rest = NULL;
    for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        if (strncmp(line, "model ", strlen("model ")) == 0)
            model = add_model(line);
        else if (model)
            add_line(model, line);
    }
}

static void read_plan(const char *path)
{
    struct content content;
    if (!read_content(&content, path, 0)) {
        note_failure(VARIABLE);
        return;
    }
    char *text = malloc((size_t)content.size + 1);
    if (text) {
        memcpy(text, content.bytes, content.size);
        text[content.size] = '\0';
    }
    if (text && strncmp(text, FIRST_LINE, strlen(FIRST_LINE)) == 0)
        read_lines(text);
    else
        note_failure(VARIABLE);
    free(text);
    forget_content(&content);
}

bool has_plan(void)
{
    const char *path = getenv(VARIABLE);
    if (path && !is_read)
        read_plan(path);
    is_read = true;
    return models;
}

static struct planned_model *find_model(const struct model *model)
{
    struct planned_model *planned = models;
    while (planned && !is_equal_content(&planned->model, model))
        planned = planned->next;
    return planned;
}

static void note_unknown(const struct model *model, const char *path)
{
    char name[MOST_NAME];
    const char *slash = path ? strrchr(path, '/') : NULL;
    if (path)
        snprintf(name, sizeof name, "%s", slash ? slash + 1 : path);
    else
        snprintf(name, sizeof name, "%" PRIu32 " bytes", model->bytes);
    for (char *character = name; *character; character++)
        if (*character == '"' || *character == '\\' || (unsigned char)*character < ' ')
            *character = '?';
    for (size_t index = 0; index < MOST_UNKNOWN; index++) {
        if (unknown[index].count && strcmp(unknown[index].name, name) != 0)
            continue;
        strcpy(unknown[index].name, name);
        unknown[index].count++;
        return;
    }
}

struct plan_context *take_line(const struct model *model, const char *path)
{
    if (!has_plan())
        return NULL;
    struct planned_model *planned = find_model(model);
    if (!planned) {
        note_unknown(model, path);
        return NULL;
    }
    struct plan_context *line = planned->lines;
    while (line && line->is_taken)
        line = line->next;
    if (!line) {
        planned->beyond++;
        return NULL;
    }
    line->is_taken = true;
    planned->with_line++;
    return line;
}

void give_line_back(struct plan_context *line)
{
    if (line)
        line->is_taken = false;
}

/* A forked process counts its own. */
void forget_plan_counts(void)
{
    memset(unknown, 0, sizeof unknown);
    for (struct planned_model *model = models; model; model = model->next)
        model->with_line = model->beyond = 0;
}

/* ---- The report ---- */

__attribute__((format(printf, 4, 5))) static size_t add_text(char *text, size_t size, size_t length, const char *form,
                                                            ...)
{
    va_list values;
    size_t room = length < size ? size - length : 0;
    va_start(values, form);
    int count = vsnprintf(room ? text + length : NULL, room, form, values);
    va_end(values);
    return length + (count > 0 ? (size_t)count : 0);
}

static size_t add_counts(char *text, size_t size, size_t length, bool of_beyond)
{
    const char *between = "";
    for (struct planned_model *model = models; model; model = model->next) {
        unsigned count = of_beyond ? model->beyond : model->with_line;
        if (!count)
            continue;
        length = add_text(text, size, length, "%s\"%016" PRIx64 "%016" PRIx64 "\": %u", between,
                          model->model.digest[0], model->model.digest[1], count);
        between = ", ";
    }
    return length;
}

size_t plan_report(char *text, size_t size)
{
    if (!has_plan())
        return add_text(text, size, 0, "null");
    size_t length = add_text(text, size, 0, "{\"loaded\": {");
    length = add_counts(text, size, length, false);
    length = add_text(text, size, length, "}, \"beyond\": {");
    length = add_counts(text, size, length, true);
    length = add_text(text, size, length, "}, \"unknown\": {");
    for (size_t index = 0; index < MOST_UNKNOWN && unknown[index].count; index++)
        length = add_text(text, size, length, "%s\"%s\": %u", index ? ", " : "", unknown[index].name, unknown[index].count);
    return add_text(text, size, length, "}}");
}
