package clientfile

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2/hclwrite"
	"go.mau.fi/util/exslices"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/config/internal/hclread"
)

// Made is the result of converting client files.
type Made struct {
	// Text is the team's file.
	Text []byte
	// Secrets maps variables in Text to the values of the clients' files that they replace.
	Secrets map[string]config.Secret
	// Servers maps the labels of upstreams to their servers. It is empty if [Team] gets no [Machine].
	Servers map[string]Server
	// LeftOut contains the reason for each server that is only a comment in Text.
	LeftOut []string
}

// Server describes a server to the user who decides whether to start it.
type Server struct {
	// Text contains the server's block and the names of the environment variables that it gets. It is
	// printable. It shows secrets only if they are words of the command or may be code.
	Text string
	// GetsVariables reports whether the server gets environment variables of the user.
	GetsVariables bool
}

// Machine describes the machine that will run the servers.
type Machine struct {
	// IsSet reports whether an environment variable is set.
	IsSet func(variable string) bool
	// Gateway is the text of the gateway's blocks. A server at the gateway's own address is left
	// out.
	Gateway string
}

// Team makes a team's file with an upstream for each server in the clients' files, in their order.
// The same server in two files becomes one upstream. If machine is not nil, it leaves out servers that need
// an unset variable or a missing folder.
func Team(team string, files []File, machine *Machine) (*Made, error) {
	v := &variables{secrets: map[string]string{}, notes: map[string]string{}, referenced: map[string]bool{
		"PATH": true, "HOME": true, "USER": true, "SHELL": true, "LANG": true, "TMPDIR": true, "TEMP": true, "PWD": true,
	}}
	check := &checker{name: team, skipDirs: machine == nil}
	if machine != nil {
		check.gateway = machine.Gateway
		v.ofFile = " of the client's file" // does not collide, because no variable of a client's file has spaces
	}
	if err := check.load(check.team(nil)); err != nil { // the name of the team is not valid
		return nil, fmt.Errorf("team %q: %w", team, err)
	}
	var names []string
	var blocks []*block
	labels := labels{texts: map[string]bool{}, next: map[string]int{}}
	var all []clientConfig
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
	// Check the final text again: comments and formatting must not change its meaning.
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

// server describes a block. It shows secrets that are words of the command, but only the beginning of a
// long random word. It also shows secrets that may be code, because the author of the client's file
// chose the names by which they count as secrets.
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

// leastRandom is the minimum length of a random word that server shortens. Names of programs are shorter.
const leastRandom = 20

// mayBeCode matches paths, and words with characters that have a meaning in shells.
var mayBeCode = hclread.Lazily("^[./~]|[\\s$`{;|&<>(]")

// leaveOutUnset turns blocks that need a variable without a value into comments.
func (v *variables) leaveOutUnset(blocks []*block, isSet func(variable string) bool) {
	for _, b := range blocks {
		for _, name := range b.variables {
			if _, isSecret := v.secrets[name]; b.off == "" && !isSecret && !isSet(name) {
				b.off = "it needs the variable " + name + ", which is not set"
			}
		}
	}
}

// labels records the labels and the texts of the earlier blocks.
type labels struct {
	texts map[string]bool // texts of blocks, written before their labels got numbers
	next  map[string]int  // by label: the number of its last duplicate, 1 if it has no duplicate, 0 if it is free
}

// add gives a block a unique label. It returns false if an earlier block of the same name has the
// same text.
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

// checker checks the file before it is printed, so that an invalid block can become a comment.
type checker struct {
	name, gateway string
	skipDirs      bool // see [config.Options]
}

// team returns the team's block with the blocks of its servers.
func (c *checker) team(blocks []*block) string {
	return "team " + quote(c.name) + " {\n" + strings.Join(exslices.CastFunc(blocks, (*block).write), "\n") + "}\n"
}

// leaveOutInvalid turns invalid blocks into comments.
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

// load checks a team's file together with the gateway's blocks, and returns the first error.
func (c *checker) load(text string) error {
	// Treat all variables as unset: the result must not depend on the environment of this process.
	err := config.CheckText(text+"\n"+c.gateway, config.Options{
		AllowUnsetEnv: true, SkipDirs: c.skipDirs, LookupEnv: func(string) (string, bool) { return "", false },
	}).Err()
	if err == nil {
		return nil
	}
	line, _, _ := strings.Cut(err.Error(), "\n")
	if strings.HasPrefix(line, ":") { // remove the line number
		_, line, _ = strings.Cut(line, ": ")
	}
	return errors.New(strings.TrimSuffix(line, "."))
}
