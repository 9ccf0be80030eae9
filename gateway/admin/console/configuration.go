package console

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway/admin"
)

// settingsView is the configuration in use, or the part of it that is of a team.
type settingsView struct {
	*admin.ConfigurationState

	Team, Text string
	Teams      []string
}

func (c *console) configuration(r *http.Request, p *page) error {
	view := settingsView{ConfigurationState: c.view.Configuration(), Team: r.FormValue("team")}
	settings, err := c.view.Settings(view.Team)
	if err != nil {
		return err
	}
	var out strings.Builder
	for _, setting := range settings {
		if view.Team == "" && setting.Name == "teams" { // each has a page of its own
			continue
		}
		writeSetting(&out, setting.Name, setting.Value, "")
	}
	view.Text = out.String()
	for _, team := range c.view.Snapshot().Config.Teams {
		view.Teams = append(view.Teams, team.Name)
	}
	p.Name, p.Title, p.Content = "configuration", "Configuration: in use since "+when(view.Loaded), &view
	if view.Refused != nil {
		p.Title = "Configuration: the last one was refused"
	}
	return nil
}

// writeSetting writes a setting as it could stand in a file, for people.
func writeSetting(out *strings.Builder, name string, value any, indent string) {
	switch value := value.(type) {
	case config.Settings:
		fmt.Fprintf(out, "%s%s {\n", indent, name)
		for _, setting := range value {
			writeSetting(out, setting.Name, setting.Value, indent+"  ")
		}
		fmt.Fprintf(out, "%s}\n", indent)
	case []any:
		if _, blocks := value[0].(config.Settings); blocks {
			for _, block := range value {
				writeSetting(out, strings.TrimSuffix(name, "s"), block, indent)
			}
			return
		}
		var words []string
		for _, element := range value {
			words = append(words, plain(element))
		}
		fmt.Fprintf(out, "%s%s = [%s]\n", indent, name, strings.Join(words, ", "))
	default:
		fmt.Fprintf(out, "%s%s = %s\n", indent, name, plain(value))
	}
}

// plain writes a value without settings of its own.
func plain(value any) string {
	if text, ok := value.(string); ok {
		return fmt.Sprintf("%q", text)
	}
	return fmt.Sprint(value)
}
