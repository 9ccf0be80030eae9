package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/promptweir/promptweir/config"
)

// addGroup adds commands, which help shows under a title.
func addGroup(root *cobra.Command, title string, commands ...*cobra.Command) {
	root.AddGroup(&cobra.Group{ID: title, Title: title})
	for _, c := range commands {
		c.GroupID = title
	}
	root.AddCommand(commands...)
}

// helpCommand is like cobra's, but an unknown topic is wrong usage.
func helpCommand() *cobra.Command {
	return &cobra.Command{
		Use: "help [command]", Short: "Print the commands, or what one of them does",
		Example: "  promptweir help list",
		ValidArgsFunction: func(cmd *cobra.Command, args []string, _ string) (names []cobra.Completion, _ cobra.ShellCompDirective) {
			for _, c := range cmd.Root().Commands() {
				if len(args) == 0 && c.IsAvailableCommand() {
					names = append(names, cobra.CompletionWithDesc(c.Name(), c.Short))
				}
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			topic, rest, err := cmd.Root().Find(args)
			if err != nil || len(rest) > 0 {
				return unknownCommand(cmd.Root(), strings.Join(args, " "))
			}
			topic.InitDefaultHelpFlag() // or help would not show it
			return topic.Help()
		},
	}
}

// unknownCommand is the error about a name that no command has. It suggests the command that was
// most likely meant, by the names of other programs' commands too.
func unknownCommand(root *cobra.Command, name string) error {
	var known []string
	for _, c := range root.Commands() {
		if !c.IsAvailableCommand() {
			continue
		}
		if slices.Contains(c.SuggestFor, strings.ToLower(name)) {
			return &usageError{fmt.Sprintf("unknown command %q. Did you mean %q?", name, c.Name())}
		}
		known = append(known, c.Name())
	}
	return &usageError{fmt.Sprintf("unknown command %q%s", name, config.Suggest(name, known))}
}
