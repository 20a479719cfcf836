/* The list of the arrays of a file of any kind that may hold several. */
#include "client/ctl/formats/container.h"

int ctl_directory_read(ctl_directory *d, ctl_kind kind, int fd, uint64_t size, bool stored, char why[CTL_WHY])
{
    *d = (ctl_directory){0};
    int err = kind == CTL_IS_ZIP           ? ctl_npz_list(d, fd, size, why)
              : kind == CTL_IS_SAFETENSORS ? ctl_safetensors_list(d, fd, size, why)
                                           : ctl_hdf5_list(d, fd, size, stored, NULL, why);
    if (!err && d->n == 0) {
        snprintf(why, CTL_WHY, "it holds no arrays");
        err = REDUCE_E_TYPE;
    }
    if (err)
        ctl_directory_free(d);
    return err;
}
