/* What a file is, by its first bytes. */
#include <string.h>

#include "client/ctl/formats/container.h"

#define PYTHON_SAVE "read it in Python, write the array with numpy.save"

typedef struct magic {
    ctl_kind kind;
    unsigned at, len;
    const char *bytes, *name, *advice;
} magic;

#define M(kind, at, bytes, name, advice)                          \
    {                                                             \
        CTL_IS_##kind, at, sizeof bytes - 1, bytes, name, advice, \
    }
static const magic MAGICS[] = {
    M(NPY, 0, "\x93NUMPY", ".npy", NULL),
    M(ZIP, 0, "PK\3\4", "a zip archive", NULL),
    M(ZIP, 0, "PK\5\6", "an empty zip archive", NULL),
    M(HDF5, 0, "\x89HDF\r\n\x1a\n", "HDF5", NULL),
    M(HDF5, 512, "\x89HDF\r\n\x1a\n", "HDF5", NULL), /* behind a user block: MATLAB 7.3 */
    M(GZIP, 0, "\x1f\x8b\x08", "a gzip stream", NULL),
    M(ZSTD, 0, "\x28\xb5\x2f\xfd", "a zstd stream", NULL),
    M(PACKED, 0, "BZh", "a bzip2 stream", "unpack it: bzcat FILE | reducectl OP -"),
    M(PACKED, 0,
      "\xfd"
      "7zXZ\0",
      "an xz stream", "unpack it: xzcat FILE | reducectl OP -"),
    M(PACKED, 0, "\4\x22\x4d\x18", "an lz4 stream", "unpack it: lz4cat FILE | reducectl OP -"),
    M(PACKED, 0, "\2\x21\x4c\x18", "an lz4 stream", "unpack it: lz4cat FILE | reducectl OP -"),
    M(PACKED, 0, "LZIP\1", "an lzip stream", "unpack it: lzip -dc FILE | reducectl OP -"),
    M(PACKED, 0, "\x89LZO\0\r\n\x1a\n", "an lzop stream", "unpack it: lzop -dc FILE | reducectl OP -"),
    M(PACKED, 0, "\xff\6\0\0sNaPpY", "a snappy stream", "unpack it"),
    M(PACKED, 0, "\x1f\x9d\x90", "a stream of compress", "unpack it: zcat FILE | reducectl OP -"),
    M(PACKED, 0, "\x5d\0\0\x80\0", "an lzma stream", "unpack it: xzcat FILE | reducectl OP -"),
    M(PACKED, 0, "\x25\xb5\x2f\xfd", "a zstd stream of 2015", "unpack it"),
    M(PACKED, 0, "\x26\xb5\x2f\xfd", "a zstd stream of 2016", "unpack it"),
    M(PACKED, 0, "\x27\xb5\x2f\xfd", "a zstd stream of 2016", "unpack it"),
    M(PACKED, 0, "PK\7\x08", "a zip archive in parts", "unpack it"),
    M(PACKED, 0, "Rar!\x1a\7", "a RAR archive", "unpack it"),
    M(PACKED, 0, "7z\xbc\xaf\x27\x1c", "a 7z archive", "unpack it"),
    M(PACKED, 257, "ustar", "a tar archive", "unpack it: tar -xOf FILE MEMBER | reducectl OP -"),
    M(PACKED, 0, "PAR1", "a Parquet file",
      "duckdb -unsigned -c \"load './reduced.duckdb_extension'; select exact_sum(COLUMN) from 'FILE'\""),
    M(PACKED, 0, "ARROW1", "an Arrow file (Feather)", "read it with pyarrow.feather, write the column with numpy.save"),
    M(PACKED, 0, "FEA1", "a Feather file", "read it with pyarrow.feather, write the column with numpy.save"),
    M(PACKED, 0, "ORC", "an ORC file", "read it with pyarrow.orc, write the column with numpy.save"),
    M(PACKED, 0, "Obj\1", "an Avro file", PYTHON_SAVE),
    M(PACKED, 0, "GGUF", "a GGUF model", "read it with gguf.GGUFReader in Python, write the tensor with numpy.save"),
    M(PACKED, 0, "CDF\1", "a netCDF classic file", "make it netCDF-4: nccopy -k nc4 FILE NEW.nc"),
    M(PACKED, 0, "CDF\2", "a netCDF classic file", "make it netCDF-4: nccopy -k nc4 FILE NEW.nc"),
    M(PACKED, 0, "CDF\5", "a netCDF classic file", "make it netCDF-4: nccopy -k nc4 FILE NEW.nc"),
    M(PACKED, 0, "\x0e\3\x13\1", "an HDF4 file", "make it HDF5: h4toh5 FILE NEW.h5"),
    M(PACKED, 0, "GRIB", "a GRIB file", "make it netCDF-4: grib_to_netcdf -k 4 -o NEW.nc FILE"),
    M(PACKED, 344, "n+1\0", "a NIfTI image", "read it with nibabel in Python, write the array with numpy.save"),
    M(PACKED, 0, "NRRD000", "an NRRD image", "read it with pynrrd in Python, write the array with numpy.save"),
    M(PACKED, 0, "RDX2\n", "a file of R", "write the numbers with write.csv in R"),
    M(PACKED, 0, "RDX3\n", "a file of R", "write the numbers with write.csv in R"),
    M(PACKED, 0, "X\n\0\0\0\2", "a file of R", "write the numbers with write.csv in R"),
    M(PACKED, 0, "X\n\0\0\0\3", "a file of R", "write the numbers with write.csv in R"),
    M(PACKED, 0, "SIMPLE  =", "a FITS file", "read it with astropy.io.fits, write the array with numpy.save"),
    M(PACKED, 0, "MATLAB 5", "a MATLAB file", "read it with scipy.io.loadmat, write the array with numpy.save"),
    M(PACKED, 0, "SQLite format 3", "an SQLite database", "sqlite3 FILE 'select COLUMN from TABLE' | reducectl OP --text -"),
    M(FOREIGN, 0, "\x89PNG", "a PNG picture", PYTHON_SAVE),
    M(FOREIGN, 0, "\xff\xd8\xff", "a JPEG picture", PYTHON_SAVE),
    M(FOREIGN, 0, "GIF8", "a GIF picture", PYTHON_SAVE),
    M(FOREIGN, 0, "II*\0", "a TIFF picture", PYTHON_SAVE),
    M(FOREIGN, 0, "MM\0*", "a TIFF picture", PYTHON_SAVE),
    M(FOREIGN, 8, "WEBP", "a WebP picture", PYTHON_SAVE),
    M(FOREIGN, 8, "WAVE", "a WAV recording", "sox FILE -t f64 - | reducectl OP --dtype f64 -"),
    M(FOREIGN, 0, "%PDF-", "a PDF document", "it is not an array"),
    M(FOREIGN, 0,
      "\x7f"
      "ELF",
      "a program (ELF)", "it is not an array"),
    M(FOREIGN, 0, "\x80\2", "a Python pickle", PYTHON_SAVE),
    M(FOREIGN, 0, "\x80\3", "a Python pickle", PYTHON_SAVE),
    M(FOREIGN, 0, "\x80\4\x95", "a Python pickle", PYTHON_SAVE),
    M(FOREIGN, 0, "\x80\5\x95", "a Python pickle", PYTHON_SAVE),
};

/* A length of 8 bytes and a JSON object. There is no magic number, so all bytes that were read must fit this form. */
static bool is_safetensors(const uint8_t *head, size_t len)
{
    uint64_t json = 0;
    if (len < 10 || head[8] != '{')
        return false;
    memcpy(&json, head, sizeof json);
    if (json < 2 || json > CTL_SAFETENSORS_MAX_HEADER)
        return false;
    for (size_t i = 9; i < len && i < json + 8; i++)
        if (head[i] < ' ' && head[i] != '\n' && head[i] != '\t' && head[i] != '\r')
            return false;
    return true;
}

/* White space and printable characters, above 127 in any encoding: no control characters. */
static bool is_text(const uint8_t *head, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if ((head[i] < ' ' && (head[i] < '\t' || head[i] > '\r')) || head[i] == 127)
            return false;
    return len > 0;
}

/* Bytes above 127 of text are UTF-8: each begins a character, or goes on in one. */
static bool is_utf8(const uint8_t *head, size_t len)
{
    for (size_t i = 0; i < len;) {
        size_t n = head[i] < 0x80 ? 1 : head[i] < 0xc2 ? 0 : head[i] < 0xe0 ? 2 : head[i] < 0xf0 ? 3 : head[i] < 0xf5 ? 4 : 0;
        if (n == 0)
            return false;
        for (size_t k = 1; k < n && i + k < len; k++)
            if ((head[i + k] & 0xc0) != 0x80)
                return false;
        i += n;
    }
    return true;
}

/* Frames that decoders of zstd and lz4 skip may be in front of a stream: pzstd writes one. Returns where it begins. */
static size_t behind_skippable(const uint8_t *head, size_t len)
{
    size_t at = 0;
    uint32_t n;
    while (at < len && len - at >= 8 && head[at] >> 4 == 5 && !memcmp(head + at + 1, "\x2a\x4d\x18", 3)) {
        memcpy(&n, head + at + 4, sizeof n);
        at += 8 + (size_t)n;
    }
    return at;
}

static ctl_sniffed behind_frames(const uint8_t *head, size_t len, size_t at)
{
    if (at + 4 <= len && !memcmp(head + at, "\4\x22\x4d\x18", 4))
        return ctl_sniff(head + at, len - at);
    return (ctl_sniffed){CTL_IS_ZSTD, "a zstd stream", NULL};
}

static bool is_utf32(const uint8_t *head, size_t len)
{
    return len >= 4 && (!memcmp(head, "\xff\xfe\0\0", 4) || !memcmp(head, "\0\0\xfe\xff", 4));
}

static bool is_utf16(const uint8_t *head, size_t len)
{
    return len >= 2 && ((head[0] == 0xff && head[1] == 0xfe) || (head[0] == 0xfe && head[1] == 0xff));
}

ctl_sniffed ctl_sniff(const uint8_t *head, size_t len)
{
    size_t at_stream = behind_skippable(head, len);
    if (at_stream)
        return behind_frames(head, len, at_stream);
    if (is_safetensors(head, len))
        return (ctl_sniffed){CTL_IS_SAFETENSORS, "safetensors", NULL};
    /* from the back: HDF5 and tar before what the bytes in front of them say */
    for (unsigned at = 1 + 512; at--;)
        for (size_t i = 0; i < sizeof MAGICS / sizeof *MAGICS; i++)
            if (MAGICS[i].at == at && at + MAGICS[i].len <= len && !memcmp(head + at, MAGICS[i].bytes, MAGICS[i].len))
                return (ctl_sniffed){MAGICS[i].kind, MAGICS[i].name, MAGICS[i].advice};
    if (is_text(head, len) && is_utf8(head, len))
        return (ctl_sniffed){CTL_IS_TEXT, "text", NULL};
    if (is_utf32(head, len))
        return (ctl_sniffed){CTL_IS_OTHER_TEXT, "text in UTF-32", "make it UTF-8: iconv -f UTF-32 -t UTF-8 FILE > NEW"};
    if (is_utf16(head, len))
        return (ctl_sniffed){CTL_IS_OTHER_TEXT, "text in UTF-16", "make it UTF-8: iconv -f UTF-16 -t UTF-8 FILE > NEW"};
    if (is_text(head, len))
        return (ctl_sniffed){CTL_IS_OTHER_TEXT, "text in Latin-1 or another encoding of a byte a character",
                             "make it UTF-8: iconv -f LATIN1 -t UTF-8 FILE > NEW"};
    return (ctl_sniffed){CTL_IS_RAW, "raw elements", NULL};
}
