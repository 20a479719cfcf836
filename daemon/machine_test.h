/* --self-test: what an administrator runs once on a machine, and sends with a report. */
#ifndef RD_MACHINE_TEST_H
#define RD_MACHINE_TEST_H

#include "daemon/base/config.h"

/* Tries descriptors, device, sandbox, sockets, and a restart that keeps data, in a folder of its own under /tmp, and under a
 * service manager that lives as long as the test. Prints a line for each. The exit code: 0 if all is right, else 1. */
int rd_self_test(const rd_config *c);

#endif
