/* safetensors: 8 bytes of length, a JSON object that names the tensors, their bytes. The JSON is read by jansson. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "client/ctl/formats/container.h"

#if CTL_WITH_JANSSON
#include <jansson.h>

static const struct {
    const char *name;
    int dtype;
} TYPES[] = {{"BOOL", REDUCE_BOOL}, {"U8", REDUCE_U8},   {"I8", REDUCE_I8},    {"I16", REDUCE_I16}, {"U16", REDUCE_U16},
             {"I32", REDUCE_I32},   {"U32", REDUCE_U32}, {"I64", REDUCE_I64},  {"U64", REDUCE_U64}, {"F16", REDUCE_F16},
             {"F32", REDUCE_F32},   {"F64", REDUCE_F64}, {"BF16", REDUCE_BF16}};

static int bad(char why[CTL_WHY], const char *tensor, const char *text)
{
    char name[64];
    ctl_clean(name, sizeof name, tensor);
    snprintf(why, CTL_WHY, "the safetensors header is malformed: tensor '%s': %s", name, text);
    return REDUCE_E_BAD_MESSAGE;
}

static int no_memory(char why[CTL_WHY])
{
    snprintf(why, CTL_WHY, "no memory for the header");
    return REDUCE_E_NO_MEMORY;
}

static bool is_number(const json_t *v) { return json_is_integer(v) && json_integer_value(v) >= 0; }

static bool take_shape(ctl_array *a, const json_t *shape)
{
    uint64_t dims[CTL_MAX_DIMS];
    size_t n = json_array_size(shape);
    if (!json_is_array(shape) || n > CTL_MAX_DIMS)
        return false;
    for (size_t i = 0; i < n; i++) {
        if (!is_number(json_array_get(shape, i)))
            return false;
        dims[i] = (uint64_t)json_integer_value(json_array_get(shape, i));
    }
    return ctl_array_shape(a, n, dims);
}

typedef struct span {
    uint64_t begin, end;
} span;

static int span_order(const void *x, const void *y)
{
    const span *a = x, *b = y;
    return a->begin != b->begin ? (a->begin > b->begin) - (a->begin < b->begin) : (a->end > b->end) - (a->end < b->end);
}

/* Do the tensors lie one behind the other up to the end of the file? The format has no holes, and no byte of two tensors. */
static int check_spans(span *s, size_t n, uint64_t bytes, char why[CTL_WHY])
{
    uint64_t at = 0;
    size_t i = 0;
    qsort(s, n, sizeof *s, span_order);
    for (; i < n && s[i].begin == at; i++)
        at = s[i].end;
    if (i == n && at == bytes)
        return 0;
    snprintf(why, CTL_WHY, "the safetensors header is malformed: %s at byte %" PRIu64 " of the data",
             i < n ? "a hole, or a byte of two tensors," : "bytes that no tensor has", at);
    return REDUCE_E_BAD_MESSAGE;
}

static int take_tensor(ctl_array *a, const json_t *t, uint64_t data, uint64_t size, span *where, char why[CTL_WHY])
{
    const char *type = json_string_value(json_object_get(t, "dtype"));
    const json_t *range = json_object_get(t, "data_offsets"), *from = json_array_get(range, 0), *to = json_array_get(range, 1);
    if (!type)
        return bad(why, a->name, "no dtype");
    ctl_clean(a->type, sizeof a->type, type);
    for (size_t i = 0; i < sizeof TYPES / sizeof *TYPES; i++)
        if (!strcmp(type, TYPES[i].name))
            a->dtype = TYPES[i].dtype;
    if (!take_shape(a, json_object_get(t, "shape")))
        return bad(why, a->name, "no such shape");
    if (json_array_size(range) != 2 || !is_number(from) || !is_number(to))
        return bad(why, a->name, "no data_offsets");
    uint64_t begin = (uint64_t)json_integer_value(from), end = (uint64_t)json_integer_value(to);
    if (end < begin)
        return bad(why, a->name, "its data end before they begin");
    if (a->dtype && (a->count > UINT64_MAX / 8 || end - begin != a->count * reduce_dtype_size(a->dtype)))
        return bad(why, a->name, "its data are not as long as its shape says");
    if (end > size - data)
        return bad(why, a->name, "its data end behind the file: it is cut"), REDUCE_E_IO;
    a->offset = data + begin;
    *where = (span){begin, end};
    return 0;
}

static int take_all(ctl_directory *d, json_t *all, span *spans, uint64_t data, uint64_t size, char why[CTL_WHY])
{
    const char *name;
    json_t *t;
    json_object_foreach(all, name, t)
    {
        if (!strcmp(name, "__metadata__"))
            continue;
        ctl_array *a = ctl_directory_add(d, name, strlen(name));
        if (!a)
            return no_memory(why);
        int err = take_tensor(a, t, data, size, &spans[d->n - 1], why);
        if (err)
            return err;
    }
    return check_spans(spans, d->n, size - data, why);
}

int ctl_safetensors_parse(ctl_directory *d, const char *header, size_t len, uint64_t size, char why[CTL_WHY])
{
    json_error_t e;
    json_t *all = json_loadb(header, len, JSON_REJECT_DUPLICATES, &e);
    d->kind = "safetensors";
    if (!json_is_object(all)) {
        json_decref(all);
        ctl_clean(why, CTL_WHY, all ? "the safetensors header is not an object" : e.text);
        return REDUCE_E_BAD_MESSAGE;
    }
    span *spans = calloc(json_object_size(all) + 1, sizeof *spans);
    int err = spans ? take_all(d, all, spans, 8 + len, size, why) : no_memory(why);
    free(spans);
    json_decref(all);
    return err;
}

int ctl_safetensors_list(ctl_directory *d, int fd, uint64_t size, char why[CTL_WHY])
{
    uint64_t len;
    int err = ctl_read_at(fd, &len, sizeof len, 0, why);
    if (err)
        return err;
    if (len <= CTL_SAFETENSORS_MAX_HEADER && len > size - 8) {
        snprintf(why, CTL_WHY, "the safetensors header ends behind the file: it is cut");
        return REDUCE_E_IO;
    }
    if (len > CTL_SAFETENSORS_MAX_HEADER) {
        snprintf(why, CTL_WHY, "a safetensors header of %" PRIu64 " bytes, the limit is %d", len, CTL_SAFETENSORS_MAX_HEADER);
        return REDUCE_E_TOO_LARGE;
    }
    char *header = malloc((size_t)len + 1);
    if (!header)
        return no_memory(why);
    err = ctl_read_at(fd, header, (size_t)len, 8, why);
    if (!err)
        err = ctl_safetensors_parse(d, header, (size_t)len, size, why);
    free(header);
    return err;
}
#else
int ctl_safetensors_list(ctl_directory *d, int fd, uint64_t size, char why[CTL_WHY])
{
    (void)d, (void)fd, (void)size;
    snprintf(why, CTL_WHY, "safetensors: this reducectl was built without jansson");
    return REDUCE_E_TYPE;
}
#endif
