// Tasks larger than a staging slot: cut into parts that are tasks themselves.
//
// Short rows: a part is a run of whole rows and writes its cells where they belong. Long rows: a part is a piece of one
// row and leaves a state; when all are done one more part joins the states (the same bits in any order). A fill: a part is
// some of its bytes.
#pragma once

#include "kernels/engine/engine.h"

namespace rk {

// One per large task. Not thread-safe: the backend calls all but split_open under its lock.
struct Split;

// NULL when out of memory (the task's fault is then set).
Split *split_open(rk_task *parent, size_t chunk_bytes);

// The next part to run, and whether there are more after it. Parts carry part->impl = the Split.
rk_task *split_next(Split *s, bool *more);

// A part is done: note its times and fault.
void split_done(Split *s, const rk_task *part);

// The joining part, once all others are done without a fault; NULL otherwise.
rk_task *split_join(Split *s);

// Nothing is left to run. split_close then gives the parent, complete with fault and times, and frees the Split; called
// earlier it abandons the parts.
bool split_finished(const Split *s);
rk_task *split_close(Split *s);

} // namespace rk
