/* The number of a cap as text, for messages that are constants. The cap must be a #define of digits. */
#ifndef RD_CAP_TEXT_H
#define RD_CAP_TEXT_H

#define RD_CAP_TEXT(cap) RD_CAP_TEXT_(cap)
#define RD_CAP_TEXT_(digits) #digits

#endif
