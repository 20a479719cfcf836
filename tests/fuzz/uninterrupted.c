/* Stands in for interrupt.c, which needs a client: nobody presses Ctrl-C here. */
#include "client/ctl/ctl.h"

bool ctl_interrupted(void) { return false; }
