/* Settings from the environment. */
#include "preload.h"

#include <stdarg.h>
#include <sys/resource.h>

/* With variables of its own, a second copy can simulate the board below a first copy in pass-through mode. */
#ifndef VARIABLES
#define VARIABLES "REUSEBENCH"
#endif

#define BAD_SETTING 2

/* 0.9.8, of 2024: major * 10000 + minor * 100 + patch */
#define ROCKCHIP_DRIVER 908

/*
 * The chips that can be simulated. Hardware versions: by trying with librknnrt 1.4.0, and with 2.3.2 for RK3576 and
 * RV1126B, which print the chip's name ("current platform is ...") and accept its models.
 */
static const struct chip chips[] = {
    {"rk3562", NPU_DEVICE, 0x54524549, ROCKCHIP_DRIVER, true},
    {"rk3566", NPU_DEVICE, 0x00000000, ROCKCHIP_DRIVER, true},
    {"rk3568", NPU_DEVICE, 0x00000000, ROCKCHIP_DRIVER, true},
    {"rk3576", NPU_DEVICE, HARDWARE_RK3576, ROCKCHIP_DRIVER, true},
    {"rk3588", NPU_DEVICE, 0x46495245, ROCKCHIP_DRIVER, true},
    {"rv1103", NPU_DEVICE, 0x54524548, ROCKCHIP_DRIVER, false},
    {"rv1106", NPU_DEVICE, 0x54524548, ROCKCHIP_DRIVER, false},
    {"rv1126b", NPU_DEVICE, HARDWARE_RV1126B, ROCKCHIP_DRIVER, true},
    /* An RK3588 with the mainline driver, which tells neither the hardware's version nor one of its own (0.0.0). */
    {"rocket", ROCKET_DEVICE, 0, 0, true},
};

static const struct {
    const char *name;
    int number;
} errors[] = {
    {"EAGAIN", EAGAIN}, {"EBUSY", EBUSY},   {"EFAULT", EFAULT}, {"EINTR", EINTR}, {"EINVAL", EINVAL},
    {"EIO", EIO},       {"ENODEV", ENODEV}, {"ENOMEM", ENOMEM}, {"EPERM", EPERM}, {"ETIMEDOUT", ETIMEDOUT},
};

/*
 * Shows a program that this library is loaded. The loader only warns if it is not, and Rockchip's library would then
 * use the host's own /dev/dri.
 */
__attribute__((visibility("default"))) const char reusebench_preload[] = "reusebench";

struct settings settings = {
    .memory_bytes = UINT64_MAX,
    .first_failing_submit = 1,
};

static pthread_once_t settings_read = PTHREAD_ONCE_INIT;

__attribute__((noreturn, format(printf, 1, 2))) static void refuse_setting(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fputs("reusebench preload: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    _exit(BAD_SETTING);
}

/* Returns the variable's value, or NULL if it is unset or empty. */
static const char *variable(const char *name)
{
    char whole[64];
    snprintf(whole, sizeof whole, VARIABLES "_%s", name);
    const char *value = getenv(whole);
    return value && *value ? value : NULL;
}

static const struct chip *chip_of(const char *name)
{
    for (size_t index = 0; name && index < LENGTH(chips); index++)
        if (strcmp(chips[index].name, name) == 0)
            return &chips[index];
    if (name)
        refuse_setting("no chip %s can be played", name);
    return NULL;
}

/* Reads a whole number; false for any other text. */
static bool read_number(const char *text, uint64_t *number)
{
    char *end;
    errno = 0;
    *number = strtoull(text, &end, 10);
    return !errno && end != text && !*end && *text != '-';
}

static bool read_version(const char *text, uint32_t *version)
{
    unsigned major, minor, patch;
    char more;
    if (sscanf(text, "%u.%u.%u%c", &major, &minor, &patch, &more) != 3)
        return false;
    *version = major * 10000 + minor * 100 + patch;
    return true;
}

/* Reads ERRNO or ERRNO@N, with the error's name or number. */
static bool read_submit_error(char *text)
{
    uint64_t number = 0;
    char *from = strchr(text, '@');
    if (from)
        *from++ = '\0';
    for (size_t index = 0; index < LENGTH(errors); index++)
        if (strcmp(errors[index].name, text) == 0)
            number = (uint64_t)errors[index].number;
    if ((!number && !read_number(text, &number)) || !number || number > INT_MAX)
        return false;
    settings.submit_error = (int)number;
    return !from || read_number(from, &settings.first_failing_submit);
}

static bool read_fault(const char *name, char *value)
{
    if (!value && strcmp(name, "no-device") == 0)
        return (settings.open_error = ENOENT);
    if (!value && strcmp(name, "no-permission") == 0)
        return (settings.open_error = EACCES);
    if (!value)
        return false;
    if (strcmp(name, "driver") == 0)
        return read_version(value, &settings.driver_version);
    if (strcmp(name, "sram") == 0 && settings.chip->device != ROCKET_DEVICE)
        return read_number(value, &settings.sram_bytes);
    return strcmp(name, "submit-error") == 0 && read_submit_error(value);
}

static void read_faults(const char *faults)
{
    char *copy = strdup(faults), *rest = copy, *fault;
    while ((fault = strsep(&rest, ","))) {
        char whole[256];
        snprintf(whole, sizeof whole, "%s", fault);
        char *value = strchr(fault, '=');
        if (value)
            *value++ = '\0';
        if (!read_fault(fault, value))
            refuse_setting("unknown fault %s; valid: no-device, no-permission, driver=0.7.2, "
                           "submit-error=ERRNO[@N]%s",
                           whole, settings.chip->device == ROCKET_DEVICE ? "" : ", sram=BYTES");
    }
    free(copy);
}

static void read_memory(const char *limit)
{
    if (!read_number(limit, &settings.memory_bytes))
        refuse_setting(VARIABLES "_NPU_MEMORY=%s is no number of bytes", limit);
}

/* Returns the value of a variable that only a virtual board has: a real driver cannot be made to fail. */
static const char *board_variable(const char *name)
{
    const char *value = variable(name);
    if (value && !settings.chip)
        refuse_setting(VARIABLES "_%s needs a virtual board (" VARIABLES "_BOARD)", name);
    return value;
}

/*
 * Children are not accounted for: their events would mix into this ledger. The first process that has the ledger stores
 * its number for its children; it may become another program itself, as a wrapper script does.
 */
static void take_ledger(void)
{
    char process[32];
    snprintf(process, sizeof process, "%d", (int)settings.process);
    setenv(VARIABLES "_LEDGER_PROCESS", process, 0);
    if (strcmp(variable("LEDGER_PROCESS"), process) == 0)
        settings.ledger = variable("LEDGER");
}

/* If a runtime crashes on a virtual board, it would leave two cores, its own and the emulator's, of 100 MB and more. */
static void forbid_cores(void)
{
    setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
}

static void take_lock(void)
{
    pthread_mutex_lock(&lock);
}

static void release_lock(void)
{
    pthread_mutex_unlock(&lock);
}

static void read_settings(void)
{
    settings.page_bytes = (uint64_t)sysconf(_SC_PAGESIZE);
    settings.process = getpid();
    take_ledger();
    settings.chip = chip_of(variable("BOARD"));
    if (settings.chip) {
        settings.hardware_version = settings.chip->hardware_version;
        settings.driver_version = settings.chip->driver_version;
        settings.iommu = settings.chip->iommu;
        forbid_cores();
    }
    if (board_variable("NPU_MEMORY"))
        read_memory(board_variable("NPU_MEMORY"));
    if (board_variable("FAULTS"))
        read_faults(board_variable("FAULTS"));
    pthread_atfork(take_lock, release_lock, release_lock);
    const char *quote = settings.chip ? "\"" : "";
    write_event("start", ",\"mode\":\"%s\",\"chip\":%s%s%s,\"pid\":%d,\"page_bytes\":%" PRIu64,
                settings.chip ? "virtual" : "pass-through", quote, settings.chip ? settings.chip->name : "null", quote,
                (int)settings.process, settings.page_bytes);
}

__attribute__((constructor)) static void loaded(void)
{
    pthread_once(&settings_read, read_settings);
}

bool is_virtual(void)
{
    loaded();
    return settings.chip != NULL;
}

bool is_accounted_process(void)
{
    loaded();
    return getpid() == settings.process;
}

void *next_function(const char *name)
{
    void *function = dlsym(RTLD_NEXT, name);
    if (!function)
        errno = ENOSYS;
    return function;
}
