# Completions of lokt for bash. In ~/.bashrc:  source <(lokt completions bash)
_lokt() {
    local -a answer
    local line first
    COMPREPLY=()
    mapfile -t answer < <(command lokt complete -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
    case ${answer[0]-} in
        ":command "*)
            first=${answer[0]#:command }
            if declare -F _comp_command_offset >/dev/null; then
                _comp_command_offset "$first"
            elif declare -F _command_offset >/dev/null; then
                _command_offset "$first"
            elif [ "$COMP_CWORD" -eq "$first" ]; then
                compopt -o filenames 2>/dev/null
                mapfile -t COMPREPLY < <(compgen -c -- "${COMP_WORDS[COMP_CWORD]}" | sort -u; compgen -d -- "${COMP_WORDS[COMP_CWORD]}")
            else
                compopt -o filenames 2>/dev/null
                mapfile -t COMPREPLY < <(compgen -f -- "${COMP_WORDS[COMP_CWORD]}")
            fi
            ;;
        :file | :dir)
            compopt -o filenames 2>/dev/null
            line=-f
            [ "${answer[0]}" = :file ] || line=-d
            mapfile -t COMPREPLY < <(compgen "$line" -- "${COMP_WORDS[COMP_CWORD]}")
            ;;
        *)
            for line in "${answer[@]}"; do
                COMPREPLY+=("${line%% *}")
            done
            ;;
    esac
}
complete -F _lokt lokt
