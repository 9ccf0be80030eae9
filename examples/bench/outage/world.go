//go:build unix

package main

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"text/template"
)

// platform is the file of the platform team. The cursor key makes no difference to what is measured.
const platform = `
gateway { listen = "127.0.0.1:0" }
admin { listen = "127.0.0.1:0" }
auth {
  token "someone" {
    sha256 = "2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b"
    groups = ["team-0"]
  }
}
`

// team is the file of a team, with what such files usually hold. Timeout is what changes before a reload.
//
//nolint:gochecknoglobals // parsed once
var team = template.Must(template.New("team").Parse(`# Team {{.Team}} looks after these servers.
team "team{{.Team}}" {
  members = ["group:team-{{.Team}}"]
{{range .URLs}}
  upstream "{{.Name}}" {
    url     = "{{.URL}}"
    timeout = "{{$.Timeout}}s"
    headers = {
      "X-Team" = "team{{$.Team}}"
    }
  }
{{end}}
  expose "to everybody" {
    prompts = ["{{(index .URLs 0).Name}}.*"]
    to      = ["*"]
  }
}
`))

// world is the folder of a configuration.
type world struct {
	folder    string
	upstreams int
	server    string
}

// newWorld writes a file for each team, and finds a port on which nobody listens.
func newWorld(ctx context.Context, folder string, s settings) (*world, error) {
	port, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	defer port.Close()
	w := &world{folder: folder, upstreams: s.upstreams, server: "http://" + port.Addr().String()}
	if err := os.WriteFile(filepath.Join(folder, "platform.hcl"), []byte(platform), 0o600); err != nil {
		return nil, err
	}
	if err := os.Mkdir(filepath.Join(folder, "teams"), 0o700); err != nil {
		return nil, err
	}
	for i := range s.teams {
		if err := w.write(i, 30); err != nil {
			return nil, err
		}
	}
	return w, nil
}

// write writes the file of a team. It replaces the one that is there in one step, as editors and Git do.
func (w *world) write(teamNumber, timeout int) error {
	type upstream struct{ Name, URL string }
	values := struct {
		Team, Timeout int
		URLs          []upstream
	}{Team: teamNumber, Timeout: timeout}
	for i := range w.upstreams {
		name := fmt.Sprintf("t%d-s%d", teamNumber, i)
		values.URLs = append(values.URLs, upstream{name, w.server + "/" + name})
	}
	var text bytes.Buffer
	if err := team.Execute(&text, values); err != nil {
		return err
	}
	path := filepath.Join(w.folder, "teams", fmt.Sprintf("team%04d.hcl", teamNumber))
	if err := os.WriteFile(path+".new", text.Bytes(), 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}
