# bash completion for orrery
_orrery() {
  local cur=${COMP_WORDS[COMP_CWORD]} command=${COMP_WORDS[1]}
  if [ "$COMP_CWORD" -eq 1 ]; then
    mapfile -t COMPREPLY < <(compgen -W "$(orrery --help 2>/dev/null | sed -n 's/^  \([a-z]*\)  .*/\1/p') --help --version" -- "$cur")
    return
  fi
  case $cur in
    -*) mapfile -t COMPREPLY < <(compgen -W "$(orrery "$command" --help 2>/dev/null | grep -o -- '--[a-z-]*' | sort -u)" -- "$cur") ;;
    *) mapfile -t COMPREPLY < <(compgen -f -- "$cur") ;;
  esac
}
complete -o filenames -F _orrery orrery
