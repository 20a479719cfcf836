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

static int take_tensor(ctl_array *a, const json_t *t, uint64_t data, uint64_t size, char why[CTL_WHY])
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
    return 0;
}

int ctl_safetensors_parse(ctl_directory *d, const char *header, size_t len, uint64_t size, char why[CTL_WHY])
{
    json_error_t e;
    const char *name;
    json_t *t;
    json_t *all = json_loadb(header, len, JSON_REJECT_DUPLICATES, &e);
    int err = 0;
    d->kind = "safetensors";
    if (!json_is_object(all)) {
        json_decref(all);
        ctl_clean(why, CTL_WHY, all ? "the safetensors header is not an object" : e.text);
        return REDUCE_E_BAD_MESSAGE;
    }
    json_object_foreach(all, name, t)
    {
        if (!strcmp(name, "__metadata__"))
            continue;
        ctl_array *a = ctl_directory_add(d, name, strlen(name));
        if (a)
            err = take_tensor(a, t, 8 + len, size, why);
        else
            snprintf(why, CTL_WHY, "no memory for the list");
        err = a ? err : REDUCE_E_NO_MEMORY;
        if (err)
            break;
    }
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
    if (!header) {
        snprintf(why, CTL_WHY, "no memory for the header");
        return REDUCE_E_NO_MEMORY;
    }
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
