package upstream

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/upstream/files"
	"github.com/promptweir/promptweir/upstream/wire"
)

// folder serves an upstream whose prompts are files.
type folder struct {
	upstream config.Upstream
	logger   *slog.Logger
	// publish receives each new state.
	publish func(*State)
	folders *Folders
	state   *State // for the goroutine that reads the team's files
}

func newFolder(u config.Upstream, logger *slog.Logger, publish func(*State)) *folder {
	return &folder{upstream: u, logger: logger, publish: publish, folders: NewFolders()}
}

// starting returns the state before the files have been read.
func (f *folder) starting() *State {
	f.state = &State{Endpoints: []EndpointState{{Address: f.upstream.Address()}}}
	return f.state
}

// update publishes what a pass made of the files, unless it is known.
func (f *folder) update(ctx context.Context, list *files.List, err error) {
	if next := f.next(list, err); next != nil {
		f.log(ctx, f.state, next)
		f.state = next
		f.publish(next)
	}
}

// next returns the state that follows from a pass, or nil if it is the present one.
func (f *folder) next(list *files.List, err error) *State {
	next := *f.state
	next.Tried, next.Listed, next.Connected = true, f.state.Listed || err == nil, err == nil
	next.FileProblems = list.Problems
	problem, isProblem := errors.AsType[files.Problem](err)
	switch broken := list.Broken(); {
	case isProblem:
		next.FileProblems = append(slices.Clip(list.Problems), problem)
		next.Problem = f.since(ListRefused, problem)
	case len(broken) > 0:
		next.Problem = f.since(InvalidFile, broken[0])
	default:
		next.Problem = nil
	}
	if err == nil {
		next.Files = list
	}
	if next.Listed && (next.Lists == 0 || !equalLists(next.Definitions, list.Definitions)) {
		next.Definitions = list.Definitions
		next.Lists++
	}
	before := f.state
	if before.Tried && before.Listed == next.Listed && before.Files == next.Files && before.Problem == next.Problem &&
		slices.Equal(before.FileProblems, next.FileProblems) {
		return nil
	}
	next.Endpoints = []EndpointState{{Address: f.upstream.Address(), Connected: next.Connected, Problem: next.Problem}}
	return &next
}

// since returns the present problem if it is of the same kind, or else a new one.
func (f *folder) since(reason Reason, problem files.Problem) *Problem {
	now := f.state.Problem
	switch {
	case now != nil && now.Reason == reason && errors.Is(now.Err, problem):
		return now
	case now != nil && now.Reason == reason:
		return &Problem{Reason: reason, Since: now.Since, Err: problem}
	}
	return &Problem{Reason: reason, Since: time.Now(), Err: problem}
}

// maxLogged bounds the problems that are logged at once.
const maxLogged = 20

// log logs the files that are newly broken. What is served in part is one report of the catalog,
// and validate shows the rest.
func (f *folder) log(ctx context.Context, before, after *State) {
	logged, known := 0, map[files.Problem]bool{}
	for _, p := range before.FileProblems {
		known[p] = true
	}
	for _, p := range after.FileProblems {
		if p.Severity != files.Broken || known[p] {
			continue
		}
		if logged++; logged > maxLogged {
			f.logger.WarnContext(ctx, "further prompt files broken, see promptweir validate")
			break
		}
		f.logger.WarnContext(ctx, "prompt file broken", slog.String("place", p.Place()), slog.String("problem", p.Detail))
	}
	switch {
	case before.Problem != nil && after.Problem == nil:
		f.logger.InfoContext(ctx, "upstream healthy")
	case before.Lists != after.Lists:
		f.logger.InfoContext(ctx, "prompt files read", slog.Int("prompts", len(after.Definitions)))
	}
}

// call answers a get or a completion from the list that the request names, never from one that was
// read later: a definition is approved with its text.
func (f *folder) call(request *Request) (Result, error) {
	if request.Files == nil {
		return Result{}, unavailable(f.upstream.Name, Unreachable, pollInterval, errNotRead)
	}
	name := request.Name
	if request.Method == wire.Complete {
		name, _ = request.Params.Object("ref").Text("name")
	}
	prompt := request.Files.Prompt(name)
	if prompt == nil { // of a list that was kept from before the start, and is not the folder's any more
		return Result{}, wire.NewError(wire.InvalidParams, "Unknown prompt: "+name)
	}
	result, err := answer(prompt, request)
	return Result{JSON: result, Revision: wire.LatestLegacy}, err
}

func answer(prompt *files.Prompt, request *Request) (jsontext.Value, error) {
	if request.Method == wire.Complete {
		argument := request.Params.Object("argument")
		name, _ := argument.Text("name")
		start, _ := argument.Text("value")
		return prompt.Complete(name, start), nil
	}
	return prompt.Render(request.Params.Object("arguments"))
}

var errNotRead = errors.New("the files have not been read yet")
