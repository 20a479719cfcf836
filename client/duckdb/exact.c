/* Exact aggregates for DuckDB, on its C extension interface (v1.2.0): README.md beside this file has the functions.
 *
 * A state of DuckDB is a slot (kernels/cpu/keys/slots.h), which may be moved and is dropped by the destructor. That of
 * exact_merge is a pointer. Nothing here locks or does I/O, and no daemon is needed. */
#define DUCKDB_EXTENSION_NAME reduced
#define DUCKDB_EXTENSION_API_VERSION_MAJOR 1
#define DUCKDB_EXTENSION_API_VERSION_MINOR 2
#define DUCKDB_EXTENSION_API_VERSION_PATCH 0
#include <duckdb_extension.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cpu/keys/slots.h"
#include "kernels/cpu/loops.h"
#include "kernels/exact/cell.h"
#include "kernels/exact/check.h"
#include "kernels/exact/line.h"

DUCKDB_EXTENSION_EXTERN

enum { ROWS = 2048 }; /* of DuckDB's vectors: more come in parts */

/* ---- what there is ----------------------------------------------------------------------------------------------- */

typedef enum { A_DOUBLE, A_SUM, A_STATE } returns; /* A_SUM: DOUBLE of floats, HUGEINT of integers */
enum { MOST_COLUMNS = 2 };

static const struct {
    const char *name;
    int op;
    uint32_t ddof;
    returns returns;
    idx_t columns;
} functions[] = {
    {"exact_sum", RP_OP_SUM, 0, A_SUM, 1},       {"exact_avg", RP_OP_MEAN, 0, A_DOUBLE, 1},
    {"exact_var", RP_OP_VAR, 1, A_DOUBLE, 1},    {"exact_var_pop", RP_OP_VAR, 0, A_DOUBLE, 1},
    {"exact_stddev", RP_OP_STD, 1, A_DOUBLE, 1}, {"exact_stddev_pop", RP_OP_STD, 0, A_DOUBLE, 1},
    {"exact_state", RP_OP_SUM, 0, A_STATE, 1},   {"exact_dot", RP_OP_DOT, 0, A_SUM, 2},
};

static const struct {
    duckdb_type type;
    int dtype;
} types[] = {
    {DUCKDB_TYPE_DOUBLE, RP_F64},  {DUCKDB_TYPE_FLOAT, RP_F32},    {DUCKDB_TYPE_TINYINT, RP_I8},
    {DUCKDB_TYPE_UTINYINT, RP_U8}, {DUCKDB_TYPE_SMALLINT, RP_I16}, {DUCKDB_TYPE_USMALLINT, RP_U16},
    {DUCKDB_TYPE_INTEGER, RP_I32}, {DUCKDB_TYPE_UINTEGER, RP_U32}, {DUCKDB_TYPE_BIGINT, RP_I64},
    {DUCKDB_TYPE_UBIGINT, RP_U64},
};

enum { FUNCTIONS = sizeof functions / sizeof functions[0], TYPES = sizeof types / sizeof types[0] };

/* A function of one type, which DuckDB gives back with each call. Written once, when the extension is loaded. */
typedef struct aggregate {
    rk_slots kind;
    rp_spec spec;
    returns returns;
} aggregate;
static aggregate aggregates[FUNCTIONS][TYPES];

static const aggregate *self(duckdb_function_info info) { return duckdb_aggregate_function_get_extra_info(info); }

/* ---- slots ------------------------------------------------------------------------------------------------------- */

static void no_memory(duckdb_function_info info) { duckdb_aggregate_function_set_error(info, "out of memory"); }

static idx_t slot_bytes(duckdb_function_info info) { return self(info)->kind.bytes; }

/* DuckDB would cast every element to DOUBLE, and round it, without a word. */
static idx_t refused_bytes(duckdb_function_info info)
{
    duckdb_aggregate_function_set_error(
        info,
        "exact aggregates take DOUBLE, FLOAT and integers of up to 64 bits, exact_dot two of one type. DuckDB's own sum of "
        "DECIMAL and HUGEINT is exact; or cast to DOUBLE");
    return sizeof(uint64_t);
}

static void slot_init(duckdb_function_info info, duckdb_aggregate_state state) { rk_slot_init(&self(info)->kind, state); }

/* Rows [from, from + n) that are not NULL: their slots and values, without gaps. Returns how many. */
static size_t gather(const aggregate *a, duckdb_aggregate_state *states, const uint8_t *values, const uint64_t *valid,
                     idx_t from, size_t n, void **slot, uint8_t *kept)
{
    const size_t size = (size_t)rk_bytes(a->kind.dtype);
    size_t k = 0;
    for (idx_t i = from; i < from + n; i++) {
        slot[k] = states[i];
        memcpy(kept + k * size, values + i * size, size);
        k += valid[i / 64] >> i % 64 & 1;
    }
    return k;
}

static bool is_one(void *const *slot, size_t n)
{
    for (size_t i = 1; i < n; i++)
        if (slot[i] != slot[0])
            return false;
    return true;
}

static bool add(const rk_slots *k, void *const *slot, const void *values, size_t n)
{
    if (n > 1 && is_one(slot, n)) /* no GROUP BY */
        return rk_slot_add_all(k, slot[0], values, 0, n);
    return rk_slots_add(k, slot, values, 0, NULL, n) == n;
}

static void slot_update(duckdb_function_info info, duckdb_data_chunk input, duckdb_aggregate_state *states)
{
    const aggregate *a = self(info);
    duckdb_vector vector = duckdb_data_chunk_get_vector(input, 0);
    const idx_t rows = duckdb_data_chunk_get_size(input);
    const uint8_t *values = duckdb_vector_get_data(vector);
    const uint64_t *valid = duckdb_vector_get_validity(vector); /* NULL: all are */
    void *slot[ROWS];
    uint64_t kept[ROWS];
    bool fine = true;
    for (idx_t from = 0; fine && from < rows; from += ROWS) {
        const size_t n = rows - from < ROWS ? rows - from : ROWS;
        if (valid) {
            const size_t k = gather(a, states, values, valid, from, n, slot, (uint8_t *)kept);
            fine = add(&a->kind, slot, kept, k);
        } else {
            fine = add(&a->kind, (void *const *)states + from, values + from * (size_t)rk_bytes(a->kind.dtype), n);
        }
    }
    if (!fine)
        no_memory(info);
}

/* ---- pairs of columns -------------------------------------------------------------------------------------------- */

static bool add_pairs(const rk_slots *k, void *const *slot, const uint8_t *x, const uint8_t *y, size_t n)
{
    rk_state s;
    if (n > 1 && is_one(slot, n)) { /* no GROUP BY */
        rk_state_init(&s, k->layout, k->dtype);
        const uint64_t saved = rk_fp_enter();
        rk_simd_best()->pairs[k->dtype](&s, x, y, n, k->nan, false, NULL);
        rk_fp_leave(saved);
        return rk_slot_merge(k, slot[0], &s);
    }
    return rk_slots_add_pairs(k, slot, x, y, n) == n;
}

/* Rows where both are there. */
static void dot_update(duckdb_function_info info, duckdb_data_chunk input, duckdb_aggregate_state *states)
{
    const aggregate *a = self(info);
    const size_t size = (size_t)rk_bytes(a->kind.dtype);
    const idx_t rows = duckdb_data_chunk_get_size(input);
    uint64_t kept[MOST_COLUMNS][ROWS], both[ROWS / 64];
    const uint8_t *values[MOST_COLUMNS];
    void *slot[ROWS];
    const uint64_t *valid[MOST_COLUMNS];
    for (idx_t c = 0; c < MOST_COLUMNS; c++) {
        duckdb_vector vector = duckdb_data_chunk_get_vector(input, c);
        values[c] = duckdb_vector_get_data(vector);
        valid[c] = duckdb_vector_get_validity(vector);
    }
    for (idx_t from = 0; from < rows; from += ROWS) {
        const size_t n = rows - from < ROWS ? rows - from : ROWS;
        size_t k = 0;
        if (!valid[0] && !valid[1]) {
            if (!add_pairs(&a->kind, (void *const *)states + from, values[0] + from * size, values[1] + from * size, n))
                no_memory(info);
            continue;
        }
        for (idx_t i = 0; i < ROWS / 64; i++)
            both[i] = (valid[0] && i * 64 < n ? valid[0][from / 64 + i] : ~(uint64_t)0) &
                      (valid[1] && i * 64 < n ? valid[1][from / 64 + i] : ~(uint64_t)0);
        for (idx_t c = 0; c < MOST_COLUMNS; c++)
            k = gather(a, states + from, values[c] + from * size, both, 0, n, slot, (uint8_t *)kept[c]);
        if (!add_pairs(&a->kind, slot, (const uint8_t *)kept[0], (const uint8_t *)kept[1], k))
            no_memory(info);
    }
}

/* ---- groups ------------------------------------------------------------------------------------------------------ */

static void slot_combine(duckdb_function_info info, duckdb_aggregate_state *source, duckdb_aggregate_state *target, idx_t count)
{
    const aggregate *a = self(info);
    for (idx_t i = 0; i < count; i++)
        if (!rk_slot_join(&a->kind, target[i], source[i])) {
            no_memory(info);
            return;
        }
}

/* The destructor is not told which function it is for: only windows own memory, and all in the same place. */
static void windows_drop(duckdb_aggregate_state *states, idx_t count)
{
    for (idx_t i = 0; i < count; i++)
        rk_slot_drop(&aggregates[0][0].kind, states[i]);
}

/* ---- results ----------------------------------------------------------------------------------------------------- */

static void set_null(duckdb_vector result, idx_t at)
{
    duckdb_vector_ensure_validity_writable(result);
    duckdb_validity_set_row_invalid(duckdb_vector_get_validity(result), at);
}

/* An integer of two or three limbs. False: it does not fit HUGEINT. */
static bool set_integer(const rk_state *s, duckdb_vector result, idx_t at)
{
    const int limbs = rk_sum_limbs(s->layout) + rk_square_limbs(s->layout);
    ((duckdb_hugeint *)duckdb_vector_get_data(result))[at] = (duckdb_hugeint){s->limb[0], (int64_t)s->limb[1]};
    return limbs == 2 || s->limb[2] == (uint64_t)((int64_t)s->limb[1] >> 63);
}

/* False: it does not fit. */
static bool set_value(const aggregate *a, rk_state *s, duckdb_vector result, idx_t at)
{
    uint8_t cell[8 * RP_MAX_CELL_WORDS];
    if (s->count == 0 || (a->spec.ddof && s->count <= a->spec.ddof)) {
        set_null(result, at); /* as SQL has it */
    } else if (a->returns == A_STATE) {
        duckdb_vector_assign_string_element_len(result, at, (const char *)s, rp_state_size(s->layout));
    } else if (a->returns == A_SUM && !rk_is_float(s->dtype)) {
        return set_integer(s, result, at);
    } else {
        rk_cell_write(s, &a->spec, cell); /* of elements there is always a value: f64 does not overflow */
        memcpy((double *)duckdb_vector_get_data(result) + at, cell, sizeof(double));
    }
    return true;
}

static void slot_finalize(duckdb_function_info info, duckdb_aggregate_state *source, duckdb_vector result, idx_t count,
                          idx_t offset)
{
    const aggregate *a = self(info);
    rk_state s;
    for (idx_t i = 0; i < count; i++) {
        rk_slot_state(&a->kind, source[i], &s);
        if (!set_value(a, &s, result, offset + i))
            duckdb_aggregate_function_set_error(info, "the exact sum of products does not fit HUGEINT");
    }
}

/* ---- exact_merge: states of exact_state, from any number of tables and processes ------------------------------------ */

static aggregate merge_value = {.returns = A_DOUBLE}, merge_state = {.returns = A_STATE};

typedef struct merged {
    rk_state *state; /* NULL: none so far */
} merged;

static idx_t merged_bytes(duckdb_function_info info)
{
    (void)info;
    return sizeof(merged);
}

static void merged_init(duckdb_function_info info, duckdb_aggregate_state state)
{
    (void)info;
    ((merged *)state)->state = NULL;
}

static bool merge(duckdb_function_info info, merged *into, const rk_state *s)
{
    rp_fault f = {0};
    if (!into->state) {
        into->state = malloc(sizeof *s);
        if (!into->state) {
            no_memory(info);
            return false;
        }
        rk_state_init(into->state, s->layout, s->dtype);
    }
    if (into->state->layout != s->layout || into->state->dtype != s->dtype) {
        duckdb_aggregate_function_set_error(info, "exact_merge: states of different element types");
        return false;
    }
    if (rk_count_check(into->state->count + s->count, 0, &f)) {
        duckdb_aggregate_function_set_error(info, f.text);
        return false;
    }
    rk_state_merge(into->state, s);
    return true;
}

/* A BLOB as a state of a sum. */
static bool take_blob(duckdb_function_info info, duckdb_string_t *blob, rk_state *s)
{
    rp_fault f = {0};
    char text[RP_MAX_TEXT + 64];
    const uint32_t bytes = duckdb_string_t_length(*blob);
    if (rk_state_take(s, duckdb_string_t_data(blob), bytes, &f)) {
        snprintf(text, sizeof text, "exact_merge: not a state of exact_state: %s", f.text);
        duckdb_aggregate_function_set_error(info, text);
        return false;
    }
    if (bytes == rp_state_size(s->layout) && s->layout == rp_state_layout(RP_OP_SUM, s->dtype))
        return true;
    duckdb_aggregate_function_set_error(info, "exact_merge: not a state of exact_state");
    return false;
}

static void merged_update(duckdb_function_info info, duckdb_data_chunk input, duckdb_aggregate_state *states)
{
    duckdb_vector vector = duckdb_data_chunk_get_vector(input, 0);
    duckdb_string_t *blobs = duckdb_vector_get_data(vector);
    uint64_t *valid = duckdb_vector_get_validity(vector);
    rk_state s;
    for (idx_t i = 0, n = duckdb_data_chunk_get_size(input); i < n; i++) {
        if (valid && !duckdb_validity_row_is_valid(valid, i))
            continue;
        if (!take_blob(info, blobs + i, &s) || !merge(info, (merged *)states[i], &s))
            return;
    }
}

static void merged_combine(duckdb_function_info info, duckdb_aggregate_state *source, duckdb_aggregate_state *target,
                           idx_t count)
{
    for (idx_t i = 0; i < count; i++) {
        const merged *from = (merged *)source[i];
        if (from->state && !merge(info, (merged *)target[i], from->state))
            return;
    }
}

static void merged_finalize(duckdb_function_info info, duckdb_aggregate_state *source, duckdb_vector result, idx_t count,
                            idx_t offset)
{
    for (idx_t i = 0; i < count; i++) {
        rk_state *s = ((merged *)source[i])->state;
        aggregate a = *self(info);
        if (!s) {
            set_null(result, offset + i);
            continue;
        }
        a.spec = (rp_spec){.op = RP_OP_SUM, .dtype = s->dtype, .out = RP_F64, .rows = 1};
        set_value(&a, s, result, offset + i);
    }
}

static void merged_drop(duckdb_aggregate_state *states, idx_t count)
{
    for (idx_t i = 0; i < count; i++)
        free(((merged *)states[i])->state);
}

/* ---- registration ------------------------------------------------------------------------------------------------ */

static duckdb_type result_type(const aggregate *a)
{
    if (a->returns == A_STATE)
        return DUCKDB_TYPE_BLOB;
    return a->returns == A_SUM && !rk_is_float(a->kind.dtype) ? DUCKDB_TYPE_HUGEINT : DUCKDB_TYPE_DOUBLE;
}

static duckdb_aggregate_function new_function(const char *name, idx_t columns, duckdb_type from, duckdb_type to, aggregate *a)
{
    duckdb_aggregate_function f = duckdb_create_aggregate_function();
    duckdb_logical_type in = duckdb_create_logical_type(from), out = duckdb_create_logical_type(to);
    duckdb_aggregate_function_set_name(f, name);
    for (idx_t c = 0; c < columns; c++)
        duckdb_aggregate_function_add_parameter(f, in);
    duckdb_aggregate_function_set_return_type(f, out);
    duckdb_aggregate_function_set_extra_info(f, a, NULL);
    duckdb_destroy_logical_type(&in);
    duckdb_destroy_logical_type(&out);
    return f;
}

/* The overload of all other types. */
static duckdb_aggregate_function refusal(const char *name, idx_t columns)
{
    static aggregate none;
    duckdb_aggregate_function f = new_function(name, columns, DUCKDB_TYPE_ANY, DUCKDB_TYPE_DOUBLE, &none);
    duckdb_aggregate_function_set_functions(f, refused_bytes, slot_init, slot_update, slot_combine, slot_finalize);
    return f;
}

static bool register_slots(duckdb_connection connection, int i)
{
    duckdb_aggregate_function_set set = duckdb_create_aggregate_function_set(functions[i].name);
    for (int t = 0; t < TYPES; t++) {
        aggregate *a = &aggregates[i][t];
        const int dtype = types[t].dtype;
        rk_slots_of(&a->kind, rp_state_layout(functions[i].op, dtype), dtype, RP_NAN_PROPAGATE);
        a->spec = (rp_spec){
            .op = (uint8_t)functions[i].op, .dtype = (uint8_t)dtype, .out = RP_F64, .ddof = functions[i].ddof, .rows = 1};
        a->returns = functions[i].returns;
        duckdb_aggregate_function f = new_function(functions[i].name, functions[i].columns, types[t].type, result_type(a), a);
        duckdb_aggregate_function_set_functions(f, slot_bytes, slot_init, functions[i].columns == 1 ? slot_update : dot_update,
                                                slot_combine, slot_finalize);
        if (a->kind.form != RK_SLOT_STATE)
            duckdb_aggregate_function_set_destructor(f, windows_drop);
        duckdb_add_aggregate_function_to_set(set, f);
        duckdb_destroy_aggregate_function(&f);
    }
    duckdb_aggregate_function others = refusal(functions[i].name, functions[i].columns);
    duckdb_add_aggregate_function_to_set(set, others);
    duckdb_destroy_aggregate_function(&others);
    const bool fine = duckdb_register_aggregate_function_set(connection, set) == DuckDBSuccess;
    duckdb_destroy_aggregate_function_set(&set);
    return fine;
}

static bool register_merge(duckdb_connection connection, const char *name, duckdb_type to, aggregate *a)
{
    duckdb_aggregate_function f = new_function(name, 1, DUCKDB_TYPE_BLOB, to, a);
    duckdb_aggregate_function_set_functions(f, merged_bytes, merged_init, merged_update, merged_combine, merged_finalize);
    duckdb_aggregate_function_set_destructor(f, merged_drop);
    const bool fine = duckdb_register_aggregate_function(connection, f) == DuckDBSuccess;
    duckdb_destroy_aggregate_function(&f);
    return fine;
}

/* The entry point that the macro defines; DuckDB looks for it by name. */
DUCKDB_CAPI_ENTRY_VISIBILITY bool reduced_init_c_api(duckdb_extension_info info, struct duckdb_extension_access *access);

DUCKDB_EXTENSION_ENTRYPOINT(duckdb_connection connection, duckdb_extension_info info, struct duckdb_extension_access *access)
{
    bool fine = true;
    for (int i = 0; fine && i < FUNCTIONS; i++)
        fine = register_slots(connection, i);
    fine = fine && register_merge(connection, "exact_merge", DUCKDB_TYPE_DOUBLE, &merge_value) &&
           register_merge(connection, "exact_merge_state", DUCKDB_TYPE_BLOB, &merge_state);
    if (!fine)
        access->set_error(info, "reduced: a function of this name exists already");
    return fine;
}
