# bash completion for reducectl(1)

_reducectl()
{
    local ops="sum min max argmin argmax count_nonzero prod minmax range mean sumsq norm1 norm2 norminf var std
        any all count count_nan and or xor stats rms sem"
    local types="i8 u8 i16 u16 i32 u32 i64 u64 f16 bf16 f32 f64"
    local options="--dtype --out --nan --ddof --initial --wrap --rows --axis --offsets --mask --text --total --partial --merge
        --index-base --path --priority --hex --json --raw --verbose --connect --tls-ca --tls-cert --tls-key --no-autostart --replace --ttl --deadline --once --requests --help --version"
    local ladder="--n --block --rungs --finish --dtype --repeat --device --check --json --csv --plot --from --list --help --version"
    local words=${ops//[[:space:]]/ }
    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]} i

    COMPREPLY=()
    if [[ ${COMP_WORDS[1]} == ladder && COMP_CWORD -gt 1 ]]; then
        case $prev in
        --rungs) mapfile -t COMPREPLY < <(compgen -W "$(reducectl-ladder --list 2>/dev/null | cut -d' ' -f1)" -- "$cur") ;;
        --finish) mapfile -t COMPREPLY < <(compgen -W "relaunch atomic host" -- "$cur") ;;
        -t | --dtype) mapfile -t COMPREPLY < <(compgen -W "i32 f32" -- "$cur") ;;
        --plot | --from) mapfile -t COMPREPLY < <(compgen -f -- "$cur") ;;
        *) mapfile -t COMPREPLY < <(compgen -W "$ladder" -- "$cur") ;;
        esac
        return
    fi
    case $prev in
    -t | --dtype | -o | --out)
        mapfile -t COMPREPLY < <(compgen -W "$types" -- "$cur")
        return
        ;;
    --nan)
        mapfile -t COMPREPLY < <(compgen -W "propagate omit error" -- "$cur")
        return
        ;;
    --axis)
        mapfile -t COMPREPLY < <(compgen -W "0 1" -- "$cur")
        return
        ;;
    --priority)
        mapfile -t COMPREPLY < <(compgen -W "normal high background" -- "$cur")
        return
        ;;
    --path)
        mapfile -t COMPREPLY < <(compgen -W "inline stream shm file" -- "$cur")
        return
        ;;
    --mask | --offsets | --tls-ca | --tls-cert | --tls-key)
        compopt -o filenames
        mapfile -t COMPREPLY < <(compgen -f -- "$cur")
        return
        ;;
    --rows | --ddof | --initial | --index-base | --deadline | --ttl | --connect)
        return
        ;;
    esac
    if [[ $cur == -* ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$options" -- "$cur")
        return
    fi
    if [[ $cur == @* || ${COMP_WORDS[1]} == drop ]]; then
        local prefix=${cur%%[!@]*}
        mapfile -t COMPREPLY < <(compgen -P "$prefix" -W "$(reducectl ls --no-autostart 2>/dev/null | sed 1d | cut -d' ' -f1)" -- "${cur#@}")
        return
    fi
    # The first word that is no option is the operation; files follow.
    for ((i = 1; i < COMP_CWORD; i++)); do
        if [[ " $words put " == *" ${COMP_WORDS[i]} "* && $cur != @* ]]; then
            compopt -o filenames
            mapfile -t COMPREPLY < <(compgen -f -- "$cur")
            return
        fi
    done
    mapfile -t COMPREPLY < <(compgen -W "$ops ping info status metrics top put ls drop ladder" -- "$cur")
}
complete -F _reducectl reducectl
