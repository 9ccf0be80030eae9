package console

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	. "maragu.dev/gomponents"

	"github.com/promptweir/promptweir/upstream/wire"
)

const (
	// maxRuns bounds the gets that are being tried at the same time, by all operators.
	maxRuns = 16
	// runBound is how long a get may take.
	runBound = 15 * time.Minute
	// completionBound is how long the completion of an argument may take.
	completionBound = 5 * time.Second
	// sendBound is how long a browser may take to receive the outcome.
	sendBound = time.Minute
	// maxCompletions bounds the values that are suggested, and maxCompletion each of them, in
	// bytes.
	maxCompletions = 100
	maxCompletion  = 4 << 10
)

// Operator is who tries a prompt: the network address of the request, and whose view is shown
// meanwhile.
type Operator struct{ Client, As string }

// proven lets only those try something who have the admin token: being on this machine is not
// enough.
func (c *console) proven(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if !c.operators.Proven(r) {
			http.Error(w, "forbidden: this needs the admin token; sign in with it",
				http.StatusForbidden)
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

// maxTried bounds the arguments that are tried, in bytes.
const maxTried = 4 << 20

// outcome is what a page is told of the get that it tried.
type outcome struct {
	// State is "done" or "failed".
	State string `json:"state"`
	HTML  string `json:"html"`
	// Say is what a screen reader says.
	Say string `json:"say"`
}

// try gets a prompt, and answers with the outcome. What a server asks for is declined.
func (c *console) try(w http.ResponseWriter, r *http.Request) {
	if c.trying.Add(1) > maxRuns {
		c.trying.Add(-1)
		http.Error(w, "too many prompts are being tried: wait until one is done",
			http.StatusTooManyRequests)
		return
	}
	defer c.trying.Add(-1)
	ctx, cancel := context.WithTimeout(r.Context(), runBound)
	defer cancel()
	control := http.NewResponseController(w)
	// a get may take longer than a request may take to arrive
	_ = control.SetReadDeadline(time.Time{})
	tried := outcome{State: "done"}
	var shown Node
	result, err := c.opts.Call(ctx, c.operator(r), wire.PromptsGet, wire.GetParams(r.PostForm.Get("name"), formArguments(r)))
	if err != nil {
		var message string
		shown, message = failedCard(err)
		tried.State, tried.Say = "failed", "It failed: "+line(message)
	} else {
		var messages int
		shown, messages = resultCard(result)
		tried.Say = "Done: " + count(messages, "message") + "."
	}
	var html strings.Builder
	_ = shown.Render(&html) // a builder takes all
	tried.HTML = html.String()
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	_ = control.SetWriteDeadline(time.Now().Add(sendBound))
	// an error means that the browser has gone
	_ = json.NewEncoder(w).Encode(tried)
}

func (c *console) operator(r *http.Request) Operator {
	return Operator{Client: c.operators.Client(r), As: r.PostForm.Get("as")}
}

// fieldPrefix is what the names of a form's fields begin with that are arguments.
const fieldPrefix = "a:"

// formArguments returns the arguments of a form. Those that are left empty are left out.
func formArguments(r *http.Request) (arguments wire.Object) {
	for name, values := range r.PostForm {
		// Browsers send the line ends of a textarea as CRLF.
		argument, ok := strings.CutPrefix(name, fieldPrefix)
		if ok && values[0] != "" {
			arguments = arguments.With(argument, wire.Quote(strings.ReplaceAll(values[0], "\r\n",
				"\n")))
		}
	}
	return arguments
}

// complete answers with values for an argument.
func (c *console) complete(w http.ResponseWriter, r *http.Request) {
	argument := r.PostForm.Get("argument")
	others := formArguments(r).Without(func(name string) bool { return name == argument })
	params := wire.CompleteParams(r.PostForm.Get("name"), argument, r.PostForm.Get(fieldPrefix+argument), others)
	ctx, cancel := context.WithTimeout(r.Context(), completionBound)
	defer cancel()
	values := []string{}
	result, err := c.opts.Call(ctx, c.operator(r), wire.Complete, params)
	if err == nil {
		// none, if it is malformed
		elements, _ := wire.ParseArray(wire.Members(result).Object("completion").Get("values"))
		for _, element := range elements[:min(len(elements), maxCompletions)] {
			if value, ok := wire.Text(element); ok && len(value) <= maxCompletion {
				values = append(values, value)
			}
		}
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	// an error means that the browser has gone
	_ = json.NewEncoder(w).Encode(map[string][]string{"values": values})
}
