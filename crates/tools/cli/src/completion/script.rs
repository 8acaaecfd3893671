//! The completion scripts. `@NAME@` is replaced by the program's name.

/// bash splits words at `:` and `=`, which occur in IDs and images. The script splits the line again, and removes from
/// the candidates what bash takes for earlier words.
pub(super) const BASH: &str = r#"# bash completion for @NAME@: source <(@NAME@ completion bash)
_@NAME@_complete() {
    local line="${COMP_LINE:0:COMP_POINT}" words=() cut="" reply
    read -r -a words <<< "$line"
    [[ "$line" == *[[:space:]] ]] && words+=("")
    local current="${words[${#words[@]}-1]}"
    [[ "$current" == *[:=]* ]] && cut="${current%"${current##*[:=]}"}"
    COMPREPLY=()
    while IFS=$'\t' read -r reply _; do
        case "$reply" in
            :files) compopt -o default -o filenames 2>/dev/null; COMPREPLY=(); return ;;
            :nospace) compopt -o nospace 2>/dev/null ;;
            *) COMPREPLY+=("${reply#"$cut"}") ;;
        esac
    done < <("${words[0]}" __complete -- "${words[@]}" 2>/dev/null)
}
complete -F _@NAME@_complete @NAME@
"#;

pub(super) const ZSH: &str = r#"#compdef @NAME@
# zsh completion for @NAME@: source <(@NAME@ completion zsh)
_@NAME@() {
    local -a answers plain
    local line word text
    for line in "${(@f)$("${words[1]}" __complete -- "${(@)words[1,CURRENT]}" 2>/dev/null)}"; do
        word="${line%%$'\t'*}"
        text="${line#*$'\t'}"
        case "$word" in
            "") ;;
            :files) _files; return ;;
            :nospace) plain=(-S '') ;;
            *) if [[ "$word" == "$line" ]]; then
                   answers+=("${word//:/\\:}")
               else
                   answers+=("${word//:/\\:}:$text")
               fi ;;
        esac
    done
    _describe '@NAME@' answers $plain
}
if [ "$funcstack[1]" = "_@NAME@" ]; then
    _@NAME@ "$@"
else
    compdef _@NAME@ @NAME@
fi
"#;

pub(super) const FISH: &str = r"# fish completion for @NAME@: @NAME@ completion fish | source
function __@NAME@_complete
    set -l words (commandline -opc) (commandline -ct)
    for line in ($words[1] __complete -- $words 2>/dev/null)
        switch $line
            case ':files*'
                __fish_complete_path (commandline -ct)
            case ':nospace*'
            case '*'
                echo $line
        end
    end
end
complete -c @NAME@ -f -a '(__@NAME@_complete)'
";
