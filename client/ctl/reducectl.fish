# fish completion for reducectl(1)

set -l ops sum min max argmin argmax count_nonzero prod minmax range mean sumsq norm1 norm2 norminf var std any all count count_nan and or xor stats rms sem median quantile kth largest smallest histogram dot wsum wmean cov corr
set -l commands ping info status metrics top put ls drop ladder help
set -l topics ops inputs csv axes values output shards resident daemon examples
set -l types "i8 u8 i16 u16 i32 u32 i64 u64 f16 bf16 f32 f64 bool"
set -l first "not __fish_seen_subcommand_from $ops $commands"
set -l reduces "__fish_seen_subcommand_from $ops"

function __reducectl_resident
    reducectl ls --no-autostart 2>/dev/null | sed 1d | cut -d' ' -f1
end

function __reducectl_out
    switch (commandline -opc)[2]
        case mean rms var std sem norm2 median wmean cov corr
            printf '%s\n' f16 bf16 f32 f64
        case and or xor
            printf '%s\n' i64 u64
        case 'arg*' 'count*' any all
            echo u64
        case '*'
            printf '%s\n' f16 bf16 f32 f64 i64 u64
    end
end

complete -c reducectl -n $first -f -a "$ops" -d operation
complete -c reducectl -n $first -f -a "$commands" -d command
complete -c reducectl -n "__fish_seen_subcommand_from help" -f -a "$ops $commands $topics"
complete -c reducectl -n "__fish_seen_subcommand_from drop" -f -a "(__reducectl_resident)"
complete -c reducectl -n "__fish_seen_subcommand_from ping info status metrics top ls" -f
complete -c reducectl -n $reduces -a "@(__reducectl_resident)"

complete -c reducectl -n "$reduces; or __fish_seen_subcommand_from put" -s t -l dtype -x -a $types -d "elements of raw files"
complete -c reducectl -n "$reduces; or __fish_seen_subcommand_from put" -l text -d "numbers as text"
complete -c reducectl -n "$reduces; or __fish_seen_subcommand_from put" -l header -d "the first line of a table has names"
complete -c reducectl -n "$reduces; or __fish_seen_subcommand_from put" -l no-header -d "it has none"
complete -c reducectl -n "$reduces; or __fish_seen_subcommand_from put" -l delimiter -x -a "tab space" -d "between fields"
complete -c reducectl -n "$reduces; or __fish_seen_subcommand_from put" -l decimal -x -d "decimal mark"
complete -c reducectl -n "$reduces; or __fish_seen_subcommand_from put" -l quote -x -a "none" -d "around fields"
complete -c reducectl -n "$reduces; or __fish_seen_subcommand_from put" -l comment -x -d "begins a comment"
complete -c reducectl -n "$reduces; or __fish_seen_subcommand_from put" -l skip-lines -x -d "before the table"
complete -c reducectl -n "$reduces; or __fish_seen_subcommand_from put" -l missing -x -d "words for missing values"
complete -c reducectl -n "$reduces; or __fish_seen_subcommand_from put" -l no-unpack -d "packed bytes as elements"
complete -c reducectl -n "$reduces; or __fish_seen_subcommand_from put" -l no-scale -d "stored values of netCDF"
complete -c reducectl -n "$reduces; or __fish_seen_subcommand_from put" -l verify -d "compare with the CRC of .npz"
complete -c reducectl -n "$reduces; or __fish_seen_subcommand_from put" -l path -x -a "inline stream shm file" -d "how the data travel"
complete -c reducectl -n "$reduces; or __fish_seen_subcommand_from put" -l deadline -x -d "milliseconds"
complete -c reducectl -n $reduces -l by -x -d "a result for each text of a column"
complete -c reducectl -n $reduces -l top -x -d "groups with the largest values"
complete -c reducectl -n $reduces -s o -l out -x -a "(__reducectl_out)" -d "type of the value"
complete -c reducectl -n $reduces -l nan -x -a "propagate omit error" -d "what a NaN does"
complete -c reducectl -n $reduces -l ddof -x -d "divide by the count less N"
complete -c reducectl -n $reduces -l q -x -a "0.25,0.5,0.75" -d "quantiles"
complete -c reducectl -n $reduces -l method -x -a "linear inverted_cdf averaged_inverted_cdf closest_observation interpolated_inverted_cdf hazen weibull median_unbiased normal_unbiased lower higher midpoint nearest" -d "of quantiles"
complete -c reducectl -n $reduces -l k -x -d "rank from 0, -1 is the last; or how many"
complete -c reducectl -n $reduces -l quantiles -d "of stats, too"
complete -c reducectl -n $reduces -l bins -x -d "of equal width"
complete -c reducectl -n $reduces -l edges -x -d "of bins"
complete -c reducectl -n $reduces -l spool -x -d "bytes read into memory at most"
complete -c reducectl -n $reduces -l initial -x -d "one more element"
complete -c reducectl -n $reduces -l wrap -d "prod modulo 2^64"
complete -c reducectl -n $reduces -l rows -x -d "equal rows"
complete -c reducectl -n $reduces -l axis -x -a "0 1 -1" -d "axes of an array"
complete -c reducectl -n $reduces -l offsets -r -d "segments"
complete -c reducectl -n $reduces -l mask -r -d "elements to keep"
complete -c reducectl -n $reduces -l weights -r -d "second operand"
complete -c reducectl -n $reduces -l drop-zero-weights -d "leave out what weighs 0"
complete -c reducectl -n $reduces -l total -d "all files as one array"
complete -c reducectl -n $reduces -l partial -d "write partial states"
complete -c reducectl -n $reduces -l merge -d "merge partial states"
complete -c reducectl -n $reduces -l index-base -x -d "where the shard starts"
complete -c reducectl -n $reduces -l shard -x -a "auto" -d "one of N equal parts"
complete -c reducectl -n $reduces -l joined -r -d "merged states of all parts"
complete -c reducectl -n $reduces -l hex -d "floats as %a"
complete -c reducectl -n $reduces -l raw -d "the bytes"
complete -c reducectl -n $reduces -l json-strings -d "large integers as strings"
complete -c reducectl -n $reduces -l progress -d "lines while it works"
complete -c reducectl -n "$reduces; or __fish_seen_subcommand_from ping info status top ls ladder" -l json -d "objects"
complete -c reducectl -n "__fish_seen_subcommand_from status" -l requests -d "those under way"
complete -c reducectl -n "__fish_seen_subcommand_from status" -l watch -d "again each second"
complete -c reducectl -n "__fish_seen_subcommand_from top" -l once -d "one frame as text"
complete -c reducectl -n $reduces -l device -x -d "device of the daemon"
complete -c reducectl -n "__fish_seen_subcommand_from put" -l device -x -d "device of the daemon"
complete -c reducectl -n "__fish_seen_subcommand_from put" -l spread -d "on all devices"
complete -c reducectl -n "__fish_seen_subcommand_from put" -l replace -d "in place of what has the name"
complete -c reducectl -n "__fish_seen_subcommand_from put" -l ttl -x -d "seconds to live"
complete -c reducectl -n "__fish_seen_subcommand_from ladder" -l rungs -x -a "(reducectl-ladder --list 2>/dev/null | cut -d' ' -f1)"
complete -c reducectl -n "__fish_seen_subcommand_from ladder" -l explain -x -a "(reducectl-ladder --list 2>/dev/null | cut -d' ' -f1)"
complete -c reducectl -n "__fish_seen_subcommand_from ladder" -l finish -x -a "relaunch atomic host"
complete -c reducectl -n "__fish_seen_subcommand_from ladder" -l plot -r
complete -c reducectl -l priority -x -a "normal high background" -d "share of a busy device"
complete -c reducectl -l connect -x -d "URL of the daemon"
complete -c reducectl -l tls-ca -r
complete -c reducectl -l tls-cert -r
complete -c reducectl -l tls-key -r
complete -c reducectl -l no-autostart -d "start no daemon"
complete -c reducectl -l wait -x -d "seconds for a daemon that is not there"
complete -c reducectl -s v -l verbose -d "tell what was done"
complete -c reducectl -s h -l help
complete -c reducectl -s V -l version
