/* Any bytes as the text of metrics: what is read is in order, and each sample is found again. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/ctl/top/top.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const ctl_metrics *m)
{
    char value[8];
    for (size_t i = 0; i < m->n; i++) {
        const ctl_sample *s = &m->sample[i];
        size_t n;
        const ctl_sample *first = ctl_metrics_family(m, s->name, &n);
        if (s < first || s >= first + n)
            abort();
        ctl_metrics_value(m, s->name, s->labels);
        if (strlen(ctl_label(value, sizeof value, s->labels, "le")) >= sizeof value)
            abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    ctl_metrics m;
    char *text = size <= 65536 ? calloc(size + 1, 1) : NULL;
    if (!text)
        return 0;
    memcpy(text, data, size);
    if (ctl_metrics_read(&m, text))
        check(&m);
    ctl_metrics_free(&m);
    free(text);
    return 0;
}
