/* Numbers of the rows of types.def by their codes, which are below 64. RK_NUMBER(ROWS, code) is the number that COLUMN(...)
 * gives, with its code, of a row: from a table in C. nvcc gets neither a switch, behind which it makes all that follows once
 * for each number, nor a table, which device code cannot read: bit b of the number is in a word that has a bit for each row. */
#ifndef RK_ROW_NUMBERS_H
#define RK_ROW_NUMBERS_H

#include <stdint.h>

#ifndef __cplusplus

#define RK_ENTRY_OF(number, code) [code] = (uint8_t)(number),
#define RK_ENTRY_IN(...) RK_ENTRY_OF(__VA_ARGS__)
#define RK_ENTRY(...) RK_ENTRY_IN(COLUMN(__VA_ARGS__))
#define RK_NUMBER(ROWS, code)                                  \
    __extension__({                                            \
        static const uint8_t number_of[64] = {ROWS(RK_ENTRY)}; \
        (int)number_of[code];                                  \
    })

#else

#define RK_PLANE_OF(bit, number, code) | (uint64_t)((number) >> (bit)&1) << (code)
#define RK_PLANE(bit, ...) RK_PLANE_OF(bit, __VA_ARGS__)
#define RK_PLANE0(...) RK_PLANE(0, COLUMN(__VA_ARGS__))
#define RK_PLANE1(...) RK_PLANE(1, COLUMN(__VA_ARGS__))
#define RK_PLANE2(...) RK_PLANE(2, COLUMN(__VA_ARGS__))
#define RK_PLANE3(...) RK_PLANE(3, COLUMN(__VA_ARGS__))
#define RK_PLANE4(...) RK_PLANE(4, COLUMN(__VA_ARGS__))
#define RK_PLANE5(...) RK_PLANE(5, COLUMN(__VA_ARGS__))
#define RK_PLANE6(...) RK_PLANE(6, COLUMN(__VA_ARGS__))
#define RK_PLANE7(...) RK_PLANE(7, COLUMN(__VA_ARGS__))
#define RK_BIT(ROWS, code, b) (int)(((uint64_t)0 ROWS(RK_PLANE##b)) >> (code)&1) << b
#define RK_NUMBER(ROWS, code)                                                                                                \
    (RK_BIT(ROWS, code, 0) | RK_BIT(ROWS, code, 1) | RK_BIT(ROWS, code, 2) | RK_BIT(ROWS, code, 3) | RK_BIT(ROWS, code, 4) | \
     RK_BIT(ROWS, code, 5) | RK_BIT(ROWS, code, 6) | RK_BIT(ROWS, code, 7))

#endif

#endif
