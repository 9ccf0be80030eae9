package console

import (
	"context"
	"net/http"
	"strings"
	"time"

	. "maragu.dev/gomponents"

	"github.com/promptweir/promptweir/gateway/admin"
	"github.com/promptweir/promptweir/upstream/wire"
)

const (
	// maxRuns bounds the concurrent gets of all operators.
	maxRuns = 16
	// runBound bounds the time of a get.
	runBound = 15 * time.Minute
	// completionBound bounds the time of a completion.
	completionBound = 5 * time.Second
	// sendBound bounds the time to send the outcome to the browser.
	sendBound = time.Minute
	// maxCompletions bounds the number of suggested values.
	maxCompletions = 100
	// maxCompletion bounds a suggested value, in bytes. Longer values are left out.
	maxCompletion = 4 << 10
)

// Operator is an operator who tries a prompt: the network address, and the principal of *View as* for
// the audit log.
type Operator struct{ Client, As string }

// proven returns a handler that calls next, with a parsed form, for callers who have sent the admin
// token or signed in. A call from this machine is not enough.
func (c *console) proven(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if !c.operators.Proven(r) {
			http.Error(w, "forbidden: this needs the admin token; sign in with it", http.StatusForbidden)
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, maxTried)
		if err := r.ParseForm(); err != nil {
			http.Error(w, "bad request: the form cannot be read", http.StatusBadRequest)
			return
		}
		next(w, r)
	}
}

// maxTried bounds a form with arguments, in bytes.
const maxTried = 4 << 20

// outcome is the response to a get, for the script.
type outcome struct {
	// State is "done" or "failed".
	State string `json:"state"`
	HTML  string `json:"html"`
	// Say is the text that screen readers announce.
	Say string `json:"say"`
}

// try gets a prompt and responds with the outcome. It declines all server requests.
func (c *console) try(w http.ResponseWriter, r *http.Request) {
	if c.trying.Add(1) > maxRuns {
		c.trying.Add(-1)
		http.Error(w, "too many prompts are being tried: wait until one is done", http.StatusTooManyRequests)
		return
	}
	defer c.trying.Add(-1)
	ctx, cancel := context.WithTimeout(r.Context(), runBound)
	defer cancel()
	control := http.NewResponseController(w)
	// Remove the read deadline: a get may take longer than the server's ReadTimeout.
	_ = control.SetReadDeadline(time.Time{})
	tried := outcome{State: "done"}
	var card Node
	result, err := c.opts.Call(ctx, c.operator(r), wire.PromptsGet, wire.GetParams(r.PostForm.Get("name"), formArguments(r)))
	if err != nil {
		var message string
		card, message = failedCard(err)
		tried.State, tried.Say = "failed", "It failed: "+line(message)
	} else {
		var messages int
		card, messages = resultCard(result)
		tried.Say = "Done: " + count(messages, "message") + "."
	}
	var html strings.Builder
	_ = card.Render(&html) // a builder never fails
	tried.HTML = html.String()
	_ = control.SetWriteDeadline(time.Now().Add(sendBound))
	admin.WriteJSON(w, http.StatusOK, tried)
}

func (c *console) operator(r *http.Request) Operator {
	return Operator{Client: c.operators.Client(r), As: r.PostForm.Get("as")}
}

// fieldPrefix begins the names of form fields with arguments.
const fieldPrefix = "a:"

// formArguments returns the arguments in a form that are not empty.
func formArguments(r *http.Request) (arguments wire.Object) {
	for name, values := range r.PostForm {
		argument, ok := strings.CutPrefix(name, fieldPrefix)
		if ok && values[0] != "" {
			value := strings.ReplaceAll(values[0], "\r\n", "\n") // browsers send the line ends of a textarea as CRLF
			arguments = arguments.With(argument, wire.Quote(value))
		}
	}
	return arguments
}

// complete responds with suggestions for an argument. After an error, it responds with an empty list.
func (c *console) complete(w http.ResponseWriter, r *http.Request) {
	argument := r.PostForm.Get("argument")
	others := formArguments(r).Without(func(name string) bool { return name == argument })
	params := wire.CompleteParams(r.PostForm.Get("name"), argument, r.PostForm.Get(fieldPrefix+argument), others)
	ctx, cancel := context.WithTimeout(r.Context(), completionBound)
	defer cancel()
	values := []string{}
	result, err := c.opts.Call(ctx, c.operator(r), wire.Complete, params)
	if err == nil {
		// ParseArray returns nil for a malformed result.
		elements, _ := wire.ParseArray(wire.Members(result).Object("completion").Get("values"))
		for _, element := range elements[:min(len(elements), maxCompletions)] {
			if value, ok := wire.Text(element); ok && len(value) <= maxCompletion {
				values = append(values, value)
			}
		}
	}
	admin.WriteJSON(w, http.StatusOK, map[string][]string{"values": values})
}
