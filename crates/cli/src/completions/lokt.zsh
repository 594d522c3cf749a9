#compdef lokt
# Completions of lokt for zsh. In ~/.zshrc, after compinit:  source <(lokt completions zsh)
# Or as a file named _lokt in a directory of $fpath.
_lokt() {
    local -a answer candidates
    local line word about skip
    answer=("${(@f)$(command lokt complete -- "${(@Q)words[2,CURRENT]}" 2>/dev/null)}")
    case $answer[1] in
        (':command '*)
            skip=${answer[1]#:command }
            shift $skip words
            (( CURRENT -= skip ))
            _normal
            ;;
        (:file) _files ;;
        (:dir) _files -/ ;;
        (*)
            for line in "${answer[@]}"; do
                word=${line%% *}
                [[ -n $word ]] || continue
                about=
                [[ $line == *' '* ]] && about=${line#* }
                candidates+=("${word//:/\\:}${about:+:$about}")
            done
            _describe -t lokt lokt candidates
            ;;
    esac
}
if [[ $funcstack[1] == _lokt ]]; then
    _lokt "$@"
else
    compdef _lokt lokt
fi
