# bash completion for reducectl(1)

_reducectl()
{
    local ops="sum min max argmin argmax count_nonzero"
    local types="i8 u8 i16 u16 i32 u32 i64 u64 f16 bf16 f32 f64"
    local options="--dtype --out --nan --rows --text --total --hex --json --raw --verbose --connect --no-autostart
        --deadline --help --version"
    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]} i

    COMPREPLY=()
    case $prev in
    -t | --dtype | -o | --out)
        mapfile -t COMPREPLY < <(compgen -W "$types" -- "$cur")
        return
        ;;
    --nan)
        mapfile -t COMPREPLY < <(compgen -W "propagate omit error" -- "$cur")
        return
        ;;
    --rows | --deadline | --connect)
        return
        ;;
    esac
    if [[ $cur == -* ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$options" -- "$cur")
        return
    fi
    # The first word that is no option is the operation; files follow.
    for ((i = 1; i < COMP_CWORD; i++)); do
        if [[ " $ops " == *" ${COMP_WORDS[i]} "* ]]; then
            compopt -o filenames
            mapfile -t COMPREPLY < <(compgen -f -- "$cur")
            return
        fi
    done
    mapfile -t COMPREPLY < <(compgen -W "$ops ping info status" -- "$cur")
}
complete -F _reducectl reducectl
