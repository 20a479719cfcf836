#include "daemon/base/file_systems.h"

#include <inttypes.h>

/* In the order of rd_files_from; then those of the kernel itself. */
typedef enum { LOCAL, NETWORK, ANY, NEVER } reading;

/* Magic numbers from linux/magic.h and from the file systems' own sources. An unknown number may be any kind of file system. */
static const struct {
    uint32_t number;
    reading reading;
    const char *name;
} table[] = {
    {0xef53, LOCAL, "ext4"},          {0x58465342, LOCAL, "xfs"},        {0x9123683e, LOCAL, "btrfs"},
    {0xf2f52010, LOCAL, "f2fs"},      {0x2fc12fc1, LOCAL, "zfs"},        {0xca451a4e, LOCAL, "bcachefs"},
    {0x01021994, LOCAL, "tmpfs"},     {0x858458f6, LOCAL, "ramfs"},      {0x958458f6, LOCAL, "hugetlbfs"},
    {0x794c7630, LOCAL, "overlay"},   {0x73717368, LOCAL, "squashfs"},   {0xe0f5e1e2, LOCAL, "erofs"},
    {0x9660, LOCAL, "iso9660"},       {0x15013346, LOCAL, "udf"},        {0x4d44, LOCAL, "vfat"},
    {0x2011bab0, LOCAL, "exfat"},     {0x7366746e, LOCAL, "ntfs3"},      {0x3153464a, LOCAL, "jfs"},
    {0x6969, NETWORK, "nfs"},         {0xff534d42, NETWORK, "cifs"},     {0xfe534d42, NETWORK, "smb2"},
    {0x01021997, NETWORK, "9p"},      {0x00c36400, NETWORK, "ceph"},     {0x5346414f, NETWORK, "afs"},
    {0x0bd00bd0, NETWORK, "lustre"},  {0x47504653, NETWORK, "gpfs"},     {0x19830326, NETWORK, "beegfs"},
    {0x01161970, NETWORK, "gfs2"},    {0x7461636f, NETWORK, "ocfs2"},    {0x65735546, ANY, "fuse"},
    {0x9fa0, NEVER, "proc"},          {0x62656572, NEVER, "sysfs"},      {0x64626720, NEVER, "debugfs"},
    {0x74726163, NEVER, "tracefs"},   {0x73636673, NEVER, "securityfs"}, {0x62656570, NEVER, "configfs"},
    {0x27e0eb, NEVER, "cgroup"},      {0x63677270, NEVER, "cgroup2"},    {0xcafe4a11, NEVER, "bpf"},
    {0x6165676c, NEVER, "pstore"},    {0xde5e81e4, NEVER, "efivarfs"},   {0xf97cff8c, NEVER, "selinuxfs"},
    {0x43415d53, NEVER, "smackfs"},   {0x6e736673, NEVER, "nsfs"},       {0x42494e4d, NEVER, "binfmt_misc"},
    {0x1cd1, NEVER, "devpts"},        {0x19800202, NEVER, "mqueue"},     {0x7655821, NEVER, "resctrl"},
    {0x50494446, NEVER, "pidfs"},     {0x65735543, NEVER, "fusectl"},    {0x67596969, NEVER, "rpc_pipefs"},
    {0x5345434d, NEVER, "secretmem"},
};

rp_err rd_file_system_check(uint64_t number, rd_files_from from, rp_fault *f)
{
    reading how = ANY;
    const char *name = "unknown";
    for (unsigned i = 0; i < sizeof table / sizeof table[0]; i++)
        if (table[i].number == (uint32_t)number) {
            how = table[i].reading;
            name = table[i].name;
        }
    if ((int)how <= (int)from)
        return RP_OK;
    return rp_fail(f, RP_IO, "file", number, "the daemon reads no files of this file system (%s, 0x%" PRIx64 ")", name, number);
}
