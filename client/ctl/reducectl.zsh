#compdef reducectl
# zsh completion for reducectl(1)

_reducectl_resident() {
  local -a names
  names=(${(f)"$(reducectl ls --no-autostart 2>/dev/null | sed 1d | cut -d' ' -f1)"})
  compadd "$@" -a names
}

_reducectl_inputs() {
  if [[ $PREFIX == @* ]]; then
    compset -P '@'
    _reducectl_resident -p @
  else
    _files
  fi
}

_reducectl() {
  local -a ops commands topics daemon tables
  local types='i8 u8 i16 u16 i32 u32 i64 u64 f16 bf16 f32 f64 bool' out='f16 bf16 f32 f64 i64 u64'
  ops=(sum min max argmin argmax count_nonzero prod minmax range mean sumsq norm1 norm2 norminf var std any all count count_nan and or xor stats rms sem median quantile kth largest smallest histogram dot wsum wmean cov corr)
  commands=(ping info status metrics top put ls drop ladder help)
  topics=(ops inputs csv axes values output shards resident daemon examples)
  daemon=('--priority[share of a busy device]:class:(normal high background)' '(-v --verbose)'{-v,--verbose}'[tell what was done]'
    '--connect[URL of the daemon]:url:' '--tls-ca[trusted CAs]:file:_files' '--tls-cert[our certificate]:file:_files'
    '--tls-key[its key]:file:_files' '--no-autostart[start no daemon]' '--wait[for a daemon that is not there]:seconds:' '(-h --help)'{-h,--help}'[help]' '(-V --version)'{-V,--version}'[version]')
  tables=('(--no-header)--header[names in the first line]' '(--header)--no-header[none there]' '--delimiter[between fields]:character:(tab space)'
    '--decimal[mark]:character:' '--quote[around fields]:character:(none)' '--comment[begins one]:character:' '--skip-lines[before the table]:n:'
    '--missing[words for missing values]:list:' '--no-unpack[packed bytes as elements]' '--no-scale[stored values of netCDF]' '--verify[compare with the CRC of .npz]')
  if (( CURRENT == 2 )); then
    if [[ $PREFIX == *,* ]]; then
      compset -P '*,'
      compadd -S '' -- ${ops:#stats}
    else
      _alternative 'operations:operation:compadd -a ops' 'commands:command:compadd -a commands'
    fi
    return
  fi
  case $words[2] in
    (mean|rms|var|std|sem|norm2|median|wmean|cov|corr) out='f16 bf16 f32 f64' ;;
    (and|or|xor) out='i64 u64' ;;
    (arg*|count*|any|all|histogram) out=u64 ;;
  esac
  local command=$words[2]
  shift words
  (( CURRENT-- ))
  case $command in
    (status) _arguments '--json[as an object]' '--requests[those under way]' '--watch[again each second]' $daemon ;;
    (ping|info|ls) _arguments '--json[as an object]' $daemon ;;
    (top) _arguments '--once[one frame as text]' '--json[objects]' $daemon ;;
    (metrics) _arguments $daemon ;;
    (help) _alternative 'operations:operation:compadd -a ops' 'commands:command:compadd -a commands' 'topics:topic:compadd -a topics' ;;
    (drop) _arguments $daemon '*:name:_reducectl_resident' ;;
    (put) _arguments '--replace[in place of what has the name]' '--ttl[seconds to live]:seconds:' '--device[of the daemon]:n:' '--spread[on all devices]' "(-t --dtype)"{-t,--dtype}"[elements of a raw file]:type:($types)" \
      '--text[numbers as text]' '--path[how the data travel]:path:(inline stream shm file)' '--deadline[milliseconds]:ms:' $tables $daemon '1:name:' '2:file:_files' ;;
    (ladder) _arguments '--n[elements]:list:' '--block[threads]:list:' "--rungs[which]:list:($(reducectl-ladder --list 2>/dev/null | cut -d' ' -f1))" \
      '--finish[of the blocks]:how:(relaunch atomic host)' '--dtype[elements]:type:(i32 f32)' '--repeat[timed runs]:n:' '--device[CUDA device]:n:' '--check[sums only]' \
      '--json[objects]' '--csv[table with commas]' '--plot[a picture]:file:_files' '--explain[the page of a kernel]:rung:' '--from[an earlier run]:file:_files' '--list[name the rungs]' ;;
    (*) _arguments "(-t --dtype)"{-t,--dtype}"[elements of raw files]:type:($types)" "(-o --out)"{-o,--out}"[type of the value]:type:($out)" \
      '--nan[what a NaN does]:policy:(propagate omit error)' '--ddof[divide by the count less N]:n:' '--q[quantiles]:list:(0.25,0.5,0.75)' '--method[of quantiles]:method:(linear inverted_cdf averaged_inverted_cdf closest_observation interpolated_inverted_cdf hazen weibull median_unbiased normal_unbiased lower higher midpoint nearest)' \
      '--k[rank from 0, or how many]:k:' '--quantiles[of stats, too]' '--bins[of equal width]:n:' '--edges[of bins]:list:' '--spool[bytes read into memory at most]:bytes:' '--initial[one more element]:value:' '--wrap[modulo 2^64]' \
      '--rows[equal rows]:n:' '--axis[axes]:axes:(0 1 -1)' '--offsets[segments]:file:_files' '--mask[elements to keep]:file:_files' '--weights[second operand]:file:_files' '--drop-zero-weights[leave out what weighs 0]' '--by[a result for each text of a column]:columns:' '--top[groups with the largest values]:n:' '--text[numbers as text]' \
      '--total[all files as one]' '--device[of the daemon]:n:' '--partial[write states]' '--merge[merge states]' '--index-base[where the shard starts]:n:' \
      '--shard[one of N equal parts]:part:(auto)' '--joined[merged states of all parts]:file:_files' \
      '--path[how the data travel]:path:(inline stream shm file)' '--hex[as %a]' '--json[objects]' '--json-strings[large integers as strings]' '--raw[bytes]' \
      '--progress[lines while it works]' '--deadline[milliseconds]:ms:' $tables $daemon '*:file:_reducectl_inputs' ;;
  esac
}

_reducectl "$@"
