#include "proto/types.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

typedef struct {
    int code;
    const char *name, *help;
} entry;

static const entry ops[] = {
#define X(NAME, name, code, help, ...) {code, name, help},
    RP_OPS(X)
#undef X
};
static const entry nans[] = {
#define X(NAME, name, code, help) {code, name, help},
    RP_NANS(X)
#undef X
};
static const entry msgs[] = {
#define X(NAME, name, code) {code, name, ""},
    RP_MSGS(X)
#undef X
};
static const entry errors[] = {
#define X(NAME, code, help) {code, #NAME, help},
    RP_ERRORS(X)
#undef X
};
static const entry backends[] = {
#define X(NAME, name, code) {code, name, ""},
    RP_BACKENDS(X)
#undef X
};
static const entry paths[] = {
#define X(NAME, name, code) {code, name, ""},
    RP_PATHS(X)
#undef X
};
static const entry priorities[] = {
#define X(NAME, name, code) {code, name, ""},
    RP_PRIORITIES(X)
#undef X
};
static const entry roles[] = {
#define X(NAME, name, code) {code, name, ""},
    RP_ROLES(X)
#undef X
};
static const entry forms[] = {
#define X(NAME, name, code, bytes) {code, name, ""},
    RP_FORMS(X)
#undef X
};
static const entry parameters[] = {
#define X(NAME, name, code, form, most) {code, name, ""},
    RP_PARAMETERS(X)
#undef X
};
static const entry methods[] = {
#define X(NAME, name, code, ...) {code, name, ""},
    RP_METHODS(X)
#undef X
};
static const struct {
    entry e;
    size_t size;
    rp_class cls;
} dtypes[] = {
#define X(NAME, name, code, bytes, cls) {{code, name, ""}, bytes, RP_CLASS_##cls},
    RP_DTYPES(X)
#undef X
};

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static const entry *by_code(const entry *list, size_t n, int code)
{
    static const entry unknown = {0, "?", "?"};
    if (code > 0 && (size_t)code <= n && list[code - 1].code == code) /* most lists are dense from 1 */
        return &list[code - 1];
    for (size_t i = 0; i < n; i++)
        if (list[i].code == code)
            return &list[i];
    return &unknown;
}

static int by_name(const entry *list, size_t n, const char *name, int unknown)
{
    for (size_t i = 0; name && i < n; i++)
        if (strcmp(list[i].name, name) == 0)
            return list[i].code;
    return unknown;
}

const char *rp_op_name(int op) { return by_code(ops, COUNT(ops), op)->name; }
const char *rp_op_help(int op) { return by_code(ops, COUNT(ops), op)->help; }
const char *rp_nan_name(int nan) { return by_code(nans, COUNT(nans), nan)->name; }
const char *rp_msg_name(int msg) { return by_code(msgs, COUNT(msgs), msg)->name; }
const char *rp_err_name(int err) { return by_code(errors, COUNT(errors), err)->name; }
const char *rp_err_help(int err) { return by_code(errors, COUNT(errors), err)->help; }
const char *rp_backend_name(int b) { return by_code(backends, COUNT(backends), b)->name; }
const char *rp_path_name(int path) { return by_code(paths, COUNT(paths), path)->name; }
const char *rp_priority_name(int p) { return by_code(priorities, COUNT(priorities), p)->name; }
const char *rp_role_name(int role) { return by_code(roles, COUNT(roles), role)->name; }
const char *rp_form_name(int form) { return by_code(forms, COUNT(forms), form)->name; }
const char *rp_parameter_name(int p) { return by_code(parameters, COUNT(parameters), p)->name; }
const char *rp_method_name(int method) { return by_code(methods, COUNT(methods), method)->name; }

int rp_op_parse(const char *name) { return by_name(ops, COUNT(ops), name, 0); }
int rp_path_parse(const char *name) { return by_name(paths, COUNT(paths), name, 0); }
int rp_method_parse(const char *name) { return by_name(methods, COUNT(methods), name, -1); }
int rp_nan_parse(const char *name) { return by_name(nans, COUNT(nans), name, -1); }
int rp_priority_parse(const char *name) { return by_name(priorities, COUNT(priorities), name, -1); }

/* dtype codes are dense from 1 */
static bool dtype_known(int dtype) { return dtype >= 1 && (size_t)dtype <= COUNT(dtypes); }

const char *rp_dtype_name(int dtype) { return dtype_known(dtype) ? dtypes[dtype - 1].e.name : "?"; }
size_t rp_dtype_size(int dtype) { return dtype_known(dtype) ? dtypes[dtype - 1].size : 0; }
rp_class rp_dtype_class(int dtype) { return dtype_known(dtype) ? dtypes[dtype - 1].cls : RP_CLASS_NONE; }

int rp_dtype_parse(const char *name)
{
    for (size_t i = 0; name && i < COUNT(dtypes); i++)
        if (strcmp(dtypes[i].e.name, name) == 0)
            return dtypes[i].e.code;
    return 0;
}

rp_err rp_fail(rp_fault *f, rp_err code, const char *field, uint64_t limit, const char *fmt, ...)
{
    if (!f)
        return code;
    memset(f, 0, sizeof *f);
    f->code = code;
    f->limit = limit;
    f->index = RP_NO_INDEX;
    snprintf(f->field, sizeof f->field, "%s", field ? field : "");
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(f->text, sizeof f->text, fmt, ap);
    va_end(ap);
    return code;
}
