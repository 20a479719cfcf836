/* Two tasks with the same cells, or the same fault. Include it after cmocka.h. */
#ifndef TESTS_UNIT_SAME_ANSWER_H
#define TESTS_UNIT_SAME_ANSWER_H

#include "kernels/kernels.h"

static void same_answer(const rk_task *want, const rk_task *got)
{
    assert_int_equal(got->fault.code, want->fault.code);
    if (want->fault.code == RP_OK) {
        assert_memory_equal(got->cells, want->cells, rp_results(&want->spec) * rp_cell_size(&want->spec));
        return;
    }
    assert_int_equal(got->fault.index, want->fault.index);
    assert_int_equal(got->fault.limit, want->fault.limit);
    assert_string_equal(got->fault.field, want->fault.field);
    assert_string_equal(got->fault.text, want->fault.text);
    if (want->fault.code == RP_OVERFLOW)
        assert_memory_equal(got->fault.value, want->fault.value, sizeof want->fault.value);
}

#endif
