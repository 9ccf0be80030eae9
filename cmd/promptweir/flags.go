package main

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"net/url"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/promptweir/promptweir/config"
)

// noBound is for commands that take any number of arguments.
const noBound = math.MaxInt

// wantArgs checks the number of arguments. needed describes them in errors.
func wantArgs(least, most int, needed string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		use, _, _ := strings.Cut(cmd.Use, " [")
		switch {
		case len(args) < least:
			return &usageError{fmt.Sprintf("%s needs %s: promptweir %s", cmd.Name(), needed, use)}
		case most == 0 && len(args) > 0:
			return &usageError{fmt.Sprintf("%s takes no arguments: promptweir %s", cmd.Name(), use)}
		case len(args) > most:
			return &usageError{fmt.Sprintf("%s takes only %s, not %q too: promptweir %s",
				cmd.Name(), needed, args[most], use)}
		}
		return nil
	}
}

// flagError returns the usage error for an error of package pflag. For an unknown flag it suggests a similar
// one or, for get, an argument of the prompt.
func flagError(cmd *cobra.Command, err error) error {
	if invalid, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		flag := "--" + invalid.GetFlag().Name
		if short := invalid.GetFlag().Shorthand; short != "" {
			flag = "-" + short
		}
		return &usageError{fmt.Sprintf("%s %q: %v", flag, invalid.GetValue(), invalid.Unwrap())}
	}
	unknown, ok := errors.AsType[*pflag.NotExistError](err)
	if !ok {
		return &usageError{err.Error()}
	}
	var known []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) { known = append(known, f.Name) })
	name := cmp.Or(unknown.GetSpecifiedShortnames(), unknown.GetSpecifiedName())
	remedy := strings.Replace(config.Suggest(name, known), `"`, `"--`, 1)
	switch hint := flagHints[cmd.Name()+" "+name]; {
	case remedy != ".":
	case hint != "":
		remedy = "; " + hint
	case name == "json" && cmd.Flags().Lookup("output") != nil:
		remedy = "; write -o json"
	case cmd.Name() == "get":
		remedy = fmt.Sprintf("; write an argument of the prompt as %s=VALUE", name)
	}
	return &usageError{err.Error() + remedy}
}

// flagHints has a remedy for the flags that people expect of a command.
var flagHints = map[string]string{ //nolint:gochecknoglobals // a constant table
	"client token": "write --auth, and put the token into PROMPTWEIR_TOKEN", "explain url": "name the configuration with --config",
	"diff as": "the result names all who gain or lose a prompt", "serve listen": "set listen in the gateway block", "serve port": "set listen in the gateway block",
}

// The formats of --output.
const (
	formatTable    = "table"
	formatWide     = "wide"
	formatName     = "name"
	formatText     = "text"
	formatJSON     = "json"
	formatGitHub   = "github"
	formatMarkdown = "markdown"
)

// addOutput declares the flag --output. The first format is the default.
func addOutput(command *cobra.Command, output *string, formats ...string) {
	addChoice(command, command.Flags(), output, "output", "o",
		"`FORMAT` of the result: "+config.OrList(formats), formats...)
}

// addChoice declares a flag with fixed values. The default is *value or, if that is empty, the first choice.
// Any other value is a usage error before the command runs.
func addChoice(
	command *cobra.Command, flags *pflag.FlagSet, value *string,
	name, short, usage string, choices ...string,
) {
	if *value == "" {
		*value = choices[0]
	}
	flags.FuncP(name, short, usage, func(given string) error {
		if *value = strings.ToLower(given); !slices.Contains(choices, *value) {
			return fmt.Errorf("use %s", config.OrList(choices))
		}
		return nil
	})
	flags.Lookup(name).DefValue = *value
	completeFlag(command, name, cobra.FixedCompletions(choices, cobra.ShellCompDirectiveNoFileComp))
}

// addSecret declares --token, with an environment variable as default. Help does not print the variable's
// value.
func addSecret(flags *pflag.FlagSet, value *string, variable, usage string) {
	const name = "token"
	flags.StringVar(value, name, os.Getenv(variable), usage+" ("+variable+")")
	flags.Lookup(name).DefValue = ""
}

// parseURL parses an http or https URL. Errors begin with what, which is a flag or a command. They end with
// example, which is an address without http://.
func parseURL(what, address, example string) (*url.URL, error) {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, &usageError{fmt.Sprintf("%s %q: use an http or https URL, for example "+
			"http://%s", what, address, example)}
	}
	return u, nil
}

// completeFlag sets the completion of an existing flag.
func completeFlag(command *cobra.Command, flag string, complete cobra.CompletionFunc) {
	if err := command.RegisterFlagCompletionFunc(flag, complete); err != nil {
		panic(err) // the flag is missing, or has a completion already
	}
}

// aFile lets the shell complete the path of a file or folder.
func aFile(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveDefault
}
