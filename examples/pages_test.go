package examples_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"

	"github.com/promptweir/promptweir/examples/internal/proctest"
)

var (
	fenced     = regexp.MustCompile("(?ms)^ *```.*?^ *```$")
	inlineCode = regexp.MustCompile("`[^`\n]+`")
	heading    = regexp.MustCompile(`(?m)^#+ +(.*)$`)
	linkTarget = regexp.MustCompile(`\]\(([^)\s]+)\)`)
)

// Code hosts follow a link relative to its page, and an anchor to the heading that it is made of.
func TestPages_LinksLeadSomewhere(t *testing.T) {
	followed := 0
	for _, page := range pages(t) {
		prose := inlineCode.ReplaceAllString(fenced.ReplaceAllString(text(t, page), ""), "")
		for _, match := range linkTarget.FindAllStringSubmatch(prose, -1) {
			target := match[1]
			if strings.Contains(target, "://") {
				continue
			}
			followed++
			file, anchor, hasAnchor := strings.Cut(target, "#")
			path := filepath.Join(filepath.Dir(page), filepath.FromSlash(file))
			if file == "" {
				path = page
			}
			if _, err := os.Stat(path); err != nil {
				t.Errorf("%s links to %s, which does not exist", page, target)
			} else if hasAnchor && !slices.Contains(anchors(t, path), anchor) {
				t.Errorf("%s links to %s, but %s has no such heading", page, target, path)
			}
		}
	}
	if followed == 0 {
		t.Error("no page has a relative link")
	}
}

// Alertmanager sends its readers to the handbook, where each alert has a section, and no other section claims to be about one.
func TestAlerts_HaveASectionInTheHandbook(t *testing.T) {
	var rules struct {
		Groups []struct {
			Rules []struct {
				Alert       string            `yaml:"alert"`
				Labels      map[string]string `yaml:"labels"`
				Annotations map[string]string `yaml:"annotations"`
			} `yaml:"rules"`
		} `yaml:"groups"`
	}
	if err := yaml.Unmarshal([]byte(text(t, "grafana/rules.yaml")), &rules); err != nil || len(rules.Groups) == 0 {
		t.Fatalf("rules.yaml: %v, with %d groups", err, len(rules.Groups))
	}
	page := filepath.Join("..", "cmd", "promptweir", "ALERTS.md")
	handbook := text(t, page)
	var want, got []string
	for _, rule := range rules.Groups[0].Rules {
		want = append(want, rule.Alert)
		target, onHost := strings.CutPrefix(rule.Annotations["runbook_url"], "https://github.com/promptweir/promptweir/blob/main/")
		file, anchor, _ := strings.Cut(target, "#")
		if path := filepath.Join("..", filepath.FromSlash(file)); !onHost || path != page || !slices.Contains(anchors(t, page), anchor) {
			t.Errorf("%s leads to %s, which does not exist", rule.Alert, rule.Annotations["runbook_url"])
		}
		if severity := strings.ToUpper(rule.Labels["severity"][:1]) + rule.Labels["severity"][1:]; !strings.Contains(handbook, "\n## "+rule.Alert+"\n\n*"+severity+".* ") {
			t.Errorf("the section of %s does not begin with its severity, %s", rule.Alert, severity)
		}
	}
	for _, match := range heading.FindAllStringSubmatch(handbook, -1) {
		if strings.HasPrefix(match[1], "Promptweir") {
			got = append(got, match[1])
		}
	}
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("alerts (-rules +handbook):\n%s", diff)
	}
}

// pages returns the paths of the module's Markdown files.
func pages(t *testing.T) (paths []string) {
	t.Helper()
	err := filepath.WalkDir(proctest.Root(), func(path string, entry fs.DirEntry, err error) error {
		switch name := filepath.Base(path); {
		case err != nil:
			return err
		case entry.IsDir() && (name == "node_modules" || name == "bin" || strings.HasPrefix(name, ".")):
			return fs.SkipDir
		case filepath.Ext(name) == ".md":
			paths = append(paths, path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return paths
}

func text(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// anchors returns the anchors that code hosts make of a page's headings: in lower case, without punctuation, and with a
// number at the end of one that occurs again.
func anchors(t *testing.T, page string) (list []string) {
	t.Helper()
	seen := map[string]int{}
	for _, match := range heading.FindAllStringSubmatch(fenced.ReplaceAllString(text(t, page), ""), -1) {
		anchor := strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
				return unicode.ToLower(r)
			}
			return -1
		}, strings.TrimSpace(match[1]))
		if seen[anchor]++; seen[anchor] > 1 {
			anchor += "-" + strconv.Itoa(seen[anchor]-1)
		}
		list = append(list, anchor)
	}
	return list
}

// Some pages name files and folders without a link.
func TestPages_NameFilesThatExist(t *testing.T) {
	path := regexp.MustCompile("`((?:cmd|config|examples|gateway|upstream|\\.ci)/[\\w./-]+)`")
	for _, page := range pages(t) {
		for _, match := range path.FindAllStringSubmatch(fenced.ReplaceAllString(text(t, page), ""), -1) {
			if _, err := os.Stat(filepath.Join(proctest.Root(), filepath.FromSlash(match[1]))); err != nil {
				t.Errorf("%s names %s, which does not exist", page, match[1])
			}
		}
	}
}

// What a reader types after make is a target.
func TestPages_MakeTargetsExist(t *testing.T) {
	makefile := text(t, "../Makefile")
	named := regexp.MustCompile("(?m)(?:^\\$ |`)make ([a-z][a-z-]*)")
	found := 0
	for _, page := range pages(t) {
		for _, match := range named.FindAllStringSubmatch(text(t, page), -1) {
			found++
			if !strings.Contains(makefile, "\n"+match[1]+":") {
				t.Errorf("%s says make %s, which is no target", page, match[1])
			}
		}
	}
	if found == 0 {
		t.Error("no page names a target")
	}
}

// The page leads readers to functions and methods by their names, which code hosts do not check.
func TestArchitecture_NamesThatExist(t *testing.T) {
	occurs := map[string]bool{} // words, pairs of words with a dot between them, and methods as Type.Method
	apart := func(r rune) bool { return r != '.' && r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r) }
	method := regexp.MustCompile(`(?m)^func \(\w+ \*?(\w+)\) (\w+)\(`)
	for _, folder := range []string{"gateway", "upstream", "config", filepath.Join("cmd", "promptweir")} {
		err := filepath.WalkDir(filepath.Join(proctest.Root(), folder), func(path string, _ fs.DirEntry, err error) error {
			if err != nil || filepath.Ext(path) != ".go" {
				return err
			}
			code := text(t, path)
			for _, dotted := range strings.FieldsFunc(code, apart) {
				before := ""
				for word := range strings.SplitSeq(dotted, ".") {
					occurs[word], occurs[before+"."+word] = true, true
					before = word
				}
			}
			for _, match := range method.FindAllStringSubmatch(code, -1) {
				occurs[match[1]+"."+match[2]] = true
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	named, file := regexp.MustCompile(`^\w+(\.\w+)?$`), regexp.MustCompile(`\.(go|md|hcl)$`)
	checked := 0
	for _, quoted := range inlineCode.FindAllString(fenced.ReplaceAllString(text(t, "../gateway/README.md"), ""), -1) {
		name := strings.Trim(quoted, "`")
		if !named.MatchString(name) || file.MatchString(name) {
			continue
		}
		if checked++; !occurs[name] {
			t.Errorf("gateway/README.md names %s, which does not occur in the code", name)
		}
	}
	if checked == 0 {
		t.Error("gateway/README.md names nothing of the code")
	}
}
