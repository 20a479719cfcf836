/* The number of a cap within a message that is a constant. The cap is a #define of digits. */
#ifndef RD_CAP_TEXT_H
#define RD_CAP_TEXT_H

#define RD_CAP_TEXT(cap) RD_CAP_TEXT_(cap)
#define RD_CAP_TEXT_(digits) #digits

#endif
