package clientfile

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2/hclwrite"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/config/internal/hclread"
)

// Made is what becomes of the files of clients.
type Made struct {
	// Text is the team's file.
	Text []byte
	// Secrets are values in the clients' files, by the variables that take their place in Text.
	Secrets map[string]config.Secret
	// Servers are those of a team for this machine, by the labels of their upstreams.
	Servers map[string]Server
	// LeftOut says of each server that is only a comment in Text why it is.
	LeftOut []string
}

// Server is what a person should know of a server before it is used.
type Server struct {
	// Text shows all of it but its secrets, and the variables of the environment that it gets. Nothing
	// in it acts on a terminal.
	Text string
	// GetsVariables means that there are such variables.
	GetsVariables bool
}

// Machine is what a team for this machine finds here.
type Machine struct {
	// IsSet reports whether the environment has a variable.
	IsSet func(variable string) bool
	// Gateway has the blocks of the gateway that is to serve the team: its own address is no server.
	Gateway string
}

// Team makes the file of a team with an upstream for each server that the files of clients have, in
// their order. The same server in two files is one upstream. For a machine, a server is left out
// that needs a variable which is not set, or a folder which does not exist.
func Team(team string, files []File, machine *Machine) (*Made, error) {
	check, err := newChecker(team, machine)
	if err != nil {
		return nil, err
	}
	defer check.close()
	v := newVariables()
	if machine != nil {
		v.ofFile = " of the client's file" // a name that no reference in a file can have
	}
	var names []string
	var blocks []*block
	labels := labels{texts: map[string]bool{}, next: map[string]int{}}
	var all []found
	for _, f := range files {
		if machine == nil {
			f.Folder = ""
		}
		found, err := read(f)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.Name, err)
		}
		names, all = append(names, filepath.Base(f.Name)), append(all, found)
		for _, m := range found.servers {
			v.refer(m.value)
		}
	}
	for _, found := range all {
		for _, m := range found.servers {
			if b := translate(m, found, v); labels.add(b) {
				blocks = append(blocks, b)
			}
		}
	}
	if machine != nil {
		v.leaveOutUnset(blocks, machine.IsSet)
	}
	if check.load(check.team(blocks)) != nil {
		check.leaveOutInvalid(blocks)
	}
	text := comment("Made by promptweir import from "+strings.Join(names, ", ")+".") + v.needed(blocks) + "\n" + check.team(blocks)
	made := &Made{Text: hclwrite.Format([]byte(text)), Secrets: map[string]config.Secret{}, Servers: map[string]Server{}}
	// Loaded as it is printed: comments and formatting must not have changed what it says.
	if err := check.load(string(made.Text)); err != nil {
		return nil, fmt.Errorf("the imported file is not valid: %w", err)
	}
	for name, value := range v.secrets {
		made.Secrets[name] = config.NewSecret(value)
	}
	for _, b := range blocks {
		switch {
		case b.off != "":
			made.LeftOut = append(made.LeftOut, b.name+" is left out: "+b.off)
		case machine != nil:
			made.Servers[b.label] = v.server(b, machine.IsSet)
		}
	}
	return made, nil
}

// server shows a block. Each word of its command is shown, and what else may be code, even where a name
// calls it a secret: a client's file chooses the names.
func (v *variables) server(b *block, isSet func(variable string) bool) Server {
	text, gets := hclwrite.Format([]byte(b.body())), false
	for _, name := range slices.Concat(b.variables, b.optional) {
		value, isSecret := v.secrets[name]
		isWord := strings.Contains(b.command, "env("+quote(name)+")")
		switch {
		case isSecret && isWord && len(value) >= leastRandom && config.IsRandom(value) && !mayBeCode().MatchString(value):
			text = fmt.Appendf(text, "  %s is %q and %d more characters\n", name, value[:leastRandom/2], len(value)-leastRandom/2)
		case isSecret && (isWord || mayBeCode().MatchString(value)):
			text = fmt.Appendf(text, "  %s is %q\n", name, value)
		case !isSecret && isSet(name):
			text, gets = fmt.Appendf(text, "  gets %s of your environment\n", name), true
		}
	}
	return Server{string(text), gets}
}

// leastRandom is the length from which a random word is shortened: it is no name of a program.
const leastRandom = 20

// mayBeCode matches a word that a shell or an interpreter takes for more than a word, and a path.
var mayBeCode = hclread.Lazily("^[./~]|[\\s$`{;|&<>(]")

// leaveOutUnset makes comments of the blocks with a variable that has no value.
func (v *variables) leaveOutUnset(blocks []*block, isSet func(variable string) bool) {
	for _, b := range blocks {
		for _, name := range b.variables {
			if _, isSecret := v.secrets[name]; b.off == "" && !isSecret && !isSet(name) {
				b.off = "it needs the variable " + name + ", which is not set"
			}
		}
	}
}

// labels are those of the blocks so far.
type labels struct {
	texts map[string]bool // of blocks under the first label of their name
	next  map[string]int  // the number for the next block with a label; 0 if the label is free
}

// add gives a block a label that no other has, unless there is one of its name that says the same.
func (l labels) add(b *block) bool {
	base := Label(b.name)
	b.label = base
	text := b.write()
	if l.texts[text] {
		return false
	}
	l.texts[text] = true
	for l.next[b.label] > 0 {
		l.next[base]++
		b.label = fmt.Sprintf("%s-%d", base, l.next[base])
	}
	l.next[b.label] = 1
	return true
}

// needed lists the variables that the blocks need, as a comment.
func (v *variables) needed(blocks []*block) string {
	var text strings.Builder
	seen := map[string]bool{}
	for _, b := range blocks {
		for _, name := range b.variables {
			if b.off != "" || seen[name] {
				continue
			}
			seen[name] = true
			line := "- " + name
			if v.notes[name] != "" {
				line += ": " + v.notes[name]
			}
			text.WriteString(comment(line))
		}
	}
	if text.Len() == 0 {
		return ""
	}
	return comment("It needs these variables in the gateway's environment:") + text.String()
}

// checker loads what is to be printed, so that a block which is not valid can be printed as a
// comment.
type checker struct {
	folder, name, gateway string
	skipDirs              bool // see [config.Options]
}

// newChecker makes a folder, and checks the name of the team. The caller closes the checker.
func newChecker(team string, machine *Machine) (*checker, error) {
	folder, err := os.MkdirTemp("", "promptweir-import-")
	if err != nil {
		return nil, err
	}
	c := &checker{folder: folder, name: team, skipDirs: machine == nil}
	if machine != nil {
		c.gateway = machine.Gateway
	}
	if err := c.load(c.team(nil)); err != nil {
		c.close()
		return nil, fmt.Errorf("team %q: %w", team, err)
	}
	return c, nil
}

func (c *checker) close() { _ = os.RemoveAll(c.folder) }

// team returns the block of the team.
func (c *checker) team(blocks []*block) string {
	texts := make([]string, len(blocks))
	for i, b := range blocks {
		texts[i] = b.write()
	}
	return "team " + quote(c.name) + " {\n" + strings.Join(texts, "\n") + "}\n"
}

// leaveOutInvalid makes comments of the blocks that are not valid.
func (c *checker) leaveOutInvalid(blocks []*block) {
	for _, b := range blocks {
		if b.off != "" {
			continue
		}
		if err := c.load(c.team([]*block{b})); err != nil {
			b.off = err.Error()
		}
	}
}

// load loads a team's file, and returns the first mistake in it.
func (c *checker) load(text string) error {
	// No variable of the environment is set for it, so that what is printed depends on the client's
	// files only.
	path := filepath.Join(c.folder, "team.hcl")
	if err := os.WriteFile(path, []byte(text+"\n"+c.gateway), 0o600); err != nil {
		return err
	}
	_, diagnostics := config.Load(path, config.Options{
		AllowUnsetEnv: true, SkipDirs: c.skipDirs, LookupEnv: func(string) (string, bool) { return "", false },
	})
	err := diagnostics.Err()
	if err == nil {
		return nil
	}
	line, _, _ := strings.Cut(err.Error(), "\n")
	line = strings.TrimPrefix(line, path+":")
	if _, after, ok := strings.Cut(line, ": "); ok { // the number of the line
		line = after
	}
	return errors.New(strings.TrimSuffix(line, "."))
}
