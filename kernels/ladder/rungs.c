/* The rungs as a table. */
#include "kernels/ladder/ladder.h"

enum { IN_PLACE = 1, POWER_OF_TWO = 2 };

enum {
#define CPU(ident, ...) ID_##ident,
#define BLOCKS CPU
#define WHOLE CPU
#include "kernels/ladder/rungs.def"
};

#define RUNG(ident, its_kind, its_name, each, flags, text) \
    {.id = ID_##ident,                                     \
     .kind = (its_kind),                                   \
     .name = (its_name),                                   \
     .per_thread = (each),                                 \
     .in_place = ((flags)&IN_PLACE) != 0,                  \
     .power_of_two = ((flags)&POWER_OF_TWO) != 0,          \
     .what = (text)},

const ladder_rung ladder_rungs[] = {
#define CPU(ident, name, flags, what) RUNG(ident, LADDER_CPU, name, 0, flags, what)
#define BLOCKS(ident, name, each, flags, what) RUNG(ident, LADDER_BLOCKS, name, each, flags, what)
#define WHOLE(ident, name, each, flags, what) RUNG(ident, LADDER_WHOLE, name, each, flags, what)
#include "kernels/ladder/rungs.def"
};

const int ladder_rung_count = sizeof ladder_rungs / sizeof *ladder_rungs;
_Static_assert(sizeof ladder_rungs / sizeof *ladder_rungs <= LADDER_RUNGS_MAX, "options keep a flag for each rung");

const char *const ladder_dtype_names[LADDER_DTYPES] = {"i32", "f32"};
const char *const ladder_finish_names[LADDER_FINISHES] = {"relaunch", "atomic", "host"};
