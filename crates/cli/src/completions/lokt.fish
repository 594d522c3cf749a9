# Completions of lokt for fish. Save as ~/.config/fish/completions/lokt.fish
function __lokt_complete
    set -l words (commandline -opc)
    set -l last (commandline -ct)
    set -l answer (command lokt complete -- $words[2..-1] "$last" 2>/dev/null)
    switch "$answer[1]"
        case ':command *'
            # Fish counts from one, and lokt is its first word.
            set -l first (math (string replace ':command ' '' -- $answer[1]) + 1)
            set -l command
            if test $first -le (count $words)
                set command (string escape -- $words[$first..-1])
            end
            complete -C (string join ' ' -- $command "$last")
        case :file
            __fish_complete_path "$last"
        case :dir
            __fish_complete_directories "$last" ''
        case '*'
            string replace ' ' \t -- $answer
    end
end
complete -c lokt -f -a '(__lokt_complete)'
