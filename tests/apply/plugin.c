/* A library that is linked with Rockchip's. */
#include <stddef.h>
#include <string.h>

#include "driver/abi.h"

int plugin_work(void)
{
    static const char model[] = "1000 500";
    rknn_context handles[2];
    int code = 0;
    for (int index = 0; index < 2; index++)
        code |= rknn_init(&handles[index], (void *)model, (uint32_t)strlen(model), 0, NULL);
    for (int index = 0; index < 2; index++)
        code |= rknn_run(handles[index], NULL);
    for (int index = 0; index < 2; index++)
        code |= rknn_destroy(handles[index]);
    return code;
}
