// Command mcpgo is a client on mark3labs/mcp-go, for the same use as the scripts in the folder above:
//
//	mcpgo TARGET WORK MODE
//
// MODE is how it connects: "http" negotiates a revision with the server at the URL TARGET, "sessions" opens a session there
// and listens on its stream, and "stdio" starts the command TARGET, a JSON array. drive.mjs describes WORK and the output.
//
//	mcpgo serve
//
// is a server over stdio instead, see serve.go, and
//
//	mcpgo count URL
//
// prints how many prompts the library's own call lists, see count.go.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
)

// patience bounds the program, in case something never happens.
const patience = time.Minute

const (
	listChanged  = "notifications/prompts/list_changed"
	acknowledged = "notifications/subscriptions/acknowledged"
)

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	err := run(ctx, os.Args[1:])
	cancel()
	if err != nil {
		fmt.Fprintln(os.Stderr, "mcpgo:", err)
		os.Exit(1)
	}
}

// work has the gets and completions to make.
type work struct {
	Get      []mcp.GetPromptParams `json:"get"`
	Complete []mcp.CompleteParams  `json:"complete"`
}

// result is what the client saw.
type result struct {
	Revision  string                 `json:"revision"`
	Pages     [][]string             `json:"pages"`
	Got       []*mcp.GetPromptResult `json:"got"`
	Completed [][]string             `json:"completed"`
	Changed   []string               `json:"changed"`
}

func run(ctx context.Context, args []string) error {
	if slices.Equal(args, []string{"serve"}) {
		return serve()
	}
	if len(args) == 2 && args[0] == "count" {
		return count(ctx, args[1])
	}
	if len(args) != 3 {
		return errors.New("usage: mcpgo TARGET WORK MODE, mcpgo serve, or mcpgo count URL")
	}
	var todo work
	if err := json.Unmarshal([]byte(args[1]), &todo); err != nil {
		return fmt.Errorf("WORK: %w", err)
	}
	changed := make(chan struct{}, 1)
	c, err := connect(ctx, args[0], args[2], changed)
	if err != nil {
		return err
	}
	saw, err := do(ctx, c, todo)
	if err != nil {
		return errors.Join(err, c.Close())
	}

	fmt.Println("READY")
	saw.Changed, err = listAgain(ctx, c, saw.Pages, changed)
	if err != nil {
		return errors.Join(err, c.Close())
	}
	if err := c.Close(); err != nil {
		return fmt.Errorf("close: %w", err)
	}
	return json.NewEncoder(os.Stdout).Encode(saw)
}

// listAgain returns the names once they differ from those of the given pages. A notification of an earlier change may arrive
// late.
func listAgain(ctx context.Context, c *client.Client, before [][]string, changed <-chan struct{}) ([]string, error) {
	for {
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, fmt.Errorf("no %s: %w", listChanged, ctx.Err())
		}
		pages, err := drain(ctx, c)
		if err != nil {
			return nil, err
		}
		if names := slices.Concat(pages...); !slices.Equal(names, slices.Concat(before...)) {
			return names, nil
		}
	}
}

// connect returns a client that is subscribed. It sends on changed when it is notified of a change of the list.
func connect(ctx context.Context, target, mode string, changed chan<- struct{}) (*client.Client, error) {
	subscribed := newEvent()
	carrier, err := newTransport(target, mode, subscribed)
	if err != nil {
		return nil, err
	}
	c := client.NewClient(carrier)
	c.OnNotification(func(n mcp.JSONRPCNotification) {
		switch n.Method {
		case listChanged:
			select {
			case changed <- struct{}{}:
			default:
			}
		case acknowledged:
			subscribed.happen()
		}
	})
	if err := c.Start(ctx); err != nil {
		return nil, fmt.Errorf("start: %w", err)
	}
	hello := mcp.InitializeRequest{}
	hello.Params.ProtocolVersion = mcp.LATEST_PROTOCOL_VERSION
	hello.Params.ClientInfo = mcp.Implementation{Name: "promptweir-interop-mcpgo", Version: "1.0.0"}
	if _, err := c.Initialize(ctx, hello); err != nil {
		return nil, errors.Join(fmt.Errorf("initialize: %w", err), c.Close())
	}
	if mcp.IsModernProtocol(c.ProtocolVersion()) {
		_, err := c.ListenAsync(ctx, mcp.SubscriptionFilter{PromptsListChanged: true}, func(err error) {
			fmt.Fprintln(os.Stderr, "mcpgo: subscription:", err)
		})
		if err != nil {
			return nil, errors.Join(err, c.Close())
		}
	}
	if err := subscribed.wait(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("not subscribed: %w", err), c.Close())
	}
	return c, nil
}

// newTransport returns the transport for a mode. In a session, subscribed happens when its stream is open.
func newTransport(target, mode string, subscribed *event) (transport.Interface, error) {
	switch mode {
	case "http":
		return transport.NewStreamableHTTP(target)
	case "sessions":
		//nolint:staticcheck // deprecated like sessions, which this mode is for
		return transport.NewStreamableHTTP(target, transport.WithContinuousListening(),
			transport.WithHTTPBasicClient(&http.Client{Transport: streamWatch{subscribed}}))
	case "stdio":
		var command []string
		if err := json.Unmarshal([]byte(target), &command); err != nil || len(command) == 0 {
			return nil, fmt.Errorf("TARGET %q is not a command", target)
		}
		return transport.NewStdioWithOptions(command[0], nil, command[1:], transport.WithCommandStderrWriter(os.Stderr)), nil
	}
	return nil, fmt.Errorf("unknown MODE %q", mode)
}

// streamWatch notices when the server opens the stream of a session, which the client does not report.
type streamWatch struct{ opened *event }

func (w streamWatch) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := http.DefaultTransport.RoundTrip(r)
	if err == nil && r.Method == http.MethodGet && response.StatusCode == http.StatusOK {
		w.opened.happen()
	}
	return response, err
}

// do lists, gets and completes.
func do(ctx context.Context, c *client.Client, todo work) (saw result, err error) {
	saw.Revision = c.ProtocolVersion()
	if saw.Pages, err = drain(ctx, c); err != nil {
		return result{}, err
	}
	for _, params := range todo.Get {
		got, err := c.GetPrompt(ctx, mcp.GetPromptRequest{Params: params})
		if err != nil {
			return result{}, fmt.Errorf("get %s: %w", params.Name, err)
		}
		saw.Got = append(saw.Got, got)
	}
	for _, params := range todo.Complete {
		completed, err := c.Complete(ctx, mcp.CompleteRequest{Params: params})
		if err != nil {
			return result{}, fmt.Errorf("complete: %w", err)
		}
		saw.Completed = append(saw.Completed, completed.Completion.Values)
	}
	return saw, nil
}

// drain walks all pages and returns the names, page by page.
func drain(ctx context.Context, c *client.Client) (pages [][]string, err error) {
	var request mcp.ListPromptsRequest
	for {
		page, err := c.ListPromptsByPage(ctx, request)
		if err != nil {
			return nil, fmt.Errorf("list: %w", err)
		}
		var names []string
		for _, prompt := range page.Prompts {
			names = append(names, prompt.Name)
		}
		pages = append(pages, names)
		if page.NextCursor == "" {
			return pages, nil
		}
		request.Params.Cursor = page.NextCursor
	}
}

// event is something that happens once.
type event struct {
	once sync.Once
	done chan struct{}
}

func newEvent() *event { return &event{done: make(chan struct{})} }

func (e *event) happen() { e.once.Do(func() { close(e.done) }) }

func (e *event) wait(ctx context.Context) error {
	select {
	case <-e.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
