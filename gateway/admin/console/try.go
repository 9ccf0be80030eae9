package console

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	. "maragu.dev/gomponents"

	"github.com/promptweir/promptweir/gateway/elicit"
	"github.com/promptweir/promptweir/upstream/wire"
)

const (
	// maxRuns bounds the gets that are being tried at the same time, by all operators.
	maxRuns = 16
	// runBound is how long a get may take, with all that is asked meanwhile.
	runBound = 15 * time.Minute
	// completionBound is how long the completion of an argument may take.
	completionBound = 5 * time.Second
	// sendBound is how long a browser may take to receive a question or the outcome.
	sendBound = time.Minute
	// maxCompletions bounds the values that are suggested, and maxCompletion each of them, in
	// bytes.
	maxCompletions = 100
	maxCompletion  = 4 << 10
)

// Operator is who tries a prompt: the network address of the request, and whose view is shown
// meanwhile.
type Operator struct{ Client, As string }

// Reply answers an elicitation of a server during a get.
type Reply = func(ctx context.Context, method string, params jsontext.Value) (jsontext.Value, error)

// runs are the gets that are being tried. A get lasts as long as the request that began it, whose
// response has one event after another: a question, or the outcome. The zero value has none.
type runs struct {
	mu  sync.Mutex // guards all
	all map[string]*run
}

// run is a get that is being tried. Other requests answer what it asks.
type run struct {
	id     string
	asking sync.Mutex // held while a question is shown: they come one after another

	mu       sync.Mutex // guards what follows
	question *elicit.Request
	answer   chan jsontext.Value
}

// begin returns a new run, nil if there are too many.
func (r *runs) begin() *run {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.all) >= maxRuns {
		return nil
	}
	if r.all == nil {
		r.all = map[string]*run{}
	}
	begun := &run{id: rand.Text()}
	r.all[begun.id] = begun
	return begun
}

func (r *runs) end(ended *run) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.all, ended.id)
}

func (r *runs) find(id string) *run {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.all[id]
}

// ask shows a question and waits for the answer to it.
func (r *run) ask(
	ctx context.Context, question *elicit.Request, show func(),
) (jsontext.Value, error) {
	r.asking.Lock()
	defer r.asking.Unlock()
	answer := make(chan jsontext.Value, 1)
	r.set(question, answer)
	defer r.set(nil, nil)
	show()
	select {
	case reply := <-answer:
		return reply, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func (r *run) set(question *elicit.Request, answer chan jsontext.Value) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.question, r.answer = question, answer
}

// reply answers the question that is shown. It returns what is wrong with the answer, by field, and
// whether there is a question.
func (r *run) reply(
	action elicit.Action, answers func(field string) []string,
) (problems map[string]string, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.question == nil {
		return nil, false
	}
	reply := elicit.Reply(action, nil)
	if action == elicit.Accept && !r.question.IsURL {
		content := wire.Object{}
		problems = map[string]string{}
		for i := range r.question.Fields {
			field := &r.question.Fields[i]
			value, problem := field.Value(answers(field.Name)...)
			if problem != "" {
				problems[field.Name] = problem
			} else if value != nil {
				content = content.With(field.Name, value)
			}
		}
		if len(problems) > 0 {
			return problems, true
		}
		reply = elicit.Reply(action, content)
	}
	r.question = nil
	r.answer <- reply // there is room for one
	return nil, true
}

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

// event is something that a page is told about its run.
type event struct {
	// State is "asking", "done" or "failed".
	State string `json:"state"`
	HTML  string `json:"html"`
	// Say is what a screen reader says.
	Say string `json:"say"`
}

// try gets a prompt, and answers with one event after another, each a line of JSON.
func (c *console) try(w http.ResponseWriter, r *http.Request) {
	begun := c.runs.begin()
	if begun == nil {
		http.Error(w, "too many prompts are being tried: wait until one is done",
			http.StatusTooManyRequests)
		return
	}
	defer c.runs.end(begun)
	ctx, cancel := context.WithTimeout(r.Context(), runBound)
	defer cancel()
	control := http.NewResponseController(w)
	// a person takes longer to answer than a request may take to arrive
	_ = control.SetReadDeadline(time.Time{})
	header := w.Header()
	header.Set("Content-Type", "application/x-ndjson")
	header.Set("Cache-Control", "no-store")
	var writing sync.Mutex
	send := func(state string, shown Node, said string) {
		var html strings.Builder
		_ = shown.Render(&html) // a builder takes all
		// Questions and the outcome come from different goroutines.
		writing.Lock()
		defer writing.Unlock()
		_ = control.SetWriteDeadline(time.Now().Add(sendBound))
		// An error means that the browser has gone, which ends ctx.
		_ = json.NewEncoder(w).Encode(event{state, html.String(), said})
		_ = control.Flush()
	}
	reply := func(ctx context.Context, method string, params jsontext.Value) (jsontext.Value, error) {
		if method != wire.Elicit {
			return nil, wire.NewError(wire.MethodNotFound,
				"Method not found: only elicitations are answered")
		}
		question, err := elicit.Read(params)
		if err != nil {
			return nil, err
		}
		return begun.ask(ctx, question, func() {
			send("asking", questionForm(begun.id, question), "The server asks: "+line(question.Message))
		})
	}
	result, err := c.opts.Call(ctx, c.operator(r), wire.PromptsGet, wire.GetParams(r.PostForm.Get("name"), formArguments(r)), reply)
	if err != nil {
		shown, message := failedCard(err)
		send("failed", shown, "It failed: "+line(message))
		return
	}
	shown, messages := resultCard(result)
	send("done", shown, "Done: "+count(messages, "message")+".")
}

func (c *console) operator(r *http.Request) Operator {
	return Operator{Client: c.operators.Client(r), As: r.PostForm.Get("as")}
}

// fieldPrefix is what the names of a form's fields begin with that are arguments, or fields of a
// question.
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

// answerRun answers what a run asks.
func (c *console) answerRun(w http.ResponseWriter, r *http.Request) {
	asking := c.runs.find(r.PathValue("id"))
	if asking == nil {
		http.Error(w, "this get has ended: try it again", http.StatusNotFound)
		return
	}
	action := elicit.Action(r.PostForm.Get("action"))
	if action != elicit.Accept && action != elicit.Decline && action != elicit.Cancel {
		http.Error(w, "bad request: no such action", http.StatusBadRequest)
		return
	}
	problems, ok := asking.reply(action, func(field string) []string {
		return r.PostForm[fieldPrefix+field]
	})
	if !ok {
		http.Error(w, "the question is no longer open", http.StatusConflict)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if len(problems) > 0 {
		w.WriteHeader(http.StatusUnprocessableEntity)
	}
	// an error means that the browser has gone
	_ = json.NewEncoder(w).Encode(map[string]any{"problems": problems})
}

// complete answers with values for an argument.
func (c *console) complete(w http.ResponseWriter, r *http.Request) {
	argument := r.PostForm.Get("argument")
	others := formArguments(r).Without(func(name string) bool { return name == argument })
	params := wire.CompleteParams(r.PostForm.Get("name"), argument, r.PostForm.Get(fieldPrefix+argument), others)
	ctx, cancel := context.WithTimeout(r.Context(), completionBound)
	defer cancel()
	values := []string{}
	result, err := c.opts.Call(ctx, c.operator(r), wire.Complete, params, nil)
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
