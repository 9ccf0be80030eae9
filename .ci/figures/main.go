// Command figures prints figures of this module's code as Markdown: the size of types and functions, the references between
// files, the share of comments, dead and repeated code, and the functions that one prompts/get passes. They are not quotas:
// they show where to read.
//
//	go run -modfile=.ci/tools.mod ./.ci/figures [flags] [DIR]
//
// DIR is the root of a checkout, by default the current directory. The command reads its sources and builds its gateway, so it
// also works on commits that do not have this command.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	orders := orderFlag{}
	flag.Var(orders, "order", "reading order of a package in place of the one in its doc.go, as `PACKAGE=a.go,b.go`; repeatable")
	printOrders := flag.Bool("orders", false, "print the reading orders with the fewest references back")
	flag.Parse()
	if err := run(ctx, flag.Arg(0), orders, *printOrders); err != nil {
		fmt.Fprintln(os.Stderr, "figures:", err)
		os.Exit(1)
	}
}

// orderFlag is a reading order by package, such as gateway/policy.
type orderFlag map[string][]string

func (orderFlag) String() string { return "" }

func (f orderFlag) Set(value string) error {
	pkg, files, ok := strings.Cut(value, "=")
	if !ok {
		return fmt.Errorf("%q: want PACKAGE=a.go,b.go", value)
	}
	f[pkg] = splitOrder(files)
	return nil
}

func splitOrder(list string) []string {
	var files []string
	for name := range strings.SplitSeq(list, ",") {
		if name = strings.Trim(name, " ."); name != "" {
			files = append(files, strings.TrimSuffix(name, ".go")+".go")
		}
	}
	return files
}

func run(ctx context.Context, dir string, orders orderFlag, printOrders bool) error {
	if dir == "" {
		dir = "."
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	tools, err := filepath.Abs(".ci/tools.mod")
	if err != nil {
		return err
	}
	if _, err := os.Stat(tools); err != nil {
		return fmt.Errorf("run figures at the root of the repository: %w", err)
	}
	fmt.Printf("# Figures of commit %s\n", output(ctx, dir, "git", "describe", "--always", "--dirty", "--exclude=*"))

	m, err := load(ctx, dir)
	if err != nil {
		return err
	}
	printSizes(m)
	printPackages(m, orders, printOrders)
	if err := printUnused(ctx, dir, tools); err != nil {
		return err
	}
	return printWalks(ctx, m)
}

// output returns what a command prints, or "unknown" if it fails.
func output(ctx context.Context, dir, name string, args ...string) string {
	c := exec.CommandContext(ctx, name, args...)
	c.Dir = dir
	out, err := c.Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(out))
}
