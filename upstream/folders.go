package upstream

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/upstream/files"
	"github.com/promptweir/promptweir/upstream/health"
	"github.com/promptweir/promptweir/upstream/wire"
)

const (
	// pollInterval is how often a team's files are looked at. Unlike events of the file system, this
	// sees changes behind links, on network file systems and in mounted ConfigMaps alike.
	pollInterval = 400 * time.Millisecond
	// restFactor is how long the files rest after a pass, as a multiple of its duration: a folder on
	// a slow disk takes at most a tenth of one processor.
	restFactor = 10
)

// Folders are the prompt files of all teams. One goroutine for each team reads them for all of the
// team's upstreams. It is safe for concurrent use.
type Folders struct {
	mu    sync.Mutex // guards teams and their members
	teams map[string]*teamFolder
}

// NewFolders returns folders that nobody reads yet.
func NewFolders() *Folders { return &Folders{teams: map[string]*teamFolder{}} }

// teamFolder is the folder of one team.
type teamFolder struct {
	members []*folder     // in the order in which they joined
	joined  health.Mark   // is there after a member has joined
	end     func()        // ends the goroutine
	ended   chan struct{} // is closed when the goroutine has ended
}

// run has the files of a folder read until ctx ends.
func (fs *Folders) run(ctx context.Context, f *folder) {
	t := fs.join(ctx, f)
	<-ctx.Done()
	if fs.leave(f, t) {
		t.end()
		<-t.ended
	}
}

func (fs *Folders) join(ctx context.Context, f *folder) *teamFolder {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	t := fs.teams[f.upstream.Team]
	if t == nil {
		ctx, end := context.WithCancel(context.WithoutCancel(ctx)) // the member that came first may leave first
		t = &teamFolder{joined: make(health.Mark, 1), end: end, ended: make(chan struct{})}
		fs.teams[f.upstream.Team] = t
		go fs.read(ctx, t)
	}
	// After a reload, the connector that this one replaces may still answer what was asked before.
	t.members = slices.DeleteFunc(t.members, func(m *folder) bool { return m.upstream.Name == f.upstream.Name })
	t.members = append(t.members, f)
	t.joined.Set()
	return t
}

// leave reports whether the folder has no member anymore.
func (fs *Folders) leave(f *folder, t *teamFolder) bool {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	t.members = slices.DeleteFunc(t.members, func(m *folder) bool { return m == f })
	if len(t.members) > 0 {
		return false
	}
	// A member that join has replaced may leave last, when the team has a new folder.
	if fs.teams[f.upstream.Team] == t {
		delete(fs.teams, f.upstream.Team)
	}
	return true
}

// read reads the files of a team until ctx ends: a new member's at once.
func (fs *Folders) read(ctx context.Context, t *teamFolder) {
	defer close(t.ended)
	var team files.Team
	for rest := pollInterval; ; {
		select {
		case <-t.joined:
		case <-time.After(rest):
		case <-ctx.Done():
			return
		}
		begun := time.Now()
		if members := fs.members(t); len(members) > 0 {
			pass(ctx, &team, members)
		}
		rest = max(pollInterval, restFactor*time.Since(begun))
	}
}

// members returns those that have the same source as the last one: by a reload, those before are
// about to end.
func (fs *Folders) members(t *teamFolder) []*folder {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(t.members), func(m *folder) bool {
		return !m.upstream.Files.SameSource(t.members[len(t.members)-1].upstream.Files)
	})
}

// pass reads what has changed.
func pass(ctx context.Context, team *files.Team, members []*folder) {
	upstreams := make([]config.Upstream, len(members))
	for i, m := range members {
		upstreams[i] = m.upstream
	}
	results, err := team.Refresh(ctx, upstreams)
	if err != nil {
		return // ctx has ended
	}
	for i, m := range members {
		m.update(ctx, results[i].List, results[i].Err)
	}
}

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
	f.state = &State{}
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
	if next.Listed {
		next.setPrompts(list.Definitions)
	}
	before := f.state
	if before.Tried && before.Listed == next.Listed && before.Files == next.Files && before.Problem == next.Problem &&
		slices.Equal(before.FileProblems, next.FileProblems) {
		return nil
	}
	return &next
}

// since returns the present problem if it is of the same kind, or else a new one.
func (f *folder) since(reason Reason, problem files.Problem) *Problem {
	next := &Problem{Reason: reason, Since: time.Now(), Err: problem}
	if now := f.state.Problem; now != nil && now.Reason == reason {
		if errors.Is(now.Err, problem) {
			return now
		}
		next.Since = now.Since
	}
	return next
}

// maxLogged bounds the problems that are logged at once.
const maxLogged = 20

// log logs the files that are newly broken, and of each file the first text that was most likely meant
// as syntax. What is served in part is one report of the catalog, and validate shows the rest.
func (f *folder) log(ctx context.Context, before, after *State) {
	logged, known, isLogged := 0, map[files.Problem]bool{}, map[string]bool{}
	for _, p := range before.FileProblems {
		known[p] = true
	}
	for _, p := range after.FileProblems {
		isText := p.Summary == files.BracesAreText
		if p.Severity != files.Broken && !isText || known[p] || isText && isLogged[p.Path] {
			continue
		}
		isLogged[p.Path] = true
		if logged++; logged > maxLogged {
			f.logger.WarnContext(ctx, "further prompt files have mistakes, correct those above first")
			break
		}
		logger := f.logger.With(slog.String("place", p.Place()), slog.String("problem", p.Detail))
		if isText {
			logger.WarnContext(ctx, "braces in a prompt file are text")
		} else {
			logger.WarnContext(ctx, "prompt file broken")
		}
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
	if request.Method == wire.ResourcesRead {
		result, err := request.Files.ReadSkill(f.upstream.Files, request.Name)
		if err != nil {
			return Result{}, unavailable(f.upstream.Name, InvalidFile, 0, err)
		}
		return Result{JSON: result, Revision: wire.LatestLegacy}, nil
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
