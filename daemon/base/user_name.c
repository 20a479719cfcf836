#include "daemon/base/user_name.h"

#include <string.h>
#include <strings.h>

#include "daemon/base/cap_text.h"

/* <ctype.h> is not used, because it depends on the locale. */
static bool is_plain(char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

const char *rd_user_name_problem(const char *name, size_t n)
{
    if (n == 0)
        return "the name is empty";
    if (n > RD_USER_NAME)
        return "the name is longer than " RD_CAP_TEXT(RD_USER_NAME) " bytes";
    if (!is_plain(name[0]))
        return "the name does not begin with a letter or a digit";
    for (size_t i = 0; i < n; i++)
        if (!is_plain(name[i]) && (!name[i] || !strchr("._-@+", name[i])))
            return "the name has other characters than letters, digits and . _ - @ +";
    return NULL;
}

bool rd_user_names_look_alike(const char *a, const char *b) { return strcasecmp(a, b) == 0; }
