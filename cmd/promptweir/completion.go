package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/promptweir/promptweir/config"
)

// completionCommand prints a shell's completion script.
func completionCommand(a *app) *cobra.Command {
	shells := []string{"bash", "zsh", "fish", "powershell"}
	return &cobra.Command{
		Use:   "completion SHELL",
		Short: "Print a shell's completion script, for commands, prompts and arguments",
		Long: "Print a shell's completion script, for commands, flags, prompts and their arguments.\n\n" +
			"SHELL is " + config.OrList(shells) +
			". Prompts come from the server at --url or, with --config, from files and the lock " +
			"file. Values come from the server, by completion/complete.",
		Example: "  source <(promptweir completion bash)                                  # in this shell\n" +
			"  promptweir completion bash >/etc/bash_completion.d/promptweir         # in each one\n" +
			"  promptweir completion zsh >\"${fpath[1]}/_promptweir\"\n" +
			"  promptweir completion fish >~/.config/fish/completions/promptweir.fish\n" +
			"  promptweir completion powershell | Out-String | Invoke-Expression",
		Args: wantArgs(1, 1, "a shell's name"), ValidArgs: shells,
		RunE: func(cmd *cobra.Command, args []string) error {
			root := cmd.Root()
			switch args[0] {
			case "bash":
				if err := root.GenBashCompletionV2(a.out, true); err != nil {
					return err
				}
				return a.printf("%s", bashWithoutPackage)
			case "zsh":
				return root.GenZshCompletion(a.out)
			case "fish":
				return root.GenFishCompletion(a.out, true)
			case "powershell":
				return root.GenPowerShellCompletionWithDesc(a.out)
			}
			return &usageError{fmt.Sprintf("completion %q: use %s", args[0],
				config.OrList(shells))}
		},
	}
}

// bashWithoutPackage makes bash's script work without the package bash-completion, which minimal systems and
// macOS lack. The script needs the words up to the cursor as they are written, but bash splits them at = and :.
const bashWithoutPackage = `
if ! declare -F _get_comp_words_by_ref >/dev/null 2>&1; then
    __promptweir_init_completion()
    {
        local line=${COMP_LINE:0:COMP_POINT} space part i
        words=()
        for ((i = 0; i <= COMP_CWORD; i++)); do
            space=${line%%[! $'\t']*}
            line=${line#"$space"}
            part=${COMP_WORDS[i]}
            if ((i == COMP_CWORD)); then
                part=$line
            fi
            line=${line#"$part"}
            if ((i > 0)) && [[ -z $space ]]; then
                words[${#words[@]}-1]+=$part
            else
                words+=("$part")
            fi
        done
        cword=$((${#words[@]} - 1))
        cur=${words[cword]}
        prev=${words[cword > 0 ? cword - 1 : 0]}
    }
fi
`
