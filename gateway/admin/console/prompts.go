package console

import (
	"net/http"
	"slices"

	"github.com/promptweir/promptweir/gateway/admin"
	"github.com/promptweir/promptweir/gateway/clientsetup"
)

// promptList is a page of what a search found.
type promptList struct {
	admin.CatalogPage

	Team  string
	Teams []string
}

func (c *console) prompts(r *http.Request, p *page) error {
	query, err := admin.ReadQuery(r)
	if err != nil {
		return err
	}
	found, err := c.view.Search(query)
	if err != nil {
		return err
	}
	list := promptList{CatalogPage: found, Team: query.Team}
	for _, team := range c.view.Snapshot().Config.Teams {
		list.Teams = append(list.Teams, team.Name)
	}
	slices.Sort(list.Teams)
	p.Name, p.Title, p.Query, p.Known, p.Content = "prompts", "Prompts", query.Text, c.view.Principals(), &list
	if query.Text != "" || query.Team != "" || p.As != "" {
		p.Title += ": " + number(found.Total) + " found"
	}
	return nil
}

// promptView is a prompt with its last hour and what people need to use it.
type promptView struct {
	*admin.Prompt

	Gets, Errors int
	Spark        *spark
	Get          []string
	Clients      []clientsetup.Client
	Access       clientsetup.Access
}

func (c *console) prompt(r *http.Request, p *page) error {
	name := r.FormValue("name")
	prompt, err := c.view.Prompt(name, p.As)
	if err != nil {
		return err
	}
	view := promptView{Prompt: prompt}
	if hour := c.view.History.Prompt(name, p.Now); hour != nil {
		view.Gets, view.Errors, view.Spark = hour.Gets(), hour.Errors(), newSpark(hour)
	}
	if prompt.Listed {
		endpoint := c.view.Endpoint(r)
		view.Access = clientsetup.AccessOf(c.view.Snapshot().Config.Auth)
		view.Clients = clientsetup.For(endpoint, "prompts", view.Access)
		view.Get = getCommand(prompt, endpoint)
	}
	p.Name, p.Title, p.Known, p.Content = "prompt", line(name), c.view.Principals(), &view
	return nil
}

// getCommand returns the words of a command that gets a prompt, with a placeholder for each
// required argument.
func getCommand(prompt *admin.Prompt, endpoint string) []string {
	words := []string{"promptweir", "get", clientsetup.ShellWord(prompt.Name)}
	for _, argument := range prompt.Arguments {
		if argument.Required {
			words = append(words, clientsetup.ShellWord(argument.Name+"=…"))
		}
	}
	return append(words, "--url", clientsetup.ShellWord(endpoint))
}
