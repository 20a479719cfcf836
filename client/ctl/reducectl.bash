# bash completion for reducectl(1)

# Types that the operation's value can have: $1 is the operation, or several with commas between.
_reducectl_out()
{
    local op found=
    for op in ${1//,/ }; do
        case $op in
        sum | prod | min | max | minmax | range | sumsq | norm1 | norminf | quantile | kth | largest | smallest) found+=" f16 bf16 f32 f64 i64 u64" ;;
        mean | rms | var | std | sem | norm2 | median) found+=" f16 bf16 f32 f64" ;;
        and | or | xor) found+=" i64 u64" ;;
        arg* | count* | any | all | histogram) found+=" u64" ;;
        esac
    done
    echo "$found"
}

# Replies to the current word; behind "--option=" only what follows that.
_reducectl_reply()
{
    mapfile -t COMPREPLY < <(compgen -W "$1" -- "$cur")
}

_reducectl_files()
{
    compopt -o filenames
    mapfile -t COMPREPLY < <(compgen -f -- "$cur")
}

_reducectl()
{
    local ops="sum min max argmin argmax count_nonzero prod minmax range mean sumsq norm1 norm2 norminf var std
        any all count count_nan and or xor stats rms sem median quantile kth largest smallest histogram dot wsum wmean cov corr"
    local commands="ping info status metrics top put ls drop ladder help"
    local topics="ops inputs csv axes values output shards resident daemon examples"
    local types="i8 u8 i16 u16 i32 u32 i64 u64 f16 bf16 f32 f64 bool"
    local daemon="--priority --verbose --connect --tls-ca --tls-cert --tls-key --no-autostart --wait --help --version"
    local reduce="--dtype --out --nan --ddof --q --method --k --quantiles --bins --edges --spool --initial --wrap --rows --axis --offsets --mask --weights --drop-zero-weights --text --total --device --partial --merge
        --header --no-header --delimiter --decimal --quote --comment --skip-lines --missing --by --top --no-unpack --no-scale --verify
        --index-base --shard --joined --path --hex --json --json-strings --raw --progress --deadline"
    local ladder="--n --block --rungs --finish --dtype --repeat --device --check --json --csv --plot --explain --from --list --help --version"
    local words cword cur prev command='' i

    # readline cuts words at "=" and ":"; with them whole, --dtype=f is one word.
    words=("${COMP_WORDS[@]}")
    cword=$COMP_CWORD
    cur=${words[cword]}
    prev=${words[cword - 1]}
    if [[ $cur == = ]]; then
        cur=
    elif [[ $prev == = && cword -gt 1 ]]; then
        prev=${words[cword - 2]}
    fi
    for ((i = 1; i < cword; i++)); do
        [[ ${words[i]} == -* || ${words[i - 1]} == -[to] || ${words[i - 1]} == --@(dtype|out|nan|priority|path|connect|tls-*) || ${words[i]} == = || ${words[i - 1]} == = ]] && continue
        command=${words[i]}
        break
    done

    COMPREPLY=()
    if [[ $command == ladder ]]; then
        case $prev in
        --rungs | --explain) _reducectl_reply "$(reducectl-ladder --list 2>/dev/null | cut -d' ' -f1)" ;;
        --finish) _reducectl_reply "relaunch atomic host" ;;
        -t | --dtype) _reducectl_reply "i32 f32" ;;
        --plot | --from) _reducectl_files ;;
        *) _reducectl_reply "$ladder" ;;
        esac
        return
    fi
    case $prev in
    -t | --dtype) _reducectl_reply "$types"; return ;;
    -o | --out) _reducectl_reply "$(_reducectl_out "$command")"; return ;;
    --nan) _reducectl_reply "propagate omit error"; return ;;
    --axis) _reducectl_reply "0 1 -1"; return ;;
    --q) _reducectl_reply "0.25,0.5,0.75"; return ;;
    --method) _reducectl_reply "linear inverted_cdf averaged_inverted_cdf closest_observation interpolated_inverted_cdf hazen weibull median_unbiased
            normal_unbiased lower higher midpoint nearest"; return ;;
    --priority) _reducectl_reply "normal high background"; return ;;
    --path) _reducectl_reply "inline stream shm file"; return ;;
    --shard) _reducectl_reply "auto"; return ;;
    --delimiter) _reducectl_reply "tab space"; return ;;
    --quote) _reducectl_reply "none"; return ;;
    --mask | --weights | --offsets | --joined | --tls-ca | --tls-cert | --tls-key) _reducectl_files; return ;;
    --decimal | --comment | --skip-lines | --missing | --by | --top | --rows | --ddof | --k | --bins | --edges | --spool | --initial | --index-base | --deadline | --ttl | --connect | --wait | --device) return ;;
    esac
    if [[ $cur == -* ]]; then
        case $command in
        "") _reducectl_reply "--help --version" ;;
        status) _reducectl_reply "--json --requests --watch $daemon" ;;
        ping | info | ls) _reducectl_reply "--json $daemon" ;;
        top) _reducectl_reply "--once --json $daemon" ;;
        put) _reducectl_reply "--replace --ttl --device --spread --dtype --text --path --deadline --header --no-header
            --delimiter --decimal --quote --comment --skip-lines --missing --no-unpack --no-scale --verify $daemon" ;;
        metrics | drop) _reducectl_reply "$daemon" ;;
        help) ;;
        *) _reducectl_reply "$reduce $daemon" ;;
        esac
        return
    fi
    if [[ $cur == @* || $command == drop ]]; then
        local prefix=${cur%%[!@]*}
        mapfile -t COMPREPLY < <(compgen -P "$prefix" -W "$(reducectl ls --no-autostart 2>/dev/null | sed 1d | cut -d' ' -f1)" -- "${cur#@}")
        return
    fi
    # The first word that is not an option is the operation, or several, separated by commas; files follow.
    case $command in
    "") if [[ $cur == *,* ]]; then
            mapfile -t COMPREPLY < <(compgen -P "${cur%,*}," -W "${ops/stats/}" -- "${cur##*,}")
        else
            _reducectl_reply "$ops $commands"
        fi ;;
    help) _reducectl_reply "$ops $commands $topics" ;;
    ping | info | status | metrics | top | ls) ;;
    *) _reducectl_files ;;
    esac
}
complete -F _reducectl reducectl
