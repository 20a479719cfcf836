// States of rows in runs, between the first pass and the join: run_states.cuh
#pragma once

#include "kernels/cuda/pass/plan.h"

namespace rk {

struct RunStates {
    u64 rows, each;        // states of each row, of which the first `carried` ones, 0 or 1,
    u64 carried;           // ... are of runs that were joined before
    u64 apart, row_apart;  // states between those of a row, and between rows
    u64 times, from, step; // index i of the k-th of the others is i * times + from + k * step within the row
    u32 words;             // of a state
};

} // namespace rk
